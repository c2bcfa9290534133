"""Shortening texts: the beginning and the end stay, and a mark between them says how much is gone."""

from collections.abc import Sequence


def cut_text(text: str, limit: int, what: str = "") -> str:
    """The text in at most `limit` characters. `what` names the text in the mark."""
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
