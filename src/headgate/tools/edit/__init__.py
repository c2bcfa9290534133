"""Changing files: `edit_file` and `apply_patch`."""
