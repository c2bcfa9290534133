"""Reasons in words: what a slug in the log says to people."""

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


def say_reason(slug: str) -> str:
    """A reason in words. What is a sentence already stays as it is: it may name a tool."""
    return _REASONS.get(slug, slug.replace("_", " ") if slug.isidentifier() else slug)


def say_end(slug: str, model: str) -> str:
    """Why a stage or a task ended that this model worked on, in words."""
    if slug == "model_refused" and model.startswith("script:"):
        return "the script has no reply to the request"
    return say_reason(slug)
