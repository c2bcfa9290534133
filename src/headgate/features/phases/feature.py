"""What phases add to the loop: the hint in a request, and what follows from a turn.

A task is in one phase at a time. The rules move it forward only, in the order in which the states are listed,
by what the runtime saw happen. The classifier may move it anywhere.
"""

from collections.abc import Sequence

from headgate.config import Config, PhaseControl, PromptPlace, prompt
from headgate.core import Message, Settings
from headgate.features.phases.classifier import PROBE_SECONDS, ask_classifier, digest_turn
from headgate.features.phases.events import PhaseChanged, Phases, PhaseState
from headgate.run import Feature, StageRun

CONTEXT, PLAN, IMPLEMENT = "context", "plan", "implement"
SILENCES = 3
"""Probes in a row without a usable answer, after which no more are sent in this phase and stage."""
_BUILT_IN = {name: f"phase_{name}" for name in (CONTEXT, PLAN, IMPLEMENT)}


class PhaseSettings(Settings):
    """What the configuration says about phases."""

    control: PhaseControl = PhaseControl()
    place: PromptPlace = "tail"


def current_phase(control: PhaseControl, state: PhaseState) -> str:
    """The phase of a task: always one of the states."""
    return state.phase if state.phase in control.states else control.default


def advance(control: PhaseControl, state: PhaseState) -> tuple[PhaseState, str]:
    """The state that the rules lead to, and why it moved; no reason where it did not."""
    moved_because = ""
    while control.mode in ("rules", "hybrid") and (step := _next_step(control, state)):
        target, moved_because = step
        state = state.move(target, "rules")
    return state, moved_because


def _next_step(control: PhaseControl, state: PhaseState) -> tuple[str, str] | None:
    """The first rule that moves the phase forward."""
    rules, phase, read = control.rules, current_phase(control, state), len(state.files_read)
    planned = phase == PLAN and state.plan_written
    ahead = control.states[control.states.index(phase) + 1 :]
    for target, holds, reason in (
        (IMPLEMENT, rules.write_to_implement and state.wrote, "a file was written"),
        (IMPLEMENT, rules.write_to_implement and planned, "a plan was written"),
        (
            PLAN,
            phase == CONTEXT and rules.auto_plan_after_read and read >= rules.min_files_read_for_plan,
            "1 file was read" if read == 1 else f"{read} files were read",
        ),
    ):
        if holds and target in ahead:
            return target, reason
    return None


async def follow_phase(run: StageRun) -> None:
    """Works out the phase after a turn that is already committed: nothing here can undo or end it."""
    job = run.job
    control, state = job.pinned.of(PhaseSettings).control, job.state[Phases].now
    if control.mode == "off":
        return
    before = current_phase(control, state)
    moved, reason = advance(control, state)
    if reason:
        phase = current_phase(control, moved)
        run.record(PhaseChanged(before=before, phase=phase, by="rules", reason=reason))
    elif control.mode != "rules" and len(control.states) > 1 and state.silences < SILENCES:
        name, left = run.stage.model, (run.seconds_left(), job.seconds_left())
        seconds = max(min([PROBE_SECONDS, *(each for each in left if each is not None)]), 0.0)
        model, asked = job.models.clients[name], job.models.settings[name]
        probe = await ask_classifier(model, asked, control, before, digest_turn(run), seconds)
        run.record(probe.model_copy(update={"detail": job.place.redact(probe.detail)}))
        if probe.answer not in ("", before):
            chose = "the classifier chose it"
            run.record(PhaseChanged(before=before, phase=probe.answer, by="llm", reason=chose))
    await job.log.commit()


def add_hint(run: StageRun, view: Sequence[Message]) -> Sequence[Message]:
    """The messages of a request with the hint of the task's phase, which is sent and never stored.

    A final turn and a new plan have instructions of their own, which no hint may contradict.
    """
    settings = run.job.pinned.of(PhaseSettings)
    if settings.control.mode == "off" or run.state.counts.granted or run.entrance.reason == "replan":
        return view
    hint = hint_of(settings.control, current_phase(settings.control, run.job.state[Phases].now))
    return with_hint(view, hint, settings.place) if hint else view


def hint_of(control: PhaseControl, phase: str) -> str:
    """The hint of a phase; empty where there is none."""
    own = control.prompts.get(phase)
    if own is None:
        own = prompt(_BUILT_IN[phase]) if phase in _BUILT_IN else ""
    return own.strip()


def with_hint(messages: Sequence[Message], hint: str, place: PromptPlace) -> Sequence[Message]:
    """What is stored stays as it is, and so does all that it shares with what is sent."""
    if place == "tail":
        return [*messages, Message("user", hint)]
    if not messages or messages[0].role != "system":
        return [Message("system", hint), *messages]
    # A message of its own: a copy would share the encoded form of the one without the hint.
    return [Message("system", f"{messages[0].content}\n\n{hint}"), *messages[1:]]


def _settings(config: Config) -> PhaseSettings | None:
    if config.phase_control.mode == "off":
        return None
    return PhaseSettings(control=config.phase_control, place=config.phase_prompt_place)


FEATURE = Feature(settings=_settings, sends=add_hint, after_turn=follow_phase)
