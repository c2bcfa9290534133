"""Reading YAML: values, lines, and a sentence for everything that can be wrong."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, ValidationError

from headgate.config import Document, explain, parse_yaml, read_yaml
from headgate.errors import ConfigError


def failure(text: str) -> str:
    with pytest.raises(ConfigError) as caught:
        parse_yaml(text, "f.yaml")
    return str(caught.value)


@pytest.mark.parametrize(
    ("text", "data"),
    [
        ("", {}),
        ("# only a comment\n", {}),
        ("---\n", {}),
        ("a: off\nb: on\nc: yes\nd: no\ne: y\n", {"a": "off", "b": "on", "c": "yes", "d": "no", "e": "y"}),
        ("a: true\nb: False\nc: null\nd: ~\ne:\n", {"a": True, "b": False, "c": None, "d": None, "e": None}),
        ("a: 010\nb: 1_000\nc: 1:30\nd: 0x10\n", {"a": 10, "b": "1_000", "c": "1:30", "d": "0x10"}),
        ("a: 1e3\nb: -.5\nc: 2.\nd: .inf\n", {"a": 1000.0, "b": -0.5, "c": 2.0, "d": ".inf"}),
        ("a: 2024-01-02\n", {"a": "2024-01-02"}),
        ("on: 1\nno: 2\n", {"on": 1, "no": 2}),
        ("a: &x [1, 2]\nb: *x\n", {"a": [1, 2], "b": [1, 2]}),
        ('a: "\\ud83d\\ude00"\n', {"a": "\U0001f600"}),
        ('{\n\t"a": {\n\t\t"b": [1, "t\\tt"]\n\t}\n}\n', {"a": {"b": [1, "t\tt"]}}),
        ("\ufeffa: 1\n".removeprefix("\ufeff"), {"a": 1}),
        ("a: !!str 5\n", {"a": "5"}),
    ],
)
def test_values(text: str, data: dict[str, Any]) -> None:
    assert parse_yaml(text, "f.yaml").data == data


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("- a\n", 'f.yaml, line 1: expected "key: value" lines, found a list.'),
        ("a:\n  b: 1\n\t\tc: 2\n", "f.yaml, line 3: YAML allows no tab here: use spaces."),
        ("\nhello\n", 'f.yaml, line 2: expected "key: value" lines, found a single value.'),
        ("a: 1\nb: 2\na: 3\n", 'f.yaml, line 3: the key "a" appears twice.'),
        ("x:\n  a: 1\n  a: 1\n", 'f.yaml, line 3: the key "a" appears twice.'),
        ("1: a\n", "f.yaml, line 1: a key must be text."),
        ("[a]: b\n", "f.yaml, line 1: a key must be text."),
        (
            "a: !!python/object/apply:os.system [ls]\n",
            "f.yaml, line 1: the tag !!python/object/apply:os.system",
        ),
        ("a: !!binary aGk=\n", "f.yaml, line 1: the tag !!binary has no meaning here."),
        ("a: !!int x\n", "f.yaml, line 1: this should be a number."),
        ("a: 1\nb: [1,\n", "f.yaml, line 3: this is not valid YAML: "),
        ("a: 1\n\tb: 2\n", "f.yaml, line 2: YAML allows no tab here: use spaces."),
        ("a: 1\nb: \x07\n", "f.yaml, line 2: there is a character that YAML does not allow."),
        ('a: 1\nb: "x\\0y"\n', "f.yaml, line 2: there is a NUL character in this text."),
        ("a: 1\n---\nb: 2\n", "f.yaml, line 2: this is not valid YAML: "),
        ("a: *nowhere\n", "f.yaml, line 1: this is not valid YAML: "),
        ("a: &x [*x]\n", "f.yaml, line 1: this is nested too deeply."),
        ("a: " + "[" * 100 + "]" * 100, "f.yaml, line 1: this is nested too deeply."),
        ("a: " + "[" * 50_000, "f.yaml: values are nested too deeply."),
    ],
)
def test_what_is_wrong(text: str, message: str) -> None:
    assert failure(text).startswith(message)


def test_aliases_cannot_make_a_small_file_large() -> None:
    levels = [f"l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 9)}]" for n in range(1, 12)]
    assert "contains too many values" in failure("l0: &l0 [lol]\n" + "\n".join(levels))


def test_lines() -> None:
    document = parse_yaml("a: 1\nb:\n  - x: 1\n  - y: 2\n    z:\n      w\n", "f.yaml")
    places: list[tuple[str | int, ...]] = [("a",), ("b", 0), ("b", 1, "z"), ("b", 1, "absent"), ("absent",)]
    assert [document.line_of(place) for place in places] == [1, 3, 5, 4, 1]


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "latin.yaml").write_bytes(b"a: 1\nb: \xff\n")
    (tmp_path / "long.yaml").write_bytes(b"# " + b"x" * 300_000)
    (tmp_path / "folder.yaml").mkdir()
    (tmp_path / "link.yaml").symlink_to(tmp_path / "nowhere")
    (tmp_path / "endless.yaml").symlink_to("/dev/zero")
    os.mkfifo(tmp_path / "pipe.yaml")
    expected = {
        "latin.yaml": "latin.yaml, line 2: this is not UTF-8 text.",
        "long.yaml": "long.yaml is larger than 256 KB.",
        "folder.yaml": "folder.yaml is a directory, but a file was expected.",
        "link.yaml": "link.yaml does not exist.",
        "endless.yaml": "endless.yaml is not a regular file.",
        "pipe.yaml": "pipe.yaml is not a regular file.",
        "absent.yaml": "absent.yaml does not exist.",
    }
    found = {}
    for name in expected:
        with pytest.raises(ConfigError) as caught:
            read_yaml(tmp_path / name, name)
        found[name] = str(caught.value)
    assert found == expected


def test_a_byte_order_mark_is_not_content(tmp_path: Path) -> None:
    (tmp_path / "f.yaml").write_bytes(b"\xef\xbb\xbfa: 1\n")
    assert read_yaml(tmp_path / "f.yaml").data == {"a": 1}


class Inner(BaseModel):
    model_config = ConfigDict(extra="forbid")
    timeout: float = 1
    name: str = "n"


class Outer(BaseModel):
    model_config = ConfigDict(extra="forbid")
    inner: Inner = Inner()
    many: list[Inner] = []
    named: dict[str, Inner] | None = None
    number: int = 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("inner:\n  timout: 1\n", 'f.yaml, line 2: unknown key "timout": did you mean "timeout"?'),
        ("many:\n- name: a\n- nam: b\n", 'f.yaml, line 3: unknown key "nam": did you mean "name"?'),
        ("named:\n  x:\n    Name: b\n", 'f.yaml, line 3: unknown key "Name": did you mean "name"?'),
        ("xyzzy: 1\n", 'f.yaml, line 1: unknown key "xyzzy": known are inner, many, named, number.'),
        ("number: many\n", 'f.yaml, line 1: "number" must be a whole number.'),
        ("many: {}\n", 'f.yaml, line 1: "many" must be a list.'),
        ("many:\n- 5\n", 'f.yaml, line 2: "many[0]" must be a mapping of "key: value" lines.'),
        ("number: x\nother: y\n", 'f.yaml, line 1: "number" must be a whole number.'),
    ],
)
def test_explaining_what_does_not_fit(text: str, message: str) -> None:
    document = parse_yaml(text, "f.yaml")
    with pytest.raises(ValidationError) as caught:
        Outer.model_validate(document.data)
    assert str(explain(caught.value, document, Outer)) == message


def test_an_error_without_a_line() -> None:
    assert str(Document("f.yaml", {}).error(("a",), "no")) == "f.yaml: no."


texts = st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cs")), max_size=8)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**17), 10**17) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(texts, values, max_size=4), st.sampled_from([None, 2, "\t"]), st.booleans())
def test_json_is_read_as_json(data: dict[str, Any], indent: int | str | None, ascii_only: bool) -> None:
    text = json.dumps(data, indent=indent, ensure_ascii=ascii_only)
    assert parse_yaml(text, "f.json").data == data


def keys_or_message(text: str) -> list[object] | str:
    try:
        return list(parse_yaml(text, "f.yaml").data)
    except ConfigError as error:
        return str(error)


@given(st.text(max_size=60))
def test_any_text_is_data_or_a_sentence(text: str) -> None:
    found = keys_or_message(text)
    assert (
        found.startswith("f.yaml") if isinstance(found, str) else all(isinstance(key, str) for key in found)
    )
