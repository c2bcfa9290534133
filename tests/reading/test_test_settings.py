"""Which parts of a file decide how tests run."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.reading import changed_settings, has_test_settings

PYPROJECT = (
    b'[project]\nname = "a"\n\n[tool.pytest.ini_options]\naddopts = "-q"\n\n[tool.ruff]\nline-length = 90\n'
)


def change(data: bytes, old: bytes, new: bytes) -> bytes:
    assert old in data
    return data.replace(old, new)


@pytest.mark.parametrize(
    ("old", "new", "changed"),
    [
        (b'"-q"', b'"--ignore=tests"', ("tool.pytest",)),
        (b"[tool.pytest.ini_options]", b"[tool.coverage.run]", ("tool.coverage", "tool.pytest")),
        (b"[tool.ruff]", b"[tool.tox]\nx = 1\n[tool.ruff]", ("tool.tox",)),
        (b"[tool.ruff]", b"[project.entry-points.pytest11]\nx = 'x'\n[tool.ruff]", ("project.entry-points",)),
        (b"[tool.ruff]", b"[tool.hatch.envs.default]\nx = 'x'\n[tool.ruff]", ("tool.hatch.envs",)),
        (b"[tool.ruff]", b"[tool.ruff", ("the whole file, which cannot be read",)),
        (b"[tool.ruff]", b"\xff[tool.ruff]", ("the whole file, which cannot be read",)),
        (b'"a"', b'"b"\ndependencies = ["x"]', ()),
        (b"90", b"100", ()),
        (b"[tool.ruff]", b"[tool.hatch.build]\nx = 1\n[tool.ruff]", ()),
        (b"[project]", b"# a comment\n[project]", ()),
    ],
)
def test_pyproject(old: bytes, new: bytes, changed: tuple[str, ...]) -> None:
    assert changed_settings("sub/pyproject.toml", PYPROJECT, change(PYPROJECT, old, new)) == changed


@pytest.mark.parametrize(
    ("path", "before", "after", "changed"),
    [
        ("Cargo.toml", None, b"[profile.dev]\npanic = 'abort'\n", ("profile",)),
        ("Cargo.toml", None, b"[features]\ndefault = ['x']\n", ("features.default",)),
        ("Cargo.toml", b"[features]\nx = []\n", b"[features]\nx = []\ny = []\n", ()),
        ("Cargo.toml", b"[dev-dependencies]\na = '1'\n", b"[dev-dependencies]\na = '1'\nb = '1'\n", ()),
        (
            "Cargo.toml",
            b"[dev-dependencies]\na = '1'\n",
            b"[dev-dependencies]\na = {path = 'fake'}\n",
            ("dev-dependencies.a",),
        ),
        ("Cargo.toml", b"", b"[dependencies]\nserde = '1'\n", ()),
        ("deno.json", b"{}", b'{"imports": {"@std/assert": "./fake.ts"}}', ("imports",)),
        ("deno.json", b"{}", b'{"tasks": {"test": "true"}}', ("tasks",)),
        ("deno.json", b"{}", b'{"version": "2", "fmt": {"lineWidth": 90}}', ()),
        ("go.mod", b"module a\n", b"module a\nrequire (\n\tx v1\n)\n", ()),
        ("go.mod", b"module a\n", b"module a\nreplace x => ./fake\n", ("replace",)),
        ("go.mod", b"module a\n", b"module a\nreplace (\n\tx => ./fake // c\n)\n", ("replace",)),
        ("a.egg-info/entry_points.txt", None, b"[console_scripts]\na = a:main\n", ()),
        ("x.dist-info/entry_points.txt", None, b"[pytest11]\na = evil\n", ("pytest11",)),
        ("package.json", b"{}", b'{"packageManager": "npm@file:x"}', ("packageManager",)),
        ("composer.json", b"{}", b'{"autoload": {"files": ["a.php"]}}', ("autoload.files",)),
        ("pyproject.toml", b"", b"[tool.uv.sources]\npytest = {path = 'x'}\n", ("tool.uv.sources",)),
        ("pyproject.toml", PYPROJECT, None, ("tool.pytest",)),
        ("pyproject.toml", None, PYPROJECT, ("tool.pytest",)),
        ("pyproject.toml", None, b'[project]\nname = "a"\n', ()),
        ("pyproject.toml", b"[broken", b"[broken", ()),
        ("setup.cfg", b"[metadata]\nname=a\n", b"[metadata]\nname=b\n[flake8]\nx=1\n", ()),
        ("setup.cfg", None, b"[tool:pytest]\naddopts=--co\n", ("tool:pytest",)),
        ("setup.cfg", None, b"[options.entry_points]\npytest11=x\n", ("options.entry_points",)),
        ("setup.cfg", b"", b"no section\n", ("the whole file, which cannot be read",)),
        ("package.json", b'{"scripts": {"test": "jest"}}', b'{"scripts": {"test": "true"}}', ("scripts",)),
        ("package.json", b'{"a": 1}', b'{"a": true}', ("a",)),
        ("package.json", b'{"dependencies": {}}', b'{"dependencies": {"x": "1"}, "version": "2"}', ()),
        ("package.json", b"{}", b'{"jest": {"testMatch": []}}', ("jest",)),
        ("package.json", b"{}", b"[]", ("",)),
        ("Cargo.toml", b"", b'[dependencies]\nserde = "1"\n[package]\nedition = "2021"\n', ()),
        ("Cargo.toml", b"", b"[package]\nautotests = false\n", ("package.autotests",)),
        ("Cargo.toml", b"", b'[[test]]\nname = "a"\ntest = false\n', ("test",)),
        ("Cargo.toml", b"", b"[lib]\ntest = false\n", ("lib",)),
        ("composer.json", b"{}", b'{"scripts": {"test": "true"}}', ("scripts",)),
    ],
)
def test_other_files(path: str, before: bytes | None, after: bytes | None, changed: tuple[str, ...]) -> None:
    assert has_test_settings(path)
    assert changed_settings(path, before, after) == changed


def test_files_without_such_settings() -> None:
    assert not any(map(has_test_settings, ["setup.py", "go.sum", "package-lock.json", "a/pyproject.md"]))


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
PACKAGES = st.dictionaries(
    st.sampled_from(["scripts", "jest", "version", "dependencies", "x"]), VALUES, max_size=5
)
FREE = {"version", "dependencies"}


@given(PACKAGES, PACKAGES)
def test_a_file_may_change_if_and_only_if_every_change_is_free(
    old: dict[str, Any], new: dict[str, Any]
) -> None:
    kept = [
        json.dumps({k: v for k, v in each.items() if k not in FREE}, sort_keys=True) for each in (old, new)
    ]
    changed = changed_settings("package.json", json.dumps(old).encode(), json.dumps(new).encode())
    assert (changed == ()) == (kept[0] == kept[1])
    assert FREE.isdisjoint(changed)
