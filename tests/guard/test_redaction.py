"""In which forms secrets are kept in files, and in which they are found in text."""

import base64
import json
import os
from pathlib import Path
from urllib.parse import quote

import pytest

from headgate.guard import Redactor

KEY = "sk-live/Zx81+kk29dQ=w7"
FILES = {
    "minified JSON": ("credentials.json", json.dumps({"a": {"b": [1, {"client_secret": KEY}]}})),
    "YAML": ("secrets.yaml", f"db:\n  - {{user: app, password: {KEY}}}\n"),
    "a YAML block": ("secrets.yml", f"key: |\n  first line of it\n  {KEY}\nother: 1\n"),
    "a folded YAML block": ("secrets.yml", f"key: >-\n  {KEY}\n"),
    "TOML": ("secrets.toml", f"[db]\npassword = {KEY!r}\n"),
    "several lines": (".env", f'A=1\nKEY="first line of it\n{KEY}\nlast"\nB=2\n'),
    "several lines in single quotes": (".env", f"export KEY='first line\n{KEY}\n'\n"),
    "one line": (".env", f"OTHER={KEY}\n"),
}


@pytest.mark.parametrize(("name", "text"), FILES.values(), ids=FILES)
def test_forms_of_files(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    assert Redactor(tmp_path)(f"it is {KEY}.") == "it is [redacted]."


def test_a_link_to_a_file(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_text(f"KEY={KEY}\n")
    (tmp_path / ".env").symlink_to("elsewhere")
    assert Redactor(tmp_path)(KEY) == "[redacted]"


def test_short_values(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text(
        "DB_PASSWORD=hu7er\nPIN=12\nROOT_PASSWORD=root\nAUTH_MODE=basic\nPORT=8080\n"
    )
    text = "hu7er xhu7ery PIN=12 12 ROOT_PASSWORD=root root basic 8080"
    assert Redactor(tmp_path)(text) == (
        "[redacted] xhu7ery PIN=[redacted] 12 ROOT_PASSWORD=[redacted] root basic 8080"
    )


ENCODED = {
    "base64": base64.b64encode(KEY.encode()).decode(),
    "base64 in the middle": base64.b64encode(f"x={KEY}&y".encode()).decode(),
    "base64, further on": base64.b64encode(f"xy={KEY}&y".encode()).decode(),
    "base64 for addresses": base64.urlsafe_b64encode(KEY.encode()).decode(),
    "in an address": quote(KEY, safe=""),
    "in JSON": json.dumps({"key": KEY}),
    "among variables": f"PATH=/bin\0API_KEY={KEY}\0HOME=/root\0",
}


@pytest.mark.parametrize("text", ENCODED.values(), ids=ENCODED)
def test_a_known_key_is_hidden_in_usual_forms(tmp_path: Path, text: str) -> None:
    hidden = Redactor(tmp_path, known=[KEY])(f"found: {text} and more")
    assert hidden.startswith("found: ")
    assert hidden.endswith(" and more")
    assert "[redacted]" in hidden


def test_a_value_with_quotes_is_hidden_in_json(tmp_path: Path) -> None:
    value = 'said "open" and\\left'
    assert Redactor(tmp_path, known=[value])(json.dumps([value])) == '["[redacted]"]'


def test_a_value_with_escapes_is_hidden_as_a_program_reads_it(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text(r'KEY="a \"quoted\" secret\n of \\ two lines"')
    text = 'a "quoted" secret\n of \\ two lines'
    assert Redactor(tmp_path)(f"{text} {json.dumps(text)}") == '[redacted] "[redacted]"'


@pytest.mark.parametrize(
    "text",
    [
        json.dumps("café!/secret 99"),
        quote("café!/secret 99", safe="").lower(),
        quote("café!/secret 99", safe="!'()*"),
    ],
    ids=["JSON in ASCII", "small letters in an address", "an address by a script"],
)
def test_a_value_beyond_ascii_is_hidden(tmp_path: Path, text: str) -> None:
    assert Redactor(tmp_path, known=["café!/secret 99"])(text).strip('"') == "[redacted]"


def test_other_text_is_left_alone(tmp_path: Path) -> None:
    text = "def total(items):\n    return sum(items)\n"
    assert Redactor(tmp_path, known=[KEY, "short"])(text) == text


def test_a_value_stays_hidden_when_its_file_gets_another_name(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text(f"TOKEN={KEY}\n")
    redact = Redactor(tmp_path)
    assert redact("x") == "x"
    (tmp_path / ".env").rename(tmp_path / "x.txt")
    assert redact(KEY) == "[redacted]"


def test_what_a_command_made_is_known_at_once(tmp_path: Path) -> None:
    redact = Redactor(tmp_path)
    assert redact(KEY) == KEY
    (tmp_path / ".env.local").write_text(f"TOKEN={KEY}\n")
    redact.scan.expect_changes()
    assert redact(KEY) == "[redacted]"


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / ".env")
    assert Redactor(tmp_path)(KEY) == KEY
