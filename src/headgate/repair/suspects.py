"""The kind `suspects`: runs the project's check first and finds out where a failure may come from.

The stage completes if there are places to ask about, and is skipped otherwise.
"""

from headgate.core import (
    AnyBody,
    Broken,
    Data,
    Decision,
    SuspectsFound,
    clean_text,
)
from headgate.repair.candidates import places_for
from headgate.repair.evidence import Evidence, gather, memory_of, read_evidence, write_evidence
from headgate.repair.questions import places
from headgate.run import Kind, StageEnd, StageRun, run_verification
from headgate.workspace import CopyImpossible

MOST_TOLD = 20
_DRY = "a dry run runs no command"


class SuspectsSettings(Data):
    """The settings of a stage of the kind `suspects`."""

    asks: tuple[str, ...] = ()
    """What later stages ask for; see `ask` of the kind `answer`."""


async def find_suspects(run: StageRun) -> StageEnd:
    """Runs the check once, and looks for suspects if it fails. A dry run runs nothing."""
    job = run.job
    if job.state.answers.suspects is None:
        found, kept = SuspectsFound(unfit=_DRY if job.proposing else ""), None
        try:
            if job.state.answers.opening is None and not job.proposing:
                finding = await run_verification(job, run.path, asked=True, opening=True)
                if isinstance(finding.verdict, Broken):
                    return StageEnd(Decision("infra", "check_broken", finding.verdict.reason))
            opening = job.state.answers.opening
            if opening is not None and not opening.passed:
                evidence = memory_of(job).evidence = await gather(job)
                found, kept = _tell(evidence), write_evidence(evidence)
        except CopyImpossible as error:
            found = SuspectsFound(unfit=job.redact(str(error)))
        run.record(found, kept)
        await job.log.commit()
    suspects = job.state.answers.suspects
    assert suspects is not None
    some = any(places_for(ask, suspects) for ask in run.stage.settings.get("asks", ()))
    return StageEnd(Decision("advance", "done") if some else Decision("skip", "no_suspects"))


def _tell(evidence: Evidence) -> SuspectsFound:
    functions, lines, files = (
        tuple(clean_text(suspect.place) for suspect in places(ask, evidence)[:MOST_TOLD])
        for ask in ("function", "line", "file")
    )
    return SuspectsFound(functions=functions, lines=lines, files=files)


def _replay(run: StageRun, body: AnyBody, content: str) -> None:
    if isinstance(body, SuspectsFound) and content:
        memory_of(run.job).evidence = read_evidence(content)


SUSPECTS = Kind("suspects", find_suspects, settings=SuspectsSettings, is_announced=False, replay=_replay)
