"""In which forms secrets are kept in files, and in which they are found in text."""

import base64
import codecs
import itertools
import json
import os
import shutil
import subprocess
from pathlib import Path
from urllib.parse import quote

import pytest

from headgate.guard import redactor

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
    assert redactor(tmp_path)(f"it is {KEY}.") == "it is [redacted]."


def test_a_link_to_a_file(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_text(f"KEY={KEY}\n")
    (tmp_path / ".env").symlink_to("elsewhere")
    assert redactor(tmp_path)(KEY) == "[redacted]"


def test_short_values(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text(
        "DB_PASSWORD=hu7er\nPIN=12\nROOT_PASSWORD=root\nAUTH_MODE=basic\nPORT=8080\n"
    )
    text = "hu7er xhu7ery PIN=12 12 ROOT_PASSWORD=root root basic 8080"
    assert redactor(tmp_path)(text) == (
        "[redacted] xhu7ery PIN=[redacted] 12 ROOT_PASSWORD=[redacted] root basic 8080"
    )


ENCODED = {
    "base64": base64.b64encode(KEY.encode()).decode(),
    "base64 in the middle": base64.b64encode(f"x={KEY}&y".encode()).decode(),
    "base64, further on": base64.b64encode(f"xy={KEY}&y".encode()).decode(),
    "base64 in lines": base64.encodebytes(f"{'x' * 50}{KEY}".encode()).decode(),
    "base64 for addresses": base64.urlsafe_b64encode(KEY.encode()).decode(),
    "hexadecimal": KEY.encode().hex(),
    "hexadecimal in groups": KEY.encode().hex(" ", 2).upper(),
    "in an address": quote(KEY, safe=""),
    "among variables": f"PATH=/bin\0API_KEY={KEY}\0HOME=/root\0",
}


@pytest.mark.parametrize("text", ENCODED.values(), ids=ENCODED)
def test_a_known_key_is_hidden_in_any_form(tmp_path: Path, text: str) -> None:
    hidden = redactor(tmp_path, known=[KEY])(f"found: {text} and more")
    assert hidden.startswith("found: ")
    assert hidden.endswith(" and more")
    assert "[redacted]" in hidden


def test_other_text_is_left_alone(tmp_path: Path) -> None:
    text = "def total(items):\n    return sum(items)\n"
    assert redactor(tmp_path, known=[KEY, "short"])(text) == text


SPELLED = {
    "backwards": KEY[::-1],
    "one character a line": "\n".join(KEY),
    "in groups": " ".join(KEY[at : at + 5] for at in range(0, len(KEY), 5)),
    "with signs between": ",".join(map(repr, KEY)),
    "with other signs between": "\N{MIDDLE DOT}\N{ZERO WIDTH SPACE}".join(KEY),
    "in capitals": KEY.upper(),
    "backwards in lines": "\n".join(reversed(KEY)),
    "rotated": codecs.encode(KEY, "rot13"),
    "base32": base64.b32encode(f"x={KEY}&y".encode()).decode(),
    "all of it quoted": "".join(f"%{byte:02X}" for byte in KEY.encode()),
    "escapes": "".join(f"\\x{byte:02x}" for byte in KEY.encode()),
    "unicode escapes": "".join(f"\\u{byte:04x}" for byte in KEY.encode()),
    "octal numbers": "".join(f"\\{byte:03o}" for byte in KEY.encode()),
    "decimal numbers": str([*KEY.encode()]),
    "bits": " ".join(f"{byte:08b}" for byte in KEY.encode()),
}


@pytest.mark.parametrize("text", SPELLED.values(), ids=SPELLED)
def test_a_value_that_is_spelled_differently(tmp_path: Path, text: str) -> None:
    (tmp_path / ".env").write_text(f"TOKEN={KEY}\n")
    hidden = redactor(tmp_path)(f"found: {text} and more")
    assert hidden.startswith("found: ")
    assert hidden.endswith(" and more")
    assert "[redacted]" in hidden


@pytest.mark.parametrize(
    "command", ["xxd", "xxd -p", "od -c", "od -An -tx1", "od -tx1", "hexdump -C", "od -b"]
)
def test_dumps(tmp_path: Path, command: str) -> None:
    if shutil.which(command.split(maxsplit=1)[0]) is None:
        pytest.skip(f"there is no {command.split(maxsplit=1)[0]} here")
    (tmp_path / ".env").write_text(f"NAME=x\nTOKEN={KEY}\n")
    dump = subprocess.run(
        [*command.split(), str(tmp_path / ".env")], capture_output=True, text=True, check=True
    )
    assert "[redacted]" in redactor(tmp_path)(f"before\n{dump.stdout}after\n")
    (tmp_path / "other").write_text("nothing to see here, it is a text like others\n")
    words = [*command.split(), str(tmp_path / "other")]
    other = subprocess.run(words, capture_output=True, text=True, check=True)
    assert redactor(tmp_path)(other.stdout) == other.stdout


def test_words_next_to_each_other_are_no_value(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("SECRET_KEY=openthedoor\nPIN_TOKEN=12345678\n")
    text = "to open the door, count: 1234, 5678"
    assert redactor(tmp_path)(text) == text


def test_a_value_stays_hidden_when_its_file_gets_another_name(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text(f"TOKEN={KEY}\n")
    redact = redactor(tmp_path, clock=lambda: 0.0)
    assert redact("x") == "x"
    (tmp_path / ".env").rename(tmp_path / "x.txt")
    assert redact(KEY) == "[redacted]"


def test_what_a_command_made_is_known_at_once(tmp_path: Path) -> None:
    redact = redactor(tmp_path, clock=itertools.count().__next__)  # each look takes a second
    assert redact(KEY) == KEY
    (tmp_path / ".env.local").write_text(f"TOKEN={KEY}\n")
    redact.scan.expect_changes()
    assert redact(KEY) == "[redacted]"


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / ".env")
    assert redactor(tmp_path)(KEY) == KEY
