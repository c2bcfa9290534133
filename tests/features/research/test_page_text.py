"""The text of pages, with trafilatura and without it."""

import subprocess
import sys

import pytest

from features.research.site import ARTICLE
from headgate.features.research import find_trafilatura
from headgate.features.research.page_text import decode_text, extract_text, plain_text


@pytest.mark.parametrize(
    ("markup", "text"),
    [
        (
            ARTICLE,
            "On gates\nA headgate controls the flow of water into a canal & is opened by hand.\n"
            "It was first described in 1884, by an engineer whose name has been lost since.",
        ),
        ("", ""),
        ("no markup", "no markup"),
        ("a < b and b > c", "a < b and b > c"),
        ("<p>one<p>two", "one\ntwo"),
        ("<P>in <B>bold</B> words</P>", "in bold words"),
        ("a<br>b<br/>c", "a\nb\nc"),
        ("<script>x</script>y", "y"),
        ("<SCRIPT type='a'>if (a < b) x()</Script >y", "y"),
        ("<script>'<script>'</script>y</script>z", "y\nz"),
        ("y<script>never closed", "y"),
        ("y<style>never closed", "y"),
        ("<nav>never closed", "never closed"),
        ("<nav>menu</nav>text<footer>imprint</footer>", "text"),
        ("<scripture>kept</scripture>", "kept"),
        ("a<!-- b -->c<!-- never closed", "ac"),
        ("<!DOCTYPE html><?xml version='1'?>a", "a"),
        ("a<", "a<"),
        ("a<b", "a"),
        ("a</", "a"),
        ("&lt;script&gt; &#x41; &nbsp;&unknown;", "<script> A &unknown;"),
        ("<img alt='x'>a<input value=b>", "a"),
    ],
)
def test_the_plain_way(markup: str, text: str) -> None:
    assert plain_text(markup) == text


@pytest.mark.parametrize(
    "piece", ["<", "<a ", "<!--", "<script>", "</script", "<nav>", "&", "<svg><svg>", "<!", "&#"]
)
def test_much_of_anything_is_read_once(piece: str) -> None:
    """What is searched for and not there is searched for once; otherwise this would not end today."""
    assert len(plain_text(piece * 400_000)) <= len(piece) * 400_000


def test_with_trafilatura() -> None:
    pytest.importorskip("trafilatura")
    find_trafilatura.cache_clear()
    text = extract_text(ARTICLE)
    assert "A headgate controls the flow of water into a canal & is opened by hand." in text
    assert "never shown" not in text


def test_what_trafilatura_cannot_read_is_read_plainly() -> None:
    assert extract_text("<p>short") == "short"
    assert extract_text("<" * 1_000) == "<" * 1_000


def test_charsets_of_markup() -> None:
    head = b'<meta http-equiv="Content-Type" content="text/html; charset=koi8-r">'
    body = "река".encode("koi8-r")
    assert decode_text(head + body, "", is_markup=True).endswith("река")
    assert decode_text(head + body, "charset=utf-8", is_markup=True).endswith("\ufffd\ufffd")
    assert decode_text(body, ' charset="KOI8-R" ', is_markup=False) == "река"


def test_without_the_optional_packages() -> None:
    """In a process in which they cannot be imported, as in a plain installation."""
    code = """
import asyncio, sys
sys.modules["trafilatura"] = sys.modules["ddgs"] = None
from headgate.config import ResearchSettings
from headgate.errors import ToolFailed
from headgate.features.research import Research, find_trafilatura
from headgate.features.research.page_text import extract_text
assert find_trafilatura() is None
assert extract_text("<p>plain<script>x</script>") == "plain"
try:
    asyncio.run(Research(ResearchSettings(backend="ddgs")).find("gates"))
except ToolFailed as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == (
        "The search failed: the package ddgs is not installed."
        " A person can install it: pip install '.[research]' in the clone of Headgate.\n"
    )
