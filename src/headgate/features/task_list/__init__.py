"""Task lists: a model works through the stages in a stage, in an order of its own; see `feature`."""
