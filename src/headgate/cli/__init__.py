"""The command line. Modules here are imported lazily, one per command."""
