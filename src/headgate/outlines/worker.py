"""The process that parses. It reads files from its standard input, and writes their outlines to its output.

A request is two lengths, the path and the content; an answer is a length and the outline as JSON.
"""

import gc
import signal
import struct
import sys
from typing import IO

from headgate.outlines.outline import encode_outline
from headgate.outlines.reading import outline_file

REQUEST = struct.Struct(">II")
ANSWER = struct.Struct(">I")
_MOST_SECONDS = 30
"""For one file. Whoever asked ends this process much earlier, unless it was ended itself."""


def answer_all(source: IO[bytes], sink: IO[bytes]) -> None:
    """Until the source ends."""
    while len(head := source.read(REQUEST.size)) == REQUEST.size:
        path_size, size = REQUEST.unpack(head)
        path = source.read(path_size).decode("utf-8", "surrogateescape")
        content = source.read(size)
        signal.alarm(_MOST_SECONDS)
        answer = encode_outline(outline_file(path, content))
        signal.alarm(0)
        sink.write(ANSWER.pack(len(answer)) + answer)
        sink.flush()


if __name__ == "__main__":
    gc.freeze()  # nobody looks through the modules, not even at the end
    answer_all(sys.stdin.buffer, sys.stdout.buffer)
