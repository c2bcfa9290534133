"""Searching files."""
