"""The texts that models are sent, one file each in `prompts/`."""

from functools import cache
from importlib.resources import files


@cache
def prompt(name: str) -> str:
    """A text by name, without its final newline."""
    return files("headgate.config").joinpath("prompts", f"{name}.md").read_text(encoding="utf-8").rstrip("\n")


def fill(name: str, **values: object) -> str:
    """A text with its `{placeholders}` replaced; braces elsewhere, also in the values, stay as they are."""
    return fill_text(prompt(name), **values)


def fill_text(text: str, **values: object) -> str:
    """The same for a text that is no file."""
    parts = []
    while text:
        start = text.find("{")
        end = text.find("}", start)
        if start < 0 or end < 0:
            break
        key = text[start + 1 : end]
        parts.append(text[:start] + (str(values[key]) if key in values else text[start : end + 1]))
        text = text[end + 1 :]
    return "".join(parts) + text
