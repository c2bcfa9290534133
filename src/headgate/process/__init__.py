"""Processes: commands and what they leave running, the lock, work that is not interrupted."""
