"""What all tests share: repeatable property tests, and a place at the end for figures they found out."""

import gc
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from launcher import end_launchers
from tiers import COMMANDS, is_left_out, tour

settings.register_profile("repeatable", derandomize=True, deadline=None, database=None, max_examples=50)
settings.load_profile("repeatable")


@pytest.fixture(autouse=True, scope="session")
def _own_servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Tests find only their own servers, and keep what is found out about these in a folder of their own.

    A developer may have Ollama running, keys in the environment, or a configuration. Commands run without a
    sandbox unless a test gives them one: most tests are about what holds without it.
    """
    config = tmp_path_factory.mktemp("config")
    (config / "headgate").mkdir()
    (config / "headgate" / "config.yaml").write_text("sandbox: off\napprovals: never\n")
    (config / "git").mkdir()  # a commit would start another process to see whether to tidy up
    (config / "git" / "config").write_text("[maintenance]\n\tauto = false\n")
    with pytest.MonkeyPatch.context() as patch:
        # What a process that is killed leaves behind is gone with the other folders of the tests.
        patch.setenv("TMPDIR", str(tmp_path_factory.mktemp("tmp")))
        patch.setattr(tempfile, "tempdir", None)
        # Commands say `python3`, which may be a script of a version manager that asks which one is meant.
        interpreters = Path(sys.executable).resolve().parent
        patch.setenv("PATH", f"{interpreters}{os.pathsep}{os.environ.get('PATH', os.defpath)}")
        for name in list(os.environ):
            if name.startswith(("HEADGATE_", "OPENAI_", "ANTHROPIC_", "OLLAMA_", "LOCALCODE_")):
                patch.delenv(name)
        patch.setenv("HEADGATE_SERVERS", "")
        # A command under test may start pytest: the plugins of this project take longer than its tests.
        patch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
        patch.setenv("XDG_CONFIG_HOME", str(config))
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield
    end_launchers()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--tier", choices=list(COMMANDS), default="everything", help="what `make TIER` runs")


def pytest_configure() -> None:
    """Modules and thousands of tests stay to the end: no look for garbage has to go through them."""
    gc.disable()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    return is_left_out(config.getoption("--tier"), collection_path) or None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Of the scenarios, `make test` runs a tour."""
    if config.getoption("--tier") == "test":
        chosen = tour() | {None}
        config.hook.pytest_deselected(items=[item for item in items if _scenario(item) not in chosen])
        items[:] = [item for item in items if _scenario(item) in chosen]


def _scenario(item: pytest.Item) -> str | None:
    callspec = getattr(item, "callspec", None)
    return callspec.params["folder"].name if callspec and item.path.parent.name == "scenarios" else None


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()


def pytest_xdist_auto_num_workers() -> int:
    """Half of a test's time is waiting, for processes, disks and sockets."""
    return 2 * (os.cpu_count() or 1)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Adds up what tests gave `record_property` under names such as `crash: kill points`."""
    figures: Counter[str] = Counter()
    for report in terminalreporter.stats.get("passed", []):
        for name, value in report.user_properties:
            if isinstance(value, int):
                figures[name] += value
    if figures:
        terminalreporter.section("tried")
        for name, value in sorted(figures.items()):
            terminalreporter.line(f"{name}: {value}")
