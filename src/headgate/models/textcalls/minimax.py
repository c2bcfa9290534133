"""MiniMax M3: a tree of tags named after the arguments, each with the same mark before it."""

import re
from dataclasses import dataclass, field
from typing import Any

from headgate.models.textcalls.coercion import branches, read_text, types_of
from headgate.models.textcalls.relaxed import DEPTH
from headgate.models.textcalls.result import Attempt, Found
from headgate.models.textcalls.source import Source
from headgate.models.textcalls.toolbook import ToolBook, read_properties

MARK = "]<]minimax[>["
_TAG = re.compile(re.escape(MARK) + r"<(/?)([\w.\-]{1,128}+)>")
_NAME = re.compile(r'([^"\n>]{1,128})">')


@dataclass(slots=True)
class _Node:
    tag: str
    start: int
    text: str = ""
    children: list["_Node"] = field(default_factory=list)


class MiniMaxTree:
    """Reads `<invoke name="N">` and its tree."""

    closings: tuple[str, ...] = (f"{MARK}</invoke>",)

    def read(self, source: Source, opening: re.Match[str], book: ToolBook) -> Found | None:
        """Reads one call; a tag that closes another one makes it unreadable."""
        head = _NAME.match(source.text, opening.end())
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
                return Found(position, (Attempt(name, None, "", "unreadable"),))
            else:
                node.text = source.text[node.start : tag.start()]
                stack.pop()
                if not stack:
                    return Found(
                        position, (Attempt(name, _read_object(node, book.root(name), book.root(name))),)
                    )
                stack[-1].children.append(node)
        return Found(len(source.text), (Attempt(name, None, "", "cut_off"),))


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
