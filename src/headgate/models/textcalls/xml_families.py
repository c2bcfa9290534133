"""Families that write arguments between tags, as text: every value is read by the tool's schema."""

import re
from functools import lru_cache
from typing import Any, NamedTuple

from headgate.first_use import regex
from headgate.models.textcalls.json_families import read_named
from headgate.models.textcalls.offered_tools import ToolBook
from headgate.models.textcalls.result import CallAttempt, CallsFound, Opening
from headgate.models.textcalls.source import Source

# A value may hold the tag that ends it (code about such tags): an end is one only if a tag follows.
_QWEN_END = regex(
    r"</parameter>(?=\s*+(?:<parameter=|</function>|</\w{0,8}:?tool_call>|\Z))"
    r"|</function>(?=\s*+(?:</?\w{0,8}:?tool_call>|<function=|\Z))"
)
_QWEN_NEXT = regex(
    r"<parameter=([^>\n]{1,128})>|</function>|(?=</\w{0,8}:?tool_call>)|(?P<again>)(?=<function=)"
)
_QWEN_NAME = regex(r"""\s*+["']?([^>"'\n<]{1,128})["']?>\s*+""")
_ATTRIBUTE_NAME = regex(r"""\s*+["']?([^"'>\n]{1,128})["']?\s*+(/?)>""")
_CDATA = "<![CDATA["


def read_qwen(source: Source, opening: Opening, book: ToolBook) -> CallsFound | None:
    """`<function=NAME><parameter=KEY>`: Qwen3-Coder, Seed-OSS; with JSON inside: Functionary 3.1."""
    head = _QWEN_NAME.match(source.text, opening.end)
    if not head:
        return None
    name, position = head[1].strip(), head.end()
    if source.text.startswith("{", position):
        return read_named(source, name, position, opening.closings)
    arguments: dict[str, Any] = {}
    while tag := source.search(_QWEN_NEXT, position):
        if tag["again"] is not None:
            return CallsFound(tag.start(), (CallAttempt(name, fault="unreadable"),))
        if not tag[1]:
            return CallsFound(tag.end(), (CallAttempt(name, arguments),))
        end = source.search(_QWEN_END, tag.end())
        if not end:
            break
        key = tag[1].strip().strip("\"'")
        arguments[key] = book.read_argument(name, key, trim_lines(source.text[tag.end() : end.start()]))
        position = end.end() if end[0] == "</parameter>" else end.start()
    return CallsFound(len(source.text), (CallAttempt(name, fault="cut_off"),))


_GLM_NAME = regex(r"\s*+([\w.\-]{1,128}+)(?=\s|\\n|<tool_sep>|<arg_key>|</tool_call>|\Z)")
_GLM_NEXT = regex(r"<arg_key>(.{0,128}?)</arg_key>|<arg_value>|</tool_call>", re.DOTALL)
_GLM_END = regex(r"</arg_value>(?=(?:\s|\\n)*+(?:<arg_key>|</tool_call>|\Z))")


def read_glm(source: Source, opening: Opening, book: ToolBook) -> CallsFound | None:
    """`<tool_call>NAME<arg_key>..</arg_key><arg_value>..</arg_value>`: GLM 4.5, Hunyuan, Poolside."""
    head = _GLM_NAME.match(source.text, opening.end)
    if not head:
        return None
    name, position, key = head[1], head.end(), ""
    arguments: dict[str, Any] = {}
    while tag := source.search(_GLM_NEXT, position):
        position = tag.end()
        if tag[0] in opening.closings:
            return CallsFound(position, (CallAttempt(name, arguments),))
        if tag[0] != "<arg_value>":
            key = (tag[1] or "").strip()
            continue
        end = source.search(_GLM_END, position)
        if not end:
            break
        text = source.text[position : end.start()]
        if key:
            arguments[key] = book.read_argument(name, key, text, unquote=True)
        key, position = "", end.end()
    if source.find("<arg_key>", head.end()) < 0:
        return None
    return CallsFound(len(source.text), (CallAttempt(name, fault="cut_off"),))


def read_invoke(
    source: Source, opening: Opening, book: ToolBook, outer: str = "invoke", inner: str = "parameter"
) -> CallsFound | None:
    """`<invoke name="N"><parameter name="K">`: MiniMax M2, DeepSeek V3.2, dots; MiniCPM's `<function`."""
    head = _ATTRIBUTE_NAME.match(source.text, opening.end)
    if not head:
        return None
    name, position = head[1].strip(), head.end()
    if head[2]:
        return CallsFound(position, (CallAttempt(name, {}),))
    tags = _tags(opening.prefix, outer, inner)
    body = source.skip_space(position)
    if source.text.startswith("{", body):
        return read_named(source, name, body, (tags.closing,))
    arguments: dict[str, Any] = {}
    while tag := source.search(tags.next, position):
        if not tag[1]:
            return CallsFound(tag.end(), (CallAttempt(name, arguments),))
        wanted = tags.cdata_end if source.text.startswith(_CDATA, tag.end()) else tags.end
        end = source.search(wanted, tag.end())
        if not end:
            break
        text = trim_lines(source.text[tag.end() : end.start()].removeprefix(_CDATA))
        plain = 'string="true"' in tag[2]
        arguments[tag[1]] = text if plain else book.read_argument(name, tag[1], text)
        position = end.end()
    return CallsFound(len(source.text), (CallAttempt(name, fault="cut_off"),))


class _Tags(NamedTuple):
    """The patterns for one pair of tags."""

    closing: str
    next: re.Pattern[str]
    end: re.Pattern[str]
    cdata_end: re.Pattern[str]


@lru_cache(maxsize=32)
def _tags(prefix: str, outer: str, inner: str) -> _Tags:
    opening, closing = re.escape(f"<{prefix}{inner}"), re.escape(f"</{prefix}{outer}>")
    ending = re.escape(f"</{prefix}{inner}>")
    follows = rf"(?=\s*+(?:{opening}[\s>]|{closing}|\Z))"
    return _Tags(
        f"</{prefix}{outer}>",
        regex(rf"""{opening}\s++name=["']?([^"'>\n]{{1,128}})["']?([^>\n]{{0,99}})>|{closing}"""),
        regex(ending + follows),
        regex(r"\]\]>\s*+" + ending + follows),
    )


def trim_lines(text: str) -> str:
    """A value without the line break after its opening tag and, then, the one before its closing tag."""
    return text[1:].removesuffix("\n") if text.startswith("\n") else text
