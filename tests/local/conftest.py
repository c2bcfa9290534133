"""One real server with a real, tiny model for all tests here; without its packages they are skipped."""

from collections.abc import Iterator

import pytest

from headgate.cli.localserver import LocalServer, find_model, local_server
from headgate.errors import ConfigError

CONTEXT = 768
"""Tokens: room for Headgate's own prompt and a few turns, and soon full."""


@pytest.fixture(scope="session")
def server() -> Iterator[LocalServer]:
    try:
        find_model()
    except ConfigError as error:
        pytest.skip(str(error))
    with local_server(CONTEXT) as running:
        yield running
