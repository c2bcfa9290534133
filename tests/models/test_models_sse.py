"""The event-stream parser against what browsers deliver, in every way the bytes can be split."""

import base64
import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases import case_path
from headgate.models.wire.exchange import SseParser, announced_parser


def parse(*chunks: bytes) -> list[str]:
    parser = SseParser()
    return [event for chunk in chunks for event in parser.feed(chunk)]


def browser_cases() -> list[dict[str, Any]]:
    return [json.loads(line) for line in case_path("sse", "cases.jsonl").read_text().splitlines()]


def test_browser_cases_whole_bytewise_and_at_every_split() -> None:
    cases = browser_cases()
    assert len(cases) == 28
    refused = 0
    for case in cases:
        body = base64.b64decode(str(case["body_b64"]))
        assert isinstance(announced_parser(str(case["mime"])), SseParser) == case["accepted"], case["id"]
        if not case["accepted"]:
            refused += 1
            continue
        expected = [event["data"] for event in case["events"]]
        assert parse(body) == expected, case["id"]
        assert parse(*(body[i : i + 1] for i in range(len(body)))) == expected, case["id"]
        for split in range(0, len(body) + 1, max(1, len(body) // 200)):
            assert parse(body[:split], body[split:]) == expected, (case["id"], split)
    assert refused == 3


@pytest.mark.parametrize(
    ("body", "events"),
    [
        (b"\xef\xbb\xbfdata: a\n\n", ["a"]),
        (b"data: a\r\rdata: b\r\n\r\n", ["a", "b"]),
        (b"data: \xff\xe2\x82\n\n", ["\ufffd\ufffd"]),
        (b"data: cut", []),
        (b"data: cut\n", []),
        (b"event: x\n\ndata: a\n\n", ["a"]),
        (b": ping\n\n:\n\ndata: a\n\n", ["a"]),
        (b"id: 7\n\ndata: a\n\n", ["a"]),
        (b"id: 7\nid: a\0b\ndata: a\n\n", ["a"]),
        (b"data:  two spaces\n\n", [" two spaces"]),
        (b"data: a\n: in between\ndata: b\n\n", ["a\nb"]),
    ],
)
def test_rules_of_the_standard(body: bytes, events: list[str]) -> None:
    assert parse(body) == events
    assert parse(*(body[i : i + 1] for i in range(len(body)))) == events


def test_an_event_is_delivered_as_soon_as_its_blank_line_is_there() -> None:
    parser = SseParser()
    assert parser.feed(b"data: a\r") == []
    assert parser.feed(b"\r") == ["a"]
    assert parser.feed(b"\n") == []
    assert parser.feed(b"data: b\n\n") == ["b"]


PIECES = st.sampled_from(
    [b"data: x", b"data", b":c", b"event: e", b"id: 1", b"\r", b"\n", b"\r\n", b"\xe2\x82\xac", b"\xff"]
)


@given(st.lists(PIECES, max_size=20).map(b"".join), st.lists(st.integers(0, 80), max_size=6))
def test_splitting_changes_nothing(body: bytes, cuts: list[int]) -> None:
    edges = [0, *sorted(min(cut, len(body)) for cut in cuts), len(body)]
    chunks = [body[a:b] for a, b in pairwise(edges)]
    assert parse(*chunks) == parse(body)
