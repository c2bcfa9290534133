"""A person edits the configuration, or secrets, while a task runs: what stays, and what holds at once."""

from pathlib import Path

import pytest
from undo_cases import Bench, make_bench, person_at_check, shell, steps, write

from headgate.config import load_config


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return make_bench(tmp_path, steps("true"))


async def test_what_a_person_writes_between_commands_stays(bench: Bench) -> None:
    before = bench.text("agent.yaml")
    report = await bench.run(
        shell("echo one > one.txt"),
        lambda: bench.put("agent.yaml", f"{before}shell_timeout: 7\n"),
        lambda: bench.put("agent.json", "{}"),
        shell("echo two > two.txt"),
        (bench.repo / "agent.json").unlink,
    )
    assert (report.state, report.verified, report.warnings) == ("SUCCESS", True, ())
    assert report.files_changed == ("one.txt", "two.txt")
    assert not (bench.repo / "agent.json").exists()
    loaded = load_config(bench.repo, environ={}, flags={}, user_file=bench.repo / "none.yaml")
    assert loaded.config.shell_timeout == 7


async def test_a_secret_that_a_person_writes_is_hidden_without_a_command(bench: Bench) -> None:
    await bench.run(
        ("read_file", {"path": "a.txt"}),
        lambda: bench.put(".env", "TOKEN=sk-live-0123456789abcdef\n"),
        lambda: bench.put("b.txt", "It is sk-live-0123456789abcdef.\n"),
        ("read_file", {"path": "b.txt"}),
    )
    assert "It is [redacted]." in bench.doer.told
    assert "sk-live" not in bench.doer.told


async def test_a_command_changes_what_a_person_wrote(bench: Bench) -> None:
    mine = bench.text("agent.yaml") + "shell_timeout: 7\n"
    report = await bench.run(
        shell("true"),
        lambda: bench.put("agent.yaml", mine),
        shell("echo 'sandbox: off' >> agent.yaml; true"),
        write("new.txt", "new\n"),
    )
    assert (bench.text("agent.yaml"), report.files_changed) == (mine, ("new.txt",))


async def test_what_a_person_writes_while_a_step_runs_is_kept_elsewhere(tmp_path: Path) -> None:
    waiting = "touch runs.log; until [ -e edited.log ]; do sleep 0.02; done"
    bench = make_bench(tmp_path, steps(waiting))
    before = bench.text("agent.yaml")
    mine = f"{before}shell_timeout: 7\n"
    with person_at_check(bench.repo, lambda: bench.put("agent.yaml", mine)):
        report = await bench.run(write("new.txt", "new\n"))
    assert (report.verified, bench.text("agent.yaml")) == (True, before)
    [warning] = report.warnings
    said, _, rest = warning.partition(" What was there is kept in ")
    assert said == (
        "agent.yaml was changed while a command ran, and that was undone, because it configures this task."
    )
    place, _, advice = rest.partition(". If")
    assert (Path(place).read_text(), advice) == (mine, " it was you, do it again when the task has ended")
