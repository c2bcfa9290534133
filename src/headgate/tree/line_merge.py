"""Putting a change into another version of the same file, line by line."""

from headgate.tree.objects import detached_git


def merge_lines(base: bytes, changed: bytes, other: bytes) -> bytes | None:
    """`other` with what was changed from `base` to `changed`; None if the two meet, or for binary content."""
    if base == other:
        return changed
    with detached_git(sha256=False) as place:
        names = ("other", "base", "changed")
        for name, data in zip(names, (other, base, changed), strict=True):
            (place.tree / name).write_bytes(data)
        done = place.run("merge-file", "--stdout", *names)
    return None if done.returncode else done.stdout
