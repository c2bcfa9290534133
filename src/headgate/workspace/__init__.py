"""The repository: its paths, its files on disk or in an overlay, its ignore rules, and git."""
