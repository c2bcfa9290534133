"""The main text of a page: by trafilatura where it is installed, otherwise all that is not markup."""

import codecs
import html
import logging
import re
from collections.abc import Callable
from functools import cache

from headgate.errors import ToolFailed
from headgate.first_use import regex

Extract = Callable[[str], str]
"""Makes text of markup. It runs in a thread."""

_CHARSETS = regex(
    r"ascii|utf-8|utf-16(-[bl]e)?|iso8859-\d+|cp(125\d|437|850|866|874|932|949|950)|koi8-[rtu]|gb(2312|k|18030)"
    r"|big5(hkscs)?|euc_(jp|kr)|shift_jis|mac-(roman|cyrillic)|tis-620|johab"
)
"""Of Python's codecs, those for text that servers really send: others unpack, or take very long."""
_NAMED = regex(rb"""charset\s*=\s*["']?\s*([\w.:-]{1,40})""", re.IGNORECASE)
_HEAD_BYTES = 2_048


def decode_text(data: bytes, parameters: str, *, is_markup: bool) -> str:
    """A body as text. The charset is that of the header, else of the markup, else UTF-8; nothing fails."""
    named = _NAMED.search(parameters.encode("ascii", "ignore"))
    if named is None and is_markup:
        named = _NAMED.search(data[:_HEAD_BYTES])
    for mark, name in ((codecs.BOM_UTF8, "utf-8-sig"), (b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16")):
        if data.startswith(mark):
            return data.decode(name, "replace")
    return data.decode(_charset(named[1].decode("ascii", "ignore") if named else ""), "replace")


def _charset(name: str) -> str:
    """A codec that is safe to use; what browsers take `iso-8859-1` for is `cp1252`."""
    try:
        found = codecs.lookup(name).name if name else "utf-8"
    except (LookupError, ValueError):
        return "utf-8"
    if found in ("iso8859-1", "ascii"):
        return "cp1252"
    return found if _CHARSETS.fullmatch(found) else "utf-8"


_DROPPED = frozenset(
    {
        "script",
        "style",
        "noscript",
        "template",
        "svg",
        "math",
        "title",
        "iframe",
        "object",
        "select",
        "textarea",
    }
)
"""Elements whose content is no text of the page; one that is never closed ends it."""
_SKIPPED = _DROPPED | {"nav", "footer"}
"""With these, of which one that is never closed is ignored."""
_INLINE = frozenset(
    {"a", "abbr", "b", "bdi", "cite", "code", "del", "dfn", "em", "font", "i", "ins", "kbd", "mark", "q", "s"}
    | {"samp", "small", "span", "strong", "sub", "sup", "tt", "u", "var", "wbr"}
)
"""Elements that break no line."""
_TAG = regex(r"<(/?)([a-zA-Z][a-zA-Z0-9:-]{0,40})")


def plain_text(markup: str) -> str:
    """The text of a page, one line for each block, in linear time whatever the markup is.

    This is no use of `html.parser`: on unclosed markup that takes time by the square of its length in the
    Pythons that Headgate runs on, and pages are written by strangers.
    """
    parts: list[str] = []
    position, ended = 0, len(markup)
    closing: dict[str, int] = {}
    while position < ended:
        start = markup.find("<", position)
        if start < 0:
            start = ended
        parts.append(markup[position:start])
        tag = _TAG.match(markup, start)
        if tag is None:
            position, text = _skip_other(markup, start)
            parts.append(text)
            continue
        name = tag[2].lower()
        parts.append("" if name in _INLINE else "\n")
        position = tag.end()
        if name in _SKIPPED and not tag[1]:
            position = _find_closing(markup, name, position, closing)
        close = markup.find(">", position)
        position = close + 1 if close >= 0 else ended
    lines = (" ".join(line.split()) for line in html.unescape("".join(parts)).split("\n"))
    return "\n".join(line for line in lines if line)


def _skip_other(markup: str, start: int) -> tuple[int, str]:
    """Where what begins with `<` and is no tag ends, and what it is as text: comments are none."""
    if markup.startswith("<!--", start):
        close = markup.find("-->", start + 4)
        return (close + 3 if close >= 0 else len(markup)), ""
    if markup.startswith(("<!", "<?", "</"), start):
        close = markup.find(">", start)
        return (close + 1 if close >= 0 else len(markup)), ""
    return start + 1, markup[start : start + 1]


def _find_closing(markup: str, name: str, position: int, known: dict[str, int]) -> int:
    """Where the closing tag of a skipped element begins, or where its opening tag goes on.

    `known` holds the closing tag that was found last for each name, so that nothing is searched twice.
    """
    if known.get(name, -1) < position:
        found = re.compile(f"</{name}(?![a-zA-Z0-9:-])", re.IGNORECASE).search(markup, position)
        known[name] = found.start() if found else len(markup) + 1
    if known[name] <= len(markup):
        return known[name]
    return len(markup) if name in _DROPPED else position


@cache
def find_trafilatura() -> Extract | None:
    """The extractor of trafilatura, if it is installed and can be loaded."""
    try:
        import trafilatura  # an optional package, which takes long to load
    except ImportError:
        return None
    # Its complaints about pages would go to the terminal.
    logging.getLogger("trafilatura").addHandler(logging.NullHandler())

    def extract(markup: str) -> str:
        try:
            return trafilatura.extract(markup, include_comments=False) or ""
        except Exception as error:
            raise ToolFailed(f"trafilatura failed with {type(error).__name__}.") from error

    return extract


def extract_text(markup: str) -> str:
    """The main text of a page, by the best means there are."""
    extract = find_trafilatura()
    try:
        text = extract(markup) if extract else ""
    except ToolFailed:
        text = ""  # it found nothing, which the plain way may
    return text or plain_text(markup)
