"""Files that hold, beside much else, how tests run: which parts of them do.

A part counts unless it is known to be free: dependencies, descriptions and linters are, and a section that
nobody here has heard of is not.
"""

import configparser
import json
import tomllib
from collections.abc import Callable, Mapping
from typing import Any

_PYPROJECT = frozenset(
    [
        "project",
        "dependency-groups",
        "build-system",
        "tool.ruff",
        "tool.black",
        "tool.isort",
        "tool.mypy",
        "tool.flake8",
        "tool.pylint",
        "tool.pyright",
        "tool.basedpyright",
        "tool.bandit",
        "tool.codespell",
        "tool.commitizen",
        "tool.semantic_release",
        "tool.towncrier",
        "tool.bumpversion",
        "tool.setuptools",
        "tool.setuptools_scm",
        "tool.flit",
        "tool.uv",
        "tool.poetry",
        "tool.hatch.build",
        "tool.hatch.metadata",
        "tool.hatch.version",
        "tool.pdm.build",
        "tool.pdm.version",
        "tool.pdm.source",
        "tool.pdm.dev-dependencies",
    ]
)
_SETUP_CFG = frozenset(
    [
        "metadata",
        "options",
        "options.extras_require",
        "options.package_data",
        "options.packages.find",
        "bdist_wheel",
        "sdist",
        "egg_info",
        "build_ext",
        "flake8",
        "mypy",
        "isort",
        "pycodestyle",
        "pydocstyle",
        "pylint",
        "bumpversion",
    ]
)
_PACKAGE_JSON = frozenset(
    [
        "dependencies",
        "devDependencies",
        "peerDependencies",
        "peerDependenciesMeta",
        "optionalDependencies",
        "bundledDependencies",
        "name",
        "version",
        "description",
        "keywords",
        "author",
        "contributors",
        "license",
        "private",
        "main",
        "module",
        "types",
        "typings",
        "exports",
        "bin",
        "files",
        "engines",
        "repository",
        "homepage",
        "bugs",
        "funding",
        "sideEffects",
        "type",
        "man",
        "browser",
        "packageManager",
        "publishConfig",
        "prettier",
        "eslintConfig",
    ]
)
_COMPOSER_JSON = frozenset(
    [
        "require",
        "require-dev",
        "name",
        "description",
        "type",
        "license",
        "authors",
        "keywords",
        "version",
        "homepage",
        "support",
        "suggest",
        "autoload",
        "minimum-stability",
        "prefer-stable",
    ]
)
_CARGO = frozenset(
    [
        "dependencies",
        "dev-dependencies",
        "build-dependencies",
        "features",
        "badges",
        "lints",
        "target",
        "profile.release",
        "profile.dev",
        "workspace.dependencies",
        "workspace.package",
        "package.name",
        "package.version",
        "package.edition",
        "package.authors",
        "package.description",
        "package.license",
        "package.license-file",
        "package.repository",
        "package.homepage",
        "package.documentation",
        "package.readme",
        "package.keywords",
        "package.categories",
        "package.rust-version",
        "package.publish",
        "package.exclude",
        "package.include",
        "package.metadata",
    ]
)
_COUNTS_AFTER_ALL = frozenset(
    {"project.entry-points", "options.entry_points", "tool.poetry.plugins", "tool.poetry.scripts"}
)


def _read_toml(text: str) -> Any:
    return tomllib.loads(text)


def _read_ini(text: str) -> Any:
    parser = configparser.RawConfigParser(strict=False)
    parser.read_string(text)
    return {name: dict(parser.items(name)) for name in parser.sections()}


_KINDS: Mapping[str, tuple[Callable[[str], Any], frozenset[str]]] = {
    "pyproject.toml": (_read_toml, _PYPROJECT),
    "setup.cfg": (_read_ini, _SETUP_CFG),
    "package.json": (json.loads, _PACKAGE_JSON),
    "composer.json": (json.loads, _COMPOSER_JSON),
    "cargo.toml": (_read_toml, _CARGO),
}


def has_test_settings(path: str) -> bool:
    """Whether parts of a file may decide how tests run, and the others are free."""
    return path.rpartition("/")[2].lower() in _KINDS


def changed_settings(path: str, before: bytes | None, after: bytes | None) -> tuple[str, ...]:
    """The parts that decide how tests run and differ, as dotted keys; None is a file that is not there.

    A file that cannot be read, before or after, counts as changed as a whole.
    """
    if before == after:
        return ()
    read, free = _KINDS[path.rpartition("/")[2].lower()]
    try:
        old, new = (_parts(read, free, data) for data in (before, after))
    except (ValueError, configparser.Error, RecursionError):
        return ("the whole file, which cannot be read",)
    keys = sorted(old.keys() | new.keys())
    return tuple(key for key in keys if key not in old or key not in new or not _same(old[key], new[key]))


def _parts(read: Callable[[str], Any], free: frozenset[str], data: bytes | None) -> dict[str, Any]:
    """What counts in a file, by dotted key: down to where everything below counts."""
    text = (data or b"").decode("utf-8-sig")
    value = read(text) if text.strip() else {}
    if not isinstance(value, dict):
        return {"": value}
    found: dict[str, Any] = {}
    pending: list[tuple[str, Any]] = [(key, part) for key, part in value.items()]
    while pending:
        key, part = pending.pop()
        inner = any(other.startswith(f"{key}.") for other in (free if key not in free else _COUNTS_AFTER_ALL))
        if inner and isinstance(part, dict):
            pending += [(f"{key}.{name}", below) for name, below in part.items()]
        elif not _is_free(key, free):
            found[key] = part
    return found


def _is_free(key: str, free: frozenset[str]) -> bool:
    if key in _COUNTS_AFTER_ALL:
        return False
    return any(key == name or key.startswith(f"{name}.") for name in free)


def _same(old: Any, new: Any) -> bool:
    """Equal, and not only as Python sees it: `true` is not 1. The order of keys means nothing."""
    return json.dumps(old, sort_keys=True, default=repr) == json.dumps(new, sort_keys=True, default=repr)
