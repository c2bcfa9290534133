"""Headgate: a task runtime for coding agents."""

__version__ = "0.1.0"
