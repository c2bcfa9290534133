"""A task with a worktree of its own: the person's tree is not touched until the result is applied."""

import os
import shutil
import subprocess
from json import dumps
from pathlib import Path

import pytest
from undo_cases import LINES, Bench, edit, make_bench, shell, write

from headgate.cli.shared import find_repo
from headgate.config import load_config
from headgate.core import (
    Constraints,
    MergeVerified,
    Options,
    RewriteStarted,
    TaskStarted,
    VerifyStep,
    WorktreeCommitted,
    fold,
)
from headgate.engine import Engine, Merged, MergeProgress, Overlap, Undone
from headgate.engine.followed import find_followed
from headgate.errors import ConfigError
from headgate.log import Draft, Report, build_report
from headgate.process import NoSandbox, find_bubblewrap
from headgate.tree import decode_changes


def git(repo: Path, *args: str) -> str:
    who = ["-c", "user.name=p", "-c", "user.email=p@example.org"]
    return subprocess.run(
        ["git", "-C", str(repo), *who, *args], check=True, capture_output=True, text=True
    ).stdout


def branches(bench: Bench) -> list[str]:
    return git(bench.repo, "branch", "--format=%(refname:short)", "--list", "headgate/*").split()


def report_of(bench: Bench, task: str = "t1") -> Report:
    return build_report(fold(bench.engine.store.events(task)))


async def merge(bench: Bench, task: str = "t1") -> Merged:
    outcome = await bench.engine.merge(task)
    assert isinstance(outcome, Merged), outcome
    return outcome


async def test_the_result_is_applied_and_can_be_undone(any_bench: Bench) -> None:
    bench = any_bench
    bench.put("a.txt", "mine\n" + LINES)
    bench.put("mine.txt", "mine\n")
    notices: list[str] = []
    bench.engine.on_notice = notices.append
    before = bench.files()
    report = await bench.run(
        edit("a.txt", "line 20\n", "LINE 20\n"),
        shell("cat mine.txt; rm gone.sh; mkdir made; echo new > made/new.txt"),
        worktree=True,
    )
    assert notices == ["Uncommitted changes (2 files) are not in the task's worktree."]
    assert bench.files() == before
    assert (report.state, report.worktree, report.branch) == (
        "SUCCESS",
        ".headgate/worktrees/t1",
        "headgate/t1",
    )
    tree = bench.repo / report.worktree
    assert (tree / "a.txt").read_text() == LINES.replace("line 20", "LINE 20")
    assert b"+LINE 20" in bench.engine.diff("t1")
    with pytest.raises(ConfigError, match="headgate abort t1"):
        await bench.engine.undo("t1")
    done = await merge(bench)
    assert (done.files, done.worktree) == (("a.txt", "gone.sh", "made/new.txt"), "")
    assert bench.text("a.txt") == "mine\n" + LINES.replace("line 20", "LINE 20")
    assert not tree.exists()
    assert branches(bench) == []
    assert b"+LINE 20" in bench.engine.diff("t1")
    assert (report_of(bench).merged, report_of(bench).worktree) == (True, "")
    with pytest.raises(ConfigError, match="applied already"):
        await bench.engine.merge("t1")
    undone = await bench.engine.undo("t1")
    assert isinstance(undone, Undone)
    assert bench.files() == before


async def test_an_overlap_changes_nothing_and_the_worktree_stays(bench: Bench) -> None:
    await bench.run(edit("a.txt", "line 3\n", "LINE 3\n"), write("new.txt", "new\n"), worktree=True)
    bench.put("a.txt", LINES.replace("line 3\n", "mine\n"))
    before = bench.files()
    outcome = await bench.engine.merge("t1")
    assert isinstance(outcome, Overlap)
    assert outcome.problems == ("a.txt: has changed at the same place, near line 3",)
    assert bench.files() == before
    assert branches(bench) == ["headgate/t1"]
    await bench.engine.abort("t1")
    assert branches(bench) == []
    assert not (bench.repo / ".headgate/worktrees/t1").exists()
    with pytest.raises(ConfigError, match="no worktree any more"):
        await bench.engine.abort("t1")
    for ask in (bench.engine.merge, bench.engine.undo):
        with pytest.raises(ConfigError, match="Task t1 was discarded: headgate diff"):
            await ask("t1")
    assert (report_of(bench).discarded, report_of(bench).merged, bench.files()) == (True, False, before)


async def test_what_was_applied_cannot_be_discarded_or_applied_again(bench: Bench) -> None:
    await bench.run(write("new.txt", "new\n"), worktree=True)
    await merge(bench)
    assert not report_of(bench).discarded
    with pytest.raises(ConfigError, match="no worktree any more"):
        await bench.engine.abort("t1")
    await bench.engine.undo("t1")
    with pytest.raises(ConfigError, match="is undone"):
        await bench.engine.merge("t1")
    with pytest.raises(ConfigError, match="no worktree any more"):
        await bench.engine.abort("t1")
    assert "new.txt" not in bench.files()


async def test_a_follow_up_is_told_that_the_changes_were_discarded(bench: Bench) -> None:
    await bench.run(write("new.txt", "new\n"), worktree=True)
    await bench.engine.abort("t1")
    row = bench.engine.store.task("t1")
    assert row is not None
    after = row.task.model_copy(update={"id": "t2", "follows": "t1"})
    followed = await find_followed(bench.engine.store, bench.repo, after)
    assert followed is not None
    assert followed.ending.endswith("The user discarded its changes: the working tree does not contain them.")


async def test_a_commit_is_made_with_a_message_from_the_report(tmp_path: Path) -> None:
    check = "{name: check, command: grep -q LINE a.txt}"
    bench = make_bench(tmp_path, f"verification: {{steps: [{check}]}}\n")
    for name, value in (("user.name", "A Person"), ("user.email", "a@example.org")):
        git(bench.repo, "config", name, value)
    git(bench.repo, "config", "commit.gpgSign", "true")
    git(bench.repo, "config", "gpg.program", "/nonexistent")
    hook = bench.repo / ".git" / "hooks" / "pre-commit"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\ntouch {tmp_path}/hooked; exit 1\n")
    hook.chmod(0o755)
    await bench.run(edit("a.txt", "line 3\n", "LINE 3\n"), write("x.log", "x"), worktree=True, commit=True)
    shown = git(bench.repo, "log", "-1", "--format=%an <%ae>%n%B", "--name-only", "headgate/t1").splitlines()
    assert shown[:3] == ["A Person <a@example.org>", "Do it.", ""]
    assert shown[3].startswith("Verified by check (run_")
    assert "- a.txt: +1 -1" in shown
    assert shown[-1] == "a.txt"
    assert not (tmp_path / "hooked").exists()
    commits = [event.body for event in bench.engine.store.events("t1")]
    assert any(isinstance(body, WorktreeCommitted) for body in commits)
    done = await merge(bench)
    assert done.worktree == "branch headgate/t1 has commits"
    assert branches(bench) == ["headgate/t1"]
    bench.engine.store.close()


STEPS = "verification: {{steps: [{{name: check, command: {}}}]}}\n"


@pytest.mark.parametrize(
    ("command", "left", "passed", "said"),
    [
        ("test -e new.txt", "", True, "The step passed."),
        ("test ! -e mine.txt", "", False, "1 of 1 step failed."),
        ("if test -e mine.txt; then no-such-thing; fi", "no-such-thing is not", False, "installed."),
    ],
)
async def test_the_steps_of_the_task_verify_what_is_applied(
    tmp_path: Path, command: str, left: str, passed: bool, said: str
) -> None:
    """The configuration has changed since the task was started, and that makes no difference."""
    bench = make_bench(tmp_path, STEPS.format(f"'{command}'"))
    report = await bench.run(write("new.txt", "new\n"), worktree=True)
    assert (report.state, report.verified) == ("SUCCESS", True)
    bench.put("mine.txt", "mine\n")
    bench.put("agent.yaml", STEPS.format("exit 8"))
    heard: list[str] = []
    locked: list[bool] = []

    def begin(step: VerifyStep) -> None:
        heard.append(step.command)
        locked.append(bench.engine.folder.work_lock().is_held())

    progress = MergeProgress(
        lambda merged: heard.extend(merged.files), begin, lambda ran: heard.append(ran.step.name)
    )
    done = await bench.engine.merge("t1", progress)
    assert isinstance(done, Merged)
    assert (heard, locked) == (["new.txt", command, "check"], [True])
    assert done.verification is not None
    assert (done.verification.passed, said in done.verification.sentence()) == (passed, True)
    assert (left in done.verification.broken, bool(done.verification.broken)) == (True, bool(left))
    assert (bench.repo / done.verification.log).is_file()
    assert bench.text("new.txt") == "new\n"
    report = report_of(bench)
    assert (report.merged, report.merge_verified, report.merge_run) == (
        True,
        passed,
        done.verification.run_id,
    )
    assert bool(report.merge_reason) == (not passed)
    bench.engine.store.close()


async def test_a_task_without_steps_is_applied_unverified(bench: Bench) -> None:
    await bench.run(write("new.txt", "new\n"), worktree=True)
    bench.put("agent.yaml", STEPS.format("exit 8"))
    assert (await merge(bench)).verification is None
    assert bench.engine.store.events("t1")[-1].body == MergeVerified(passed=None)


async def test_a_package_that_is_gone_is_no_failure_of_the_work(tmp_path: Path) -> None:
    bench = make_bench(tmp_path, STEPS.format("'true'") + "monorepo: {package: pack}\n")
    bench.put("pack/b.txt", LINES)
    git(bench.repo, "add", "-A")
    git(bench.repo, "commit", "-qm", "pack")
    report = await bench.run(edit("pack/b.txt", "line 3\n", ""), worktree=True)
    assert report.state == "SUCCESS"
    snapshot = (bench.repo / "pack" / "b.txt").read_text()
    progress = MergeProgress(lambda merged: shutil.rmtree(bench.repo / "pack"))
    done = await bench.engine.merge("t1", progress)
    assert snapshot == LINES
    assert isinstance(done, Merged)
    assert done.verification is not None
    assert done.verification.sentence() == "agent.yaml: monorepo.package: there is no directory pack."
    assert report_of(bench).merge_reason == "agent.yaml: monorepo.package: there is no directory pack"
    bench.engine.store.close()


async def test_a_configuration_of_another_version_is_no_failure_of_the_work(tmp_path: Path) -> None:
    bench = make_bench(tmp_path, STEPS.format("'true'"))
    await bench.run(write("new.txt", "new\n"), worktree=True)
    begun = next(e.body for e in bench.engine.store.events("t1") if isinstance(e.body, TaskStarted))
    unknown = begun.model_copy(update={"config": {**begun.config, "gone_by_now": 1}})
    await bench.engine.store.append("t1", [Draft("", 0, 0.0, unknown)])
    done = await merge(bench)
    assert done.verification is not None
    assert "cannot be read" in done.verification.broken
    assert (bench.text("new.txt"), report_of(bench).merge_verified) == ("new\n", False)
    bench.engine.store.close()


async def test_what_was_not_applied_is_not_removed(bench: Bench) -> None:
    await bench.run(write("new.txt", "new\n"), worktree=True)
    (bench.repo / ".headgate/worktrees/t1/later.txt").write_text("mine\n")
    assert (await merge(bench)).worktree == "it has changes that were not applied: later.txt"
    assert (bench.repo / ".headgate/worktrees/t1/later.txt").exists()


async def test_a_task_without_changes_leaves_no_worktree(bench: Bench) -> None:
    report = await bench.run(shell("cat a.txt"), worktree=True)
    assert (report.state, report.worktree, branches(bench)) == ("SUCCESS", "", [])
    assert list((bench.repo / ".headgate/worktrees").iterdir()) == []


async def test_folders_that_git_ignores_are_linked(tmp_path: Path) -> None:
    bench = make_bench(tmp_path, "worktree: {link: [node_modules, .venv, tracked]}\n")
    bench.put(".gitignore", "node_modules/\n.venv/\n")
    bench.put("node_modules/pkg/index.js", "1\n")
    bench.put(".venv/lib/python3.12/site-packages/__editable__.x.pth", f"{bench.repo}/src\n")
    bench.put("tracked/file", "x\n")
    git(bench.repo, "add", "-A")
    git(bench.repo, "commit", "-qm", "more")
    report = await bench.run(
        shell("cp node_modules/pkg/index.js copy.js; ls -d tracked .venv"), worktree=True
    )
    assert report.files_changed == ("copy.js",)
    assert any(".venv is not linked" in warning for warning in report.warnings)
    assert (bench.repo / report.worktree / "copy.js").read_text() == "1\n"
    assert (await merge(bench)).worktree == ""
    assert bench.text("node_modules/pkg/index.js") == "1\n"
    bench.engine.store.close()


async def test_what_leads_out_of_the_repository_is_not_linked(tmp_path: Path) -> None:
    """Also where the link appears after the configuration was read, or only in what is committed."""
    (tmp_path / "home" / "notes").mkdir(parents=True)
    (tmp_path / "home" / "notes" / "data").write_text("PRIVATE\n")
    bench = make_bench(tmp_path, "worktree: {link: [vendor/notes, lib/notes, .git/info]}\n")
    bench.put(".gitignore", "notes\n/vendor\n")
    (bench.repo / "lib").symlink_to(tmp_path / "home")
    git(bench.repo, "add", "-A")
    git(bench.repo, "commit", "-qm", "more")
    (bench.repo / "lib").unlink()
    bench.put("lib/notes/data", "mine\n")
    (bench.repo / "vendor").symlink_to(tmp_path / "home")
    report = await bench.run(
        shell(f"mkdir vendor; ln -s {tmp_path}/home/notes vendor/notes"),
        shell("cat vendor/notes/data lib/notes/data > out.txt; true"),
        worktree=True,
    )
    told = "vendor/notes is not linked into the worktree: it leads out of the repository."
    assert [line for line in report.warnings if "vendor" in line] == [told.rstrip(".")]
    assert not any(path.is_symlink() for path in (tmp_path / "home" / "notes").iterdir())
    text = (bench.repo / report.worktree / "out.txt").read_text()
    assert "PRIVATE" not in text
    bench.engine.store.close()


@pytest.mark.skipif(isinstance(find_bubblewrap(os.environ["PATH"]), NoSandbox), reason="needs a sandbox")
async def test_secrets_in_linked_folders_are_hidden_from_commands(tmp_path: Path) -> None:
    bench = make_bench(tmp_path, "worktree: {link: [local]}\n")
    bench.put(".gitignore", "local/\n")
    bench.put("local/deep/.env", "TOKEN=PRIVATE\n")
    bench.put("local/data", "data\n")
    git(bench.repo, "commit", "-qam", "more")
    report = await bench.run(shell("cat local/data local/deep/.e* > out.txt; true"), worktree=True)
    assert (bench.repo / report.worktree / "out.txt").read_text() == "data\n"
    bench.engine.store.close()


async def test_a_dry_run_has_no_worktree(bench: Bench) -> None:
    with pytest.raises(ConfigError, match="A dry run needs no worktree"):
        await bench.run(edit("a.txt", "line 3\n", "LINE 3\n"), dry_run=True, worktree=True)
    assert (branches(bench), bench.engine.store.tasks()) == ([], [])


async def test_a_link_is_never_followed_out_of_the_worktree(bench: Bench, tmp_path: Path) -> None:
    """A link would bring what it leads to into the user's tree, where the next task can read it."""
    secret = tmp_path / "outside.txt"
    secret.write_text("secret\n")
    command = f"ln -s {secret} leak.txt; ln -s nowhere dangling; echo good > new.txt"
    report = await bench.run(shell(command), worktree=True)
    merged = await merge(bench)
    assert (merged.files, sorted(merged.left)) == (("new.txt",), ["dangling", "leak.txt"])
    assert merged.worktree == "it has links, which are not applied: dangling, leak.txt"
    assert bench.text("new.txt") == "good\n"
    assert [name for name in ("leak.txt", "dangling") if os.path.lexists(bench.repo / name)] == []
    assert (bench.repo / report.worktree / "leak.txt").is_symlink()


async def test_what_a_process_left_that_died_at_once_is_replaced(bench: Bench) -> None:
    git(bench.repo, "worktree", "add", "-q", "-b", "headgate/t1", ".headgate/worktrees/t1")
    git(bench.repo, "worktree", "add", "-q", "-b", "headgate/t2", ".headgate/worktrees/t2")
    (bench.repo / ".headgate/worktrees/t2/mine.txt").write_text("mine\n")
    assert (await bench.run(write("new.txt", "new\n"), worktree=True)).state == "SUCCESS"
    report = await bench.run(write("new.txt", "new\n"), worktree=True)
    assert (report.state, report.reason) == ("INFRA_ERROR", "worktree_failed")
    assert (bench.repo / ".headgate/worktrees/t2/mine.txt").exists()


async def test_a_branch_or_folder_in_the_way_is_named(bench: Bench) -> None:
    git(bench.repo, "branch", "headgate/t1")
    git(bench.repo, "commit", "-q", "--allow-empty", "-m", "on")
    git(bench.repo, "branch", "-f", "headgate/t2", "HEAD")
    git(bench.repo, "reset", "-q", "--hard", "HEAD~")
    assert (await bench.run(worktree=True)).state == "SUCCESS"  # nothing is lost with that branch
    report = await bench.run(worktree=True)
    assert (report.state, report.reason) == ("INFRA_ERROR", "worktree_failed")
    assert "The branch headgate/t2 is there already" in report.summary


def test_a_repository_without_a_commit_is_refused(tmp_path: Path) -> None:
    bench = make_bench(tmp_path)
    git(bench.repo, "update-ref", "-d", "HEAD")
    with pytest.raises(ConfigError, match="needs a commit"):
        bench.engine.submit("Do it.", Constraints(), Options(worktree=True))
    with pytest.raises(ConfigError, match="add --worktree"):
        bench.engine.submit("Do it.", Constraints(), Options(commit=True))
    assert not bench.engine.store.tasks()
    bench.engine.store.close()


async def test_a_worktree_of_a_repository_that_is_one_itself(tmp_path: Path) -> None:
    outer = make_bench(tmp_path / "outer")
    outer.engine.store.close()
    git(outer.repo, "worktree", "add", "-q", "-b", "side", str(tmp_path / "side"))
    (tmp_path / "side" / "agent.yaml").write_text("task_flow_mode: flat\n")
    loaded = load_config(tmp_path / "side", environ={}, flags={}, user_file=tmp_path / "none.yaml")
    engine = Engine.open(tmp_path / "side", loaded, models={None: outer.doer})
    bench = Bench(tmp_path / "side", engine, outer.doer)
    report = await bench.run(write("new.txt", "new\n"), worktree=True)
    assert report.state == "SUCCESS"
    await merge(bench)
    assert bench.text("new.txt") == "new\n"
    assert not (outer.repo / "new.txt").exists()
    engine.store.close()


async def test_a_merge_that_was_cut_short_is_completed(bench: Bench) -> None:
    await bench.run(write("new.txt", "new\n"), edit("a.txt", "line 3\n", "LINE 3\n"), worktree=True)
    await merge(bench)
    store = bench.engine.store
    begun = next(event for event in store.events("t1") if isinstance(event.body, RewriteStarted))
    assert isinstance(begun.body, RewriteStarted)
    # As a process leaves it that died when one file was written.
    bench.put("a.txt", LINES)
    changes = '[{"path":"new.txt","before":null,"after":"new\\n","mode":null},'
    changes += (
        f'{{"path":"a.txt","before":{dumps(LINES)},"after":{dumps(LINES.replace("line 3", "LINE 3", 1))}'
    )
    changes += ',"mode":null}]'
    assert len(decode_changes(changes)) == 2
    await store.append("t1", [Draft("", 0, 0.0, begun.body, changes)])
    await bench.engine.drain()
    assert bench.text("a.txt").startswith("line 1\nline 2\nLINE 3\n")
    assert store.open_rewrite() == ""


def test_commands_of_a_worktree_belong_to_the_repository_around_it(bench: Bench) -> None:
    tree = bench.repo / ".headgate" / "worktrees" / "t1"
    tree.mkdir(parents=True)
    (tree / ".git").write_text("gitdir: elsewhere\n")
    assert find_repo(tree) == Path(os.path.realpath(bench.repo))
