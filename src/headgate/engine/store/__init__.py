"""The database file: tasks, events, their contents, and the queue."""
