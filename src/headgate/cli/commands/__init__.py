"""The commands: one module for each, or for several of one subject."""
