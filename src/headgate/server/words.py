"""Times and sums as the page says them, and the runs that a text names as links to their logs."""

from collections.abc import Collection

from markupsafe import Markup, escape

from headgate.core import show_hidden
from headgate.patterns import regex

_RUN = regex(r"(?:\.headgate/runs/)?(run_[0-9]{8}_[0-9]{6}_[0-9a-f]{6})(?:/combined\.log)?")


def clock(seconds: float) -> str:
    """`01:23`, and `75:00` after an hour and a quarter."""
    minutes, rest = divmod(max(int(seconds), 0), 60)
    return f"{minutes:02}:{rest:02}"


def long_clock(seconds: float) -> str:
    """`40 s`, `3 min 20 s`, `2 h 5 min`."""
    whole = max(int(seconds), 0)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes} min {rest} s" if rest else f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if minutes else f"{hours} h"


def age(seconds: float) -> str:
    """`just now`, `5 min ago`, `3 h ago`, `12 d ago`."""
    minutes = max(int(seconds), 0) // 60
    if minutes < 1:
        return "just now"
    if minutes < 60:
        return f"{minutes} min ago"
    hours = minutes // 60
    return f"{hours} h ago" if hours < 48 else f"{hours // 24} d ago"


def first_line(text: str, chars: int = 200) -> str:
    """A title for a text: its first line, not too long."""
    line = next((line.strip() for line in text.splitlines() if line.strip()), "")
    return line if len(line) <= chars else f"{line[: chars - 1].rstrip()}…"


def after_first_line(text: str) -> str:
    """What a title leaves out: all after the first line; the whole text if that line is too long for one."""
    line, _, rest = text.strip().partition("\n")
    return rest.strip() if line.strip() == first_line(text) else text.strip()


def link_runs(text: str, task: str, runs: Collection[str]) -> Markup:
    """A text as HTML in which the ids and logs of these runs lead to the page of the log."""
    made, at = Markup(), 0
    for found in _RUN.finditer(text):
        if found[1] in runs:
            made += escape(show_hidden(text[at : found.start()]))
            made += Markup('<a href="/tasks/{}/runs/{}">{}</a>').format(task, found[1], found[1])
            at = found.end()
    return made + escape(show_hidden(text[at:]))
