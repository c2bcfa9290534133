"""A flow as text for people: the order of its stages, their gates, and the ways back."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from headgate.core import (
    DRIVE,
    DRIVEN,
    PLANNER,
    SCOUTS,
    VERIFY_CHECK,
    Budget,
    CheckSpec,
    Flow,
    Stage,
    ToolScope,
    ToolSpec,
    ViewPolicy,
    fix_stage,
    run_order,
    times,
)

_EXHAUSTED = {
    "final_turn": "then one last turn, and the stage fails",
    "advance": "then one last turn, and the flow continues",
    "skip": "then the stage is skipped",
    "fail": "then the stage fails",
    "stuck": "then the task is stuck",
}
_WITHOUT_LAST_TURN = {"final_turn": _EXHAUSTED["fail"], "advance": "then the flow continues"}
_WHEN = {
    "suspects": "the first check fails and shows where to look",
    "no_suspects": "the first check passes, or does not show where to look",
    "again": "in every round but the first",
    "replan": "the plan is due to be rewritten",
}
_LABEL_WIDTH = 7


def outline(flow: Flow) -> str:
    """`explore -> plan -> implement`; a stage that runs once for each step of the plan ends in `*`.

    A bar stands between stages that may run at once: `look | measure -> plan`.
    """
    return _outline(flow.stages, flow.max_parallel)


def _outline(stages: Iterable[Stage], at_once: int) -> str:
    text = ""
    for stage in run_order(stages):
        shown = stage.stages and stage.kind != PLANNER
        inner = f"{stage.id}({_outline(stage.stages, stage.max_parallel)})" if shown else stage.id
        joint = " | " if at_once > 1 and not stage.needs else " -> "
        text += f"{joint if text else ''}{inner}{'*' if stage.foreach else ''}"
    return text


def draw_text(flow: Flow, tools: Iterable[ToolSpec] = (), checks: Sequence[CheckSpec] = ()) -> str:
    """The flow for people: each stage with its gates, then what follows the last one.

    `checks` are those that the flow may name.
    """
    lines = [f"{_line(flow.name)}: {_line(flow.description)}" if flow.description else _line(flow.name)]
    before = [("checks", flow.begin), ("facts", ", ".join(SCOUTS[name] for name in flow.scouts))]
    if known := [(name, text) for name, text in before if text]:
        lines += ["", "Before the first stage", *_rows(known)]
    for number, stage in _numbered(flow.stages):
        title = f"{_line(stage.title)} ({stage.id})" if stage.label else stage.id
        lines += ["", f"{number}. {title}", *_rows(_stage_rows(flow, stage, checks))]
    if not flow.checks and flow.verifies:
        return "\n".join(lines) + "\n"
    lines += ["", "After the last stage", *_rows(_closing_rows(flow, fix_stage(flow, tools), checks))]
    return "\n".join(lines) + "\n"


def _numbered(stages: Iterable[Stage], above: str = "") -> Iterator[tuple[str, Stage]]:
    """Every stage with its number: that of the group around it first."""
    for number, stage in enumerate(run_order(stages), 1):
        yield f"{above}{number}", stage
        yield from _numbered(stage.stages, f"{above}{number}.")


def _repeat(group: Stage) -> Iterator[tuple[str, str]]:
    """How a group goes on."""
    repeat = group.repeat
    if group.max_parallel > 1:
        yield "at once", f"up to {group.max_parallel} of its stages"
    if group.join == "any":
        yield "ends", "when one of its stages has completed"
    if repeat is None:
        return
    yield "repeats", f"until {repeat.until.rpartition('.')[0]} passes"
    idle = (
        f", or {_count(repeat.no_progress, 'round')} in a row without a change" if repeat.no_progress else ""
    )
    yield "stuck", f"after {_count(repeat.max, 'failed round')}{idle}"
    if repeat.replan_every:
        yield "replan", f"after {_count(repeat.replan_every, 'failed round')} in a row"


def _stage_rows(flow: Flow, stage: Stage, known: Sequence[CheckSpec]) -> Iterator[tuple[str, str]]:
    if stage.needs:
        yield "needs", ", ".join(stage.needs)
    if stage.foreach == "recipe":
        yield "each", "recipe that the planner has executed; its results go back to the planner"
    else:
        if stage.foreach:
            yield "each", f"step of the plan; {_steps(flow)}"
        if stage.when:
            yield "when", _WHEN.get(stage.when, stage.when)
        yield from _repeat(stage) if stage.is_group else _gates(stage, known)
    if stage.agent:
        yield "agent", f"its own, told: {stage.agent.context_transfer}"
    if stage.model:
        yield "model", _line(stage.model)
    if stage.priority != "normal":
        yield "order", f"{stage.priority} priority"
    if not stage.required:
        yield "fails", "and the flow continues"


def _gates(stage: Stage, known: Sequence[CheckSpec]) -> Iterator[tuple[str, str]]:
    """What a stage lets through: in, the tools; out, the checks; and for how long."""
    if stage.kind == DRIVE:
        yield "kind", "drive: the model starts and ends the stages in it"
        yield from _repeat(stage)
    elif stage.kind == PLANNER:
        yield "kind", "planner: the model decides which recipe is executed next"
        yield from ((name, str(value)) for name, value in stage.settings.items())
    elif stage.kind not in ("talk", DRIVEN):
        yield "kind", stage.kind
        for name, value in stage.settings.items():
            yield name, _line(", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value))
        return
    if asked := stage.candidates:
        what = {"line": "one line", "missing": "a missing line"}.get(asked.ask, f"a whole {asked.ask}")
        yield "asks", f"for {what}, about {_count(asked.suspects, 'place')}"
        yield "ends", "with the first answer that passes"
        yield "budget", _budget(stage.budget, _EXHAUSTED | _WITHOUT_LAST_TURN)
        return
    yield "tools", _tools(stage.tools)
    if checks := ", ".join(_stage_checks(stage.checks, known)):
        yield "checks", checks
    yield "ends", _ending(stage)
    yield "budget", _budget(stage.budget, _EXHAUSTED)
    if stage.kind in ("talk", DRIVE):
        yield "view", _view(stage.view)


def _steps(flow: Flow) -> str:
    again = f"if a step fails, the plan is rewritten, at most {times(flow.replan_max)}"
    text = again if flow.replan_max else "if a step fails, the flow fails"
    return f"{text}; steps that only read are skipped" if flow.skip_readonly else text


def _tools(scope: ToolScope) -> str:
    names = ", ".join(map(_line, scope.allow or ()))
    allowed = "all" if scope.allow is None else f"only {names}" if names else "none"
    blocked = ", ".join(map(_line, scope.block))
    return f"{allowed}, never {blocked}" if blocked else allowed


def _ending(stage: Stage) -> str:
    if stage.kind in (DRIVE, DRIVEN):
        return "when its stages have ended" if stage.kind == DRIVE else "by complete_task or fail_task"
    if stage.advance == "rules":
        return "as soon as its checks hold"
    return "by stage_done or a reply without calls" if stage.allow_missing_done else "by stage_done"


def _stage_checks(checks: Mapping[str, int], known: Sequence[CheckSpec]) -> Iterator[str]:
    """The checks of a stage in words, counts first."""
    for spec in sorted(known, key=lambda spec: spec.argument != "count"):
        if number := int(checks.get(spec.name, 0)):
            name = spec.name.replace("_", " ")
            if spec.argument == "flag":
                yield spec.drawn or name
            else:
                yield spec.drawn.format(_count(number, spec.counted)) if spec.drawn else f"{name}: {number}"


def _budget(budget: Budget, endings: Mapping[str, str]) -> str:
    spent = endings[budget.exhausted]
    retries = f", {_count(budget.retries, 'retry', 'retries')}" if budget.retries else ""
    seconds = f" or {budget.seconds:g} s" if budget.seconds else ""
    seconds += f" or {budget.total_seconds:g} s in all" if budget.total_seconds else ""
    return f"{_count(budget.turns, 'turn')}{seconds}{retries}, {spent}"


def _view(view: ViewPolicy) -> str:
    parts = ["the flow's conversation"]
    if view.transcript == "own":
        notes = (
            f", notes of the last {_count(view.notes_window, 'stage')}" if view.notes_window else ", no notes"
        )
        parts = [f"its own conversation{notes}"]
    if view.history == "tail":
        first = "" if view.keep_first else ", without its first"
        parts.append(f"the last {_count(view.max_messages, 'message')}{first}")
    if view.truncate_chars:
        whole = f", the last {view.truncate_keep_last} whole" if view.truncate_keep_last else ""
        parts.append(f"tool results cut to {view.truncate_chars} characters{whole}")
    return "; ".join(parts)


def _closing_rows(flow: Flow, fix: Stage | None, known: Sequence[CheckSpec]) -> Iterator[tuple[str, str]]:
    held = ", ".join(_flow_checks(flow.checks, known))
    yield "checks", held or ("none" if flow.verifies else "none: the work counts as done")
    if not held:
        return
    if fix is None:
        yield "stuck", "as soon as they fail"
        return
    yield "fix", f"failures go back to {fix.id}"
    if not flow.checks.get("verify"):
        return
    idle = fix.budget.idle_rounds
    unchanged = f", or {_count(idle, 'round')} in a row without a change" if idle else ""
    yield "stuck", f"after {_count(fix.budget.verify_loops, 'failed verification')}{unchanged}"
    if fix.budget.replan_every:
        replan = f"{_line(flow.replan.title)}, tools {_tools(flow.replan.tools)}"
        yield "replan", f"after {_in_a_row(fix.budget)}: {replan}; then {fix.id} again"


def _flow_checks(checks: Mapping[str, int], known: Sequence[CheckSpec]) -> list[str]:
    """The checks that a flow itself has; those of stages mean nothing there."""
    return [spec.name for spec in (*known, VERIFY_CHECK) if spec.place != "stage" and checks.get(spec.name)]


def _in_a_row(budget: Budget) -> str:
    return f"{_count(budget.replan_every, 'failure')} in a row"


def _rows(rows: Iterable[tuple[str, str]]) -> list[str]:
    return [f"   {name.ljust(_LABEL_WIDTH)} {text}" for name, text in rows]


def _count(number: int, one: str, many: str = "") -> str:
    return f"{number} {one if number == 1 else many or f'{one}s'}"


def _line(text: str) -> str:
    """One line without anything that could steer a terminal."""
    return "".join(char if char.isprintable() else " " for char in " ".join(text.split()))
