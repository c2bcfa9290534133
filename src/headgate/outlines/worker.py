"""The process that parses. It reads files from its standard input, and writes their outlines to its output.

A request is two lengths, the path and the content; an answer is a length and the outline as JSON.
"""

import struct
import sys
from typing import IO

from headgate.outlines.outline import encode_outline
from headgate.outlines.reading import outline_file

REQUEST = struct.Struct(">II")
ANSWER = struct.Struct(">I")


def answer_all(source: IO[bytes], sink: IO[bytes]) -> None:
    """Until the source ends."""
    while len(head := source.read(REQUEST.size)) == REQUEST.size:
        path_size, size = REQUEST.unpack(head)
        path = source.read(path_size).decode("utf-8", "surrogateescape")
        answer = encode_outline(outline_file(path, source.read(size)))
        sink.write(ANSWER.pack(len(answer)) + answer)
        sink.flush()


if __name__ == "__main__":
    answer_all(sys.stdin.buffer, sys.stdout.buffer)
