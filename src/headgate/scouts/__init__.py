"""What can be found out about a repository without a model: which lines a failing test suspects."""
