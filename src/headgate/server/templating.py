"""Templates, the words that they use for times and titles, and the files beside them.

Everything that a template is given is escaped. Characters that are not seen are named, except in fields that
people type into: there `|e` leaves them alone.
"""

from collections.abc import Collection, Mapping
from hashlib import sha256
from http import HTTPStatus
from importlib import resources
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from headgate.checks import RUN_ID
from headgate.core import plain, plan_items, show_hidden
from headgate.engine import count_tokens
from headgate.first_use import dataclass, regex
from headgate.log import say_merged

_TYPES = {
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
}


@dataclass(frozen=True, slots=True)
class StaticFile:
    """A script, a style sheet or a picture."""

    content: bytes
    media_type: str

    @property
    def mark(self) -> str:
        """Changes with the content, so that a browser keeps a file for as long as it is the right one."""
        return sha256(self.content).hexdigest()[:12]


def _read_static() -> Mapping[str, StaticFile]:
    folder = resources.files("headgate.server") / "static"
    return {
        item.name: StaticFile(item.read_bytes(), _TYPES[item.name[item.name.rindex(".") :]])
        for item in folder.iterdir()
    }


STATIC = _read_static()


def _static_url(name: str) -> str:
    return f"/static/{name}?v={STATIC[name].mark}"


_GLYPHS = {
    "QUEUED": "○",
    "RUNNING": "●",
    "INTERRUPTED": "‖",
    "PROPOSED": "◇",
    "SUCCESS": "✓",
    "STUCK": "✗",
    "INFRA_ERROR": "!",
    "CANCELLED": "–",
    "UNDONE": "↶",
}
"""A sign for each state, so that colour is not needed."""
_RUN = regex(rf"(?:\.headgate/runs/)?(?P<id>{RUN_ID})(?:/combined\.log)?")


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
        if found["id"] in runs:
            made += escape(show_hidden(text[at : found.start()]))
            made += Markup('<a href="/tasks/{}/runs/{}">{}</a>').format(task, found["id"], found["id"])
            at = found.end()
    return made + escape(show_hidden(text[at:]))


def _make_environment() -> Environment:
    made = Environment(
        loader=PackageLoader("headgate.server", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=lambda value: show_hidden(value) if type(value) is str else value,
    )
    made.filters |= {
        "age": age,
        "clock": clock,
        "link_runs": link_runs,
        "long_clock": long_clock,
        "plain": plain,
        "plan_items": plan_items,
        "say_merged": say_merged,
        "tokens": count_tokens,
    }
    made.globals |= {"static": _static_url, "glyphs": _GLYPHS}
    return made


_ENVIRONMENT = _make_environment()


def render(template: str, **values: Any) -> str:
    """A page, or a part of one. Text that is no UTF-8 is shown as far as it is."""
    text = _ENVIRONMENT.get_template(template).render(**values)
    return text.encode("utf-8", "replace").decode()


def error_page(status: int, detail: str) -> str:
    """A page for somebody whose request went wrong."""
    return render("error.html", status=status, phrase=HTTPStatus(status).phrase, detail=detail)
