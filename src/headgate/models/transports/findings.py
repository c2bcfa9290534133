"""What was found out about a model and its server, and the file that remembers it."""

import hashlib
import os
import time
from pathlib import Path
from typing import Literal

import platformdirs
from pydantic import Field, ValidationError

from headgate.core.settings import Settings
from headgate.models.base import Endpoint
from headgate.models.profile import Profile, Transport
from headgate.models.transports.servers import WINDOWS, Kind

MAX_AGE = 7 * 86_400.0
"""Seconds after which a server is asked again: it may have been started differently since."""

Native = Literal["calls", "text", "none", "refused", "unknown"]


class Findings(Settings):
    """How a model answered, when it was asked to call a tool."""

    native: Native = "unknown"
    """Offered a tool: it called it, wrote the call as text, did neither, or the server takes no tools."""
    tools_dropped: bool | None = None
    """The prompt had as many tokens with the tool as without it: the server never showed it."""
    constrains: bool | None = None
    """The server held the model to a JSON schema."""
    server: Kind = "unknown"
    context_window: int | None = Field(None, ge=WINDOWS.start, lt=WINDOWS.stop)
    """What the server says."""
    at: float = 0
    """When this was found out, in seconds since 1970."""

    def choose(self, profile: Profile) -> Transport:
        """The transport to begin with. Where nothing is known, the server's own calls."""
        able = profile.transports
        if self.native == "calls" or (self.native == "unknown" and self.constrains is None):
            return "native" if "native" in able or self.native == "calls" else able[0]
        if self.native == "text" and "text" in able:
            return "text"
        return "schema" if self.constrains and "schema" in able else "text"

    def describe(self) -> str:
        """What was found, for people."""
        told = {
            "calls": "native tool calls work",
            "text": "the model writes its calls as text",
            "none": "the model called no tool",
            "refused": "the server does not accept tools",
            "unknown": "it is unknown whether native tool calls work",
        }[self.native]
        if self.tools_dropped:
            told = "the server silently ignores the tools"
        if self.constrains is not None:
            told += ", schemas are enforced" if self.constrains else ", schemas are ignored"
        if self.context_window:
            told += f", context window {self.context_window:,} tokens"
        return told


class FindingsFile:
    """Where the findings about one model at one address are kept, in the user's cache folder."""

    def __init__(self, endpoint: Endpoint, folder: Path | None = None) -> None:
        key = hashlib.sha256(f"{endpoint.root}\n{endpoint.model}".encode()).hexdigest()[:32]
        folder = folder or platformdirs.user_cache_path("headgate") / "models"
        self.path = folder / f"{key}.json"

    def read(self) -> Findings | None:
        """What is remembered; None if there is nothing, or nothing that can still be believed."""
        try:
            found = Findings.model_validate_json(self.path.read_bytes())
        except (OSError, ValidationError):
            return None
        return found if 0 <= time.time() - found.at <= MAX_AGE else None

    def write(self, findings: Findings) -> None:
        """Remembers."""
        fresh = self.path.with_suffix(f".{os.getpid()}.tmp")
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            fresh.write_text(findings.model_dump_json())
            fresh.replace(self.path)
        except OSError:
            return  # a cache that cannot be written costs only the same questions again
