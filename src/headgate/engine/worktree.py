"""A git worktree for one task, so that a person can go on working: made from HEAD, on a branch of its own.

It is in `.headgate/worktrees`, which git ignores and the sandbox hides but for the worktree itself. No hook,
filter or signing program of the repository is run.
"""

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from headgate.config import Config
from headgate.core import Options, Task, parse_path
from headgate.errors import ConfigError, HeadgateError
from headgate.features.mentions.feature import without_signs
from headgate.first_use import dataclass
from headgate.log import Folder, Report
from headgate.tree import (
    GitFailed,
    IgnoredPaths,
    git,
    internal_name,
    leads_out,
    run_git,
    without_filters,
)

BRANCHES = "headgate/"
SECONDS = 600.0
_SUBJECT_CHARS = 72
_MOST_LISTED = 20


class WorktreeGone(HeadgateError):
    """The worktree of a task was removed before the task had ended."""


@dataclass(frozen=True, slots=True)
class Worktree:
    """A worktree that was made."""

    base: str
    """The commit that it began with."""
    notes: tuple[str, ...] = ()
    """What people should know about it."""


def check_head(repo: Path) -> None:
    """ConfigError if the repository has no commit that a worktree could be made from."""
    if run_git(repo, "rev-parse", "--verify", "--quiet", "HEAD^{commit}").returncode:
        raise ConfigError("--worktree needs a commit to start from, and this repository has none: make one.")


def check_worktree_options(repo: Path, options: Options) -> list[str]:
    """What whoever submits a task should know about its worktree. ConfigError if there can be none."""
    if options.commit and not options.worktree:
        raise ConfigError("--commit commits in a worktree of the task's own: add --worktree.")
    if not options.worktree:
        return []
    if options.dry_run:
        raise ConfigError("A dry run needs no worktree, because it writes nothing: leave out one of them.")
    check_head(repo)
    count = count_uncommitted(repo)
    files = "file" if count == 1 else "files"
    return [f"Uncommitted changes ({count} {files}) are not in the task's worktree."] if count else []


def count_uncommitted(repo: Path) -> int:
    """The files whose changes are in no commit, and therefore in no worktree."""
    asked = ("status", "--porcelain", "-z", "--no-renames", "--untracked-files=all", "--ignore-submodules")
    return git(repo, *asked, env=without_filters(repo)).count(b"\0")


def make_worktree(folder: Folder, task: Task, config: Config) -> Worktree:
    """Makes the worktree of a task that starts. Blocks."""
    repo = folder.repo
    check_head(repo)
    git(repo, "worktree", "prune")
    folder.own.make(folder.worktrees)
    path = folder.worktrees / task.id
    _clear(folder, task.id)
    off = without_filters(repo)
    git(repo, "worktree", "add", "-q", "-b", BRANCHES + task.id, str(path), "HEAD", env=off, seconds=SECONDS)
    base = git(path, "rev-parse", "HEAD").decode().strip()
    return Worktree(base, tuple(_link_folders(repo, path, config.worktree.link)))


def _clear(folder: Folder, name: str) -> None:
    """Removes what a process left that died just after it had made the worktree. HeadgateError for the rest.

    git refuses to remove what somebody has worked on.
    """
    path, ref = folder.worktrees / name, f"refs/heads/{BRANCHES}{name}"
    if os.path.lexists(path):
        _unlink(path)
        run_git(folder.repo, "worktree", "remove", str(path))
        if os.path.lexists(path):
            raise HeadgateError(f"{path} is there already: move it away, or git worktree remove it.")
    run_git(folder.repo, "branch", "-q", "-d", BRANCHES + name)
    if not run_git(folder.repo, "rev-parse", "--verify", "--quiet", ref).returncode:
        raise HeadgateError(f"The branch {BRANCHES}{name} is there already: rename it, or delete it.")


def check_worktree(folder: Folder) -> None:
    """WorktreeGone if the tree of a task that goes on is not there any more."""
    if folder.tree != folder.repo and not (folder.tree / ".git").is_file():
        raise WorktreeGone(
            f"The worktree {folder.tree} is gone: submit the task again, or run git worktree repair."
        )


def has_commits(folder: Folder, name: str, base: str) -> bool:
    """Whether the branch of a worktree has commits of its own."""
    asked = ("rev-list", "--count", f"{base}..refs/heads/{BRANCHES}{name}")
    done = run_git(folder.repo, *asked)
    return done.returncode == 0 and done.stdout.strip() != b"0"


def remove_worktree(folder: Folder, name: str) -> None:
    """Removes a worktree with all that is in it, and its branch with all that is only there. Blocks."""
    path = folder.worktrees / name
    if run_git(folder.repo, "worktree", "remove", "--force", "--force", str(path)).returncode:
        folder.own.remove(path)
        git(folder.repo, "worktree", "prune")
    run_git(folder.repo, "branch", "-q", "-D", BRANCHES + name)


# Folders that git ignores and that verification needs: installed packages.


def linked_folders(folder: Folder, config: Config) -> list[Path]:
    """What the links in a worktree lead to: commands may read it, and not change it."""
    if folder.tree == folder.repo:
        return []
    names = [name for name in config.worktree.link if not leads_out(folder.repo, name)]
    sources = {name: Path(os.path.realpath(folder.repo / name)) for name in names}
    return [
        source
        for name, source in sources.items()
        if (folder.tree / name).is_symlink() and Path(os.path.realpath(folder.tree / name)) == source
    ]


def _link_folders(repo: Path, path: Path, names: Sequence[str]) -> Iterator[str]:
    """Links folders of the repository's own tree; yields what was left out, and why."""
    ignored = IgnoredPaths(repo)
    for name in names:
        source = repo / name
        if not source.is_dir() or source.is_symlink() or os.path.lexists(path / name) or internal_name(name):
            continue
        if not ignored.directory(name):
            continue  # it is part of the repository
        if any(leads_out(root, name) for root in (repo, path)):  # a link may be newer than the configuration
            yield f"{name} is not linked into the worktree: it leads out of the repository."
            continue
        if _is_installed_in_place(source, repo):
            yield (
                f"{name} is not linked into the worktree: this repository is installed in it as editable,"
                " so tests there would run the code of your own tree."
            )
            continue
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).symlink_to(os.path.realpath(source), target_is_directory=True)


def _is_installed_in_place(environment: Path, repo: Path) -> bool:
    """Whether a Python environment imports the code of the repository's own tree."""
    top = os.path.realpath(repo)
    for site in environment.glob("lib*/python*/site-packages"):
        for path in (*site.glob("*.pth"), *site.glob("*.egg-link"), *site.glob("__editable__*.py")):
            if top in path.read_text(encoding="utf-8", errors="replace"):
                return True
        for path in site.glob("*.dist-info/direct_url.json"):
            try:
                told = json.loads(path.read_text(encoding="utf-8", errors="replace"))
            except ValueError:
                continue
            if isinstance(told, dict) and top in str(told.get("url")) and "dir_info" in told:
                return bool(dict(told["dir_info"] or {}).get("editable"))
    return False


def _unlink(path: Path) -> None:
    """Removes the links in a worktree, which git would take for files that somebody made."""
    if path.is_dir() and not path.is_symlink():
        for entry in path.iterdir():
            if entry.is_symlink() and entry.is_dir():
                entry.unlink()


# Commits.


def commit_changes(folder: Folder, report: Report, steps: Iterable[str], files: Iterable[str]) -> str:
    """Commits what a task changed in its worktree; returns the commit. GitFailed if git refuses. Blocks."""
    tree, ignored = folder.tree, IgnoredPaths(folder.tree)
    paths = [path for path in map(parse_path, files) if not ignored.file(path)]
    off = without_filters(tree)
    names = b"".join(os.fsencode(path) + b"\0" for path in paths)
    git(tree, "update-index", "--add", "--remove", "-z", "--stdin", env=off, stdin=names)
    message = commit_message(report, tuple(steps), tree).encode("utf-8", "replace")
    signing = ("-c", "commit.gpgSign=false", "-c", "gc.auto=0", "-c", "maintenance.auto=false")
    flags = ("--quiet", "--no-verify", "--no-gpg-sign", "--cleanup=verbatim", "-F", "-")
    done = run_git(tree, *signing, "commit", *flags, env=off, stdin=message)
    if done.returncode and run_git(tree, "diff", "--cached", "--quiet", env=off).returncode:
        lines = done.stderr.decode("utf-8", "replace").strip().splitlines()
        raise GitFailed(f"git commit failed: {lines[-1] if lines else done.returncode}")
    return git(tree, "rev-parse", "HEAD").decode().strip()


def commit_message(report: Report, steps: Sequence[str], tree: Path) -> str:
    """A message from the report: what was asked for, how it was verified, and what was changed."""

    def is_there(path: str) -> bool:
        place = tree / path
        return os.path.isdir(place) if path.endswith("/") else os.path.isfile(place)  # noqa: PTH112, PTH113 - for any text

    goal = next((line.strip() for line in report.goal.splitlines() if line.strip()), report.task_id)
    subject = without_signs(" ".join(goal.split()), is_there)
    if len(subject) > _SUBJECT_CHARS:
        subject = subject[: _SUBJECT_CHARS - 1].rsplit(" ", 1)[0] + "…"
    lines = [subject, ""]
    if report.verified:
        lines.append(f"Verified by {', '.join(steps)} ({report.run_ids[-1]}).")
    else:
        lines.append("Not verified.")
    lines += ["", "Changed:"]
    listed = report.diffstat or report.files_changed
    lines += [f"- {line}" for line in listed[:_MOST_LISTED]]
    lines += [f"- and {len(listed) - _MOST_LISTED} more files"] if len(listed) > _MOST_LISTED else []
    lines += ["", f"Headgate task {report.task_id}, {report.flow} flow, {report.model}."]
    return "\n".join(lines) + "\n"
