"""What outlives a run: the database with tasks, events and the queue, and the folder that it is in."""
