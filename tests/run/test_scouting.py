"""When the check is run before the model is asked."""

import os
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from headgate.run.scouting import present_version, says_that_it_fails
from headgate.scouts import NeededTool


@pytest.mark.parametrize(
    "text",
    [
        "test_cart.py fails: total() counts each item once.",
        "The tests are red.",
        "total() is wrong for empty carts.",
        "Login crashes with an unknown user.",
        "Fix the bug in the cart.",
        "Fix this:\nKeyError: 'name'",
        'It says File "cart.py", line 3.',
        "FAILED tests/test_cart.py::test_total",
        "Make tests/test_cart.py pass.",
        "Update the documents; the build has been broken since Monday.",
        "parse() raises ValueError for an empty text.",
    ],
)
def test_tasks_that_say_that_something_fails(text: str) -> None:
    assert says_that_it_fails(text)


@pytest.mark.parametrize(
    "text",
    [
        "Make the button red.",
        "Add an error message for wrong passwords.",
        "Show errors in red.",
        "Return an error if the file is missing.",
        "Add retries for failed requests.",
        "Log it when an upload fails.",
        "Add a page that lists broken links. Make sure that all tests pass.",
        "Rename error_count to failures.",
        "Handle errors in parse().",
        "The red line should be thicker.",
        "",
    ],
)
def test_tasks_that_only_speak_of_errors(text: str) -> None:
    assert not says_that_it_fails(text)


@pytest.mark.parametrize("text", ["test " * 20_000, "make " * 20_000, "a" * 100_000, 'File "' * 20_000])
def test_long_tasks_are_read_at_once(text: str) -> None:
    began = time.process_time()
    says_that_it_fails(text)
    assert time.process_time() - began < 2


async def test_asking_for_a_version_downloads_none(tmp_path: Path) -> None:
    go = tmp_path / "go"
    go.write_text('#!/bin/sh\ntest "$GOTOOLCHAIN" = local && echo go version go1.22.1\n')
    go.chmod(0o755)
    context = SimpleNamespace(
        environment={"PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"},
        workspace=SimpleNamespace(root=tmp_path),
        sandbox=None,
    )
    job: Any = SimpleNamespace(proposing=False, verifier=None, context=context)
    assert await present_version(job, NeededTool("go", ">=1.99", "go.mod")) == "1.22.1"
