"""One real server with a real, tiny model for all tests here; without its packages they are skipped.

The model reads some 100 tokens a second on one processor: prompts are short, replies shorter, and tests that
follow each other begin with the same prompt, which the server then has in its cache.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from headgate.cli.local_server import LocalServer, find_model, local_server
from headgate.errors import ConfigError

CONTEXT = 768
"""Tokens: room for Headgate's own prompt and a few turns, and soon full."""


ROOM = 4096
"""Tokens: room for the prompts of whole flows."""


@pytest.fixture(scope="session")
def server() -> Iterator[LocalServer]:
    with _running(CONTEXT) as running:
        yield running


@pytest.fixture(scope="session")
def roomy_server() -> Iterator[LocalServer]:
    with _running(ROOM) as running:
        yield running


@contextmanager
def _running(context: int) -> Iterator[LocalServer]:
    try:
        find_model()
    except ConfigError as error:
        pytest.skip(str(error))
    with local_server(context=context) as running:
        yield running
