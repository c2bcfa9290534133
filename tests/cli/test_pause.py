"""One outage fails one task: the rest of the queue waits until somebody goes on with it."""

import json
from pathlib import Path

import pytest
from processes import call, ended, is_idle, line_with, reports, start, states, until

DOWN = "- error: {kind: unavailable, message: Nothing listens at localhost.}\n" * 2
UP = "- calls: [{stage_done: {stage: work, summary: Done.}}]\n"


def make(repo: Path) -> None:
    """A repository whose model is down."""
    flow = "flow:\n  - {id: work, prompt: Do it., budget: {waits: 1, backoff: 0}}\n"
    (repo / "agent.yaml").write_text(f"model: script:script.yaml\n{flow}")
    (repo / "script.yaml").write_text(DOWN)


async def test_one_outage_pauses_the_queue(repo: Path) -> None:
    make(repo)
    for number in (1, 2, 3):
        assert (await call(repo, "submit", "--no-start", f"task {number}"))[1] == f"t{number}\n"
    assert (await call(repo, "submit", "--resume", "t1"))[:2] == (0, "t1\n")
    await until(lambda: states(repo)["t1"] == "INFRA_ERROR" and is_idle(repo))
    assert states(repo) == {"t1": "INFRA_ERROR", "t2": "QUEUED", "t3": "QUEUED"}

    code, out, _ = await call(repo, "tasks")
    *_, last = out.splitlines()
    assert (code, last.startswith("The queue is paused: t1 ended INFRA_ERROR: Nothing listens")) == (
        0,
        True,
    ), last
    assert "headgate submit --resume t2 resumes the queue" in last
    assert "headgate submit --resume t1 also retries t1" in last
    code, out, err = await call(repo, "tasks", "--json")
    assert [(row["id"], row["position"]) for row in json.loads(out)] == [("t1", None), ("t2", 1), ("t3", 2)]
    assert err == last + "\n"
    code, out, _ = await call(repo, "watch", "t3")
    assert (code, out.splitlines()[-2:]) == (3, ["Task t3 is queued.", last])

    # A run behind a paused queue tries once, and does not wait for ever.
    code, out, err = await call(repo, "run", "--json", "task 4")
    assert code == 3
    assert states(repo) == {"t1": "INFRA_ERROR", "t2": "INFRA_ERROR", "t3": "QUEUED", "t4": "QUEUED"}
    report = json.loads(out.splitlines()[-1])
    assert (report["task_id"], report["state"], report["status"]) == ("t4", "QUEUED", "pending")
    assert "The queue is paused: t2 ended INFRA_ERROR" in err

    # The server is back: for the tasks that go on, and for a new one that tries the failed one again.
    (repo / "script.yaml").write_text(UP)
    assert (await call(repo, "submit", "--resume", "t1", "Carefully."))[1] == "t5\n"
    ends = {"t1": "INFRA_ERROR", "t2": "INFRA_ERROR", "t3": "SUCCESS", "t4": "SUCCESS", "t5": "SUCCESS"}
    await until(lambda: states(repo) == ends and is_idle(repo))
    shown = json.loads((await call(repo, "show", "t5", "--json"))[1])
    assert (shown["resumes"], shown["text"]) == ("t1", "task 1")
    assert "Added for this attempt: Carefully." in (await call(repo, "show", "t5"))[1]
    assert "paused" not in (await call(repo, "tasks"))[1]
    assert [report["task_id"] for report in reports(repo)] == ["t1", "t2", "t3", "t4", "t5"]


async def test_a_new_task_does_not_start_a_paused_queue(repo: Path) -> None:
    make(repo)
    for number in (1, 2, 3):
        await call(repo, "submit", "--no-start", f"task {number}")
    await call(repo, "submit", "--resume", "t1")
    await until(lambda: states(repo)["t1"] == "INFRA_ERROR" and is_idle(repo))
    before = states(repo)
    for number in (4, 5):
        code, out, err = await call(repo, "submit", f"task {number}")
        assert (code, out) == (0, f"t{number}\n")
        assert err.startswith("The queue is paused: t1 ended INFRA_ERROR: Nothing listens"), err
        assert "headgate submit --resume t2 resumes the queue" in err
        assert is_idle(repo)
    assert states(repo) == {**before, "t4": "QUEUED", "t5": "QUEUED"}

    (repo / "script.yaml").write_text(UP)
    assert (await call(repo, "submit", "--resume", "t2"))[:2] == (0, "t2\n")
    ends = {"t1": "INFRA_ERROR", **{f"t{number}": "SUCCESS" for number in (2, 3, 4, 5)}}
    await until(lambda: states(repo) == ends and is_idle(repo))


async def test_a_queued_task_that_is_resumed_takes_the_fixed_configuration(repo: Path) -> None:
    make(repo)
    steps = "verification: {steps: [{name: check, command: COMMAND}]}\n"
    config = (repo / "agent.yaml").read_text() + steps
    (repo / "agent.yaml").write_text(config.replace("COMMAND", "no-such-program"))
    (repo / "script.yaml").write_text(UP)
    for number in (1, 2):
        await call(repo, "submit", "--no-start", f"task {number}")
    code, _, err = await call(repo, "run", "--resume", "t1")
    assert code == 3, err
    assert states(repo) == {"t1": "INFRA_ERROR", "t2": "QUEUED"}
    assert "headgate submit --resume t2" in (await call(repo, "tasks"))[1]

    (repo / "agent.yaml").write_text("nonsense: 1\n")
    code, _, err = await call(repo, "submit", "--resume", "t2")
    assert (code, "nonsense" in err, states(repo)["t2"]) == (2, True, "QUEUED"), err
    (repo / "agent.yaml").write_text(config.replace("COMMAND", "test 1"))
    code, _, err = await call(repo, "run", "--resume", "t2")
    assert (code, states(repo)["t2"]) == (0, "SUCCESS"), err


MINE = "models: {mine: {model: script:script.yaml}}\n"
BROKEN = "verification: {steps: [{name: check, command: no-such-program}]}\n"


@pytest.mark.parametrize(
    ("fails", "first", "second", "then", "end"),
    [
        ("", (), (), ("script.yaml", "up.yaml"), "SUCCESS"),  # another model
        (MINE, ("--model", "mine"), (), ("", ""), "QUEUED"),  # the same one, named otherwise
        (BROKEN, (), (), ("no-such-program", "test 1"), "SUCCESS"),  # other steps
        (BROKEN, (), ("--config", "other.yaml"), ("", ""), "QUEUED"),  # the same steps, in another file
    ],
)
async def test_what_failed_in_one_task_holds_up_only_tasks_that_need_it(
    repo: Path,
    fails: str,
    first: tuple[str, ...],
    second: tuple[str, ...],
    then: tuple[str, str],
    end: str,
) -> None:
    make(repo)
    (repo / ("script.yaml" if fails == BROKEN else "up.yaml")).write_text(UP)
    config = (repo / "agent.yaml").read_text() + fails
    (repo / "agent.yaml").write_text(config)
    (repo / "other.yaml").write_text(config)
    await call(repo, "submit", "--no-start", *first, "task 1")
    (repo / "agent.yaml").write_text(config.replace(*then))
    assert (await call(repo, "submit", *second, "task 2"))[:2] == (0, "t2\n")
    await until(lambda: states(repo)["t1"] == "INFRA_ERROR" and is_idle(repo))
    assert states(repo) == {"t1": "INFRA_ERROR", "t2": end}


async def test_a_run_whose_own_task_fails_leaves_the_queue_alone(repo: Path) -> None:
    make(repo)
    (repo / "gate.yaml").write_text("- {text: Done., delay: 600}\n")
    run = await start(repo, "run", "one", "--model", "script:gate.yaml")
    await line_with(run.stderr, "Task t1 started")
    assert (await call(repo, "submit", "two"))[1] == "t2\n"
    assert (await call(repo, "submit", "three"))[1] == "t3\n"
    assert (await call(repo, "cancel", "t1"))[0] == 0
    await ended(run)
    await until(lambda: states(repo)["t2"] == "INFRA_ERROR" and is_idle(repo))
    assert states(repo) == {"t1": "CANCELLED", "t2": "INFRA_ERROR", "t3": "QUEUED"}
    code, out, err = await call(repo, "run", "--resume", "t3")
    assert (code, states(repo)["t3"]) == (3, "INFRA_ERROR"), out
    assert "paused" not in err


async def test_what_cannot_be_resumed(repo: Path) -> None:
    assert (await call(repo, "submit", "--no-start", "one"))[1] == "t1\n"
    words = await call(repo, "submit", "--resume", "t1", "And quickly.")
    assert words == (
        2,
        "",
        "headgate: Task t1 has not ended and continues as submitted: leave out TEXT.\n",
    )
    idle = await call(repo, "submit", "--resume", "t1", "--no-start")
    assert idle == (2, "", "headgate: Task t1 is already queued: leave out --no-start.\n")
    assert (await call(repo, "run", "--resume", "t1"))[0] == 0
    over = await call(repo, "submit", "--resume", "t1")
    assert over == (
        2,
        "",
        "headgate: Task t1 has already ended (SUCCESS): start a new one with headgate run.\n",
    )
