"""Templates and the files beside them. Everything that a template is given is escaped.

Characters that are not seen are named, except in fields that people type into: there `|e` leaves them alone.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from http import HTTPStatus
from importlib import resources
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from headgate.core import say_merged, say_money, show_hidden
from headgate.engine import count_tokens
from headgate.server.words import age, clock, link_runs, long_clock

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
        "money": say_money,
        "say_merged": say_merged,
        "tokens": count_tokens,
    }
    made.globals |= {"static": _static_url}
    return made


_ENVIRONMENT = _make_environment()


def render(template: str, **values: Any) -> str:
    """A page, or a part of one. Text that is no UTF-8 is shown as far as it is."""
    text = _ENVIRONMENT.get_template(template).render(**values)
    return text.encode("utf-8", "replace").decode()


def error_page(status: int, detail: str) -> str:
    """A page for somebody whose request went wrong."""
    return render("error.html", status=status, phrase=HTTPStatus(status).phrase, detail=detail)
