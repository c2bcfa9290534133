"""The pure heart: data and functions from data to data. No input or output, no clock, no event loop."""

from headgate.core.answers import (
    AnswersTried,
    CandidateTried,
    SuspectsFound,
)
from headgate.core.attempt import (
    PLAN_TOOL,
    REAL,
    SIGNALS,
    StageState,
)
from headgate.core.authorship import (
    EditsNoticed,
    OthersEdits,
)
from headgate.core.boundary_text import (
    bare_words,
    boundary_problems,
    looks_like_path,
    names_the_opposite,
    split_list,
    strip_ending,
    unquote,
    without_notes,
)
from headgate.core.checks_and_guards import (
    VERIFY_CHECK,
    Access,
    Act,
    Ask,
    CheckSpec,
    Denial,
    Guard,
)
from headgate.core.conditions import (
    CODE,
    Situation,
    rename_stages,
)
from headgate.core.counts import (
    Broken,
    Fail,
    Fault,
    Pass,
    TurnRecord,
    Verdict,
    WorkSinceFailure,
)
from headgate.core.event import (
    Body,
    Event,
    Line,
    Moment,
    Slice,
    follows,
    read_body,
)
from headgate.core.failures import (
    FailureReport,
    condense_failures,
)
from headgate.core.flow import (
    DRIVE,
    DRIVEN,
    PLANNER,
    SCOUTS,
    TASKS_ENDED,
    Candidates,
    Ending,
    Flow,
    InputDoc,
    Priority,
    Repeat,
    Stage,
    all_stages,
)
from headgate.core.flow_check import (
    Problem,
    Where,
    flow_problems,
    tool_problems,
)
from headgate.core.instructions import (
    SystemPart,
    render_parts,
    render_variables,
)
from headgate.core.knobs import (
    CATEGORIES,
    COMPLETE_TOOL,
    DONE_TOOL,
    ESCALATE_TOOL,
    EXECUTE_TOOL,
    FAIL_TOOL,
    MEMORY_TOOL,
    START_TOOL,
    TOOL_ALIASES,
    Agent,
    AgentOptions,
    Budget,
    Compaction,
    CompactionAgent,
    Strategy,
    ToolScope,
    ViewPolicy,
    full_tool_name,
)
from headgate.core.loops import (
    due_nudge,
    is_lost,
)
from headgate.core.messages import (
    Category,
    Cut,
    Delta,
    Enough,
    Finish,
    Image,
    Message,
    Model,
    OnDelta,
    OnPulse,
    Pulse,
    Reply,
    Request,
    Timing,
    ToolCall,
    ToolSpec,
    Usage,
    clean_text,
    written,
)
from headgate.core.names import (
    ERROR_NAMES,
    FLAT_NAMES,
    FOR_ALL_STAGES,
)
from headgate.core.needs import (
    SKIP_CONDITION,
    SKIP_JOIN,
    SKIP_ON_SKIP,
)
from headgate.core.next_stages import (
    FailedRounds,
    GroupRound,
    Next,
    Records,
    Role,
    RoundEnd,
    decide_next,
    skip_stage,
    stages_concluded,
    stages_not_reached,
)
from headgate.core.notes import (
    Note,
    bound_note,
    list_names,
    render_notes,
)
from headgate.core.person import (
    LINE_CHARS,
    MOST_WAITING,
    Person,
    PersonSpoke,
    SaidLine,
    StopAsked,
    check_line,
    render_lines,
)
from headgate.core.plan import (
    Plan,
    PlanItem,
    PlanWritten,
    ReplanStarted,
    Status,
    expand_steps,
    is_open,
    merge_plan,
    plan_items,
    skip_reading,
)
from headgate.core.quoted_text import (
    find_quotations,
)
from headgate.core.reasons import (
    say_reason,
)
from headgate.core.recipes import (
    RECIPE_NAME,
    Recipe,
)
from headgate.core.research import (
    RESEARCH_TOOL,
    gives_research,
)
from headgate.core.rewrites import (
    MergeVerified,
    ProposalMade,
    Proposed,
    Rewrite,
    RewriteFinished,
    RewriteRefused,
    Rewrites,
    RewriteStarted,
    WorktreeCommitted,
    WorktreeRemoved,
)
from headgate.core.rules import (
    AWAY_SECONDS,
    RAN_OUT,
    Action,
    Around,
    Decision,
    RoundTally,
    WorkTally,
    decide,
    decide_given_up,
    decide_round,
    judge_work,
    retry_seconds,
    wait_seconds,
)
from headgate.core.settings import (
    COMMANDS_FOLDER,
    OWN_FOLDER,
    Data,
    Limits,
    ModelSettings,
    Price,
    Settings,
    Timeouts,
    ToolTransport,
    VerifyStep,
    package_of,
)
from headgate.core.short_form import (
    expand_flow,
    fix_stage,
    flow_as_written,
    free_id,
    run_order,
    task_rounds,
)
from headgate.core.spending import (
    Spending,
    UsageLine,
    say_cost,
    say_usage,
    spent,
    usage_table,
)
from headgate.core.stage_events import (
    AnswerGiven,
    CheckFinished,
    DecisionMade,
    HypothesesGiven,
    StageDoneSignalled,
    StageEnded,
    StageSkipped,
    StageStarted,
    says_start,
)
from headgate.core.state import (
    State,
    fold,
)
from headgate.core.task import (
    FINAL_STATES,
    SETTLED_STATES,
    TEXT_CHARS,
    Constraints,
    ImpossibleTransition,
    Options,
    Standing,
    Task,
    TaskState,
    check_task_text,
    check_transition,
    holds_up,
    parse_task_text,
)
from headgate.core.task_events import (
    BUBBLEWRAP,
    Conclusion,
    ConfigRestored,
    Mishaps,
    PrivilegesRemoved,
    ProtectedCommits,
    StoreRestored,
    TaskEnded,
    TaskReport,
    TaskReportInvalid,
    TaskResumed,
    TaskStarted,
    Workplace,
)
from headgate.core.text import (
    cut_text,
    fence,
    first_clause,
    is_openai_name,
    match_spelling,
    nearest,
    parse_path,
    path_words,
    plain,
    quote_lines,
    say_duration,
    share_out,
    shorten,
    shorten_words,
    show_hidden,
    show_path,
    times,
    unknown_name,
    without_politeness,
)
from headgate.core.tree import (
    all_needs,
    join_path,
    place_of,
    split_path,
    stage_ids,
    stages_before,
)
from headgate.core.turn_events import (
    Calls,
    FileHashes,
    ImageAdded,
    MessageAdded,
    PromptCut,
    ReplyFailed,
    ReplyReceived,
    Servers,
    TaskStatusGiven,
    ToolFinished,
    ToolStarted,
    ViewCompacted,
)
from headgate.core.verification import (
    BaselineVerified,
    DiagnosisGiven,
    FixAttempted,
    StepFailed,
    StepResult,
    VerifyFinished,
    VerifyRuns,
    VerifyStarted,
    say_failed,
)
from headgate.core.view import (
    CHARS_PER_CODE_TOKEN,
    CHARS_PER_TOKEN,
    LEAST_MESSAGES,
    build_view,
    estimate_missing,
    image_chars,
    image_surplus,
    request_size,
    size_of,
)
