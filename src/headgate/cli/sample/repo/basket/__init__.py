"""A shopping basket."""
