"""A flow that begins with the project's check: what fails, and where that may come from."""

from headgate.core import Broken, Budget, Decision, SuspectsFound, Tally, clean_text, decide
from headgate.run.evidence import Evidence, gather, write_evidence
from headgate.run.job import Job
from headgate.run.questions import places
from headgate.run.verification import run_verification
from headgate.workspace import CopyImpossible

MOST_TOLD = 20
_DRY = "a dry run runs no command"


async def begin(job: Job) -> Decision | None:
    """Runs the check once, before the first stage, if the flow wants that; what ends the flow, if it does.

    A dry run runs nothing: it goes on as where nobody knows where to look.
    """
    if job.flow.begin is None or job.state.suspects is not None:
        return None
    found, kept = SuspectsFound(unfit=_DRY if job.proposing else ""), None
    try:
        if job.state.opening is None and not job.proposing:
            finding = await run_verification(job, asked=True, opening=True)
            if isinstance(finding.verdict, Broken):
                return decide(Tally(verdict=finding.verdict), Budget())
        opening = job.state.opening
        if opening is not None and not opening.passed:
            job.evidence = await gather(job)
            found, kept = _tell(job.evidence), write_evidence(job.evidence)
    except CopyImpossible as error:
        found = SuspectsFound(unfit=job.redact(str(error)))
    job.log.record("", 0, found, kept)
    await job.log.commit()
    return None


def _tell(evidence: Evidence) -> SuspectsFound:
    functions, lines, files = (
        tuple(clean_text(suspect.place) for suspect in places(ask, evidence)[:MOST_TOLD])
        for ask in ("function", "line", "file")
    )
    return SuspectsFound(functions=functions, lines=lines, files=files)
