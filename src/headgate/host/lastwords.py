"""What a process whose interpreter crashes can still say: where it was."""

import faulthandler
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_LONGEST = 20_000


def read_last_words(path: Path) -> str:
    """What the process before this one left there, if it died."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")[:_LONGEST].strip()
    except OSError:
        return ""


@contextmanager
def last_words(path: Path) -> Iterator[None]:
    """Has the interpreter write a traceback there if it crashes; the file is gone when all went well."""
    with path.open("w", encoding="utf-8") as file:
        faulthandler.enable(file)
        try:
            yield
        finally:
            faulthandler.disable()
    path.unlink(missing_ok=True)
