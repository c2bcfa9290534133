"""What all tests share: property tests are repeatable, and nothing reads the user's own configuration."""

from hypothesis import settings

settings.register_profile("repeatable", derandomize=True, deadline=None, database=None)
settings.load_profile("repeatable")
