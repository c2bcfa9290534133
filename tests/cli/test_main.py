"""The command line's frame: help, errors as one line, exit codes."""

import errno
import os
import subprocess
import sys
from pathlib import Path

import click
import pytest

from headgate import __version__
from headgate.cli.main import COMMANDS, ErrorPolicy, main
from headgate.errors import ConfigError, HeadgateError, ModelUnavailable, StoreError

HEAVY = (
    *("pydantic", "yaml", "rich", "aiohttp", "asyncio", "orjson", "sqlite3", "prompt_toolkit"),
    *("dataclasses", "pathlib", "urllib", "subprocess", "json"),
)
"""What neither help nor `import headgate` needs."""
UNUSED = (
    *("aiohttp", "multidict", "urllib.request", "http.client", "tree_sitter", "json_repair", "coverage"),
    *("prompt_toolkit", "fastapi", "pygments", "headgate.bench", "headgate.library", "headgate.server"),
)
"""What no run needs until its first request is answered. aiohttp alone takes 110 ms of CPU, and 10 MB."""


def leave(capsys: pytest.CaptureFixture[str], *argv: str) -> tuple[int | str | None, str, str]:
    """Exit code, standard output and standard error of a command line."""
    with pytest.raises(SystemExit) as caught:
        main(list(argv))
    out, err = capsys.readouterr()
    return caught.value.code, out, err


def end(capsys: pytest.CaptureFixture[str], error: BaseException) -> tuple[int | str | None, str]:
    """Exit code and standard error of a command that ends with an error."""
    with pytest.raises(SystemExit) as caught, ErrorPolicy():
        raise error
    return caught.value.code, capsys.readouterr().err


def run(*argv: str, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *argv],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **(env or {})},
    )


def test_help_lists_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = leave(capsys, "--help")
    assert (code, err) == (0, "")
    positions = [out.index(f"  {name} ") for name in COMMANDS]
    assert positions == sorted(positions)
    assert "Examples:" in out
    assert "Exit codes:" in out


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert leave(capsys, "--version") == (0, f"headgate {__version__}\n", "")


def test_help_and_version_import_nothing_heavy() -> None:
    program = (
        "import atexit, sys\n"
        f"atexit.register(lambda: sys.stderr.write(repr([m for m in {HEAVY!r} if m in sys.modules])))\n"
        "from headgate.cli.main import main\n"
        "main(sys.argv[1:])"
    )
    assert [run("-c", program, flag).stderr for flag in ("--help", "--version")] == ["[]", "[]"]


def imported(program: str) -> set[str]:
    """The modules that a program has imported when it ends."""
    return set(run("-c", f"import sys\n{program}\nprint(*sys.modules)").stdout.split())


def test_the_library_is_loaded_when_it_is_first_used() -> None:
    found = imported("import headgate; assert headgate.__version__")
    assert {name for name in found if name.startswith("headgate")} == {"headgate"}
    assert found.isdisjoint(HEAVY)
    assert "headgate.library" in imported("from headgate import run_flow")


def test_a_run_imports_nothing_that_its_first_request_does_not_need() -> None:
    found = imported("import headgate.cli.commands.start, headgate.models.network")
    assert "headgate.models.wire.openai" in found
    assert found.isdisjoint(UNUSED)


def test_nothing_asked(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = leave(capsys)
    assert (code, out) == (2, "")
    assert err.startswith("Usage: headgate ")


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["rnu"], 'headgate: No such command "rnu": did you mean "run"? (see "headgate --help")\n'),
        (["xyzzy"], 'headgate: No such command "xyzzy": the commands are init, doctor, '),
        (["--frobnicate"], "headgate: No such option"),
        (["init", "--frobnicate"], "headgate init: No such option"),
        (["init", "surplus"], "headgate init: Got unexpected extra argument (surplus)"),
    ],
)
def test_wrong_usage_is_one_line(capsys: pytest.CaptureFixture[str], argv: list[str], message: str) -> None:
    code, out, err = leave(capsys, *argv)
    assert (code, out) == (2, "")
    assert err.startswith(message)
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (ConfigError("a\n  b"), (2, "headgate: a b\n")),
        (StoreError("the store is locked"), (3, "headgate: the store is locked\n")),
        (ModelUnavailable("down"), (3, "headgate: down\n")),
        (HeadgateError("other"), (3, "headgate: other\n")),
        (KeyboardInterrupt(), (130, "headgate: interrupted\n")),
        (click.exceptions.Abort(), (130, "headgate: interrupted\n")),
        (click.ClickException("odd"), (1, "headgate: odd\n")),
        (click.exceptions.Exit(7), (7, "")),
        (BrokenPipeError(), (141, "")),
        (
            OSError(errno.ENOSPC, "No space left on device", "/x"),
            (3, "headgate: /x: No space left on device: free some space and run it again.\n"),
        ),
        (
            ExceptionGroup("g", [ValueError("x"), ExceptionGroup("h", [ConfigError("c")])]),
            (2, "headgate: c\n"),
        ),
        (SystemExit(5), (5, "")),
    ],
    ids=lambda value: type(value).__name__,
)
def test_errors(capsys: pytest.CaptureFixture[str], error: BaseException, expected: tuple[int, str]) -> None:
    assert end(capsys, error) == expected


def test_a_bug_leaves_its_traceback_in_a_file(capsys: pytest.CaptureFixture[str]) -> None:
    code, err = end(capsys, KeyError("lost"))
    start = "headgate: this is a bug in Headgate: KeyError: 'lost'. The traceback is in "
    assert (code, err[: len(start)], err.count("\n")) == (3, start, 1)
    path = Path(err[len(start) :].strip().removesuffix("."))
    text = path.read_text()
    path.unlink()
    assert "Traceback (most recent call last)" in text
    assert "KeyError: 'lost'" in text


def test_a_bug_is_shown_on_demand(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADGATE_DEBUG", "1")
    code, err = end(capsys, ConfigError("wrong"))
    assert code == 2
    assert "Traceback (most recent call last)" in err
    assert err.endswith("headgate: wrong\n")


def test_a_reader_that_has_gone_is_no_error() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [sys.executable, "-m", "headgate", "--help"], stdout=writing, stderr=subprocess.PIPE, check=False
    )
    os.close(writing)
    assert (done.returncode, done.stderr) == (141, b"")


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&-", "<&- >&- 2>&-"])
@pytest.mark.parametrize(("argv", "code"), [("--help", 0), ("doctor --repo /", 2), ("frobnicate", 2)])
def test_closed_streams_are_no_error(closed: str, argv: str, code: int) -> None:
    done = run_shell(f'"$PYTHON" -X dev -m headgate {argv} {closed}')
    assert done.returncode == code
    assert "bug in Headgate" not in done.stderr
    assert "Traceback" not in done.stderr


def test_no_file_takes_the_place_of_a_closed_stream() -> None:
    program = (
        "import os\nfrom headgate.cli.terminal import fill_closed_streams\nfill_closed_streams()\n"
        "print('lost')\nfile = os.open('/dev/zero', 0)\nos.write(2, str(file).encode())"
    )
    assert int(run_shell(f'"$PYTHON" -c "{program}" >&- <&-').stderr) > 2


def run_shell(line: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["sh", "-c", line],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHON": sys.executable},
    )


def test_completion(tmp_path: Path) -> None:
    env = {"_HEADGATE_COMPLETE": "bash_complete", "COMP_WORDS": "headgate in", "COMP_CWORD": "1"}
    assert run("-m", "headgate", env=env).stdout == "plain,init\n"


def git_init(folder: Path) -> None:
    subprocess.run(["git", "init", "-q", str(folder)], check=True)


@pytest.mark.parametrize(
    ("agent", "argv", "message"),
    [
        (None, ["--config", "absent.yaml"], "absent.yaml does not exist."),
        (None, ["--config", "folder"], "folder is a directory, but a file was expected."),
        ("modle: x\n", [], 'agent.yaml, line 1: unknown key "modle": did you mean "model"?'),
        ("model: [\n", [], "agent.yaml, line 2: this is not valid YAML"),
        (None, [], "No model is configured: set `model:` in agent.yaml, HEADGATE_MODEL or --model"),
        (None, ["--repo", "file"], "file is not a directory"),
        (
            None,
            ["--repo", "/"],
            '/ is not in a git repository: run "git init" there, or name one with --repo.',
        ),
        (
            None,
            ["--model", "openai/x", "--base-url", "nowhere"],
            "The option --base-url must be an address",
        ),
    ],
)
def test_bad_input(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    agent: str | None,
    argv: list[str],
    message: str,
) -> None:
    git_init(tmp_path)
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("")
    if agent is not None:
        (tmp_path / "agent.yaml").write_text(agent)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "folder"))
    for name in ("HEADGATE_MODEL", "HEADGATE_BASE_URL", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    found, out, err = leave(capsys, "doctor", *argv)
    assert (found, err) == (2, "")
    assert message in out.splitlines()[-1]
