"""What a task is submitted with holds for it, whatever becomes of the files while it waits."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from processes import call, rows, states

CONFIG = """
flow: flows/own.yaml
model: script:script.yaml
boundaries: ["db/**"]
verification:
  steps:
    - {name: check, command: grep -qx good a.txt}
"""
FLOW = "stages: [{id: work, prompt: Do it.}]\nchecks: [verify]\n"
WEAK = (
    r"model: script:script.yaml\ntask_flow_mode: flat\nverification: {steps: [{name: t, command: test 1}]}\n"
)
ATTACK = """
- calls:
    - write_file: {path: agent.yaml, content: "WEAK"}
    - write_file: {path: flows/own.yaml, content: "stages: [{id: idle, prompt: Be idle.}]\\n"}
    - shell: {command: "printf 'WEAK' > agent.yaml; echo 'stages: [Idle.]' > flows/own.yaml"}
    - write_file: {path: a.txt, content: "good\\n"}
    - stage_done: {stage: work, summary: Done.}
""".replace("WEAK", WEAK)
VICTIM = """
- calls:
    - write_file: {path: a.txt, content: "bad\\n"}
    - write_file: {path: db/one.sql, content: "DROP TABLE t;\\n"}
    - stage_done: {stage: work, summary: Done.}
- calls:
    - write_file: {path: a.txt, content: "good\\n"}
    - stage_done: {stage: work, summary: Done.}
  expect: {last: 'Verification failed: step "check" (grep -qx good a.txt)'}
"""
LAST = "- calls: [{stage_done: {stage: work, summary: Nothing to do.}}]\n"


@pytest.fixture
def queue_repo(repo: Path) -> Path:
    (repo / "flows").mkdir()
    (repo / "flows" / "own.yaml").write_text(FLOW)
    (repo / "db").mkdir()
    (repo / "db" / "one.sql").write_text("CREATE TABLE t;\n")
    (repo / "a.txt").write_text("bad\n")
    (repo / "agent.yaml").write_text(CONFIG)
    (repo / "attack.yaml").write_text(ATTACK)
    (repo / "victim.yaml").write_text(VICTIM)
    return repo


async def submit(repo: Path, *args: str, **env: str) -> str:
    """Queues a task; returns what was said about it on standard error, before what can be done next."""
    code, _, err = await call(repo, "submit", "--no-start", *args, **env)
    assert code == 0, err
    said, then, _ = err.partition("headgate watch ")
    assert then, err
    return said


async def drain(repo: Path, **env: str) -> dict[str, str]:
    code, _, err = await call(repo, "work", **env)
    assert code == 0, err
    return states(repo)


async def report(repo: Path, task: str) -> Any:
    return json.loads((await call(repo, "report", task, "--json"))[1])


@pytest.mark.parametrize("allowed", [False, True])
async def test_a_task_cannot_rewrite_the_rules_of_the_tasks_behind_it(
    queue_repo: Path, allowed: bool
) -> None:
    config = CONFIG + ("allow_config_edits: true\n" if allowed else "")
    (queue_repo / "agent.yaml").write_text(config)
    await submit(queue_repo, "one", "--model", "script:attack.yaml")
    await submit(queue_repo, "two", "--model", "script:victim.yaml")
    assert await drain(queue_repo) == {"t1": "SUCCESS", "t2": "SUCCESS"}
    second = await report(queue_repo, "t2")
    assert (second["verified"], second["verify_loops"], second["flow"]) == (True, 1, "own")
    assert second["tool_error_counts"] == {"write_file": 1}
    assert (queue_repo / "db" / "one.sql").read_text() == "CREATE TABLE t;\n"
    changed = ["a.txt", "agent.yaml", "flows/own.yaml"] if allowed else ["a.txt"]
    assert (await report(queue_repo, "t1"))["files_changed"] == changed
    assert ((queue_repo / "agent.yaml").read_text() == config) == (not allowed)
    assert ((queue_repo / "flows" / "own.yaml").read_text() == FLOW) == (not allowed)
    # What was allowed to change holds for what is submitted from now on.
    (queue_repo / "last.yaml").write_text(LAST)
    await submit(queue_repo, "three", "--model", "script:last.yaml")
    assert (await drain(queue_repo))["t3"] == "SUCCESS"
    assert (await report(queue_repo, "t3"))["flow"] == ("flat" if allowed else "own")


async def test_a_retry_takes_the_configuration_as_it_is_now(queue_repo: Path) -> None:
    (queue_repo / "script.yaml").write_text("- error: {kind: refused}\n")
    await submit(queue_repo, "one")
    assert await drain(queue_repo) == {"t1": "INFRA_ERROR"}
    (queue_repo / "agent.yaml").write_text("model: script:script.yaml\ntask_flow_mode: flat\n")
    (queue_repo / "script.yaml").write_text("- calls: [{stage_done: {stage: work, summary: Yes.}}]\n")
    code, out, _ = await call(queue_repo, "run", "--resume", "t1", "--json")
    told = json.loads(out.splitlines()[-1])
    assert (code, told["state"], told["flow"], told["verified"]) == (0, "SUCCESS", "flat", False)


async def test_the_model_is_pinned_and_its_key_is_not_stored(queue_repo: Path, tmp_path: Path) -> None:
    """The model's address is the submitter's; the key is taken from the process that does the work."""
    (queue_repo / "agent.yaml").write_text("task_flow_mode: flat\n")
    env = {"HEADGATE_BASE_URL": "http://127.0.0.1:9/v1", "HEADGATE_MODEL": "openai/first"}
    await submit(queue_repo, "one", HEADGATE_API_KEY="sk-topsecret", OPENAI_API_KEY="sk-other", **env)
    everything = repr(rows(queue_repo))
    assert "openai/first" in everything
    assert "127.0.0.1:9" in everything
    assert not [word for word in ("sk-topsecret", "sk-other") if word in everything]
    await call(queue_repo, "work", HEADGATE_MODEL="openai/second", HEADGATE_BASE_URL="http://127.0.0.1:8/v1")
    told = await report(queue_repo, "t1")
    assert (told["state"], told["model"]) == ("INFRA_ERROR", "openai/first")
    assert "127.0.0.1:9" in told["summary"]


PACKAGE = """
- calls:
    - shell: {command: pwd > where.txt}
    - stage_done: {stage: work, summary: Done.}
"""


@pytest.fixture
def monorepo(repo: Path) -> Path:
    for name in ("api", "web"):
        (repo / "packages" / name).mkdir(parents=True)
    (repo / "script.yaml").write_text(PACKAGE)
    return repo


def in_package(name: str) -> str:
    return f"model: script:script.yaml\ntask_flow_mode: flat\nmonorepo: {{package: {name}}}\n"


async def test_a_task_stays_in_the_package_it_was_submitted_for(monorepo: Path) -> None:
    (monorepo / "agent.yaml").write_text(in_package("./packages/api/"))
    assert await submit(monorepo, "one") == "Task t1 will work on the package packages/api.\n"
    assert (await report(monorepo, "t1"))["package"] == "packages/api"
    shown = (await call(monorepo, "show", "t1"))[1]
    assert shown.startswith("t1  QUEUED  one\nPackage: packages/api\n")
    assert await submit(monorepo, "two", "--package", "packages/web") == (
        "Task t2 will work on the package packages/web.\n"
    )
    (monorepo / "agent.yaml").write_text(in_package("packages/web"))
    assert await drain(monorepo) == {"t1": "SUCCESS", "t2": "SUCCESS"}
    for task, name in (("t1", "api"), ("t2", "web")):
        told = await report(monorepo, task)
        assert (told["package"], told["files_changed"]) == (
            f"packages/{name}",
            [f"packages/{name}/where.txt"],
        )
        assert f"| package | packages/{name} |" in (await call(monorepo, "report", task))[1]
        shown = (await call(monorepo, "show", task))[1]
        assert f"started: flat flow, script:script.yaml, package packages/{name}; " in shown


async def test_a_package_is_named_from_the_root_or_from_the_working_directory(monorepo: Path) -> None:
    (monorepo / "agent.yaml").write_text("model: script:script.yaml\ntask_flow_mode: flat\n")
    said = await submit(monorepo / "packages" / "api", "one", "--package", ".")
    assert said == "Task t1 will work on the package packages/api.\n"
    said = await submit(monorepo / "packages" / "api", "one", "--package", "packages/web")
    assert said == "Task t2 will work on the package packages/web.\n"
    assert await submit(monorepo, "one") == ""


@pytest.mark.parametrize(
    ("package", "message"),
    [
        ("packages/gone", "--package: there is no directory packages/gone."),
        (".", "--package is the repository itself: name a directory in it, or leave it out."),
        ("..", "--package: .. points outside the repository."),
    ],
)
async def test_a_package_that_is_none_is_refused_at_once(monorepo: Path, package: str, message: str) -> None:
    for command in ("submit", "run"):
        code, _, err = await call(monorepo, command, "one", "--package", package)
        assert (code, err) == (2, f"headgate: {message}\n")


async def test_a_task_goes_on_although_the_configuration_is_broken_now(repo: Path) -> None:
    await submit(repo, "one")
    (repo / "agent.yaml").write_text("modle: x\n")
    code, _, err = await call(repo, "run", "--resume", "t1")  # would take the configuration as it is now
    assert (code, "modle" in err) == (2, True)
    assert await drain(repo) == {"t1": "SUCCESS"}


@pytest.mark.parametrize("state", ["QUEUED", "RUNNING"])
async def test_a_task_of_a_version_that_stored_no_configuration_uses_the_present_one(
    queue_repo: Path, state: str
) -> None:
    await submit(queue_repo, "one", "--model", "script:victim.yaml")
    with closing(sqlite3.connect(queue_repo / ".headgate" / "headgate.db")) as db, db:
        place = "place" if state == "QUEUED" else "NULL"
        db.execute(f"UPDATE tasks SET pin = NULL, state = ?, place = {place}", (state,))
    assert await drain(queue_repo) == {"t1": "SUCCESS"}
    told = await report(queue_repo, "t1")
    assert (told["verified"], told["verify_loops"], told["flow"]) == (True, 1, "own")
