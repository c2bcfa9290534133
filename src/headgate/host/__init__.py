"""What touches the machine: files, processes, locks, git."""
