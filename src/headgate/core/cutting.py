"""Shortening texts. A mark says how much is gone."""

from collections.abc import Sequence


def cut_text(text: str, limit: int, what: str = "") -> str:
    """The beginning and the end of a text, in at most `limit` characters. `what` names it in the mark."""
    if len(text) <= limit:
        return text
    room, mark = limit, ""
    named = f" of {what}" if what else ""
    # The mark's length depends on the number in it, which depends on the mark's length.
    for _ in range(3):
        mark = f"\n[... {len(text) - room} characters{named} cut here ...]\n"
        room = limit - len(mark)
    if room < 2:
        return text[:limit]
    return text[: room - room // 2] + mark + text[len(text) - room // 2 :]


def shorten(text: str, chars: int) -> str:
    """The text, or its beginning with a mark that says how much is left out."""
    if len(text) <= chars:
        return text
    return f"{text[:chars].rstrip()} [... {len(text) - chars:,} more characters]"


def share_out(sizes: Sequence[int], room: int) -> int:
    """The largest limit such that texts of these sizes, each cut to it, fit the room together."""
    limit = room
    for position, size in enumerate(sorted(sizes)):
        limit = room // (len(sizes) - position)
        if size > limit:
            break
        limit = size
        room -= size
    return limit
