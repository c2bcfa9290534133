"""The text of a task and what comes with it: from the command line, a file, or standard input."""

from collections.abc import Callable, Mapping, Sequence
from io import BufferedReader
from pathlib import Path
from typing import TextIO

from headgate.core import plain
from headgate.errors import ConfigError
from headgate.first_use import dataclass
from headgate.reading import condense_output, output_kind

FIX_OUTPUT = "Fix what fails in this output:"
ATTACHED_CHARS = 200_000
"""What is kept of attached output. A conversation shows less of it, as its window allows."""
_READ_BYTES = 8_000_000
"""Of standard input, at its beginning and as much at its end; what is between is dropped."""
_PIECE = 1 << 16
_FIX_IT = "the output of a program: the task is to fix what fails in it."
_NO_FAILURE = "the output of a program in which nothing failed: say what to do with it."
_WAITING = "Waiting for standard input. Type the text, then press Ctrl-D at the start of a line."


@dataclass(frozen=True)
class TaskInput:
    """What a person gave."""

    text: str
    attached: str = ""
    """What came with it, such as the output of tests."""


def explain_text_options(command: str) -> str:
    """What is wrong with a command line that has no task, or two."""
    return f'Give the text in one way: headgate {command} "...", {command} - (standard input) or --file F.'


def read_task_input(
    words: Sequence[str], file: Path | None, stdin: TextIO, command: str, tell: Callable[[str], None]
) -> TaskInput:
    """The task from wherever it is. Standard input is read only where a `-` asks for it.

    A `-` beside a text attaches standard input to it. A `-` alone is the text itself, or, if that is what
    tests or a compiler printed, the task to fix what fails in it. `tell` says what a person should know.
    """
    texts = [word for word in words if word != "-"]
    piped = len(texts) < len(words)
    if (bool(words) == (file is not None)) or len(words) - len(texts) > 1:
        raise ConfigError(explain_text_options(command))
    if file is not None:
        return TaskInput(_read_file(file))
    if piped and stdin.isatty():
        tell(_WAITING)
    if not piped:
        return TaskInput(_checked(texts[0], "The task"))
    data = _read_bounded(stdin)
    if not texts:
        return _read_alone(data, command, tell)
    attached = clean_output(data.decode("utf-8", "replace"))
    if not attached:
        tell("Standard input is empty: nothing is attached to the task.")
    return TaskInput(_checked(texts[0], "The task"), attached)


def _read_alone(data: bytes, command: str, tell: Callable[[str], None]) -> TaskInput:
    """Standard input as the task: what a person wrote, or what a program printed."""
    output = clean_output(data.decode("utf-8", "replace"))
    match output_kind(output):
        case "failing":
            tell(f"Standard input is {_FIX_IT}")
            return TaskInput(FIX_OUTPUT, output)
        case "passing":
            raise ConfigError(
                f'Standard input is {_NO_FAILURE} headgate {command} "..." - attaches the output.'
            )
        case _:
            try:
                return TaskInput(data.decode())
            except UnicodeDecodeError:
                raise ConfigError("Standard input is not UTF-8 text.") from None


def read_pasted(line: str, pasted: Mapping[str, str], tell: Callable[[str], None]) -> TaskInput:
    """The task of a line in which names stand for pasted texts.

    Pasted output of a program is attached: these are not the person's own words. All other texts are put in
    the place of their names.
    """
    named = {name: text for name, text in pasted.items() if name in line}
    is_alone = line.strip() in named
    kinds = {name: output_kind(text, beside_words=not is_alone) for name, text in named.items()}
    outputs = [name for name, kind in kinds.items() if kind != "request"]
    if is_alone and outputs:
        if kinds[outputs[0]] == "passing":
            raise ConfigError(f"What you pasted is {_NO_FAILURE}")
        tell(f"What you pasted is {_FIX_IT}")
        return TaskInput(FIX_OUTPUT, clean_output(named[outputs[0]]))
    for name in outputs:
        tell(f"{name} is the output of a program and is attached.")
    texts = {name: text for name, text in named.items() if name not in outputs}
    several = len(outputs) > 1
    attached = (f"{name}\n{named[name]}" if several else named[name] for name in outputs)
    return TaskInput(put_in(line, texts), clean_output("\n\n".join(attached)))


def put_in(line: str, pasted: Mapping[str, str]) -> str:
    """A line with pasted texts in the place of their names, on lines of their own."""
    for name, text in pasted.items():
        if name in line:
            before, _, after = line.partition(name)
            parts = (before.rstrip(" "), text.strip("\n"), after.lstrip(" "))
            line = "\n".join(part for part in parts if part)
    return line


def clean_output(text: str) -> str:
    """What a program printed, as a terminal would show it, not too long."""
    return condense_output(plain(text).strip("\n").rstrip(), ATTACHED_CHARS)


def _read_file(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except UnicodeError:
        raise ConfigError(f"{file} is not UTF-8 text.") from None
    except OSError as error:
        raise ConfigError(f"Cannot read {file}: {error.strerror}.") from None


def _checked(text: str, source: str) -> str:
    try:
        text.encode()
    except UnicodeError:
        raise ConfigError(f"{source} is not UTF-8 text.") from None
    return text


def _read_some(stdin: TextIO) -> bytes:
    """What there is; nothing at the end. On a terminal, a full read would want Ctrl-D twice."""
    buffer = stdin.buffer
    return buffer.read1(_PIECE) if isinstance(buffer, BufferedReader) else buffer.read(_PIECE)


def _read_bounded(stdin: TextIO) -> bytes:
    """All of standard input, or the beginning and the end of what is too much to keep."""
    head, tail, dropped = bytearray(), bytearray(), 0
    try:
        while piece := _read_some(stdin):
            room = _READ_BYTES - len(head)
            head += piece[:room]
            tail += piece[room:]
            if len(tail) > 2 * _READ_BYTES:
                dropped += len(tail) - _READ_BYTES
                del tail[:-_READ_BYTES]
    except OSError as error:
        raise ConfigError(f"Cannot read standard input: {error.strerror}.") from None
    mark = f"\n[... {dropped:,} bytes cut ...]\n".encode() if dropped else b""
    return bytes(head) + mark + bytes(tail)
