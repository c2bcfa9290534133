"""What outlives a run: the database with tasks, events and the queue, and the folder that it is in."""

from headgate.store.changes import CancelOutcome, Draft, LineWaits
from headgate.store.folder import REPORTED, Folder
from headgate.store.log import Bus, TaskLog, complete_state, load_state
from headgate.store.memories import MOST_MEMORIES, Memories, TaskMemory, search_memories
from headgate.store.pause import Pause, find_pause
from headgate.store.store import Store, TaskRow
