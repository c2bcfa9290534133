"""What a repository's own file may not decide: settings that give tasks more than they get without it.

Such settings count from the user's own file, or once the user has trusted the repository's file as it is.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from headgate.config.feature_settings import ResearchSettings
from headgate.config.schema import CommandSettings
from headgate.config.yaml_files import Document, Place
from headgate.remembered import read_remembered, remember

_SANDBOXES = ("off", "auto", "bwrap")
_APPROVALS = {
    None: {"commands"},
    "never": set[str](),
    "commands": {"commands"},
    "writes": {"writes"},
    "all": {"commands", "writes"},
}
_PROTECTION = ("off", "existing", "all")
_NUMBERS = ("memory_mb", "processes", "file_mb")
_SEARCH_NUMBERS = ("results", "pages", "page_chars", "page_kb", "timeout")


def check_trust(document: Document, users: Mapping[str, Any], user_file: Path) -> None:
    """ConfigError if a repository's file gives commands more than the user's own, and is not trusted."""
    for place, what in widening(document.data, users):
        if document.digest in TrustedFiles(user_file).digests():
            return
        raise document.error(
            place,
            f"{what}. A repository's file may not do that unless you allow it. Set it in {user_file}, or "
            "allow this file as it is: headgate trust",
        )


def widening(data: Mapping[str, Any], users: Mapping[str, Any]) -> Iterator[tuple[Place, str]]:
    """The settings of a repository's file that give commands more than the user's own: where, and what."""
    asked = data.get("sandbox", "bwrap")
    if _SANDBOXES.index(asked) < _SANDBOXES.index(users.get("sandbox", "auto")):
        yield ("sandbox",), f'"sandbox: {asked}" removes protection'
    asking, own_asking = data.get("approvals"), users.get("approvals")
    if asking is not None and not _APPROVALS[asking] >= _APPROVALS[own_asking]:
        yield ("approvals",), f'"approvals: {asking}" asks for less'
    for key in ("allow_commands", "allow_writes"):
        if new := _added(data.get(key), users.get(key)):
            yield (key,), f'"{key}" allows {", ".join(new)} without a question'
    tests, own_tests = data.get("protect_tests"), users.get("protect_tests", "off")
    if tests in _PROTECTION and _PROTECTION.index(tests) < _PROTECTION.index(own_tests):
        yield ("protect_tests",), f'"protect_tests: {tests}" removes protection'
    opened = [item for item in data.get("test_paths") or () if item.startswith("!")]
    is_protecting = own_tests != "off" or users.get("test_paths")
    if is_protecting and (new := _added(opened, users.get("test_paths"))):
        yield ("test_paths",), f'"test_paths" removes protection from {", ".join(new)}'
    opened = [item for item in data.get("secret_files") or () if item.startswith("!")]
    if new := _added(opened, users.get("secret_files")):
        yield ("secret_files",), f'"secret_files" shows {", ".join(new)} to the model'
    if new := _added(data.get("shell_env"), users.get("shell_env")):
        yield ("shell_env",), f'"shell_env" passes {", ".join(new)} to commands'
    verification, own = data.get("verification") or {}, users.get("verification") or {}
    if verification.get("network") and own.get("network") is False:
        yield ("verification", "network"), '"verification.network" gives the steps the network'
    commands, own = data.get("commands") or {}, users.get("commands") or {}
    if commands.get("network") and not own.get("network"):
        yield ("commands", "network"), '"commands.network" gives commands the network'
    for key in ("read", "write"):
        if new := _added(commands.get(key), own.get(key)):
            yield ("commands", key), f'"commands.{key}" opens {", ".join(new)} to commands'
    defaults = CommandSettings().model_dump()
    for key in _NUMBERS:
        most = own.get(key, defaults[key])
        if commands.get(key) is not None and (most is None or float(commands[key]) > float(most)):
            yield ("commands", key), f'"commands.{key}" raises a limit'
    yield from _research(data.get("research") or {}, users.get("research") or {})


def _research(asked: Mapping[str, Any], own: Mapping[str, Any]) -> Iterator[tuple[Place, str]]:
    """What a repository asks for on the web: what models search for leaves this machine."""
    backend = asked.get("backend", "off")
    if backend not in ("off", own.get("backend", "off")):
        yield ("research", "backend"), f'"research.backend: {backend}" lets the model search the web'
    if asked.get("url") not in (None, own.get("url")):
        yield ("research", "url"), f'"research.url" sends searches to {asked["url"]}'
    if asked.get("allow_private") and not own.get("allow_private"):
        yield ("research", "allow_private"), '"research.allow_private" opens private addresses'
    usual = ResearchSettings().model_dump()
    for key in _SEARCH_NUMBERS:
        if asked.get(key) is not None and float(asked[key]) > float(own.get(key, usual[key])):
            yield ("research", key), f'"research.{key}" raises a limit'


def _added(asked: Any, users: Any) -> list[str]:
    return [item for item in asked or () if item not in (users or ())]


class TrustedFiles:
    """The configuration files that the user has trusted, by their content. They are kept beside his own."""

    def __init__(self, user_file: Path) -> None:
        self._path = user_file.with_name("trusted.json")

    def digests(self) -> dict[str, str]:
        """Each trusted content, with the path of the file that had it."""
        return read_remembered(self._path)

    def add(self, digest: str, path: Path) -> None:
        """Trusts a content from now on."""
        remember(self._path, {**self.digests(), digest: str(path)})
