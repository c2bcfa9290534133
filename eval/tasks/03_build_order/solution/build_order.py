"""The order in which the targets of a build are made."""

from collections.abc import Iterable, Mapping


class CycleError(ValueError):
    """Targets depend on each other in a circle."""

    def __init__(self, targets: Iterable[str]) -> None:
        self.targets = sorted(targets)
        super().__init__("circular dependency among: " + ", ".join(self.targets))


def all_targets(needs: Mapping[str, Iterable[str]]) -> set[str]:
    """Return every target that is named, as a key or as something needed."""
    names = set(needs)
    for needed in needs.values():
        names.update(needed)
    return names


def build_order(needs: Mapping[str, Iterable[str]]) -> list[str]:
    """Return all targets so that each comes after everything it needs.

    `needs` maps a target to the targets it needs directly. Among targets that could be
    built next, the alphabetically first comes first. Raises CycleError, naming the targets
    that cannot be ordered.
    """
    waiting = {name: set(needs.get(name, ())) for name in all_targets(needs)}
    for name, needed in waiting.items():
        if name in needed:
            raise CycleError([name])
    ready = sorted(name for name, needed in waiting.items() if not needed)
    order: list[str] = []
    while ready:
        built = ready.pop(0)
        order.append(built)
        del waiting[built]
        for name, needed in waiting.items():
            if built in needed:
                needed.remove(built)
                if not needed:
                    ready.append(name)
        ready.sort()
    if waiting:
        raise CycleError(waiting)
    return order


def build_steps(needs: Mapping[str, Iterable[str]], goal: str) -> list[str]:
    """Return the ordered targets that have to be built for `goal`, ending with it."""
    order = build_order(needs)
    wanted = {goal}
    for name in reversed(order):
        if name in wanted:
            wanted.update(needs.get(name, ()))
    return [name for name in order if name in wanted]
