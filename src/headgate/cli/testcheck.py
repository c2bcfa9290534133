"""The check of `headgate doctor` for tests: which are protected, and when."""

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from headgate.cli.checkup import Finding
from headgate.config.schema import Config
from headgate.engine.outfit import check_monorepo, known_tests
from headgate.errors import ConfigError
from headgate.host.ignore import walk_files
from headgate.host.paths import Tree
from headgate.tools.guards import Boundaries
from headgate.tools.testfiles import StartFiles

CHECK = "protected tests"
SHOWN = 6


def check_tests(config: Config, repo: Path) -> Finding:
    """What is protected when tests are: by `protect_tests`, and in benchmark mode."""
    files = tuple(walk_files(Tree(repo), "", lambda path: True))
    try:
        package = check_monorepo(repo, config)
    except ConfigError:
        package = None  # another check says what is wrong with it
    mode = "existing" if config.protect_tests == "off" else config.protect_tests
    tests = known_tests(repo, config, mode, lambda: StartFiles(files), package).tests()
    idle = [glob for glob in config.test_paths if not any(map(Boundaries([glob]).covers, files))]
    if idle:
        detail = f"test_paths: {', '.join(idle)} matches no file"
        return Finding(CHECK, "warn", detail, "Correct `test_paths` in agent.yaml.")
    if not tests:
        fix = "Name them in agent.yaml, such as `test_paths: [checks/**]`."
        if config.protect_tests == "off":
            return Finding(CHECK, "note", "none: no file looks like a test, and no step names one", fix)
        detail = f"protect_tests is {mode}, but no file looks like a test, and no step names one"
        return Finding(CHECK, "warn", detail, fix)
    count = f"{len(tests)} file{'s' * (len(tests) != 1)}"
    detail = f"{count}: {describe_files(tests)}"
    if config.protect_tests == "off":
        return Finding(CHECK, "note", f"protect_tests is off; --benchmark protects {detail}")
    return Finding(CHECK, "ok", detail)


def describe_files(paths: Iterable[str]) -> str:
    """Files by the topmost folder in which they lie, as patterns with counts; the most first."""
    groups = Counter(f"{path.partition('/')[0]}/**" if "/" in path else path for path in paths)
    shown = [
        f"{name} ({count})" if name.endswith("/**") else name for name, count in groups.most_common(SHOWN)
    ]
    more = len(groups) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "")
