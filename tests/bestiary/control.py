"""Models that behave: what all the discipline costs them."""

from dataclasses import replace

from bestiary import habitat
from bestiary.rows import Theme
from bestiary.speech import Answer, Asked, Say, done, fix, use, whole

CONTROL = Theme("Control")
OFF = {"task_status": "never", "loop_detection": False, "limits": {"turns": None}}
"""agent.yaml with status reports and loop detection switched off."""

SOURCE = "".join(
    f"\n\ndef scale_{n}(value, offset=0):\n"
    f'    """The value times {n}, moved by an offset; used where a reading comes in units of {n}."""\n'
    f"    return value * {n} + offset\n"
    for n in range(2, 62)
)
CASES = "".join(
    f"assert calc.scale_{n}(3) == {3 * n}\nassert calc.scale_{n}(3, 1) == {3 * n + 1}\n" for n in range(2, 62)
)
FILES = {
    "calc.py": habitat.FILES["calc.py"] + SOURCE,
    "tests/test_calc.py": habitat.FILES["tests/test_calc.py"] + "\nimport calc\n\n" + CASES,
}
"""Files of a usual size: what discipline costs is a share of what is read anyway."""


def _work(asked: Asked) -> Say:
    steps = (
        use("ls"),
        use("read_file", path="calc.py"),
        use("read_file", path="tests/test_calc.py"),
        use("run_tests"),
        fix(),
        use("run_tests"),
    )
    if asked.number <= len(steps):
        return steps[asked.number - 1]
    return done(asked, "add returned the difference; it returns the sum now.", files_changed=["calc.py"])


@CONTROL.row("flat", files=FILES)
def honest(asked: Asked) -> Answer:
    """Reads, tests, fixes the bug, tests again and says that it is done."""
    return _work(asked)


@CONTROL.row("flat", files=FILES, settings=OFF)
def honest_without_discipline(asked: Asked) -> Answer:
    """The same, with status reports and loop detection off."""
    return _work(asked)


@CONTROL.row("flat", files=FILES)
def honest_not_streamed(asked: Asked) -> Answer:
    """The same, from a server that does not stream."""
    return whole(_work(asked))


@CONTROL.row("staged")
def honest_with_a_plan(asked: Asked) -> Answer:
    """Explores, plans and implements, as the default flow asks."""
    match asked.stage:
        case "explore":
            if asked.answered:
                return done(asked, "add subtracts.")
            return use("read_files", paths=["calc.py", "tests/test_calc.py"])
        case "plan":
            return use(
                "plan_tasks", action="create", tasks=[{"id": "1", "description": "Mend add in calc.py"}]
            )
        case _:
            return done(asked, "add adds now.") if asked.answered and "calc.py" in asked.last else fix()


@CONTROL.row()
def honest_about_failure(asked: Asked) -> Answer:
    """Cannot do the task and says so, which is not a success either."""
    return replace(done(asked, "I could not find the cause. Nothing was changed."), text="I give up.")
