"""What a conversation starts with: the system prompt, the task, its constraints, notes of earlier stages."""

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath

from headgate.config import fill, prompt
from headgate.core import (
    CHARS_PER_CODE_TOKEN,
    InputDoc,
    Note,
    Person,
    Plan,
    Stage,
    clean_text,
    cut_text,
    fence,
    list_names,
    plan_items,
    render_lines,
    render_notes,
    render_parts,
    render_variables,
    show_path,
    stages_before,
)
from headgate.errors import ToolError
from headgate.first_use import dataclass
from headgate.models import find_window
from headgate.reading import condense_output
from headgate.run.feature import Attached
from headgate.run.job import Job
from headgate.run.stage import fact_stages, leader_of, say_facts
from headgate.run.transcript import Transcript, whole_lines
from headgate.tools import listing, render_plan
from headgate.tree import Workspace

# AGENTS.md: what a repository wants every agent to know.


NAME = "AGENTS.md"
LIMIT = 8_000


def read_guide(workspace: Workspace, path: str) -> str:
    """The text of one such file, shortened if it is long; nothing if it is not there or cannot be read."""
    try:
        text = (
            clean_text(workspace.read(show_path(path)).text).strip()
            if workspace.exists(show_path(path))
            else ""
        )
    except ToolError:
        return ""
    return text if len(text) <= LIMIT else f"{text[:LIMIT]}\n[the rest of {show_path(path)} is cut]"


def nested_guides(workspace: Workspace, transcript: Transcript, read: tuple[str, ...]) -> dict[str, str]:
    """The nearest guide above each file that was read, unless this conversation has it; the root's it has.

    By its path, each as it is to be shown.
    """
    found: dict[str, str] = {}
    for path in read:
        for folder in PurePosixPath(path).parents:
            guide = str(folder / NAME)
            if str(folder) == "." or guide == path:
                break
            if guide in transcript.guides_given or guide in found:
                break
            if text := read_guide(workspace, guide):
                found[guide] = f"\n\n[{show_path(guide)}, which applies to this file]\n{text}"
                break
    return found


LISTED = 40
LISTED_CHARS = 2_000
"""What is told of the repository's files: a few hundred tokens, read once."""
SHARE = 0.1
"""Of the context window, for the notes of earlier stages together, and as much for the plan."""
TRANSFERRED = 0.5
"""Of the context window, for the conversation that an agent is given."""
SAID = 0.25
"""Of the context window, for what a person said while the task ran."""
LONGEST_TASK = 0.5
"""Of the context window, for the task's own words."""
ATTACHED = 0.2
"""Of the context window, for what is attached to the task."""
MOST_ATTACHED = 60_000
"""In characters, however large the window is."""
UNKNOWN_WINDOW = 16_384
"""In tokens, where neither the server nor the settings tell it."""
MOST_CHARS = 24_000
"""Notes and plans are no longer than this, however large the window is: every stage reads them."""
NAMES_CHARS = 2_000


def system_message(job: Job, stage: Stage) -> str:
    """The same bytes for every turn of a conversation: nothing that changes belongs here."""
    parts = [prompt(job.pinned.system_prompt)]
    if job.flow.system:
        parts.append(render_parts(job.flow.system))
    if stage.view.transcript == "own" and stage.system:
        parts.append(render_parts(stage.system))
    known = stage.agent.variables(job.flow.variables) if stage.agent else job.flow.variables
    shadowed = stage.variables if stage.view.transcript == "own" else ()
    if shown := {name: value for name, value in known.items() if name not in shadowed}:
        parts.append(f"<variables>\n{render_variables(shown)}\n</variables>")
    if job.pinned.agents_md and (guide := read_guide(job.place.context.workspace, NAME)):
        parts.append(f"The repository's {NAME}:\n{guide}")
    return "\n\n".join(parts)


@dataclass(frozen=True, slots=True)
class Opening:
    """The first user message, and what features put into it."""

    text: str
    attached: Sequence[Attached]


def opening_message(job: Job, stage: Stage) -> str:
    """The words of the first user message."""
    return open_task(job, stage).text


def open_task(job: Job, stage: Stage) -> Opening:
    """The first user message. It stays in view, and so do the task and its constraints.

    So it must not fill the window: the task, what came with it and what features attach have a share
    each. A stage in a part of the work has a budget, and goals of its own: there, a task takes a quarter.
    """
    window, features = window_of(job, stage), job.parts.features
    attached = [feature.attaches(job, stage, window) for feature in features if feature.attaches]
    return Opening("\n\n".join(_opening_parts(job, stage, attached)), attached)


def _opening_parts(job: Job, stage: Stage, attached: Sequence[Attached]) -> list[str]:
    most = stage.view.max_tokens if stage.execution else None
    share = most / 4 if most else window_of(job, stage) * LONGEST_TASK
    request = cut_text(job.task.request, int(share * CHARS_PER_CODE_TOKEN), "the task")
    parts = [f"Task:\n{request}"]
    if said := list(job.state[Person].said.values()):
        room = said_room(job, stage)
        parts.append(f"Said by the user after that, which counts like the task:\n{render_lines(said, room)}")
    if constraints := job.task.constraints.render():
        parts.append(constraints)
    if job.task.attached:
        parts.append(_attached(job, stage))
    parts += [each.text for each in attached if each.text]
    parts += _input_docs(job, stage)
    if stage.agent and stage.agent.context_transfer == "minimal":
        return parts
    if files := list_files(job.place.context.workspace):
        parts.append(files)
    parts += say_facts(job, window_of(job, stage) * SHARE)
    if job.pinned.earlier_report:
        report = cut_text(job.pinned.earlier_report, 2 * plan_room(job, stage), "the report")
        parts.append(fill("earlier_attempt", report=report))
    if job.pinned.followed:
        parts.append(job.pinned.followed.render(plan_room(job, stage)))
    if stage.view.transcript == "own":
        parts += _from_earlier_stages(job, stage)
    return parts


def _attached(job: Job, stage: Stage) -> str:
    """What came with the task, in a fence that nothing in it can close."""
    most = stage.view.max_tokens if stage.execution else None
    tokens = min(window_of(job, stage), most or MOST_ATTACHED) * ATTACHED
    text = condense_output(job.task.attached, min(int(tokens * CHARS_PER_CODE_TOKEN), MOST_ATTACHED))
    return f"Attached to the task:\n{fence(text)}"


def find_missing_docs(job: Job, stage: Stage) -> str:
    """What a stage cannot do without and is not there, in a sentence; empty if nothing is missing."""
    for doc in stage.input_docs:
        if doc.path_type == "repo" and not doc.optional and not _read_document(job, stage, doc):
            return f"{doc.path}, which the stage is to be given, is not there or cannot be read"
    return ""


def _input_docs(job: Job, stage: Stage) -> list[str]:
    """The documents that a stage is given, each in the tokens that it may have."""
    parts = []
    for doc in stage.input_docs:
        if text := _read_document(job, stage, doc):
            kept = cut_text(text.strip(), int(doc.max_tokens * CHARS_PER_CODE_TOKEN), doc.path)
            kept = kept.replace("</document", "<\\/document")  # what is in it cannot end it
            parts.append(f'<document path="{doc.path}">\n{kept}\n</document>')
    return parts


def _read_document(job: Job, stage: Stage, doc: InputDoc) -> str:
    if doc.path_type == "turn":
        leader = leader_of(job)
        return leader.describe_task(job, doc.max_tokens, stage.id) if leader else ""
    try:
        file = job.place.context.workspace.read(doc.path)
    except ToolError:
        return ""
    return "" if file.is_binary else job.place.redact(clean_text(file.text))


def list_files(workspace: Workspace) -> str:
    """All files if they are few, else the directories at the root: a model that guesses paths guesses on."""
    paths = [*workspace.files()]
    if len(paths) <= LISTED:
        shown = [*map(show_path, paths)]
        return listing("Files in the repository", shown, LISTED_CHARS) if paths else ""
    folders = Counter(path.partition("/")[0] for path in paths if "/" in path)
    used = [f"{show_path(name)}/ ({count:,})" for name, count in folders.items()]
    return listing("Directories and their number of files", used, LISTED_CHARS) if used else ""


def stage_message(stage: Stage) -> str:
    """What a stage is about; said when it is entered, and again when that has been cut from view."""
    parts = [f"Stage: {stage.title}\n{stage.prompt}".strip()]
    if stage.view.transcript != "own" and stage.system:
        parts.append(f"<task_instructions>\n{render_parts(stage.system)}\n</task_instructions>")
    if stage.view.transcript == "own" and stage.variables:
        parts.append(context_block(stage))
    return "\n\n".join(parts)


def context_block(stage: Stage) -> str:
    """The variables of a stage."""
    inside = render_variables(stage.variables)
    return f"<current_task_context>\n{inside}\n</current_task_context>" if inside else ""


def plan_room(job: Job, stage: Stage) -> int:
    """The characters that the plan may take in one message, and the notes of earlier stages as well."""
    return min(int(window_of(job, stage) * CHARS_PER_CODE_TOKEN * SHARE), MOST_CHARS)


def said_room(job: Job, stage: Stage) -> int:
    """The characters that the lines of a person may take in one message."""
    return min(int(window_of(job, stage) * CHARS_PER_CODE_TOKEN * SAID), 2 * MOST_CHARS)


def window_of(job: Job, stage: Stage) -> int:
    """The context window of the stage's model, in tokens."""
    return find_window(job.models.clients[stage.model], job.models.settings[stage.model]) or UNKNOWN_WINDOW


def plan_message(job: Job, stage: Stage) -> str:
    """The plan as it stands; nothing where there is none."""
    has_all = "rewrites_plan" in job.parts.kinds[stage.kind].roles
    plan = plan_items(job.state) if has_all else job.state[Plan].items
    return f"The plan:\n{render_plan(plan, plan_room(job, stage))}" if plan else ""


def _notes_for(job: Job, stage: Stage) -> list[tuple[str, Note]]:
    """The notes of the stages that this one builds on, in the order in which those first ended."""
    before = stages_before(job.flow.stages, stage) or set()
    steps = [leaf.id for leaf in job.flow.leaves() if leaf.foreach and leaf.id in before]
    facts = fact_stages(job)
    return [
        (name, note)
        for name, note in job.state.notes.items()
        if name not in facts and (name in before or any(name.startswith(f"{step}-") for step in steps))
    ]


def results_elsewhere(job: Job, stage: Stage, transcript: Transcript) -> Iterator[tuple[str, str]]:
    """What a shared conversation has not been told yet: results of stages with conversations of their own.

    Each is one message; what was said in such a stage stays in its own conversation.
    """
    own = job.own_conversations - transcript.results_given
    for name, note in _notes_for(job, stage) if own else ():
        if name in own:
            transcript.results_given.add(name)
            yield name, f"Result of an earlier stage:\n{render_notes([(name, note)], plan_room(job, stage))}"


def said_before(job: Job, stage: Stage) -> str:
    """What was said in the stages that this one builds on, as far as half of its context window holds it."""
    before = stages_before(job.flow.stages, stage) or set()
    leaves = [leaf for leaf in job.flow.leaves() if leaf.id in before]
    transcripts = {id(one): one for one in (job.transcript_of(leaf) for leaf in leaves)}.values()
    texts = [
        line
        for transcript in transcripts
        for number, message in enumerate(transcript.view)
        if message.role != "system" and number != transcript.task_number
        for line in whole_lines(message)
    ]
    room = int(window_of(job, stage) * CHARS_PER_CODE_TOKEN * TRANSFERRED)
    return cut_text("\n".join(texts), room, "the conversation")


def _from_earlier_stages(job: Job, stage: Stage) -> list[str]:
    """The plan, and the latest notes: what a stage that sees none of the others' messages needs."""
    window = stage.view.notes_window
    known = _notes_for(job, stage)[-window:] if window else []
    notes = render_notes(known, plan_room(job, stage))
    parts = [f"Notes from earlier stages:\n{notes}"] if notes else []
    files = [("changed", job.state.files_changed), ("read", job.state.files_read)]
    told = [
        f"Files {what} so far: {list_names(list(names), 20, NAMES_CHARS)}." for what, names in files if names
    ]
    parts += ["\n".join(told)] if told and window else []
    plan = plan_message(job, stage)
    return [*parts, plan] if plan else parts
