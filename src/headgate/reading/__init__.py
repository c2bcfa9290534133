"""Readers of text that others wrote: diffs, source, test output, command lines. Pure, like the core."""
