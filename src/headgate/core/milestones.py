"""What happens, in one line each, for people who watch."""

from headgate.core import events as ev
from headgate.core.attempt import StageState, is_announced_end
from headgate.core.flow import PLANNER
from headgate.core.progress import say_execution
from headgate.core.settings import SCOUTS, package_of
from headgate.core.state import State
from headgate.core.text import shorten, times
from headgate.core.tree import stage_ids

_REASONS = {
    "max_turns": "its turns are used up",
    "max_seconds": "its time is used up",
    "retry_exhaustion": "too many replies in a row were unusable",
    "failed_calls": "every call failed for too many turns in a row",
    "no_progress": "the last attempts changed nothing",
    "context": "the context window is full",
    "loop": "the model is in a loop",
    "task_status_completed": "the model says that everything is done",
    "task_status_standalone_limit": "the model only reports its status",
    "task_status_stuck": "the model says that it is stuck",
    "user_stop": "it was asked to conclude",
    "limit_turns": "the task reached its turn limit",
    "limit_tokens": "the task reached its token limit",
    "limit_seconds": "the task reached its time limit",
    "limit_cost": "the task reached its cost limit",
    "final_turn_spent": "it did not conclude in its last turn",
    "escalated": "the work was handed back",
    "given_up": "the model gave it up",
    "input_missing": "what it needs is missing",
    "nothing_to_verify": "there is nothing to verify",
    "join_any": "another stage was enough",
    "outrun": "another change was written first",
    "needs_not_met": "a stage that it depends on did not complete",
    "verify_loops": "verification failed too often",
    "condition_failed": "the condition of a stage failed",
    "stage_failed": "a stage did not complete",
    "unfinished": "the work was not finished",
    "model_unavailable": "the model does not answer",
    "model_refused": "the model server refuses the request",
    "check_broken": "verification cannot be run",
    "environment": "something that Headgate needs is missing",
    "crash": "Headgate itself failed",
    "crash_loop": "it was interrupted too many times",
    "worktree_failed": "its worktree could not be made",
    "worktree_gone": "its worktree is gone",
    "aborted": "the proposal was discarded",
    "store_damaged": "part of its log is lost",
}
_DOING = {
    "explore": "analyzing codebase...",
    "plan": "planning...",
    "implement": "implementing changes...",
    "work": "working...",
    "answer": "reading...",
}
_QUERYING = {"code": "reading the code map", "build": "finding out how to build and test"}
LINE_SHOWN = 300
"""What is shown of a line that a person said."""


def say_reason(slug: str) -> str:
    """A reason in words."""
    return _REASONS.get(slug, slug.replace("_", " "))


def milestone(event: ev.Event, state: State, tries_again: str = "") -> str | None:
    """One line where an event is worth it. `state` is the state after the event.

    `tries_again` is the id of the stuck task that this one takes up, if it does.
    """
    stage = state.nodes.get(event.path)
    match event.body:
        case ev.TaskStarted() as body:
            tests = body.config.get("protect_tests")
            closed = [*body.boundaries, *([f"{tests} tests"] if tests else [])]
            bounds = f"; boundaries: {', '.join(closed)}" if closed else ""
            loose = f"; not enforced: {'; '.join(body.unenforced)}" if body.unenforced else ""
            again = f"; retry of {tries_again}" if tries_again else ""
            again += f"; follow-up of {body.follows}" if body.follows else ""
            package = f", package {package_of(body.config)}" if package_of(body.config) else ""
            apart = f", worktree .headgate/worktrees/{event.task}" if body.worktree else ""
            how = f"{body.flow.name} flow, {_say_models(body)}{package}{apart}"
            bare = "" if body.sandbox in ("", ev.BUBBLEWRAP) else f"; no sandbox for commands: {body.sandbox}"
            return f"Task {event.task} started: {how}{again}{bounds}{loose}{bare}"
        case ev.TaskResumed():
            return f"Task {event.task} resumed where it was interrupted"
        case ev.StageStarted(title=""):
            return None
        case ev.StageStarted(title=title, reason="next") as body if title in SCOUTS.values():
            if body.stage_kind == "talk":
                return f"{title}: a model reads on..."
            scout = next(name for name, shown in SCOUTS.items() if shown == title)
            return f"Querying {title}... {_QUERYING[scout]}"
        case ev.StageStarted(reason="next") as body:
            own = {"answer": "asking...", PLANNER: "deciding what to do..."}.get(body.stage_kind)
            return f"{body.title}: {own or _DOING.get(body.stage, 'started')}"
        case ev.StageStarted(reason="check_failed"):
            most = _most_rounds(event.path, state)
            of = f"/{most}" if most else ""
            return f"Verification failed, debugging... Attempt {state.verify_loops + 1}{of}..."
        case ev.StageStarted(reason="review") as body:
            return f"{body.title}: looking at the diff again{_finding(state)}"
        case ev.StageStarted(reason="retry") as body:
            return f"{body.title}: started again"
        case ev.ToolFinished(restored=restored) if restored:
            more = f" (and {len(restored) - 1} more)" if len(restored) > 1 else ""
            return f"{restored[0].rstrip('.')}{more}"
        case ev.ToolFinished(error="denied") as body:
            return f"Refused: {_first_clause(body.detail)}"
        case ev.ReplyFailed(error="refused"):
            return None  # the task ends with it, and its summary says it
        case ev.ReplyFailed(error="unavailable") if stage and not stage.unanswered.is_news:
            return None
        case ev.ReplyFailed() as body:
            return f"Model: {body.detail}"
        case ev.ReplyReceived(remark=remark) if state.remarks[remark] == 1:
            return f"Warning: {remark.rstrip('.')}"
        case ev.PromptCut() as body if state.cut == body:
            return f"Warning: {body.describe()}"
        case ev.TaskStatusGiven() as body:
            return f"Status: {body.status}: {_status(body)}"
        case ev.PersonSpoke(text=text):
            return f"You: {shorten(' '.join(text.split()), LINE_SHOWN)}"
        case ev.StopAsked():
            return "Asked to conclude"
        case ev.DecisionMade(action="nudge") as body:
            return f"Loop: {body.detail}"
        case ev.RecipeStarted() as body:
            again = f" (again, {body.round})" if body.round > 1 else ""
            return f"Execution {body.number}{again}: {state.executed.all[body.number - 1].title}"
        case ev.RecipeEnded() as body:
            return f"Execution {body.number}: {say_execution(state, body.number)}"
        case ev.ReplanStarted() if state.executed.all:
            return f"Replanning: verification has failed {times(state.verify_loops)}..."
        case ev.ScoutReported(question=question, scout=scout) if question:
            return f"Querying {SCOUTS.get(scout, scout)}: {_words(question)}"
        case ev.ScoutReported(found=found, scout=scout) as body if found or body.problem:
            more = f" and {len(found) - 3} more" if len(found) > 3 else ""
            return f"{SCOUTS.get(scout, scout)}: {body.problem or ', '.join(found[:3]) + more}"
        case ev.MentionsRead() as body if state.mentions_shown == 1:
            return _mentioned(body)
        case ev.PlanWritten() as body:
            return f"Plan: {_count(len(body.items), 'step')}"
        case ev.DecisionMade(action="final_turn") as body:
            asked = body.reason == "user_stop"
            return f"Asking for a conclusion{'' if asked else f': {body.detail or say_reason(body.reason)}'}"
        case ev.DecisionMade(action="wait", seconds=seconds) as body if seconds:
            return f"{stage.title if stage else event.path}: {body.detail}"
        case ev.DecisionMade(action="wait", reason="model_away") if stage and not stage.unanswered.is_news:
            return None  # it was said once
        case ev.DecisionMade(action="wait") as body:
            return f"Waiting for the model: {body.detail}"
        case ev.ViewCompacted() as body:
            return f"Context compacted: {body.messages_before} messages to {body.messages_after}"
        case ev.StageCompacted() as body:
            title = stage.title if stage else body.stage
            return f"{title}: compacted from {body.chars_before:,} to {body.chars_after:,} characters"
        case ev.StageEnded() as body if not is_announced_end(body, stage):
            return None
        case ev.StageEnded(ending="skipped", reason="max_turns") if stage and stage.kind == "answer":
            return f"{stage.title}: no answer passed"
        case ev.StageEnded(ending=ending) as body if ending != "completed":
            return f"{stage.title if stage else body.stage}: {_say_end(body, stage, state)}"
        case ev.VerifyStarted(opening=True):
            return "Running the check first..."
        case ev.VerifyFinished(opening=True) as body:
            return "It passes" if body.passed else f"It fails: {body.sentence}"
        case ev.SuspectsFound(unfit=unfit) if unfit:
            return f"Cannot try out answers: {unfit}"
        case ev.SuspectsFound() as body if body.functions or body.files:
            return f"Suspect: {', '.join((body.functions or body.files)[:3])}{_how_to_go_on(body, state)}"
        case ev.SuspectsFound() if state.answers.opening and not state.answers.opening.passed:
            return "The failing check does not show where the bug is"
        case ev.CandidateTried(origin="mutation") as body:
            return f"Mutation of {body.place}: {body.verdict}, {body.reason}"
        case ev.CandidateTried() as body:
            why = f", {body.reason}" if body.reason else ""
            return f"Answer {len(state.answers.tried)} ({body.place}): {body.verdict}{why}"
        case ev.VerifyFinished(rewritten=changed) if changed:
            return f"Verification passed, but the run changed {', '.join(changed[:3])}: it is run again"
        case ev.VerifyStarted(asked=True):
            return "Running the tests for the model..."
        case ev.StepFailed() as body if not body.decides or state.runs.announced != body.sentence:
            return f'Step "{body.step}" failed: {body.sentence}'
        case ev.StepFailed(asked=asked, sentence=sentence):
            return f"{'The tests fail' if asked else 'Verification failed'}: {sentence}"
        case ev.VerifyFinished(passed=False, sentence=sentence) if _was_told(sentence, state):
            more = sentence.removeprefix(state.runs.announced).removeprefix("; ")
            return f"{more[:1].upper()}{more[1:]}" if more else None
        case ev.VerifyFinished(asked=True) as body:
            return "The tests pass" if body.passed else f"The tests fail: {body.sentence}"
        case ev.VerifyStarted():
            return "Running verification..."
        case ev.VerifyFinished(passed=True, forgiven=forgiven) if forgiven:
            return f"Verification passed; failed as before the task: {', '.join(forgiven)}"
        case ev.VerifyFinished(passed=True):
            return "Verification passed"
        case ev.VerifyFinished() as body:
            return f"Verification failed: {body.sentence}"
        case ev.ReplanStarted():
            return "Replanning..."
        case ev.ProposalMade(files_changed=()):
            return "PROPOSED: no change"
        case ev.ProposalMade() as body:
            return f"PROPOSED: {_count(len(body.files_changed), 'file')}"
        case ev.ApplyStarted(changes=()):
            return "The proposed changes are already in the working tree: nothing to write"
        case ev.ApplyStarted() as body:
            return f"Applying the proposal: {_count(len(body.changes), 'file')}"
        case ev.ApplyRefused(reason="cancelled"):
            return "Cancelled before anything was written: it is a proposal again"
        case ev.ApplyRefused(conflicts=()) as body:
            return f"The proposal was not applied; nothing was changed: {body.detail}"
        case ev.ApplyRefused() as body:
            return f"The proposal no longer applies; nothing was changed: {'; '.join(body.conflicts)}"
        case ev.EditsNoticed(verifying=False, files=files) if files:
            more = f" and {len(files) - 3} more" if len(files) > 3 else ""
            return f"Changed meanwhile, not by this task: {', '.join(files[:3])}{more}"
        case ev.WorktreeCommitted() as body:
            return f"Committed {body.commit[:12]} on headgate/{event.task}"
        case ev.MergeFinished():
            count = len(state.merge.changes) if state.merge else 0
            return f"Written to your own tree: {_count(count, 'file')}"
        case ev.MergeVerified(passed=True) as body:
            return f"Verified in your own tree: {_count(len(body.steps), 'step')} passed"
        case ev.MergeVerified(passed=None):
            return "Not verified in your own tree: no verification steps are configured"
        case ev.MergeVerified() as body:
            return f"Verification failed in your own tree: {body.reason.rstrip('.')}"
        case ev.MergeRefused() as body:
            return f"Not written to your own tree: {body.reason.rstrip('.')}"
        case ev.UndoFinished():
            count = len(state.undo.changes) if state.undo else 0
            return f"Task {event.task} was undone: {_count(count, 'file')}"
        case ev.UndoRefused() as body:
            return f"Task {event.task} was not undone: {body.reason.rstrip('.')}"
        case ev.TaskEnded(state="SUCCESS", verified=False, files_changed=()) if state.answer:
            return "SUCCESS (answered)"
        case ev.TaskEnded(state="SUCCESS", verified=False):
            return "SUCCESS (not verified)"
        case ev.TaskEnded() as body:
            why = "" if body.reason in ("done", "cancelled") else f": {_why(body.reason, state)}"
            return f"{body.state}{why}"
        case _:
            return None


def _say_models(body: ev.TaskStarted) -> str:
    """The default model, and every model that is on another machine, with its server's address."""
    places = {body.model: "", **dict(body.elsewhere)}
    return ", ".join(f"{model} at {address}" if address else model for model, address in places.items())


def _most_rounds(path: str, state: State) -> int:
    """How many rounds the group around a stage may have; 0 if it is in none."""
    level, most = state.flow.stages if state.flow else (), 0
    for name in stage_ids(path):
        group = next((stage for stage in level if stage.id == name), None)
        level = group.stages if group else ()
        most = group.repeat.max if group and group.repeat else most
    return most


def _how_to_go_on(body: ev.SuspectsFound, state: State) -> str:
    leaves = list(state.flow.leaves()) if state.flow else []
    asking = [leaf.settings.get("ask") for leaf in leaves if leaf.kind == "answer"]
    if body.functions or "file" in asking or not asking or not any(leaf.kind == "talk" for leaf in leaves):
        return ""
    return " (no Python function to ask about: the model gets tools instead)"


def _why(slug: str, state: State) -> str:
    if slug == "model_refused" and state.model.startswith("script:"):
        return "the script has no reply to the request"
    return say_reason(slug)


def _finding(state: State) -> str:
    """What the model was just told about its diff, for the first time."""
    latest = reversed(state.review.found.items())
    told = (found[-1] for check, found in latest if len(state.review.findings(check)) == 1)
    reason = next(filter(None, told), "")
    return f": {_first_clause(reason)}" if reason else ""


def _was_told(sentence: str, state: State) -> bool:
    """Whether people were told of a failure when its step failed."""
    return bool(state.runs.announced) and sentence.startswith(state.runs.announced)


_ENDINGS = {"failed": "did not complete", "exhausted": "left unfinished"}


def _say_end(body: ev.StageEnded, stage: StageState | None, state: State) -> str:
    """How a stage ended that did not complete, and why."""
    found = stage.why if stage and stage.why != body.reason else ""
    if body.reason == "escalated":
        what = "gave the task up" if stage and stage.kind == PLANNER else "handed its work back"
        return f"{what}: {_first_clause(found)}" if found else what
    more = f" ({_first_clause(found.removeprefix('Stuck: '))})" if found else ""
    return f"{_ENDINGS.get(body.ending, body.ending)}: {_why(body.reason, state)}{more}"


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'s' if number != 1 else ''}"


def _words(text: str) -> str:
    return " ".join(text.split())[:120]


def _status(body: ev.TaskStatusGiven) -> str:
    """What the model does now, what it has done and what remains: whatever it said about them."""
    parts = (("", body.now), ("done: ", body.done), ("pending: ", body.pending))
    return "; ".join(f"{name}{_words(text)}" for name, text in parts if text.strip())


def _first_clause(text: str) -> str:
    return text.split("; ", maxsplit=1)[0].split(". ", maxsplit=1)[0].rstrip(".")[:160]


def _mentioned(body: ev.MentionsRead) -> str:
    """What the model is shown because the task mentions it, and what it is not shown."""
    named = [*body.read, *(f"{folder}/" for folder in body.folders), *body.images]
    more = f" and {len(named) - 5} more" if len(named) > 5 else ""
    shown = f"{', '.join(named[:5])}{more}" if named else "nothing"
    problems = f"; {'; '.join(problem.rstrip('.') for problem in body.problems[:3])}" if body.problems else ""
    return f"Mentioned files attached: {shown}{problems}"
