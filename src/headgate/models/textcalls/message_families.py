"""Families whose reply is a series of messages or a tree of tags: gpt-oss, MiniMax, Kimi K3 and others."""

import re
from dataclasses import field
from typing import Any, Literal

from headgate.first_use import dataclass, regex
from headgate.models.textcalls.json_families import attempts_in, read_arguments
from headgate.models.textcalls.offered_tools import ToolBook, branches, read_properties, read_text, types_of
from headgate.models.textcalls.result import MESSAGES_READ, CallAttempt, CallsFound, Opening, ReplyPart
from headgate.models.textcalls.source import DEPTH, Source
from headgate.models.textcalls.xml_families import read_invoke

MUSE_HEADER = r"\s{0,16}(?:<\|start\|>assistant)?\s{0,4}to=([\w.\-]{1,128})<\|message\|>"
_MUSE_HEADER = regex(MUSE_HEADER)
_MUSE_END = regex(r"<\|(?:eom|eot)\|>")
_MUSE_INVOKE = regex(r"<atem:invoke name=")
_INKLING_MARK = regex(r"<\|(?:message_\w{1,16}|content_\w{1,32}|\w{1,16}_end|end_message)\|>")
_INKLING_CALL = "<|content_invoke_tool_json|>"
KIMI_TAG = r"<\|(open|close)\|>([^<\n]{0,300}?)<\|sep\|>"
_KIMI_TAG = regex(KIMI_TAG)
_KIMI_ATTRIBUTE = regex(r'(\w{1,16})="([^"]{0,200})"')


def read_muse(source: Source, book: ToolBook) -> list[ReplyPart]:
    """`to=NAME<|message|>`: the recipient decides; the same tags in an answer to the user are text.

    What follows the last message without a header is text.
    """
    parts: list[ReplyPart] = []
    position, text = 0, source.text
    while position < len(text) and len(parts) < MESSAGES_READ:
        header = _MUSE_HEADER.match(text, position)
        if not header:
            parts.append(ReplyPart("content", text[position:]))
            break
        end = source.search(_MUSE_END, header.end())
        body = text[header.end() : end.start() if end else len(text)]
        stop = end.end() if end else len(text)
        if header[1] == "self":
            parts.append(ReplyPart("reasoning", body))
        elif header[1] == "user":
            parts.append(ReplyPart("content", body))
        else:
            parts.append(ReplyPart("calls", text[position:stop], _read_muse_calls(body, book)))
        position = stop
    return parts


def _read_muse_calls(body: str, book: ToolBook) -> tuple[CallAttempt, ...]:
    inner, position = Source(body), 0
    attempts: list[CallAttempt] = []
    while mark := inner.search(_MUSE_INVOKE, position):
        found = read_invoke(inner, Opening(mark.end(), prefix="atem:"), book)
        attempts += found.attempts if found else ()
        position = found.end if found else mark.end()
    return tuple(attempts)


def read_inkling(source: Source, book: ToolBook) -> list[ReplyPart]:
    """`<|content_invoke_tool_json|>{"name": .., "args": ..}`."""
    parts: list[ReplyPart] = []
    for message in source.text.split("<|end_message|>", MESSAGES_READ):
        source.spend(len(message))
        if not message:
            continue
        before, mark, body = message.rpartition(_INKLING_CALL)
        if mark:
            visible, _, _ = before.partition("<|message_model|>")
            if visible:
                parts.append(ReplyPart("content", _INKLING_MARK.sub("", visible)))
            call = _INKLING_MARK.sub("", message[len(visible) :])
            value = Source(body.strip()).json_at(0)
            calls = attempts_in(value.value) if value and not value.cut else None
            parts.append(ReplyPart("calls", call, calls or (CallAttempt("", fault="unreadable"),)))
        else:
            kind: Literal["reasoning", "content"] = "content"
            if "<|content_thinking|>" in message:
                kind = "reasoning"
            parts.append(ReplyPart(kind, _INKLING_MARK.sub("", message)))
    return parts


def read_kimi_k3(source: Source, book: ToolBook) -> list[ReplyPart]:
    """`<|open|>TAG<|sep|>...<|close|>TAG<|sep|>`: a tree of think, response, tools, call and argument.

    Text before the first tag that closes a thought was thinking.
    """
    parts: list[ReplyPart] = []
    position = start = 0
    name, key, kind = "", "", ""
    arguments: dict[str, object] = {}
    text, section = source.text, "response"
    while tag := source.search(_KIMI_TAG, position):
        inner, position = text[position : tag.start()], tag.end()
        head, _, _ = tag[2].partition(" ")
        attributes = dict(_KIMI_ATTRIBUTE.findall(tag[2]))
        if section in ("think", "response") and inner and not name:
            is_thought = section == "think" or (tag[1] == "close" and head == "think")
            parts.append(ReplyPart("reasoning" if is_thought else "content", inner))
        if tag[1] == "open":
            section = head
            if head == "call":
                name, arguments, start = attributes.get("tool", ""), {}, tag.start()
            elif head == "argument":
                key, kind = attributes.get("key", ""), attributes.get("type", "")
            continue
        section = ""
        if head == "argument" and key:
            arguments[key] = inner if kind == "string" else book.read_argument(name, key, inner)
        elif head == "call" and name:
            parts.append(ReplyPart("calls", text[start:position], (CallAttempt(name, arguments),)))
            name = ""
    if name:
        parts.append(ReplyPart("calls", text[start:], (CallAttempt(name, fault="cut_off"),)))
    elif text[position:].strip():
        parts.append(ReplyPart("reasoning" if section == "think" else "content", text[position:]))
    return parts


# gpt-oss: messages with channels. Calls go to `functions.NAME`, thinking to the channel `analysis`.


HARMONY_START = r"\s{0,16}+(?:<\|start\|>assistant)?\s{0,4}+(?:to=[\w.\-]{1,128}+\s{0,4}+)?<\|channel\|>"
_MESSAGE = "<|message|>"
_END = regex(r"<\|(?:end|call|return)\|>|(?=<\|(?:start|channel)\|>)")
_RECIPIENT = regex(r"\bto=([\w.\-]{1,128})")
_CHANNEL = regex(r"<\|channel\|>(\w{1,32})")
_NOBODY = {"assistant", "user", "final", "analysis", "commentary"}


def read_harmony(source: Source, book: ToolBook) -> list[ReplyPart]:
    """A whole reply of gpt-oss."""
    parts: list[ReplyPart] = []
    position, text = 0, source.text
    while len(parts) < MESSAGES_READ and (begin := source.find(_MESSAGE, position)) >= 0:
        header = text[position:begin]
        start = begin + len(_MESSAGE)
        end = source.search(_END, start)
        body = text[start : end.start()] if end else text[start:]
        piece_end = end.end() if end else len(text)
        parts.append(_read_harmony_message(header[-600:], body, text[position:piece_end], book, end is None))
        position = piece_end
    rest = text[position:]
    if rest.strip() and not parts:
        parts.append(ReplyPart("content", rest))
    return parts


def _read_harmony_message(header: str, body: str, whole: str, book: ToolBook, last: bool) -> ReplyPart:
    recipients = [name for name in _RECIPIENT.findall(header) if name not in _NOBODY]
    channels = _CHANNEL.findall(header)
    if recipients:
        return ReplyPart("calls", whole, (_read_harmony_call(recipients[-1], body, book, last),))
    if channels and channels[-1] == "analysis":
        return ReplyPart("reasoning", body)
    return ReplyPart("content", body)


def _read_harmony_call(name: str, body: str, book: ToolBook, last: bool) -> CallAttempt:
    value = Source(body).json_at(0) if body.startswith("{") else None
    value = value or Source(body.strip()).json_at(0)
    if value and value.cut:
        if last:
            return CallAttempt(name, fault="cut_off")
        value = None
    arguments = read_arguments(value.value) if value else None
    if arguments is not None:
        return CallAttempt(name, arguments)
    # Tools that take code, such as `python`, are sent the code itself.
    names = list(read_properties(book.root(name)))
    if len(names) == 1 and body.strip() and not body.lstrip().startswith("{"):
        return CallAttempt(name, {names[0]: body})
    return CallAttempt(name, fault="unreadable")


# MiniMax M3: a tree of tags named after the arguments, each with the same mark before it.


MINIMAX_MARK = "]<]minimax[>["
_TAG = regex(re.escape(MINIMAX_MARK) + r"<(/?)([\w.\-]{1,128}+)>")
_NAME = regex(r'([^"\n>]{1,128})">')


@dataclass(slots=True)
class _Node:
    tag: str
    start: int
    text: str = ""
    children: list["_Node"] = field(default_factory=list)


def read_minimax(source: Source, opening: Opening, book: ToolBook) -> CallsFound | None:
    """Reads `<invoke name="N">` and its tree; a tag that closes another one makes it unreadable."""
    head = _NAME.match(source.text, opening.end)
    if not head:
        return None
    name = head[1]
    stack = [_Node("invoke", head.end())]
    position = head.end()
    while tag := source.search(_TAG, position):
        position = tag.end()
        node = stack[-1]
        if not tag[1]:
            stack.append(_Node(tag[2], position))
        elif tag[2] != node.tag or len(stack) > DEPTH:
            return CallsFound(position, (CallAttempt(name, fault="unreadable"),))
        else:
            node.text = source.text[node.start : tag.start()]
            stack.pop()
            if not stack:
                arguments = _read_object(node, book.root(name), book.root(name))
                return CallsFound(position, (CallAttempt(name, arguments),))
            stack[-1].children.append(node)
    return CallsFound(len(source.text), (CallAttempt(name, fault="cut_off"),))


def _read_object(node: _Node, schema: Any, root: Any) -> dict[str, Any]:
    inner = next((found for part in branches(schema, root) if (found := read_properties(part))), {})
    return {child.tag: _read_node(child, inner.get(child.tag), root) for child in node.children}


def _read_node(node: _Node, schema: Any, root: Any) -> Any:
    if not node.children:
        return read_text(node.text, schema, root)
    types = types_of(schema, root)
    if all(child.tag == "item" for child in node.children) and (not types or "array" in types):
        items = next((part["items"] for part in branches(schema, root) if "items" in part), None)
        return [_read_node(child, items, root) for child in node.children]
    return _read_object(node, schema, root)
