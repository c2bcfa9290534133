"""A very small bank."""
