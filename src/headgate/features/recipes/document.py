"""The document about a task as it stands, for planners and the steps that they have executed.

It is a fold: it follows from the events, and the model has no say in it. Its words are quoted.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from headgate.core import (
    CHARS_PER_CODE_TOKEN,
    DONE_TOOL,
    SIGNALS,
    State,
    cut_text,
    list_names,
    quote_lines,
    render_notes,
    share_out,
)
from headgate.features.recipes.events import (
    Executions,
    StepStatus,
    TaskProgress,
    executed_recipes,
    say_how,
)
from headgate.features.recipes.execution import Execution
from headgate.run import Job, Transcript, list_files, say_facts

SECTION_CHARS = 4_000
"""Of each section of the document."""
CALLED_CHARS = 600
"""Of what one call returned, in the document about a task."""


def render_context(
    state: State,
    facts: Sequence[str] = (),
    room: int = 0,
    *,
    called: Mapping[str, Sequence[str]] | None = None,
    in_step: str = "",
) -> str:
    """The document about a task as it stands: numbered sections, each of bounded length.

    `facts`: what is known about the repository. `room`: the characters that it may have, if that is less;
    short sections stay whole then, and long ones are cut alike. `called`: what tools returned, by step.
    `in_step`: the step of whose prompt it is a part, which has the request and the goals already.
    """
    known = [(one, _as_begun(one, progress, in_step)) for one, progress in executed_recipes(state)]
    steps = {one.step_id(step) for one, progress in known for step in progress.statuses}
    notes = [(name, note) for name, note in state.notes.items() if name not in steps]
    files = [("read", state.files_read), ("changed", state.files_changed)]
    told = [f"Files {what}: {list_names(list(names), 20, 800)}." for what, names in files if names]
    request = [quote_lines(state.text.strip()), quote_lines(state.constraints.render())]
    noted = quote_lines(render_notes(notes, SECTION_CHARS // 2))
    sections = [
        ("Request", ["It stands at the beginning of this prompt."] if in_step else request),
        ("Analysis", [quote_lines("\n".join(facts))]),
        ("Gathered context", [*told, noted]),
        ("Plan", [_plan(one, progress, bool(in_step)) for one, progress in known]),
        ("Tool results", [_results(one, progress, called or {}) for one, progress in known]),
        ("State", [_state(progress) for one, progress in known if one.number == state[Executions].last]),
    ]
    head = f"# Context of task {state.task}".rstrip()
    titles = [f"## {number}. {title}\n\n" for number, (title, _) in enumerate(sections)]
    said = ["\n".join(filter(None, texts)) or "Nothing yet." for _, texts in sections]
    limit = SECTION_CHARS
    if room:
        left = room - len(head) - 1 - sum(len(title) + 2 for title in titles)
        limit = min(limit, share_out([len(text) for text in said], max(left, 0)))
    cut = [cut_text(text, limit, f"section {number}") for number, text in enumerate(said)]
    parts = [f"{title}{text}" for title, text in zip(titles, cut, strict=True)]
    return "\n\n".join([head, *parts]) + "\n"


def _as_begun(execution: Execution, progress: TaskProgress, step: str) -> TaskProgress:
    """The progress as it is for a step that is about to begin: its start is not in the log yet."""
    statuses: dict[str, StepStatus] = {
        name: "running" if execution.step_id(name) == step else how for name, how in progress.statuses.items()
    }
    return replace(progress, statuses=statuses)


def _plan(execution: Execution, progress: TaskProgress, in_step: bool) -> str:
    goals = "its goals are those of this step" if in_step and progress.running else execution.told_goals
    return f"{execution.number}. {execution.task_type}: {goals} - {say_how(progress)}"


def _results(execution: Execution, progress: TaskProgress, called: Mapping[str, Sequence[str]]) -> str:
    """What the tools and the steps of one execution returned: short results whole, long ones alike."""
    texts: dict[str, list[str]] = {}
    for step in progress.statuses:
        result = progress.step_results.get(step, "")
        # A step that ends by its rules has no words of its own: its result is what its tools returned.
        returned = [text for text in called.get(execution.step_id(step), ()) if not _holds(result, text)]
        texts[step] = [*returned, *filter(None, [result])]
    sizes = [len(text) + 1 for results in texts.values() for text in results]
    limit = share_out(sizes, SECTION_CHARS // 2)
    lines = [
        "\n".join(
            (
                f"### {execution.step_id(step)}",
                *(quote_lines(cut_text(text, limit, "the result")) for text in one),
            )
        )
        for step, one in texts.items()
        if one
    ]
    return "\n".join(lines)


def _holds(result: str, returned: str) -> bool:
    return returned.partition(": ")[2][:200] in result


def _state(progress: TaskProgress) -> str:
    """The state of the latest execution."""
    rows = {
        "task_type": progress.task_type,
        "current_step": progress.current_step,
        "max_steps": progress.max_steps,
        "completed_steps": ", ".join(progress.completed_steps) or "none",
        "pending_steps": ", ".join(progress.pending_steps) or "none",
        "step_results": ", ".join(progress.step_results) or "none",
    }
    handed_back = f"\nHanded back: {' '.join(progress.reason.split())}" if progress.reason else ""
    return "\n".join(f"- {name}: {value}" for name, value in rows.items()) + handed_back


def describe_task(job: Job, tokens: int = 0, step: str = "") -> str:
    """The document about the task as it stands. `tokens`: how many it may have, by an estimate.

    `step`: the stage in whose prompt it stands.
    """
    steps = [f"Verification: {step}" for step in job.task.steps]
    facts = [*say_facts(job), list_files(job.place.context.workspace), *steps]
    room = int(tokens * CHARS_PER_CODE_TOKEN)
    called = {
        name: texts
        for name, transcript in job.memory.transcripts.items()
        if "." in name and (texts := _tool_results(transcript))
    }
    text = render_context(job.state, [*filter(None, facts)], room, called=called, in_step=step)
    return job.place.redact(text)


def _tool_results(transcript: Transcript) -> list[str]:
    """What tools returned in a step, each with the name of the tool; signals left out."""
    names = {call.id: call.name for message in transcript.messages for call in message.calls}
    return [
        f"{names[message.call_id]}: {cut_text(message.content, CALLED_CHARS, 'the result')}"
        for message in transcript.messages
        if message.role == "tool" and names.get(message.call_id, DONE_TOOL) not in SIGNALS
    ]
