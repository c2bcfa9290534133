"""Arguments of calls: mended where nothing is lost, refused where something would be made up."""

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.errors import ToolArgsInvalid
from headgate.run.calls import parse_arguments


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", {}),
        ("  ", {}),
        ("{}", {}),
        ('{"path": "a.py"}', {"path": "a.py"}),
        ('{"path": "a.py",}', {"path": "a.py"}),
        ("{'path': 'a.py'}", {"path": "a.py"}),
        ('{path: "a.py"}', {"path": "a.py"}),
        ('{"content": "C:\\\\dir\\\\",}', {"content": "C:\\dir\\"}),
        ('{"content": "a,]", "list": [1, 2,],}', {"content": "a,]", "list": [1, 2]}),
        ('{"content": "one\ntwo"}', {"content": "one\ntwo"}),
        ('"{\\"path\\": \\"a.py\\"}"', {"path": "a.py"}),
        ('```json\n{"path": "a.py"}```', {"path": "a.py"}),
    ],
)
def test_accepted(text: str, value: dict[str, Any]) -> None:
    assert parse_arguments(text) == value


@pytest.mark.parametrize(
    "text", ['{"content": "half of a fi', '{"path": "a.py"', "[1, 2]", "3", "nonsense", "null"]
)
def test_refused(text: str) -> None:
    with pytest.raises(ToolArgsInvalid):
        parse_arguments(text)


def test_what_was_cut_off_is_never_completed() -> None:
    with pytest.raises(ToolArgsInvalid, match="are incomplete"):
        parse_arguments('{"content": "{}', cut_off=True)


values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(), st.lists, max_leaves=5
)


@given(st.dictionaries(st.text(), values))
def test_valid_json_is_taken_as_it_is(value: dict[str, Any]) -> None:
    assert parse_arguments(json.dumps(value)) == value


@given(st.text())
def test_anything_at_all_gives_an_object_or_a_refusal(text: str) -> None:
    with suppress(ToolArgsInvalid):
        assert isinstance(parse_arguments(text), dict)
