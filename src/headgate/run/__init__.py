"""The loop: flow, group, stage, turn. A room above registers more kinds of stages."""

from headgate.run.baseline import Trials
from headgate.run.calls import hashes_of, write_changes
from headgate.run.flow import run_flow
from headgate.run.job import Job
from headgate.run.kinds import KINDS
from headgate.run.kinds.talk import take_turns
from headgate.run.leaf import Entrance, Kind, StageEnd, StageRun
from headgate.run.resume import restore, restore_overlay
from headgate.run.transcript import read_reply, reply_content
from headgate.run.turn import ask_model
from headgate.run.verification import run_verification
