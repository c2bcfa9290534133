"""Ended stages in conversations that stages share: a summary takes the place of their messages in the view.

By default the runtime writes it. A model may write it instead. If that model fails, the runtime writes it
after all.
"""

from collections.abc import Sequence
from dataclasses import field

from headgate.core import Compaction, Message, clean_text, place_of, size_of, split_path, unknown_name
from headgate.errors import ConfigError
from headgate.features.compaction.events import StageCompacted
from headgate.features.compaction.summary import StageRecord, summarise_stage
from headgate.features.compaction.writer import Writer
from headgate.first_use import dataclass
from headgate.run import Feature, Job, StageRun, Transcript


@dataclass
class _Asked:
    """The stages whose messages a program wants replaced; None: all that have ended."""

    stages: list[str | None] = field(default_factory=list)


def compact_later(job: Job, stage: str | None = None) -> None:
    """Replaces the messages of an ended stage by a summary before the next turn; None: of all of them.

    May be called at any time. ConfigError if there is no such stage.
    """
    names = {leaf.id for leaf in job.flow.leaves()} | set(job.state.tree.attempts)
    if stage is not None and stage not in names:
        raise ConfigError(f"Cannot compact: {unknown_name('stage', stage, names)}.")
    job.memory.of(_Asked).stages.append(stage)


async def compact_asked(run: StageRun) -> None:
    """Replaces what a program asked for."""
    asked = run.job.memory.of(_Asked).stages
    while asked:
        await compact_stages(run.job, asked.pop(0))


async def compact_stages(job: Job, stage: str | None = None) -> None:
    """Replaces the messages of an ended stage, or of all of them, whatever the trigger is.

    Only between turns; at other times, see `compact_later`.
    """
    for transcript in list(job.memory.transcripts.values()):
        for place in _waiting(job, transcript):
            of_stage = job.stage_at(transcript.spans[place].path)
            wanted = stage is None or split_path(place).name == stage
            if wanted and of_stage and job.shares_conversation(of_stage):
                await _compact(job, job.flow.compaction or Compaction(), transcript, place)
    await job.log.commit()


async def compact_due(run: StageRun) -> None:
    """Replaces what is due in a conversation that stages share, when some of these have ended."""
    await compact_asked(run)
    job, transcript, compaction = run.job, run.transcript, run.job.flow.compaction
    if compaction is None or not job.shares_conversation(run.stage):
        return
    for place in due_stages(compaction, _waiting(job, transcript), transcript.view_chars):
        await _compact(job, compaction, transcript, place)


def due_stages(compaction: Compaction, waiting: Sequence[str], view_chars: int) -> Sequence[str]:
    """Which of the ended stages that wait for it are replaced now.

    `view_chars`: the size of what the model sees of the conversation.
    """
    due = {
        "on_complete": True,
        "on_threshold": view_chars > compaction.threshold,
        "batch": len(waiting) >= compaction.batch_size,
        "manual": False,
    }
    return waiting if compaction.enabled and due[compaction.trigger] else ()


def _waiting(job: Job, transcript: Transcript) -> list[str]:
    """The places of the stages that have ended and have messages in the conversation."""
    return [
        place
        for place, span in transcript.spans.items()
        if span.ended and place not in job.state.tree.retries and transcript.has_said(span)
    ]


async def _compact(job: Job, compaction: Compaction, transcript: Transcript, place: str) -> None:
    span = transcript.spans[place]
    entered, ended = job.state.nodes[span.path], span.ended
    assert ended is not None
    start, said = transcript.said_in(span)
    record = StageRecord(entered.title, ended.ending, ended.note, tuple(entered.files_changed), said)
    writer = Writer(job, compaction.agent) if compaction.agent else None
    text = await writer.write(record, compaction) if writer else ""
    strategy = "agent" if text else compaction.strategy
    text = job.place.redact(clean_text(text or summarise_stage(record, compaction)))
    body = StageCompacted(
        stage=ended.stage,
        start=start,
        end=span.end,
        strategy=strategy,
        chars_before=size_of(said),
        chars_after=size_of([Message("user", text)]),
        **(writer.told() if writer else {}),
    )
    job.log.record(span.path, entered.counts.turns, body, text)
    _take_summary(job, span.path, body, text)


def _take_summary(job: Job, path: str, body: StageCompacted, summary: str) -> None:
    """Puts a summary into a conversation. The same happens after a crash, with what the log kept."""
    stage = job.stage_at(path)
    assert stage is not None
    transcript = job.transcript_of(stage)
    transcript.replace(place_of(path), body.start, body.end, summary)
    transcript.rebuild(stage.view)


def _replay(run: StageRun, body: StageCompacted, summary: str) -> None:
    _take_summary(run.job, run.path, body, summary)


FEATURE = Feature(stages_ended=compact_due, replays={StageCompacted: _replay})
ON_REQUEST = Feature(before_turn=compact_asked)
"""For a Python program that may ask for it; nobody else can."""
