"""Which stages a flow that begins with a check has, by what that check has brought."""

from headgate.core.events import SuspectsFound
from headgate.core.flow import Flow, Stage
from headgate.core.state import State


def fit_stage(stage: Stage, flow: Flow, state: State) -> Stage | None:
    """The stage, with no more turns than there is something new to ask; None where it is not to be run."""
    if stage.when is not None:
        asking = (each for each in flow.stages if each.candidates)
        if (stage.when == "suspects") != any(_places(each, state) for each in asking):
            return None
    if stage.candidates is None:
        return stage
    begun = stage.id in state.attempts
    places = _places(stage, state)
    if not begun and (not places or state.repaired):
        return None
    if stage.candidates.temperature != 0:
        return stage
    # Asked the same once more, a model that is not sampled says the same once more.
    turns = min(stage.budget.turns, stage.candidates.suspects, max(len(places), 1))
    return stage.model_copy(update={"budget": stage.budget.model_copy(update={"turns": turns})})


def _places(stage: Stage, state: State) -> tuple[str, ...]:
    """What a stage of whole answers can ask about."""
    assert stage.candidates is not None
    found = state.suspects or SuspectsFound()
    return {"file": found.files, "line": found.lines}.get(stage.candidates.ask, found.functions)
