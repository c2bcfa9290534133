"""The few lines that say how a task ended. What the model says and what was measured stay apart."""

import re
from collections import Counter
from collections.abc import Sequence

from headgate.core import (
    PLANNER,
    Calls,
    Conclusion,
    Note,
    StageState,
    State,
    TaskState,
    VerifyRuns,
    place_of,
    say_reason,
    shorten,
    times,
)
from headgate.first_use import regex

SUMMARY_CHARS = 300
"""What is shown of the model's words."""
RED_BEFORE = (
    "The checks failed in the same way before this task. Fix that first, or add accept_red_before: true to"
    " verification in agent.yaml to accept failures that were there before."
)
UNREAD_CHARS = 200
"""What is shown of a line that nobody has read."""
MOST_LEFT = 5
MOST_NAMED = 50
"""Of files that were changed."""
WHY_NOT_IN_DIFF = (
    "in a submodule or another repository, where git diff shows it, too large, or a file for secrets"
)

UNCHANGED = "No file was changed."
SHARED = "Also changed by somebody else meanwhile, which the diff cannot tell apart"


def write_summary(
    state: State,
    ending: TaskState,
    reason: str,
    detail: str,
    files: tuple[str, ...],
    after_review: tuple[str, ...] = (),
    not_in_diff: tuple[str, ...] = (),
    unread: tuple[str, ...] = (),
    shared: tuple[str, ...] = (),
) -> str:
    """What was done, why, and how it was verified. What the model says and what was measured stay apart."""
    if ending == "CANCELLED":
        return ""  # what was attempted in a cancelled task is not documented
    answered = ending == "SUCCESS" and not files and bool(state[Conclusion].answer)
    said = "" if answered else last_summary(state)  # the answer is shown separately
    headline = (
        _success(state, bool(files), answered)
        if ending == "SUCCESS"
        else _headline(state, ending, reason, detail)
    )
    lines = [headline]
    corrections = state[Calls].corrections
    broken = corrections["bad_reply"]
    if ending == "STUCK" and not state[Calls].made and broken + corrections["text_only"] > 1:
        what = "None of the model's tool calls could be run" if broken else "The model called no tool"
        lines.append(f"{what}: headgate doctor shows how it can call tools.")
    leading = [warning for part in state.slices.values() for warning in part.leading(state)]
    lines += [f"Warning: {warning}." for warning in leading]
    if said and state.config.get("task_output_mode") != "runtime":
        lines.append(f"{_say_source(state, headline)}: {shorten(said, SUMMARY_CHARS)}")
        if claims_passing(said) and not state[VerifyRuns].passing_run:
            lines.append(
                f"{asked} passed when the model asked for it; the final result is not verified."
                if (asked := state[VerifyRuns].asked_pass)
                else "No verification run has passed: only the model claims that the tests pass."
            )
    if ending not in ("SUCCESS", "PROPOSED"):
        lines += [f"Final turn forced: {reasons}." for reasons in [say_final_turns(state)] if reasons]
    lines += (line for part in state.slices.values() for line in part.came_of(state))
    if ending == "PROPOSED":
        lines.append(f"Would change: {_names(files)}." if files else "No change is proposed.")
    elif files:
        lines.append(f"Changed: {_names(files)}.")
    elif not _says_unchanged(headline):
        lines.append(UNCHANGED)
    if after_review:
        lines.append(f"Changed after the review, because verification failed: {', '.join(after_review)}.")
    if tests := state.config.get("protect_tests"):
        lines.append(f"Protected from changes: {tests} tests.")
    if not_in_diff:
        lines.append(f"Not in the diff ({WHY_NOT_IN_DIFF}): {_names(not_in_diff)}.")
    if shared:
        lines.append(f"{SHARED}: {_names(shared)}.")
    lines += (line for part in state.slices.values() for line in part.left_over(state))
    lines += [say_unread(unread)] if unread else []
    if ending == "STUCK" and _fails_as_before(state):
        lines.append(RED_BEFORE)
    lines += [f"Warning: {warning}." for warning in all_warnings(state) if warning not in leading]
    ended_runs = state[VerifyRuns].whole_runs
    if ended_runs and ending != "SUCCESS":
        lines += _list_runs(ended_runs)
    return "\n".join(lines)


def say_failures(sentences: Sequence[str], told: str) -> list[str]:
    """Failed verifications in words. What `told` says, or the one before, is not said word for word again."""
    before = ["", *sentences]
    return [
        "the same again" if one and one == last else "the failure named above" if one and one in told else one
        for last, one in zip(before, sentences, strict=False)
    ]


def say_merged(verified: bool | None, reason: str) -> str:
    """How the changes do that were applied to the user's own tree."""
    where = "Its changes are in your own tree"
    if verified:
        return f"{where}, and verified there."
    why = reason.rstrip(".")
    return f"{where}, but verification failed there: {why}." if why else f"{where}, not verified there."


def say_discarded(task: str) -> str:
    """What is left of a task whose worktree was discarded."""
    return f"Task {task} was discarded: headgate diff {task} | git apply writes its changes to your own tree."


def say_unread(lines: Sequence[str]) -> str:
    """What a person said and no model has read, in a sentence."""
    words = [shorten(" ".join(line.split()), UNREAD_CHARS).rstrip(".") for line in lines[:MOST_LEFT]]
    shown = "; ".join(f'"{line}"' for line in words)
    more = f" and {len(lines) - MOST_LEFT} more" if len(lines) > MOST_LEFT else ""
    return f"Said too late, so the model did not read it: {shown}{more}."


def _fails_as_before(state: State) -> bool:
    """Whether all that fails in the latest verification failed before the task, and that is not accepted."""
    runs = state[VerifyRuns]
    accepted = state.config.get("verification", {}).get("accept_red_before", False)
    last = runs.failures[-1] if runs.failures else None
    return bool(last and runs.still_red and set(last.failing) <= runs.still_red and not accepted)


def all_warnings(state: State) -> tuple[str, ...]:
    """What people should know of: boundaries that protected nothing, what the model left as it was, ..."""
    return tuple(warning for part in state.slices.values() for warning in part.warnings(state))


def _list_runs(run_ids: Sequence[str]) -> list[str]:
    """How many there were, and the log that matters most; the page and the report name them all."""
    count = f"{len(run_ids)} verification runs; the last log is" if len(run_ids) > 1 else "Verification log:"
    return [f"{count} .headgate/runs/{run_ids[-1]}/combined.log."]


_CLAIM = regex(
    r"\b(?:tests?|checks?|suite|build|verification)\b[^.!?]{0,40}\b(?:pass(?:es|ed|ing)?|green|succeed(?:s|ed)?)\b"
    r"|\bpass(?:es|ed|ing)?\b[^.!?]{0,20}\b(?:tests?|checks?|suite)\b|\bverified\b",
    re.IGNORECASE,
)


def claims_passing(text: str) -> bool:
    """Whether a text says that tests pass."""
    return bool(_CLAIM.search(text))


def last_summary(state: State) -> str:
    """What the model itself said at the end of the last stage: what it said earlier is no result."""
    return " ".join(last_note(state).summary.split())


def last_note(state: State) -> Note:
    """The model's latest note on the last stage; an empty one where it said nothing."""
    said = _last_said(state)
    return (said.note if said else None) or Note()


def _last_said(state: State) -> StageState | None:
    """The latest attempt at the last stage in which the model said something about its work."""
    attempts = [each for each in state.nodes.values() if each.is_announced and each.reason != "replan"]
    # What is said in the steps that a planner had carried out is for the planner: it has the last word.
    inside = tuple(f"{place_of(each.path)}/" for each in attempts if each.kind == PLANNER)
    attempts = [each for each in attempts if not each.path.startswith(inside)]
    last = attempts[-1].stage if attempts else ""
    if attempts and attempts[-1].kind not in ("talk", PLANNER):
        return None  # what such a stage leaves is the runtime's own note
    said = (each for each in reversed(attempts) if each.stage == last and each.note and each.note.summary)
    return next(said, None)


def _says_unchanged(headline: str) -> bool:
    return UNCHANGED in headline or "no file was changed" in headline or "without changing a file" in headline


def _say_source(state: State, headline: str) -> str:
    said = _last_said(state)
    if said is None or said.counts.done:
        return "The model says"
    refusal = said.refusal or "stage_done was not called"
    if refusal in headline:
        return "The model's own conclusion (not accepted)"
    return f"The model's own conclusion (not accepted: {refusal})"


def say_final_turns(state: State) -> str:
    """Why the model was made to conclude, in words and by slug, each reason once; empty if it was not."""
    counts = Counter(state[Conclusion].final_turns)
    return ", ".join(
        f"{say_reason(slug)} ({slug}{f', {times(count)}' if count > 1 else ''})"
        for slug, count in counts.items()
    )


def _names(files: Sequence[str]) -> str:
    """Files for people. The report has them all."""
    more = f" and {len(files) - MOST_NAMED:,} more" if len(files) > MOST_NAMED else ""
    return f"{', '.join(files[:MOST_NAMED])}{more}"


def _success(state: State, changed: bool, answered: bool) -> str:
    """The first line of a success: whether anything was changed, and verified."""
    unchanged = [] if changed else [UNCHANGED]
    if state[VerifyRuns].passing_run:
        return " ".join([*unchanged, f"Verified by {state[VerifyRuns].passing_run}."])
    verifies = state.flow is None or state.flow.verifies
    if answered and (not verifies or state.config.get("verification", {}).get("steps")):
        return "Answered."
    opening = ["Answered."] if answered else []
    why = "no verification steps are configured" if verifies else "this flow has no verification"
    return " ".join([*opening, *unchanged, f"Not verified: {why}."])


def _headline(state: State, ending: TaskState, reason: str, detail: str) -> str:
    clause = detail.rstrip(".")
    match ending:
        case "STUCK" if reason == "verify_loops":
            runs = state[VerifyRuns]
            return f"Verification failed {times(runs.loops)}; the last failure: {runs.last_failure}"
        case "STUCK" if reason.startswith("limit_"):
            return f"Stuck: {say_reason(reason)}{f' ({detail})' if detail else ''}."
        case "STUCK" if reason == "user_stop":
            return f"The task ended early, as asked{f': {clause}' if clause else ''}."
        case "STUCK" if detail[:1].isupper():
            return detail
        case "STUCK":
            return f"Stuck: {clause or say_reason(reason)}."
        case "INFRA_ERROR":
            return f"The environment failed, not the work: {detail or say_reason(reason)}"
        case "PROPOSED":
            return "A proposal: nothing was written or verified."
        case "CANCELLED":
            return "Cancelled."
        case _:
            return ending
