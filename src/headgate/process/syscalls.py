"""The filter for system calls of commands in the sandbox, as the program that the kernel runs for each call.

Most calls that it denies need rights that a command in the sandbox does not have. They are denied all the
same, because faults of the kernel were found behind them again and again. A file with the bit that lets
others run it as its owner (setuid) cannot be made either: it would keep that bit outside the sandbox.
"""

import errno
import os
import struct
from collections.abc import Sequence

from headgate.first_use import dataclass

_AUDIT = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
"""How the kernel names the two machines whose numbers of calls are known here."""
_NUMBERS = {
    # call: (x86_64, aarch64); None where the machine has no such call
    "ioctl": (16, 29),
    "socket": (41, 198),
    "socketpair": (53, 199),
    "clone": (56, 220),
    "unshare": (272, 97),
    "clone3": (435, 435),
    "openat2": (437, 437),
    "open": (2, None),
    "openat": (257, 56),
    "creat": (85, None),
    "mknod": (133, None),
    "mknodat": (259, 33),
    "chmod": (90, None),
    "fchmod": (91, 52),
    "fchmodat": (268, 53),
    "fchmodat2": (452, 452),
}
_DENIED = {
    "pivot_root": (155, 41),
    "mount": (165, 40),
    "umount2": (166, 39),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
    "open_tree_attr": (467, 467),
    "setns": (308, 268),
    "name_to_handle_at": (303, 264),
    "open_by_handle_at": (304, 265),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "reboot": (169, 142),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "acct": (163, 89),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "syslog": (103, 116),
}
_FAMILIES = (0, 1, 2, 10, 16)
"""Unspecified, Unix, IPv4, IPv6, netlink. The rest reaches the machine around the network namespace."""
_TERMINAL_INPUT = (0x5412, 0x541C)
"""TIOCSTI and TIOCLINUX type text into the terminal that Headgate was started from."""
_NEW_USER_NAMESPACE = 0x10000000
_SETUID, _SETUID_OR_SETGID = 0o4000, 0o6000
_CREATES = 0o100 | 0o20000000
_OTHER_NUMBERING = 0x40000000
"""On x86_64 this bit asks for the same calls with other numbers (x32)."""

_LOAD, _RETURN, _IF_EQUAL, _IF_AT_LEAST, _IF_ANY_BIT = 0x20, 0x06, 0x15, 0x35, 0x45
_ALLOW, _FAIL, _KILL = 0x7FFF0000, 0x00050000, 0x80000000
_CALL, _MACHINE, _ARGUMENTS = 0, 4, 16


@dataclass(frozen=True, slots=True)
class _Step:
    """One instruction. A jump says how many of the next ones are left out if it holds, and if not."""

    code: int
    value: int
    if_true: int = 0
    if_false: int = 0


def syscall_filter(machine: str | None = None) -> bytes | None:
    """The filter for a machine (this one unless it is named); None where its calls are not known."""
    machine = machine or os.uname().machine
    if machine not in _AUDIT:
        return None
    column = list(_AUDIT).index(machine)
    steps = [_Step(_LOAD, _MACHINE), _Step(_IF_EQUAL, _AUDIT[machine], 1), _Step(_RETURN, _KILL)]
    steps.append(_Step(_LOAD, _CALL))
    if machine == "x86_64":
        steps += [_Step(_IF_AT_LEAST, _OTHER_NUMBERING, 0, 1), _fail(errno.ENOSYS)]
    for numbers in _DENIED.values():
        steps += _on(numbers[column], [_fail(errno.EPERM)])
    for name, body in _RULES:
        steps += _on(_NUMBERS[name][column], body)
    steps.append(_Step(_RETURN, _ALLOW))
    return b"".join(struct.pack("=HBBI", one.code, one.if_true, one.if_false, one.value) for one in steps)


def _fail(number: int) -> _Step:
    return _Step(_RETURN, _FAIL | number)


def _argument(index: int) -> _Step:
    """The lower half of an argument. The kernel does not look at the upper half of these either."""
    return _Step(_LOAD, _ARGUMENTS + 8 * index)


def _on(number: int | None, body: Sequence[_Step]) -> list[_Step]:
    """A body decides about its call in every case."""
    return [] if number is None else [_Step(_IF_EQUAL, number, 0, len(body)), *body]


def _unless_bits(*conditions: tuple[int, int]) -> list[_Step]:
    """Denies a call if each of these arguments has one of these bits."""
    steps: list[_Step] = []
    for index, bits in conditions:
        left = 2 * len(conditions) - len(steps) - 2
        steps += [_argument(index), _Step(_IF_ANY_BIT, bits, 0, left + 1)]
    return [*steps, _fail(errno.EPERM), _Step(_RETURN, _ALLOW)]


def _by_value(index: int, values: Sequence[int], listed: _Step, other: _Step) -> list[_Step]:
    found = [step for value in values for step in (_Step(_IF_EQUAL, value, 0, 1), listed)]
    return [_argument(index), *found, other]


_FAMILY_RULE = _by_value(0, _FAMILIES, _Step(_RETURN, _ALLOW), _fail(errno.EPERM))
_NAMESPACE_RULE = _unless_bits((0, _NEW_USER_NAMESPACE))
_RULES: tuple[tuple[str, list[_Step]], ...] = (
    ("socket", _FAMILY_RULE),
    ("socketpair", _FAMILY_RULE),
    ("ioctl", _by_value(1, _TERMINAL_INPUT, _fail(errno.EPERM), _Step(_RETURN, _ALLOW))),
    ("clone", _NAMESPACE_RULE),
    ("unshare", _NAMESPACE_RULE),
    # These two keep their flags in memory, where no filter can look. Programs then use the older calls.
    ("clone3", [_fail(errno.ENOSYS)]),
    ("openat2", [_fail(errno.ENOSYS)]),
    ("open", _unless_bits((1, _CREATES), (2, _SETUID_OR_SETGID))),
    ("openat", _unless_bits((2, _CREATES), (3, _SETUID_OR_SETGID))),
    ("creat", _unless_bits((1, _SETUID_OR_SETGID))),
    ("mknod", _unless_bits((1, _SETUID_OR_SETGID))),
    ("mknodat", _unless_bits((2, _SETUID_OR_SETGID))),
    # Setgid is left to these: folders that a group shares have it.
    ("chmod", _unless_bits((1, _SETUID))),
    ("fchmod", _unless_bits((1, _SETUID))),
    ("fchmodat", _unless_bits((2, _SETUID))),
    ("fchmodat2", _unless_bits((2, _SETUID))),
)
