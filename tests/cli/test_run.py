"""`headgate run` and the commands that look back, as real processes on real repositories."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from command import environment, headgate
from processes import start

QUICK = """
flow:
  - {id: work, prompt: Do it., budget: {waits: 1, backoff: 0}}
"""


def test_a_task_from_its_text_to_its_report(repo: Path) -> None:
    run = headgate(repo, "run", "Write new.txt")
    assert run.returncode == 0, run.stderr
    assert "SUCCESS (not verified)" in run.stderr
    assert run.stdout.strip().splitlines()[:3] == [
        "Not verified: no verification steps are configured.",
        "The model says: Wrote new.txt.",
        "Changed: new.txt.",
    ]
    assert (repo / "new.txt").read_text() == "hello\n"
    assert (
        ".headgate"
        not in subprocess.run(
            ["git", "-C", str(repo), "status", "--porcelain"], capture_output=True, text=True, check=True
        ).stdout
    )
    report = json.loads(headgate(repo, "report", "t1", "--json").stdout)
    assert (report["task_id"], report["state"], report["files_changed"]) == ("t1", "SUCCESS", ["new.txt"])
    shown = json.loads(headgate(repo, "show", "t1", "--json").stdout)
    assert (shown["id"], shown["state"], shown["events"][0]["kind"]) == ("t1", "SUCCESS", "task_started")
    detail = headgate(repo, "show", "t1", "--detail").stdout
    assert "write_file new.txt" in detail
    watch = headgate(repo, "watch", "t1")
    assert "SUCCESS (not verified)" in watch.stdout
    assert (watch.stdout.splitlines()[-4:], watch.stderr) == (run.stdout.splitlines()[-4:], "")
    assert detail.splitlines()[-4:-1] == run.stdout.splitlines()[-4:-1]
    assert detail.splitlines()[-1] == "headgate diff t1 shows the changes."
    unknown = headgate(repo, "show", "t9")
    assert (unknown.returncode, unknown.stdout) == (2, "")
    assert 'There is no task "t9": the latest is t1.' in unknown.stderr


def test_the_conversation_of_a_stuck_task_is_shown_in_detail(repo: Path) -> None:
    steps = "verification: {steps: [{name: tests, command: 'false'}]}\n"
    (repo / "agent.yaml").write_text(f"model: script:script.yaml\ntask_flow_mode: flat\n{steps}")
    done = "{stage_done: {summary: x}}"
    calls = f'[{{write_file: {{path: new.txt, content: "hello"}}}}, {done}]'
    (repo / "script.yaml").write_text(
        f"- {{text: I write it., reasoning: A file is missing., calls: {calls}}}\n"
        f"- {{calls: [{done}]}}\n- {{calls: [{done}]}}\n- {{text: No idea.}}\n"
    )
    assert headgate(repo, "run", "Write new.txt").returncode == 1
    detail = headgate(repo, "show", "--detail").stdout
    for said in (
        "System prompt:\n          > You are a coding agent.",
        "To the model (task):\n          > Task:\n          > Write new.txt",
        "The model thinks:\n          > A file is missing.",
        "The model:\n          > I write it.",
        'The model calls write_file:\n          > {"',
        "write_file returns:\n          > ",
    ):
        assert said in detail
    assert "I write it." not in headgate(repo, "show").stdout
    (repo / "agent.yaml").write_text("model: script:script.yaml\ntask_flow_mode: flat\n")
    (repo / "script.yaml").write_text("- {text: I write it again., calls: [{stage_done: {summary: x}}]}\n")
    assert headgate(repo, "run", "Say x").returncode == 0
    assert "I write it again." not in headgate(repo, "show", "--detail").stdout


def test_what_the_model_says_is_shown_in_short_and_for_what_it_is(repo: Path) -> None:
    """A summary of 120,000 characters, in a final turn, about work that was not done."""
    flow = "{id: work, prompt: Do it., checks: [code_changed], budget: {turns: 1, retries: 0}}"
    (repo / "agent.yaml").write_text(f"model: script:script.yaml\nflow:\n  - {flow}\n")
    said = json.dumps("cannot: gen.py is missing " + "and so on " * 12_000)
    closing = f"- calls: [{{stage_done: {{summary: {said}, decisions: [{said}], risks: [{said}]}}}}]\n"
    (repo / "script.yaml").write_text("- calls: [{ls: {}}]\n" + closing + f"- text: {said}\n")
    run = headgate(repo, "run", "Write new.txt")
    assert run.returncode == 1
    conclusion = "The model's own conclusion (not accepted): cannot: gen.py is missing and so"
    line = next(line for line in run.stdout.splitlines() if line.startswith(conclusion))
    assert line.endswith(" more characters]")
    assert len(run.stdout) < 1_500
    page = (repo / ".headgate" / "stuck" / "t1.md").read_text()
    assert "## work (not accepted)\n\n> cannot: gen.py is missing and so on" in page
    assert len(page) < 10_000
    report = json.loads(headgate(repo, "report", "t1", "--json").stdout)
    assert report["model_says_accepted"] is False
    assert "characters of the summary cut here" in report["model_says"]
    assert len(report["model_says"]) <= 6_000
    assert len(json.dumps(report)) < 15_000
    detail = headgate(repo, "show", "t1", "--detail").stdout
    assert detail.count("characters cut here") >= 1  # a long text of the conversation, which is kept
    assert len(detail) < 40_000
    assert len(run.stderr) < 3_000


def test_json_is_events_and_the_report_last(repo: Path) -> None:
    run = headgate(repo, "run", "--json", "Write new.txt")
    lines = [json.loads(line) for line in run.stdout.splitlines()]
    assert run.returncode == 0
    assert [line["kind"] for line in lines[:2]] == ["task_started", "stage_started"]
    assert [line["seq"] for line in lines[:-1]] == list(range(1, len(lines)))
    assert lines[-2]["kind"] == "task_ended"
    assert (lines[-1]["kind"], lines[-1]["status"]) == ("report", "completed")
    assert "SUCCESS" in run.stderr


def test_text_from_standard_input_and_from_a_file(repo: Path) -> None:
    assert headgate(repo, "run", "-", stdin="Write new.txt\n\nNon-goals:\n- more").returncode == 0
    (repo / "task.md").write_text("Write it again")
    (repo / "new.txt").unlink()
    assert headgate(repo, "run", "--file", "task.md", "--keep", "the rest").returncode == 0
    second = json.loads(headgate(repo, "report", "t2", "--json").stdout)
    assert second["constraints"] == {"keep": ["the rest"], "non_goals": [], "boundaries": []}
    first = json.loads(headgate(repo, "report", "t1", "--json").stdout)
    assert first["constraints"]["non_goals"] == ["more"]


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        (("run",), 'Give the text in one way: headgate run "..."'),
        (("submit",), 'Give the text in one way: headgate submit "..."'),
        (("run", "Fix", "it"), "Put the text in quotes"),
        (("run", "x", "--file", "task.md"), "Give the text in one way"),
        (("run", "  "), "The task is empty"),
        (("run", "--file", "missing.md"), "Cannot read missing.md: No such file or directory."),
        (("run", "--file", ".git"), "Cannot read .git: Is a directory."),
        (("run", "x", "--flow", "stagd"), 'did you mean "staged"?'),
        (("run", "x", "--config", "missing.yaml"), "missing.yaml"),
        (("run", "x", "--model", "qwen"), "ollama/qwen"),
        (("run", "x", "--repo", "nowhere"), "nowhere does not exist."),
        (("report", "t1"), "has no tasks yet"),
        (("run", "x", "--model", "script:missing.yaml"), "missing.yaml"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_2(repo: Path, args: tuple[str, ...], sentence: str) -> None:
    run = headgate(repo, *args)
    assert (run.returncode, run.stdout) == (2, ""), run.stderr
    assert sentence in run.stderr
    assert "Traceback" not in run.stderr
    assert len(run.stderr.strip().splitlines()) == 1


def test_a_server_that_is_down(repo: Path) -> None:
    (repo / "agent.yaml").write_text(QUICK)
    run = headgate(repo, "run", "x", "--model", "openai/m", "--base-url", "http://127.0.0.1:9/v1")
    assert run.returncode == 3
    assert "INFRA_ERROR: the model does not answer" in run.stderr
    assert "127.0.0.1:9" in run.stdout
    assert "Traceback" not in run.stderr
    report = json.loads(headgate(repo, "report", "t1", "--json").stdout)
    assert (report["state"], report["verify_loops"]) == ("INFRA_ERROR", 0)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_a_signal_cancels_and_keeps_what_was_done(repo: Path, number: signal.Signals) -> None:
    (repo / "script.yaml").write_text(
        "- calls: [{write_file: {path: new.txt, content: x}}]\n- {text: late, delay: 60}\n"
    )
    process = await start(repo, "run", "--json", "Write new.txt")
    while json.loads(await process.stdout.readline())["kind"] != "tool_finished":
        pass
    process.send_signal(number)
    out, err = await process.communicate()
    assert process.returncode == 130, err
    assert b"Traceback" not in err
    assert json.loads(out.splitlines()[-1])["state"] == "CANCELLED"
    assert (repo / "new.txt").read_text() == "x"
    assert json.loads(headgate(repo, "show", "t1", "--json").stdout)["state"] == "CANCELLED"
    assert not (repo / ".headgate" / "task_reports.jsonl").exists()


def test_a_reader_that_goes_away_changes_nothing(repo: Path) -> None:
    command = f"{sys.executable} -m headgate run --json 'Write new.txt' 2>&1 | head -1"
    subprocess.run(
        ["sh", "-c", command], cwd=repo, env=environment(repo), stdout=subprocess.DEVNULL, check=True
    )
    assert json.loads(headgate(repo, "report", "--json").stdout)["state"] == "SUCCESS"


@pytest.mark.parametrize("name", ["lock", "task_reports.jsonl", "headgate.db", "runs"])
def test_a_folder_that_the_repository_brings_along_is_not_used(repo: Path, name: str) -> None:
    victim = repo.parent / "victim"
    victim.write_text("precious")
    (repo / ".headgate").mkdir()
    (repo / ".headgate" / name).symlink_to(victim)
    run = headgate(repo, "run", "x")
    assert (run.returncode, victim.read_text()) == (2, "precious")
    assert "symbolic link" in run.stderr


def test_a_committed_folder_is_not_used(repo: Path) -> None:
    (repo / ".headgate").mkdir()
    (repo / ".headgate" / "x").write_text("x")
    subprocess.run(["git", "-C", str(repo), "add", "-f", ".headgate/x"], check=True)
    run = headgate(repo, "run", "x")
    assert (run.returncode, "is committed" in run.stderr) == (2, True)


def test_text_that_is_not_utf_8(repo: Path) -> None:
    bad = os.fsdecode(b"caf\xe9")
    for args in (("run", bad), ("run", "x", "--keep", bad)):
        run = headgate(repo, *args)
        assert (run.returncode, run.stderr) == (2, "headgate: The task is not UTF-8 text.\n")


async def test_watching_a_task_whose_process_was_killed_ends(repo: Path) -> None:
    (repo / "script.yaml").write_text("- {text: late, delay: 60}\n")
    process = await start(repo, "run", "--json", "x")
    await process.stdout.readline()
    process.kill()
    await process.communicate()
    watch = await asyncio.to_thread(headgate, repo, "watch", "t1")
    assert (watch.returncode, watch.stderr) == (3, "")
    assert watch.stdout.splitlines()[-2:] == [
        "Task t1 was interrupted: no process is working on it.",
        "headgate run --resume t1 continues it; headgate cancel t1 ends it.",
    ]


def test_the_demo_is_real(tmp_path: Path) -> None:
    run = headgate(tmp_path, "demo", "--into", "demo")
    assert run.returncode == 0, run.stderr
    order = [
        "Refused: edit_file was not run",
        "Verification failed",
        "Attempt 2/12",
        "Verification passed",
        "SUCCESS",
    ]
    positions = [run.stderr.index(line) for line in order]
    assert positions == sorted(positions)
    assert "Verified by run_" in run.stdout
    tests = subprocess.run(
        [sys.executable, "-m", "unittest", "-q"], cwd=tmp_path / "demo", capture_output=True, check=False
    )
    assert tests.returncode == 0
    again = headgate(tmp_path, "demo", "--into", "demo")
    assert (again.returncode, "already exists" in again.stderr) == (2, True)


@pytest.mark.parametrize("command", [("submit", "--no-start"), ("run",), ("run", "--json")])
def test_boundaries_that_hold_nothing_are_named_at_once(repo: Path, command: tuple[str, ...]) -> None:
    (repo / "db").mkdir()
    (repo / "db" / "a.sql").write_text("")
    (repo / "auth.py").write_text("")
    text = "Write new.txt.\n\nBoundaries:\n- db/**, the auth module\n- the payment provider"
    done = headgate(repo, *command, "--boundary", "srv/**", text)
    assert done.returncode == 0, done.stderr
    assert done.stderr.splitlines()[:3] == [
        'Boundary "the auth module": auth.py.',
        'Boundary "the payment provider" is not enforced: it names no path here.',
        'Boundary "srv/**" matches nothing now. It holds once such a file exists; check the spelling.',
    ]
    counts = [text.count("matches nothing") for text in (done.stderr, done.stdout)]
    assert command == ("run", "--json") or counts == [1, int(command == ("run",))]
    assert '"the auth module": auth.py' not in done.stdout or command == ("run", "--json")


def test_the_check_before_the_work_is_not_held_against_itself(repo: Path) -> None:
    check = "{name: check, command: test -s new.txt}"
    (repo / "agent.yaml").write_text(f"model: script:script.yaml\nverification: {{steps: [{check}]}}\n")
    run = headgate(repo, "run", "--flow", "repair", "Make the check pass")
    lines = [line.partition("] ")[2] for line in run.stderr.splitlines()]
    assert 'It fails: step "check" (test -s new.txt) failed with exit code 1' in lines


def test_a_log_of_the_run_in_the_repository_is_no_change_of_the_task(repo: Path) -> None:
    """The shell writes what is printed to a file in the tree: the model still changes nothing."""
    (repo / "agent.yaml").write_text(
        "model: script:s.yaml\ntask_flow_mode: flat\nscouts: 'off'\n"
        "verification: {steps: [{name: check, command: grep -q done want.txt}]}\n"
    )
    idle = "  - calls: [{shell: {command: ls}}, {stage_done: {summary: Done.}}]\n"
    (repo / "s.yaml").write_text("replies:\n" + 13 * idle)
    words = [sys.executable, "-m", "headgate", "run", "Write done into want.txt."]
    with (repo / "out.log").open("wb") as log:
        done = subprocess.run(
            words,
            cwd=repo,
            env=environment(repo),
            stdout=log,
            stderr=log,
            stdin=subprocess.DEVNULL,
            check=False,
        )
    printed = (repo / "out.log").read_text()
    assert done.returncode == 1, printed
    report = json.loads(headgate(repo, "report", "t1", "--json").stdout)
    assert (report["reason"], len(report["run_ids"]), report["files_changed"]) == ("no_progress", 3, [])
    assert "No file was changed." in printed
