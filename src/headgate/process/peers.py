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

    Also true if it was opened on this machine and is closed by now: it may have been a command's, and nobody
    waits for an answer. False for one from another machine, and where the system does not tell.
    """
    sockets = _open_sockets(*peer)
    if sockets is None:
        return False
    if any(is_inside_command(repo, pid) for pid in _holders(sockets)):
        return True
    return not sockets & (_open_sockets(*peer) or frozenset())  # closed before its holder was found


def _open_sockets(host: str, port: int) -> frozenset[str] | None:
    """The names that /proc has for the sockets that processes have open at this address.

    None if the address is another machine's, or if the system does not tell.
    """
    wanted = {f"{_in_hex(form)}:{port:04X}" for form in _forms(host)}
    rows = [line.split() for table in _TABLES for line in _lines(table)]
    found = {fields[9] for fields in rows if fields[1] in wanted}
    # The table has at least the socket that the server listens at.
    if not found and not (rows and _is_loopback(host)):
        return None
    return frozenset(f"socket:[{number}]" for number in found - {"0"})  # 0: no process has it open


def _lines(table: Path) -> list[str]:
    try:
        return table.read_text("ascii").splitlines()[1:]
    except OSError:
        return []


def _is_loopback(host: str) -> bool:
    return any(ipaddress.ip_address(form).is_loopback for form in _forms(host))


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


def _holders(sockets: frozenset[str]) -> Iterator[int]:
    """The processes that have one of these sockets open."""
    for process in running_processes():
        if any(target in sockets for target in _open_files(process.pid)):
            yield process.pid


def _open_files(pid: int) -> Iterator[str]:
    with suppress(OSError):  # gone by now, or another user's
        for entry in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(OSError):
                yield str(entry.readlink())
