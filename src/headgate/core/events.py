"""Everything that happens. Each event names its subject first and is in the past tense.

Events are small and stay for ever. What a model wrote or read (prompts, replies, tool results) is an event's
`content`, kept beside it while the task runs and deleted with the conversation; no fold needs it afterwards.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from pydantic import Field

from headgate.core.compaction import Strategy
from headgate.core.flow import Ending, Flow
from headgate.core.messages import Category, Reply, Usage, clean_text
from headgate.core.phases import Mover
from headgate.core.settings import Data, ModelSettings
from headgate.core.task import Constraints, TaskState
from headgate.core.text import shorten
from headgate.errors import ReplyInvalid


class Body(Data):
    """What is particular to one kind of event. A class of it with a `kind` is known by that from then on."""

    kind: ClassVar[str] = ""

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        if "kind" in cls.__dict__:
            _KINDS[cls.kind] = cls


_KINDS: dict[str, type[Body]] = {}


class Unknown(Body):
    """An event of a kind that this version does not know: nothing follows from it."""

    name: str
    fields: dict[str, Any]


def read_body(kind: str, fields: Mapping[str, Any]) -> Body:
    """An event's body as a log holds it. ValidationError for fields that its kind does not have."""
    known = _KINDS.get(kind)
    return known.model_validate(fields) if known else Unknown(name=kind, fields=dict(fields))


class Note(Data):
    """What a stage leaves to the next ones."""

    summary: str = ""
    decisions: tuple[str, ...] = ()
    next_actions: tuple[str, ...] = ()
    risks: tuple[str, ...] = ()
    files_read: tuple[str, ...] = ()
    files_changed: tuple[str, ...] = ()
    metadata: dict[str, Any] = Field(default_factory=dict)
    output: Any = None
    """The typed result of the stage, as JSON holds it, where the stage has one."""
    accepted: bool = True
    """False for what the model said in a final turn although a check fails."""


Status = Literal["pending", "in_progress", "completed", "failed", "skipped"]


class PlanItem(Data):
    """One step of the plan that the model wrote."""

    id: str
    description: str
    goal: str = ""
    status: Status = "pending"
    priority: Literal["low", "normal", "high", "critical"] = "normal"
    writes: bool = True
    """False where the model said that the step changes no file."""
    reason: str = ""
    """Why it was skipped."""


BUBBLEWRAP = "bubblewrap"
"""The sandbox that commands run in where it works."""


class TaskStarted(Body):
    """The task left the queue. Pins what it runs with: later changes to files have no effect on it."""

    kind: ClassVar[str] = "task_started"
    text: str
    goal: str
    constraints: Constraints
    flow: Flow
    model: str
    began: float = 0.0
    """When a process took the task up: in a large repository, long before this event."""
    elsewhere: tuple[tuple[str, str], ...] = ()
    """The models that are not on this machine, each with its server's address."""
    tools: tuple[str, ...]
    boundaries: tuple[str, ...] = ()
    """The patterns that are enforced, those found for boundaries in prose included."""
    unenforced: tuple[str, ...] = ()
    """Boundaries that name no path: the model is told of them, and that is all."""
    unmatched: tuple[str, ...] = ()
    """Patterns among `boundaries` that matched nothing at the start."""
    baseline: str
    """The git tree, untracked files included, against which the task's diff is taken."""
    config: dict[str, Any]
    """The configuration as loaded, without secrets."""
    sandbox: str = ""
    """`bubblewrap` if commands run in it, otherwise why they do not; empty where no command can run."""
    follows: str = ""
    """The ended task that it is a follow-up of."""
    worktree: str = ""
    """The commit that the task's own worktree was made from; empty where it works in the tree itself."""
    remarks: tuple[str, ...] = ()
    """What people should know about that worktree, a sentence each."""
    tells_edits: bool = False
    """Edits by others are recorded; logs of earlier versions do not tell whose changes are whose."""


class TaskResumed(Body):
    """A process took the task up where another one had left it."""

    kind: ClassVar[str] = "task_resumed"
    traceback: str = ""
    """Where that one was when it died, if it could still say so."""
    restored: tuple[str, ...] = ()
    """What a command that it left running had done to protected files, and was undone: a sentence each."""


class Remark(Body):
    """What became of files is told to people in a sentence, also in the report."""

    sentence: str


class StoreRestored(Remark):
    """A command had deleted `.headgate`, and what was in the store was put back."""

    kind: ClassVar[str] = "store_restored"


class ProtectedCommits(Remark):
    """A command made commits that change protected files; they were undone, or it says why not."""

    kind: ClassVar[str] = "protected_commits"


class ConfigRestored(Remark):
    """A file that configures the task changed while a command ran, and was restored."""

    kind: ClassVar[str] = "config_restored"


class PrivilegesRemoved(Remark):
    """Files that commands left would have run with the user's rights for anybody who starts them."""

    kind: ClassVar[str] = "privileges_removed"


class StageStarted(Body):
    """A stage was entered, or entered again."""

    kind: ClassVar[str] = "stage_started"
    stage: str
    title: str
    attempt: int
    reason: Literal["next", "retry", "check_failed", "replan", "review"]
    tools: tuple[str, ...]
    turns: int
    """The turns it may take."""
    item: str = ""
    """The step of the plan that it carries out, where the flow makes a stage for each."""
    stage_kind: str = "talk"
    """What it does; see `Stage.kind`. A stage that is not announced to people has no title."""


class MessageAdded(Body):
    """The runtime put a message into a transcript. `slug` says which."""

    kind: ClassVar[str] = "message_added"
    role: Literal["system", "user"]
    slug: str
    said: tuple[int, ...] = ()
    """The lines of a person that it contains, by number."""


class ImageAdded(Body):
    """An image goes with the next message to the model; its content is the image in base64."""

    kind: ClassVar[str] = "image_added"
    path: str
    media_type: str


class MentionsRead(Body):
    """Files that the person mentions were put into the first message of a conversation."""

    kind: ClassVar[str] = "mentions_read"
    read: tuple[str, ...] = ()
    """The files that the model was shown, as far as there was room."""
    folders: tuple[str, ...] = ()
    """The folders that it was shown a list of."""
    images: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    """What could not be shown, or not as it was mentioned: a sentence each."""


class Spending(Body):
    """What an event says of the requests that it tells of: who was asked, and what that took."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    cost: float = 0.0
    """By the model's price."""
    model: str = ""
    """Who was asked, such as `openai/qwen3-coder`. Logs of earlier versions do not tell."""
    priced: bool = False
    """Whether the model has a price. Without one, `cost` says nothing."""
    estimated: bool = False
    """Whether some of the tokens were estimated, because the server did not count them."""


def spent(usage: Usage, asked: ModelSettings, *, estimated: bool = False) -> dict[str, Any]:
    """What requests took, as the fields of an event."""
    price = asked.known_price
    return {
        "prompt_tokens": usage.prompt,
        "completion_tokens": usage.completion,
        "cached_tokens": usage.cached,
        "cost": price.of(usage.prompt, usage.cached, usage.completion) if price else 0.0,
        "model": asked.model,
        "priced": price is not None,
        "estimated": estimated,
    }


class ReplyReceived(Spending):
    """The model answered."""

    kind: ClassVar[str] = "reply_received"
    finish: str
    calls: tuple[str, ...]
    aside_tokens: int = 0
    """Of the prompt's, those of other requests, or that no server counted."""
    remark: str = ""
    """What the server could not do with the request, and what was done instead."""

    @classmethod
    def of(cls, reply: Reply, asked: ModelSettings) -> "ReplyReceived":
        """What the log keeps of a reply for good."""
        calls = tuple(clean_text(call.name)[:80] for call in reply.message.calls)
        fields = spent(reply.usage + reply.aside, asked, estimated=reply.estimated)
        aside, remark = reply.aside.prompt, clean_text(reply.remark)
        return cls(finish=reply.finish, calls=calls, aside_tokens=aside, remark=remark, **fields)


class ReplyFailed(Spending):
    """A request returned no usable reply. What an answer cost that cannot be used counts, if it is known."""

    kind: ClassVar[str] = "reply_failed"
    error: Literal["unavailable", "refused", "invalid", "overflow"]
    detail: str
    server: Literal["", "away", "loading"] = ""
    """Of a model that is unavailable: what its server is at."""

    @classmethod
    def unusable(cls, error: ReplyInvalid, asked: ModelSettings) -> "ReplyFailed":
        """The model answered, for nothing. If nobody counted, the sum is too low, and so an estimate."""
        uncounted = error.estimated or not any(error.tokens)
        fields = spent(Usage(*error.tokens), asked, estimated=uncounted)
        return cls(error="invalid", detail=str(error), **fields)


class PromptCut(Body):
    """The model's server read only a part of the prompt, and did not say so."""

    kind: ClassVar[str] = "prompt_cut"
    model: str
    sent: int
    """Tokens, by an estimate."""
    read: int
    """Tokens, by the server's own count."""
    window: int | None = None
    """The server's context window, where it tells; the history is kept below it from here on."""
    remedy: str = ""

    def describe(self) -> str:
        """What happened and what helps, without the last full stop."""
        window = f" (its context window is {self.window:,} tokens)" if self.window else ""
        told = f"the model server read only {self.read:,} of about {self.sent:,} tokens{window} and cut off "
        return f"{told}the rest without an error{f'. {self.remedy}' if self.remedy else ''}"


class FileHashes(Data):
    """A file before and after a planned write; None where it does not exist."""

    path: str
    before: str | None
    after: str | None


class ToolStarted(Body):
    """A call is about to run. For a write, `changes` tells after a crash whether it was done."""

    kind: ClassVar[str] = "tool_started"
    call: str
    name: str
    category: Category | None
    """None for a tool that does not exist."""
    target: str
    """The path, pattern or command, shortened, for people to read."""
    changes: tuple[FileHashes, ...] = ()


class ToolFinished(Body):
    """A call was answered."""

    kind: ClassVar[str] = "tool_finished"
    call: str
    name: str
    ok: bool
    error: str = ""
    """The slug of what went wrong: `denied`, `invalid_arguments`, `failed`, `unknown_tool`, ..."""
    detail: str = ""
    """The beginning of the answer to a call that went wrong."""
    read: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    restored: tuple[str, ...] = ()
    """What a command did where it may not, and was undone: a sentence each."""
    sources: tuple[str, ...] = ()
    """Pages of the web that were returned, a line each."""
    category: Category | None = None
    """None for a tool that does not exist."""
    key: str = ""
    """Stands for the name and the arguments: equal calls have equal ones."""
    result: str = ""
    """Stands for the answer: equal answers have equal ones."""
    tree: str = ""
    """The git tree that a command left, where whose changes are whose is recorded."""
    told: str = ""
    """What came of it in a few words for people: lines added and removed, or how a command failed."""


class EditsNoticed(Body):
    """Files have changed since the task last wrote or ran something: somebody else changed them.

    With the baseline and the tree of the end, these trees tell which changes are the task's own.
    """

    kind: ClassVar[str] = "edits_noticed"
    before: str
    """The git tree as the task had left it; empty if the tree could not be looked at."""
    after: str
    """The git tree as it was found."""
    files: tuple[str, ...] = ()
    verifying: bool = False
    """They changed while the project's own checks ran, and the checks did not do it again in a copy of the
    tree: a person may have done it."""
    uncertain: tuple[str, ...] = ()
    """Files that the task wrote before a crash, and that were changed before it went on."""
    while_away: bool = False
    """Nobody was working on the task: a command that was interrupted may have made the changes."""


class TaskStatusGiven(Body):
    """The model reported where it stands."""

    kind: ClassVar[str] = "task_status_given"
    status: Literal["starting", "in-progress", "completed"]
    done: str
    pending: str
    now: str
    ready_for_final_report: bool
    need_to_run_more_tools: bool


class StopAsked(Body):
    """A person asked for the task to be concluded with what there is."""

    kind: ClassVar[str] = "stop_asked"


class PersonSpoke(Body):
    """A person said something to the task. Every conversation of it is told, from its next turn on."""

    kind: ClassVar[str] = "person_spoke"
    text: str
    number: int
    """Later lines have higher numbers. It is the line's place among all that was said in the repository."""


class PlanWritten(Body):
    """The model wrote or changed its plan."""

    kind: ClassVar[str] = "plan_written"
    version: int
    items: tuple[PlanItem, ...]


class RecipeStarted(Body):
    """A planner had a recipe carried out."""

    kind: ClassVar[str] = "recipe_started"
    number: int
    task_type: str
    goals: tuple[str, ...]
    round: int = 1
    """How often it had it with these goals: steps that completed before do not run again."""
    tree: str = ""
    """The tree at its start."""


class RecipeEnded(Body):
    """A recipe ended, and its results are about to go back to the planner."""

    kind: ClassVar[str] = "recipe_ended"
    number: int
    round: int = 1
    completed: bool
    changed: bool
    """The task's files differ from what they were at its start."""
    acts: bool = True
    """A step began in which files could have been changed."""
    reason: str = ""
    """Why it was handed back, if it was not completed."""


class ScoutReported(Body):
    """A scout said what it found out, which is the content."""

    kind: ClassVar[str] = "scout_reported"
    scout: str
    question: str = ""
    """What it was asked; empty for what it says at the start."""
    found: tuple[str, ...] = ()
    """The files, the problems or the places that come first."""
    tokens: int = 0
    """The length of what it says, estimated."""
    problem: str = ""
    """Why it could find out nothing."""


class EscalationRaised(Body):
    """A step handed its work back to the planner."""

    kind: ClassVar[str] = "escalation_raised"
    reason: str


class StageDoneSignalled(Body):
    """The model said that the stage is done, and the checks hold; or, in a final turn, that they do not."""

    kind: ClassVar[str] = "stage_done_signalled"
    note: Note
    implied: bool = False
    """The model just stopped calling tools."""


class AnswerGiven(Body):
    """The model answered a task that is a question, or a flow that only reads. The latest one counts."""

    kind: ClassVar[str] = "answer_given"
    text: str


class CheckFinished(Body):
    """A stage's or a flow's check was run."""

    kind: ClassVar[str] = "check_finished"
    check: str
    verdict: Literal["pass", "fail", "broken"]
    reason: str = ""
    final: bool = False
    """It does not go back to the model: it is a warning at once."""
    clause: str = ""
    """Why the check refuses the exit of a stage, as a clause for people."""
    exact_clause: str = ""
    """The same, where more can be said than the check always says."""
    said_done: str = ""
    """The same after `the model said it was done`."""
    leads: bool = False
    """As a warning about the diff, it comes before all other words of the summary."""


class DecisionMade(Body):
    """What the runtime did about it, where that was not simply to go on."""

    kind: ClassVar[str] = "decision_made"
    action: str
    reason: str
    detail: str = ""
    seconds: float = 0.0
    """How long a wait before another attempt takes, from this event on."""


class ViewCompacted(Body):
    """What the model sees of a transcript was cut down; the transcript itself was not."""

    kind: ClassVar[str] = "view_compacted"
    reason: str
    messages_before: int
    messages_after: int
    chars: int
    """The size it was to be cut to."""


class StageCompacted(Spending):
    """The messages of a stage that has ended were replaced in the view by a summary, which is the content."""

    kind: ClassVar[str] = "stage_compacted"
    stage: str
    start: int
    """The first of its messages, counted in the transcript from 0."""
    end: int
    """The first message after them."""
    strategy: Strategy | Literal["agent"]
    """How the summary was written; `agent`: by a model."""
    chars_before: int
    chars_after: int
    fault: str = ""
    """Why the model that should write it did not: `unavailable`, `refused`, `overflow`, `unreadable` or
    `limit`."""
    detail: str = ""
    requests: int = 0
    """How often that model was asked. What it cost counts, also if its answers could not be used."""


FAILING_SHOWN = 240
"""What is shown of a failing test's line."""


def say_failed(failing: Sequence[str], reason: str, clause: str = "") -> str:
    """A failed verification in one sentence for people: the first failing test with its error, how many more
    there are, and the clause; or the reason, which includes the clause, where no test is known."""
    if not failing:
        return reason
    more = f" (and {len(failing) - 1} more)" if len(failing) > 1 else ""
    return f"{shorten(' '.join(failing[0].split()), FAILING_SHOWN)}{more}{clause}"


class StepResult(Data):
    """One verification step."""

    name: str
    passed: bool
    exit_code: int | None
    timed_out: bool
    seconds: float
    tests: int = 0
    """How many there were, by what known runners say at their ends."""
    left_out: int = 0
    """Of these, the ones that were skipped, or expected to fail."""
    told_all: bool = False
    """The runner came to all its tests, also where some of them failed."""


class VerifyStarted(Body):
    """The project's own checks were started by the runtime."""

    kind: ClassVar[str] = "verify_started"
    run_id: str
    steps: tuple[str, ...]
    asked: bool = False
    """Not the flow's last word: a run that is recorded and decides nothing."""
    opening: bool = False
    """The flow begins with it; otherwise it is the model that asked."""


class StepFailed(Body):
    """A verification step failed. What else is found out about that takes time, and ends with the run."""

    kind: ClassVar[str] = "step_failed"
    run_id: str
    step: str
    sentence: str
    """Why it failed, for people."""
    asked: bool = False
    """As in the event that started the run."""
    decides: bool = True
    """False where the configuration may accept it because it failed before the task as well."""


class VerifyFinished(Body):
    """The project's own checks ended."""

    kind: ClassVar[str] = "verify_finished"
    run_id: str
    passed: bool
    steps: tuple[StepResult, ...]
    reason: str = ""
    tree: str = ""
    """The git tree that was verified."""
    tree_after: str = ""
    """The tree when the run had ended: it may have written files itself."""
    own: str = ""
    """`tree` without what others had changed; and `tree_after` without it."""
    own_after: str = ""
    left_behind: tuple[str, ...] = ()
    """New files that the run itself made."""
    failing: tuple[str, ...] = ()
    """The tests that failed, one short line each, where the runner's format is known."""
    asked: bool = False
    opening: bool = False
    """As in the event that started it."""
    red_before: tuple[str, ...] = ()
    """What of it failed before the task as well: tests, or a step where tests cannot be told."""
    forgiven: tuple[str, ...] = ()
    """Steps that failed as they did before the task, where the configuration accepts that."""
    rewritten: tuple[str, ...] = ()
    """Source files that the run itself changed: it passed on another tree, and a run follows."""
    known: str = ""
    """The git tree that the run left, where whose changes are whose is recorded and the run changed files."""
    put_back: tuple[str, ...] = ()
    """What earlier versions said here of files that configure the task is now `config_restored`."""
    clause: str = ""
    """What the reason says besides the step that failed, as the end of a sentence: of the time before the
    task, or that the step took too long."""

    @property
    def sentence(self) -> str:
        """Why it failed, for people: the first failing test by name, or else the step that failed."""
        return say_failed(self.failing, self.reason, self.clause)


class BaselineVerified(Body):
    """A verification step was run on the tree as it was at the task's start."""

    kind: ClassVar[str] = "baseline_verified"
    steps: tuple[str, ...]
    """The step, or steps of which all passed, or of which none could be run."""
    failed: str = ""
    """The step that failed, if one did."""
    exit_code: int | None = None
    failing: tuple[str, ...] = ()
    """The names of the tests that failed in it."""
    lines: tuple[str, ...] = ()
    """What the failed step printed, a short hash for each line."""
    problem: str = ""
    """Why it is not known what the steps come to there, if so."""
    results: tuple[StepResult, ...] = ()
    """What the steps came to."""


class SuspectsFound(Body):
    """Where the failure of the check that the flow began with may come from, the most suspect place first."""

    kind: ClassVar[str] = "suspects_found"
    functions: tuple[str, ...] = ()
    lines: tuple[str, ...] = ()
    """The lines of these functions that failing tests run."""
    files: tuple[str, ...] = ()
    unfit: str = ""
    """Why nothing can be tried out, if so."""


class CandidateTried(Body):
    """One whole answer was tried. Only one that passed is written; no other enters a conversation."""

    kind: ClassVar[str] = "candidate_tried"
    place: str
    """What it was about, such as `cart.py: Cart.total`."""
    verdict: Literal["passed", "failed", "unchanged", "repeated", "unusable", "refused"]
    reason: str = ""
    fingerprint: str = ""
    """Stands for the code as it would be: equal answers have equal ones."""
    origin: Literal["model", "mutation"] = "model"
    """Whose it was: an answer, or a small change that was found by trial."""


class DiagnosisGiven(Body):
    """What the model believes to be the cause of a failed verification, before it fixes anything."""

    kind: ClassVar[str] = "diagnosis_given"
    loop: int
    text: str


class FixAttempted(Body):
    """What was changed after a failed verification."""

    kind: ClassVar[str] = "fix_attempted"
    loop: int
    diff: str
    """A unified diff, shortened if it is long."""


class ReplanStarted(Body):
    """Fixing has failed several times in a row, or a step of the plan has failed: the plan is rewritten."""

    kind: ClassVar[str] = "replan_started"
    loop: int
    item: str = ""
    """The step that failed, if that is why."""


class HypothesesGiven(Body):
    """What the model, at the hard stop and without tools, thinks may be wrong."""

    kind: ClassVar[str] = "hypotheses_given"
    text: str


class PhaseProbed(Spending):
    """A classifier was asked which phase the work is in. Its tokens count, also when its answer does not."""

    kind: ClassVar[str] = "phase_probed"
    answer: str = ""
    fault: str = ""
    """Why there is no answer: `unavailable`, `refused`, `invalid`, `overflow`, `timeout`, `unreadable`."""
    detail: str = ""


class PhaseChanged(Body):
    """Another hint goes to the model from here on. Nothing else depends on it."""

    kind: ClassVar[str] = "phase_changed"
    before: str
    phase: str
    by: Mover
    reason: str


class StageEnded(Body):
    """A stage was left."""

    kind: ClassVar[str] = "stage_ended"
    stage: str
    ending: Ending
    reason: str
    note: Note


class StageSkipped(Body):
    """A stage does not run, and why. Where people are told of it, a `stage_ended` comes before."""

    kind: ClassVar[str] = "stage_skipped"
    stage: str
    reason: str
    """`condition`: its `when` does not hold. `on_skip`: a stage that it needs was skipped. `join_any`:
    another stage of its group completed. `needs: STAGE failed` and the like: what it needs did not complete.
    `failed: STAGE`, or the reason of the task's end: the flow ended before."""


class ProposalMade(Body):
    """A dry run's stages are over. Nothing was written; the task waits for `apply` or `abort`."""

    kind: ClassVar[str] = "proposal_made"
    before: str
    """A git tree of what was found, as far as it is to be changed."""
    after: str
    """A git tree of what is proposed; the difference is the proposal."""
    summary: str
    files_changed: tuple[str, ...]
    unread: tuple[str, ...] = ()
    """What a person said too late to be read."""


class ApplyStarted(Body):
    """A proposal is about to be written. After a crash, the hashes tell which files were."""

    kind: ClassVar[str] = "apply_started"
    baseline: str
    """The git tree as it was found now: the task's diff is taken against it from here on."""
    changes: tuple[FileHashes, ...]


class ApplyFinished(Body):
    """The proposal is in the working tree."""

    kind: ClassVar[str] = "apply_finished"
    tree: str = ""
    """The git tree with it: what is changed from here on, nobody has reviewed."""


class ApplyRefused(Body):
    """The proposal was not applied, and nothing was changed: by default because the tree has moved on."""

    kind: ClassVar[str] = "apply_refused"
    conflicts: tuple[str, ...] = ()
    reason: str = "conflict"
    """Or `environment`, `crash`, `crash_loop`, `cancelled`: then there are no conflicts."""
    detail: str = ""


class TaskEnded(Body):
    """The task is over. The report is the last line of it all."""

    kind: ClassVar[str] = "task_ended"
    state: TaskState
    verified: bool
    reason: str
    summary: str
    files_changed: tuple[str, ...]
    tree: str = ""
    """The git tree at the end, without what others changed; with the baseline, it gives the task's diff."""
    whole: str = ""
    """The git tree at the end with what others changed, if that is another one."""
    shared: tuple[str, ...] = ()
    """Files whose diff holds what others changed as well, because that could not be told apart."""
    diffstat: tuple[str, ...] = ()
    """The lines added and removed, one file each."""
    traceback: str = ""
    """Where Headgate itself failed, if it did."""
    after_review: tuple[str, ...] = ()
    """Files that were changed after the proposal was reviewed and applied."""
    not_in_diff: tuple[str, ...] = ()
    """Files that were changed and that the task's diff cannot hold."""
    unread: tuple[str, ...] = ()
    """What a person said too late to be read."""


class WorktreeCommitted(Body):
    """What the task changed was committed in its worktree."""

    kind: ClassVar[str] = "worktree_committed"
    commit: str


class WorktreeRemoved(Body):
    """The task's worktree and its branch are gone."""

    kind: ClassVar[str] = "worktree_removed"


class MergeStarted(Body):
    """What a task changed in its worktree is about to be written to the user's own tree; see UndoStarted."""

    kind: ClassVar[str] = "merge_started"
    before: str
    """A git tree with the files as they were found."""
    after: str
    """A git tree with the files as they are to be; the difference is what an undo takes back."""
    changes: tuple[FileHashes, ...]
    folders: tuple[str, ...] = ()


class MergeFinished(Body):
    """What the task changed is in the user's own tree."""

    kind: ClassVar[str] = "merge_finished"


class MergeVerified(Body):
    """What the verification steps found in the user's own tree, with the task's changes in it."""

    kind: ClassVar[str] = "merge_verified"
    run_id: str = ""
    """Empty if the steps could not be begun, or there are none."""
    passed: bool | None
    """None: there are no steps."""
    reason: str = ""
    """Why they did not pass."""
    steps: tuple[StepResult, ...] = ()


class MergeRefused(Body):
    """Writing it to the user's own tree was begun and given up."""

    kind: ClassVar[str] = "merge_refused"
    reason: str


class UndoStarted(Body):
    """What an ended task changed is about to be taken back. After a crash, the hashes tell how far that came.

    What is written is the content, until it is written.
    """

    kind: ClassVar[str] = "undo_started"
    changes: tuple[FileHashes, ...]
    folders: tuple[str, ...] = ()
    """The folders that are removed if nothing is left in them."""
    kept: tuple[str, ...] = ()
    """Files that changed during the task and stay, because the task did not write them."""
    left: tuple[str, ...] = ()
    """What the task changed and cannot be taken back: links, large files, other repositories."""


class UndoFinished(Body):
    """What the task changed is no longer in the working tree."""

    kind: ClassVar[str] = "undo_finished"


class UndoRefused(Body):
    """Taking a task's changes back was begun and given up: they are all in the tree again, or say so."""

    kind: ClassVar[str] = "undo_refused"
    reason: str


class TaskReport(Body):
    """The structured report, recorded together with the task's end: the fields that scripts rely on."""

    kind: ClassVar[str] = "task_report"
    report: dict[str, Any]


class TaskReportInvalid(Body):
    """The task's report is not as scripts expect it: its log or Headgate is at fault. `codes` say how."""

    kind: ClassVar[str] = "task_report_invalid"
    codes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Event:
    """One entry of the log. `path` names the attempt at a stage, such as `rounds#2/implement`; see `tree`."""

    seq: int
    task: str
    path: str
    turn: int
    at: float
    body: Body

    @property
    def kind(self) -> str:
        return self.body.name if isinstance(self.body, Unknown) else self.body.kind

    def as_json(self) -> dict[str, Any]:
        """The event as `--json` prints it."""
        body = self.body.fields if isinstance(self.body, Unknown) else self.body.model_dump(mode="json")
        head = {"seq": self.seq, "task": self.task, "path": self.path, "turn": self.turn, "at": self.at}
        return {**head, "kind": self.kind, "body": body}
