"""`.git` and `.headgate` belong to git and to Headgate: no tool writes there, and few read there."""

import re

from headgate.core import Access, Denial
from headgate.reading import Command, split_commands
from headgate.workspace.globs import fold_case

RESERVED = frozenset({".git", ".headgate"})
_READABLE = (".headgate/outputs", ".headgate/runs")
_WRITERS = re.compile(
    r"chgrp|chmod|chown|cp|dd|install|ln|mkdir|mktemp|mv|rename|rm|rmdir|rsync|shred|tee|touch|truncate|unlink"
    r"|unzip"
)
_IN_PLACE = frozenset({"sed", "gsed", "perl", "ruby"})
_FIND_ACTIONS = frozenset({"-delete", "-exec", "-execdir", "-ok", "-okdir", "-fprint", "-fprintf", "-fls"})
# Some file systems drop these characters from names, so that a name with one of them is `.git` after all.
_IGNORABLE = dict.fromkeys([*range(0x200B, 0x2010), *range(0x202A, 0x202F), *range(0x206A, 0x2070), 0xFEFF])


class InternalFiles:
    """No writing below any `.git` or `.headgate`, no reading there but of saved outputs and run logs."""

    def __call__(self, access: Access, /) -> Denial | None:
        if access.act == "run":
            return _judge(access.target)
        name = internal_name(access.target)
        if name is None:
            return None
        if access.act == "write":
            return Denial(f"{access.target}: tools must not change {name}.")
        if any(access.target == top or access.target.startswith(top + "/") for top in _READABLE):
            return None
        return Denial(f"{access.target}: tools must not read {name}.")


def internal_name(path: str) -> str | None:
    """The component that makes a path internal, in its plain spelling."""
    if path.isascii():
        lowered = path.lower()  # every file of every walk comes by here
        if ".git" not in lowered and ".headgate" not in lowered:
            return None
    for part in path.split("/"):
        plain = fold_case(part).translate(_IGNORABLE)
        if plain in RESERVED:
            return plain
    return None


def _judge(text: str) -> Denial | None:
    """Best effort: commands that plainly write there, by redirection or with a program that writes files."""
    for command in split_commands(text):
        if _cleans_ignored_files(command):
            return Denial("git clean with -x or -X would remove Headgate's own files: leave out that option.")
        targets = list(command.written)
        if _changes_files(command):
            targets += command.arguments
        for target in targets:
            # An option's value counts as well: dd of=.git/x
            name = internal_name(target.rpartition("=")[2])
            if name is not None:
                return Denial(f"The command would change {name}, which tools must not change.")
    return None


def _cleans_ignored_files(command: Command) -> bool:
    words = command.arguments
    flags = (word for word in words if word.startswith("-") and not word.startswith("--"))
    return command.program == "git" and "clean" in words and any("x" in flag.lower() for flag in flags)


def _changes_files(command: Command) -> bool:
    program = command.program.rpartition("/")[2]
    if program in _IN_PLACE:
        return any(
            word.startswith("--in-place") or (word.startswith("-") and word[1:2] != "-" and "i" in word[:4])
            for word in command.arguments
        )
    if program == "find":
        return not _FIND_ACTIONS.isdisjoint(command.arguments)
    return _WRITERS.fullmatch(program) is not None
