"""Who is at the other end of a connection from this machine: only Linux tells, in /proc."""

import ipaddress
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from headgate.process.reaper import is_inside_command, running_processes

_TABLES = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))


def is_peer_inside_command(repo: Path, peer: tuple[str, int]) -> bool:
    """Whether a command of this repository's tasks has opened a connection from this address and port.

    False for one from another machine, and where the system does not tell.
    """
    socket = _socket_at(*peer)
    return socket is not None and any(is_inside_command(repo, pid) for pid in _holders(socket))


def _socket_at(host: str, port: int) -> str | None:
    """The name that /proc has for the socket that is bound to this address."""
    wanted = {f"{_in_hex(form)}:{port:04X}" for form in _forms(host)}
    for table in _TABLES:
        with suppress(OSError):
            for line in table.read_text("ascii").splitlines()[1:]:
                fields = line.split()
                if fields[1] in wanted and fields[9] != "0":
                    return f"socket:[{fields[9]}]"
    return None


def _forms(host: str) -> Iterator[bytes]:
    """An address as the tables may have it: one of version 4 also inside one of version 6."""
    with suppress(ValueError):
        address = ipaddress.ip_address(host)
        mapped = getattr(address, "ipv4_mapped", None) or address
        yield address.packed
        if mapped.version == 4:
            yield mapped.packed
            yield bytes(10) + b"\xff\xff" + mapped.packed


def _in_hex(packed: bytes) -> str:
    """The table prints each four bytes as the number that they are to this machine."""
    words = (packed[at : at + 4] for at in range(0, len(packed), 4))
    return "".join(f"{int.from_bytes(word, sys.byteorder):08X}" for word in words)


def _holders(socket: str) -> Iterator[int]:
    """The processes that have this socket open."""
    for process in running_processes():
        if any(target == socket for target in _open_files(process.pid)):
            yield process.pid


def _open_files(pid: int) -> Iterator[str]:
    with suppress(OSError):  # gone by now, or another user's
        for entry in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(OSError):
                yield str(entry.readlink())
