"""What Headgate asks of git in the user's repository. No call runs a program that the repository names.

The repository is untrusted: its settings, hooks and attributes may have been made to run something, to make
git wait for ever, or to make it look away from changes. `snapshots` therefore reads the tree without git.
"""

import os
import signal
import stat
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from headgate.core import COMMANDS_FOLDER, OWN_FOLDER
from headgate.errors import HeadgateError
from headgate.programs import find_program, trusted_path

_SAFE = "headgate"
_SECONDS = 60.0
# The repository's own configuration must not make git run programs for us, nor look away from files.
_QUIET = (
    *("-c", "core.fsmonitor=false"),
    *("-c", "core.hooksPath=/dev/null"),
    *("-c", "core.attributesFile=/dev/null"),
    *("-c", "core.quotePath=false"),
    *("-c", "core.safecrlf=false"),
    *("-c", "core.sparseCheckout=false"),
    *("-c", "core.untrackedCache=false"),
    # The other half of a split index would be put into the user's git folder.
    *("-c", "core.splitIndex=false"),
    *("-c", "diff.external="),
    *("-c", "log.showSignature=false"),
    *("-c", "protocol.allow=never"),
    *("-c", "status.submoduleSummary=false"),
    *("-c", "submodule.recurse=false"),
)
# The user's own settings count: they say which folders of other people are safe.
_INHERITED = ("HOME", "TMPDIR", "XDG_CONFIG_HOME")
_FIXED = {
    "GIT_ALLOW_PROTOCOL": "none",  # a partial clone would fetch what is missing
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "LC_ALL": "C",
}
# What git opens in its folder. A named pipe there makes it wait for ever.
_OPENED = (
    *("HEAD", "commondir", "config", "config.worktree", "index", "packed-refs", "shallow"),
    *("info/attributes", "info/exclude", "info/grafts", "info/sparse-checkout", "objects/info/alternates"),
)
_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY


class GitFailed(HeadgateError):
    """git did not do what was asked."""


def git(
    repo: Path,
    *args: str,
    env: Mapping[str, str] | None = None,
    stdin: bytes = b"",
    seconds: float = _SECONDS,
) -> bytes:
    """Runs git and returns what it printed. GIT_DIR and the like, set by a hook around us, do not count."""
    done = run_git(repo, *args, env=env, stdin=stdin, seconds=seconds)
    if done.returncode:
        raise failure_of(done, _command_of(args))
    return done.stdout


def run_git(
    folder: Path,
    *args: str,
    env: Mapping[str, str] | None = None,
    stdin: bytes = b"",
    seconds: float = _SECONDS,
) -> subprocess.CompletedProcess[bytes]:
    """Runs git and returns its result, also if it failed. GitFailed if it cannot start or does not end."""
    given = dict(env or {})
    refuse_pipes(Path(given["GIT_DIR"]) if "GIT_DIR" in given else git_folder(folder))
    inherited = {name: os.environ[name] for name in _INHERITED if name in os.environ}
    path = os.environ.get("PATH", os.defpath)
    inherited["PATH"] = trusted_path(path) if find_program("git") else path
    # Without a `.git` of its own, the folder must not be taken for a part of the repository around it.
    above = {"GIT_CEILING_DIRECTORIES": str(Path(os.path.realpath(folder)).parent)}
    command = ["git", *_QUIET, "-C", str(folder), *args]
    try:
        process = subprocess.Popen(
            command,
            env={**inherited, **above, **_FIXED, **given},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except FileNotFoundError:
        raise GitFailed("git is not installed: install it and run again.") from None
    with process:
        try:
            out, told = process.communicate(stdin, timeout=seconds)
        except subprocess.TimeoutExpired:
            name = _command_of(args)
            raise GitFailed(
                f"git {name} did not end within {seconds:g} seconds, and was stopped: run it in {folder}"
                " yourself, and remove the named pipe or the like that it waits for."
            ) from None
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
    return subprocess.CompletedProcess(command, process.returncode, out, told)


def _command_of(args: tuple[str, ...]) -> str:
    return next(arg for arg in args if arg != "-c" and "=" not in arg)


def refuse_pipes(folder: Path) -> set[str]:
    """The files that git opens and that are there. GitFailed if it would wait for what a named pipe holds."""
    found: set[str] = set()
    try:
        directory = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return found
    try:
        branch = os.fsdecode(read_regular("HEAD", 4096, directory)).removeprefix("ref:").strip()
        for name in filter(None, (*_OPENED, branch)):
            with suppress(OSError, ValueError):  # it is not there
                if not stat.S_ISREG(os.stat(name, dir_fd=directory).st_mode):
                    raise GitFailed(f"{folder / name} is not a regular file: remove it, or restore it.")
                found.add(name)
    finally:
        os.close(directory)
    return found


def failure_of(done: subprocess.CompletedProcess[bytes], command: str) -> GitFailed:
    """What a failed git gave as its reason, or said last."""
    lines = done.stderr.decode("utf-8", "replace").strip().splitlines()
    reasons = [line for line in lines if line.startswith(("fatal: ", "error: "))]
    said = (reasons or lines or [f"exit code {done.returncode}"])[-1]
    return GitFailed(f"git {command} failed: {said}")


def without_filters(repo: Path) -> dict[str, str]:
    """Settings that switch the repository's content filters off: they run programs."""
    listed = run_git(repo, "config", "-z", "--name-only", "--get-regexp", r"^filter\.").stdout
    names = sorted({os.fsdecode(line).rpartition(".")[0] for line in listed.split(b"\0") if line})
    settings = [(f"{name}.{key}", value) for name in names for key, value in _OFF]
    numbered = {f"GIT_CONFIG_KEY_{n}": key for n, (key, _) in enumerate(settings)}
    numbered |= {f"GIT_CONFIG_VALUE_{n}": value for n, (_, value) in enumerate(settings)}
    return {"GIT_CONFIG_COUNT": str(len(settings)), **numbered}


_OFF = (("clean", ""), ("smudge", ""), ("process", ""), ("required", "false"))


def git_folder(repo: Path) -> Path:
    """git's folder of a repository: `.git`, or for a worktree or a submodule the one that this file names."""
    mark = repo / ".git"
    named = os.fsdecode(read_regular(mark, 4096)) if mark.is_file() else ""
    if not named:
        return mark
    folder = repo / named.removeprefix("gitdir:").strip()
    if "\0" in named or not folder.is_dir():
        raise GitFailed(f"{mark} does not name a folder: restore it.")
    return folder


def common_folder(repo: Path) -> Path:
    """The git folder that a worktree shares with others; for most repositories the only one."""
    folder = git_folder(repo)
    named = os.fsdecode(read_regular(folder / "commondir", 4096)).strip()
    return folder / named if named and "\0" not in named else folder


def safe_folder(repo: Path) -> Path:
    """Headgate's folder within git's own, for what has to survive whatever a command does to `.headgate`.

    `git clean -fdx` leaves it alone. A worktree or a submodule has one of its own.
    """
    return git_folder(repo) / _SAFE


def read_regular(path: str | Path, most: int, directory: int | None = None) -> bytes:
    """The beginning of a file; nothing if there is none, or it is no regular file. Nobody has to wait."""
    try:
        descriptor = os.open(path, _READ, dir_fd=directory)
    except (OSError, ValueError):
        return b""
    with os.fdopen(descriptor, "rb") as file:
        return file.read(most) if stat.S_ISREG(os.fstat(descriptor).st_mode) else b""


_EXCLUDED = (f"/{OWN_FOLDER}/*", f"!/{COMMANDS_FOLDER}/")
_EXCLUDED_ONCE = f"/{OWN_FOLDER}/"
"""What an earlier version wrote. git does not look into a folder that is excluded as a whole."""


def exclude_internal(repo: Path) -> None:
    """Keeps `.headgate/` out of git, but for the team's commands, without touching a tracked file."""
    folder = Path(os.path.realpath(common_folder(repo)))
    path = folder / "info" / "exclude"
    text = read_regular(path, 10_000_000).decode("utf-8", "surrogateescape")
    lines = text.removesuffix("\n").split("\n") if text else []
    if all(line in lines for line in _EXCLUDED) and _EXCLUDED_ONCE not in lines:
        return
    if Path(os.path.realpath(path)) != path:
        added = " and ".join(_EXCLUDED)
        raise GitFailed(f"{path} is reached by a symbolic link: add the lines {added} to it, and run again.")
    path.parent.mkdir(parents=True, exist_ok=True)
    kept = [line for line in lines if line not in (_EXCLUDED_ONCE, *_EXCLUDED)]
    path.write_text("\n".join([*kept, *_EXCLUDED, ""]), encoding="utf-8", errors="surrogateescape")
