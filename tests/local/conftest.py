"""One real server with a real, tiny model for all tests here; without its packages they are skipped.

The model reads some 100 tokens a second on one processor: prompts are short, replies shorter, and tests that
follow each other begin with the same prompt, which the server then has in its cache.
"""

from collections.abc import Iterator

import pytest

from headgate.cli.local_server import LocalServer, find_model, local_server
from headgate.errors import ConfigError

CONTEXT = 768
"""Tokens: room for Headgate's own prompt and a few turns, and soon full."""


@pytest.fixture(scope="session")
def server() -> Iterator[LocalServer]:
    try:
        find_model()
    except ConfigError as error:
        pytest.skip(str(error))
    with local_server(context=CONTEXT) as running:
        yield running
