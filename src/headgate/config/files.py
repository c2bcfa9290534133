"""Which files of a repository configure Headgate: no task may write them unless the configuration says so."""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from headgate.config.flows import builtin_flows
from headgate.config.load import CONFIG_NAMES, Loaded, user_config_path
from headgate.config.stages import FLOW_SUFFIXES, expand_stages
from headgate.config.yamlfile import read_yaml
from headgate.errors import ConfigError

_MAX_LINKS = 40


def config_files(
    repo: Path, loaded: Loaded, *, config: str | None = None, flow: str | None = None
) -> tuple[str, ...]:
    """Paths in the repository of every file that configures Headgate, whether it is there or not.

    `config` and `flow` were named for one task. A symlink counts as well as what it leads to.
    """
    if loaded.config.allow_config_edits:
        return ()
    root = Path(os.path.realpath(repo))
    own = [str(user_config_path()), *(str(layer.path) for layer in loaded.layers)]
    named = [*CONFIG_NAMES, *own, *([config] if config else []), *_flow_files(flow)]
    for document in loaded.documents:
        named += _flow_files(document.data.get("flow"))
    if config:
        named += _flows_of_the_repository(root)
    return tuple(dict.fromkeys(path for name in named for path in _places(root, name)))


def _flows_of_the_repository(root: Path) -> Iterator[str]:
    """The flow files that the repository's own configuration names, where another one is used."""
    for name in CONFIG_NAMES:
        try:
            data: Mapping[str, Any] = read_yaml(root / name, name).data
        except ConfigError:  # it is not there, or names nothing that could be read
            continue
        yield from _flow_files(data.get("flow"))


def _flow_files(flow: Any) -> Iterator[str]:
    """The files that a `flow` setting names."""
    if isinstance(flow, str):
        is_file = "/" in flow or flow.endswith(FLOW_SUFFIXES)
        yield from [flow] if is_file and flow not in builtin_flows() else []
    elif isinstance(flow, list):
        for stage in expand_stages(flow):
            if isinstance(stage, Mapping) and isinstance(stage.get("file"), str):
                yield stage["file"]


def _places(root: Path, name: str) -> Iterator[str]:
    path = Path(os.path.normpath(root / name))
    path = path if path.is_relative_to(root) else Path(os.path.realpath(path))
    for _ in range(_MAX_LINKS):
        if not path.is_relative_to(root) or path == root:
            return
        link = next((place for place in _above(path, root) if place.is_symlink()), None)
        yield (link or path).relative_to(root).as_posix()
        if link is None:
            return
        path = Path(os.path.normpath(link.parent / link.readlink() / path.relative_to(link)))


def _above(path: Path, root: Path) -> list[Path]:
    """The directories between the root and a path, the outermost first, and the path itself."""
    return [place for place in (path, *path.parents) if place != root and place.is_relative_to(root)][::-1]
