"""Tasks, the store and the repository lock: everything that outlives one run."""
