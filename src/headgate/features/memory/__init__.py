"""Memories: short texts that models save in a repository, for later tasks to find."""

from headgate.features.memory.memories import MOST_MEMORIES, Memories, TaskMemory, search_memories
from headgate.features.memory.texts import (
    MEMORY_CHARS,
    MEMORY_TAGS,
    Memory,
    clean_tags,
    normal_form,
    words_of,
)
from headgate.features.memory.tools import FOUND_CHARS, MOST_FOUND, memory_tools
