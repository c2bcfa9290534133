"""What a task is fitted out with."""

import re
import subprocess
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from headgate.config import Config
from headgate.config.schema import Monorepo, Verification
from headgate.core import Constraints, Task, VerifyStep
from headgate.engine import build_verifier, resolve_package
from headgate.engine.assembly import build_context, task_boundaries
from headgate.engine.tool_list import TOOLS, ToolMeans, tools_for
from headgate.errors import ConfigError, ToolDenied
from headgate.guard import Redactor, ResolvedBoundaries
from headgate.log import Bus, Folder
from headgate.tools import Outcome, ToolContext, shell
from headgate.tree import FileChange, Snapshots, git

STEPS = Verification(steps=(VerifyStep(name="tests", command="pwd"),))


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    repo = tmp_path / "repo"
    for name in ("packages/api/app.py", "packages/web/app.js", "agent.yaml", "src/auth.py"):
        (repo / name).parent.mkdir(parents=True, exist_ok=True)
        (repo / name).write_text("old\n")
    subprocess.run(["git", "init", "-q", str(repo)], check=True)
    return repo


def context(
    repo: Path, config: Config, *boundaries: str, resolved: ResolvedBoundaries | None = None
) -> ToolContext:
    task = Task(id="t1", text="x", goal="x", constraints=Constraints(boundaries=boundaries))
    bounds = resolved or task_boundaries(repo, config, task)
    snapshots = Snapshots(repo)
    config = resolve_package(repo, config)
    return build_context(
        Folder(repo),
        config,
        task,
        Bus(),
        Redactor(repo),
        bounds,
        snapshots=snapshots,
        baseline=snapshots.take,
    )


async def run(given: ToolContext, command: str) -> str:
    answer = shell.function(given, shell.parse({"command": command}))
    assert not isinstance(answer, Outcome)
    return (await answer).text


def in_package(package: str) -> Config:
    return Config(monorepo=Monorepo(package=package), verification=STEPS)


class TestMonorepo:
    @pytest.mark.parametrize("named", ["packages/api", "packages/api/", "./packages/../packages/api", "link"])
    def test_a_package(self, repo: Path, named: str) -> None:
        (repo / "link").symlink_to("packages/api")
        assert resolve_package(repo, in_package(named)).package == "packages/api"

    @pytest.mark.parametrize(
        ("named", "said"),
        [
            ("packages/nope", "there is no directory packages/nope."),
            ("agent.yaml", "agent.yaml is a file; name the package's directory."),
            ("../elsewhere", "../elsewhere points outside the repository."),
            ("/etc", "/etc points outside the repository."),
            ("out", "out points outside the repository."),
            (".", "monorepo.package is the repository itself"),
            ("packages/..", "monorepo.package is the repository itself"),
            (".git", ".git is not a package."),
            ("a\0b", "points outside the repository."),
        ],
    )
    def test_what_is_no_package(self, repo: Path, named: str, said: str) -> None:
        (repo / "out").symlink_to("..")
        with pytest.raises(ConfigError, match=re.escape(said)):
            resolve_package(repo, in_package(named))

    async def test_tools_write_inside_and_read_anywhere(self, repo: Path) -> None:
        workspace = context(repo, in_package("packages/api")).workspace
        assert workspace.read("packages/web/app.js").data == b"old\n"
        workspace.apply([FileChange("packages/api/app.py", b"old\n", b"new\n")])
        for path in ("packages/web/app.js", "agent.yaml"):
            with pytest.raises(ToolDenied, match=r"outside the package packages/api"):
                workspace.apply([FileChange(path, b"old\n", b"new\n")])

    async def test_commands_run_there_and_stay_there(self, repo: Path) -> None:
        text = await run(
            context(repo, in_package("packages/api")),
            "pwd; echo new > app.py; echo x > ../web/app.js; touch ../../new; rm ../../agent.yaml",
        )
        why = "it is outside the package packages/api; the command had"
        assert text.splitlines() == [
            f"{repo}/packages/api",
            "exit code 0",
            f"Restored: agent.yaml ({why} deleted it).",
            f"Removed: new ({why} created it).",
            f"Restored: packages/web/app.js ({why} changed it).",
        ]
        assert (repo / "packages" / "api" / "app.py").read_text() == "new\n"
        assert (repo / "packages" / "web" / "app.js").read_text() == "old\n"

    def test_verification_runs_there(self, repo: Path) -> None:
        verifier = build_verifier(Folder(repo), in_package("packages/api"), Bus())
        assert verifier is not None
        assert verifier.directory == repo / "packages" / "api"

    def test_the_model_is_told_where(self) -> None:
        shown = {
            tool.name: tool.spec.parameters for tool in tools_for(in_package("packages/api"), ToolMeans())
        }
        assert list(shown) == [tool.name for tool in TOOLS if tool.name not in ("execute", "escalate")]
        assert "packages/api" in shown["shell"]["properties"]["command"]["description"]


class TestBoundaries:
    async def test_prose_and_patterns(self, repo: Path) -> None:
        given = context(repo, Config(boundaries=("packages/web/**",)), "the auth module", "the moon")
        with pytest.raises(ToolDenied, match=r"src/auth\.py is out of bounds for this task"):
            given.workspace.apply([FileChange("src/auth.py", b"old\n", b"new\n")])
        text = await run(given, "echo x > src/auth.py; echo x > packages/web/app.js; echo x > agent.yaml")
        why = "it is out of bounds for this task; the command had"
        assert text.splitlines()[1:] == [
            "exit code 0",
            f"Restored: packages/web/app.js ({why} changed it).",
            f"Restored: src/auth.py ({why} changed it).",
        ]
        assert (repo / "agent.yaml").read_text() == "x\n"

    async def test_those_of_the_start_hold(self, repo: Path) -> None:
        given = context(repo, Config(), "the auth module", resolved=ResolvedBoundaries(("agent.yaml",)))
        text = await run(given, "echo x > src/auth.py; echo x > agent.yaml")
        assert [line.partition(" (")[0] for line in text.splitlines()[2:]] == ["Restored: agent.yaml"]

    async def test_nothing_is_left_when_it_is_forgotten(self, repo: Path) -> None:
        given = context(repo, Config(), "src/**")
        await run(given, "true")
        assert given.protected is not None
        assert (repo / ".git" / "headgate" / "protected" / "t1").is_dir()
        given.protected.forget()
        assert not (repo / ".git" / "headgate" / "protected" / "t1").exists()


class TestSpellings:
    def covered(self, repo: Path, text: str) -> ResolvedBoundaries:
        task = Task(id="t1", text="x", goal="x", constraints=Constraints(boundaries=(text,)))
        return task_boundaries(repo, Config(), task)

    def test_absolute_paths(self, repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        link = tmp_path / "link"
        link.symlink_to(repo)
        monkeypatch.setenv("PWD", str(link / "src"))
        monkeypatch.setenv("HOME", str(tmp_path))
        for spelled in (f"{repo}/src", f"{link}/src", "$PWD/src", f"~/{repo.relative_to(tmp_path)}/src/"):
            found = self.covered(repo, spelled)
            assert [glob.rstrip("/") for glob in found.globs] == ["/src"], spelled
            assert found.problems() == ()

    def test_what_git_ignores_is_there_too(self, repo: Path) -> None:
        (repo / ".gitignore").write_text("cache/\n*.log\nempty/\n")
        (repo / "cache" / "deep").mkdir(parents=True)
        (repo / "cache" / "deep" / "a.log").write_text("")
        (repo / "empty").mkdir()
        for text in ("cache", "cache/**", "*.log", "cache/deep/", "deep/a.log", "empty/**"):
            assert self.covered(repo, text).problems() == (), text
        assert self.covered(repo, "*.lag").unmatched == ("*.lag",)


@pytest.mark.parametrize("path", [".husky/pre-commit", ".husky/new", "shared.gitconfig"])
def test_no_tool_writes_what_git_would_run(repo: Path, path: str) -> None:
    settings = {"core.hooksPath": ".husky/_", "include.path": "../shared.gitconfig"}
    for name, value in settings.items():
        subprocess.run(["git", "-C", str(repo), "config", name, value], check=True)
    given = context(repo, Config())
    with pytest.raises(ToolDenied, match=f"^{path} is one of git's hooks and settings: a task may not"):
        given.workspace.apply([FileChange(path, None, b"evil")])
    given.workspace.apply([FileChange("src/new.py", None, b"new")])


class TestProtectedTests:
    @pytest.fixture
    def tested(self, repo: Path) -> Path:
        (repo / "tests").mkdir()
        (repo / "tests" / "test_auth.py").write_text("assert True\n")
        return repo

    def build(self, repo: Path, config: Config, start: str, **options: Any) -> ToolContext:
        task = Task(id="t1", text="x", goal="x", **options)
        bounds = task_boundaries(repo, config, task)
        snapshots = Snapshots(repo)
        snapshots.go_on_from(start)
        return build_context(
            Folder(repo), config, task, Bus(), Redactor(repo), bounds, snapshots=snapshots,
            baseline=lambda: start,
        )  # fmt: skip

    @pytest.mark.parametrize(
        ("configured", "asked", "refused"),
        [
            ("off", None, False),
            ("existing", None, True),
            ("all", "off", False),
            ("off", "existing", True),
            ("existing", "all", True),
        ],
    )
    def test_the_task_s_own_word_counts_before_the_configuration(
        self, tested: Path, configured: str, asked: str | None, refused: bool
    ) -> None:
        config = Config.model_validate({"protect_tests": configured})
        given = self.build(tested, config, Snapshots(tested).take(), protect_tests=asked)
        change = [FileChange("tests/test_auth.py", b"assert True\n", b"")]
        with pytest.raises(ToolDenied, match="is a test") if refused else nullcontext():
            given.workspace.apply(change)

    async def test_those_of_the_start_hold_when_the_task_is_taken_up_again(self, tested: Path) -> None:
        config = Config(protect_tests="existing")
        start = Snapshots(tested).take()
        (tested / ".gitignore").write_text("tests\n")
        (tested / "tests" / "test_new.py").write_text("new\n")
        given = self.build(tested, config, start)
        text = await run(given, "echo x > tests/test_auth.py; echo x > tests/test_new.py")
        assert [line.partition(" (")[0] for line in text.splitlines()[2:]] == ["Restored: tests/test_auth.py"]
        assert (tested / "tests" / "test_new.py").read_text() == "x\n"

    async def test_what_verification_runs_in_a_package(self, tested: Path) -> None:
        (tested / "packages" / "api" / "run.sh").write_text("true\n")
        steps = Verification(steps=(VerifyStep(name="tests", command="sh run.sh"),))
        package = Monorepo(package="packages/api")
        config = Config(protect_tests="existing", verification=steps, monorepo=package)
        given = self.build(tested, config, Snapshots(tested).take())
        text = await run(given, "echo x > run.sh; echo x > app.py")
        assert [line.partition(" (")[0] for line in text.splitlines()[2:]] == [
            "Restored: packages/api/run.sh"
        ]

    async def test_nested_repositories(self, tested: Path) -> None:
        nested = tested / "vendored"
        (nested / "tests").mkdir(parents=True)
        (nested / "tests" / "test_it.py").write_text("old\n")
        who = ("-c", "user.name=T", "-c", "user.email=t@localhost", "-c", "commit.gpgsign=false")
        for args in (("init", "-q"), ("add", "-A"), (*who, "commit", "-q", "-m", "start")):
            git(nested, *args)
        given = self.build(tested, Config(protect_tests="existing"), Snapshots(tested).take())
        text = await run(given, "rm vendored/tests/test_it.py; echo x > vendored/lib.py")
        assert "Restored: vendored/tests/test_it.py" in text
        assert (nested / "tests" / "test_it.py").read_text() == "old\n"
        assert (nested / "lib.py").exists()
