"""The loop: flow, group, stage, turn. A room above registers more kinds of stages."""

from headgate.run.asking import reply_in_time
from headgate.run.attempts import open_attempt, record_end, reopen_attempt, restore, wait_for_retry
from headgate.run.exits import AttemptFacts, clean_value, leave_stage, try_exit
from headgate.run.feature import Attached, Feature
from headgate.run.first_messages import UNKNOWN_WINDOW, list_files, plan_room, stage_message, window_of
from headgate.run.flow import cannot_verify, run_flow
from headgate.run.followed import Followed
from headgate.run.group import GroupRun
from headgate.run.job import Clock, Job, Memory, Models, Parts, People, Pinned, Place, Tree
from headgate.run.kinds import KINDS
from headgate.run.outputs import find_schema_fault, read_output
from headgate.run.ports import CallPorts, call_under_way
from headgate.run.program_code import ProgramFailed, call_program
from headgate.run.stage import (
    Conversation,
    Entrance,
    Finder,
    Judge,
    Kind,
    Leader,
    Search,
    StageEnd,
    StageRun,
    say_facts,
)
from headgate.run.talk import Talk, open_conversation, replay_conversation, say_stages_ended, take_step
from headgate.run.tool_runs import hashes_of, write_changes
from headgate.run.transcript import Transcript, read_reply, reply_content, whole_lines
from headgate.run.trials import Trials
from headgate.run.turn import ask_model, finish_turn, take_turn, tell
from headgate.run.verification import Observer, StepsRun, run_verification
