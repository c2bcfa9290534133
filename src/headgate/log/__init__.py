"""What outlives a run: the database with tasks, events and the queue, and the folder that it is in."""

from headgate.log.changes import CancelOutcome, Draft, LineWaits
from headgate.log.database import RowDamaged, store_errors
from headgate.log.folder import REPORTED, Folder
from headgate.log.log import Bus, TaskLog, complete_state, load_state
from headgate.log.pause import Pause, find_pause
from headgate.log.report import (
    REQUIRED,
    Report,
    build_report,
    render_markdown,
    report_events,
    report_problems,
    try_line,
)
from headgate.log.store import Store, TaskRow
from headgate.log.summary import (
    SHARED,
    UNCHANGED,
    WHY_NOT_IN_DIFF,
    last_summary,
    say_discarded,
    say_merged,
    say_unread,
    write_summary,
)
