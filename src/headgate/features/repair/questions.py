"""Questions about suspect places: which ones a stage has, and their words.

What is known about the bug comes first in a question, and what is wanted last. Where the suspect files are
short, all questions begin with the same words, so that a server reads them once.
"""

from headgate.checks import Suspect
from headgate.config import fill, fill_text, prompt
from headgate.core import (
    Candidates,
    Person,
    Stage,
    render_lines,
    render_parts,
    show_path,
)
from headgate.features.repair.suspects import Evidence, memory_of, places
from headgate.first_use import dataclass
from headgate.reading import find_functions
from headgate.run import Job

WHOLE_LINES = 160
"""Files of this length together are shown whole; of longer ones, one function and the heads of the others."""
MOST_CHARS = 12_000
"""No more of the program is shown."""
SAID_CHARS = 4_000
"""And no more of what a person said while the task ran."""


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked, and about which place."""

    system: str
    text: str
    suspect: Suspect
    ask: str


def pose(job: Job, stage: Stage, turn: int) -> Question:
    """The question of a turn: the suspects take turns."""
    settings, evidence = Candidates.model_validate(stage.settings), memory_of(job).evidence
    assert evidence is not None
    found = askable(job, stage)
    suspect = found[turn % len(found)]
    source = job.place.context.workspace.read(show_path(suspect.path)).text
    system, known = known_facts(job, stage, suspect)
    wanted = fill_text(
        stage.prompt,
        path=show_path(suspect.path),
        language=language_of(suspect.path),
        function=suspect.function,
        number=suspect.line,
        line="".join(source.split("\n")[suspect.line - 1 : suspect.line]) if suspect.line else "",
    )
    return Question(
        system,
        f"{known}\n\n{wanted.strip()}",
        suspect,
        settings.ask,
    )


def known_facts(job: Job, stage: Stage, suspect: Suspect) -> tuple[str, str]:
    """What comes first: the system message, and all that is known about the bug."""
    evidence = memory_of(job).evidence
    assert evidence is not None
    source = job.place.context.workspace.read(show_path(suspect.path)).text
    known = fill(
        "repair",
        task=_asked(job),
        constraints=job.task.constraints.render(),
        files=_files(job, evidence, suspect, source),
        language=language_of(suspect.path),
        test=evidence.test,
        said=evidence.said,
    )
    return render_parts(stage.system) or prompt("repair_system"), known


def _asked(job: Job) -> str:
    """What the person asks for, with what was said since: such a stage has no conversation to hear it in."""
    said = list(job.state[Person].said.values())
    later = f"\n\nSaid by the user after that:\n{render_lines(said, SAID_CHARS)}" if said else ""
    return f"{job.task.request}{later}"


def reachable(job: Job, stage: Stage) -> tuple[Suspect, ...]:
    """The places that a stage is about, in order."""
    memory, settings = memory_of(job), Candidates.model_validate(stage.settings)
    found = places(settings.ask, memory.evidence)[: settings.suspects] if memory.evidence else ()
    return tuple(each for each in found if not settings.longest or each.last - each.first < settings.longest)


def askable(job: Job, stage: Stage) -> tuple[Suspect, ...]:
    """Those of them that no earlier stage has asked about in the same words.

    Asked the same once more, a model that is not sampled says the same once more.
    """
    found, asked = reachable(job, stage), memory_of(job).asked
    if Candidates.model_validate(stage.settings).temperature != 0:
        return found
    return tuple(each for each in found if asked.get(question_key(stage, each.place), stage.id) == stage.id)


def question_key(stage: Stage, place: str) -> tuple[str, bool, str]:
    """What tells questions apart."""
    return (stage.prompt, bool(stage.settings.get("as_json")), place)


def language_of(path: str) -> str:
    """What a block of code from this file is marked with."""
    suffix = path.rpartition(".")[2].lower()
    return {"py": "python", "js": "javascript", "ts": "typescript", "rs": "rust", "rb": "ruby"}.get(
        suffix, suffix
    )


def _files(job: Job, evidence: Evidence, suspect: Suspect, source: str) -> str:
    """All suspect files where they are short, always in the same order; else the one in question."""
    paths = dict.fromkeys(each.path for each in evidence.suspects if each.function) or {suspect.path: None}
    sources = {path: job.place.context.workspace.read(show_path(path)).text for path in paths}
    texts = sources.values()
    is_long = sum(text.count("\n") for text in texts) > WHOLE_LINES or sum(map(len, texts)) > MOST_CHARS
    if suspect.path not in sources or is_long:
        sources = {suspect.path: _shown(source, suspect)}
    return "\n\n".join(
        f"{show_path(path)}:\n```{language_of(path)}\n{text.rstrip()}\n```" for path, text in sources.items()
    )


def _shown(source: str, suspect: Suspect) -> str:
    lines = source.rstrip("\n").split("\n")
    if not suspect.function or (len(lines) <= WHOLE_LINES and len(source) <= MOST_CHARS):
        return "\n".join(lines)[:MOST_CHARS]
    hidden = [
        range(function.first + 1, function.last + 1)
        for function in find_functions(source)
        if function.name != suspect.function
    ]
    kept: list[str] = []
    for number, line in enumerate(lines, 1):
        if not any(number in body for body in hidden):
            kept.append(line)
        elif any(number == body.start for body in hidden):
            indent = line[: len(line) - len(line.lstrip())]
            kept.append(f"{indent}...")
    shown = "\n".join(kept)
    if len(shown) <= MOST_CHARS:
        return shown
    return "\n".join(lines[suspect.first - 1 : suspect.last])[:MOST_CHARS]
