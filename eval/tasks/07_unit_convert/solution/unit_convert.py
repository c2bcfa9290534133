"""Conversion between units of length, weight and time."""

UNITS = {
    "length": {"mm": 0.001, "cm": 0.01, "m": 1.0, "km": 1000.0},
    "weight": {"g": 1.0, "kg": 1000.0, "t": 1_000_000.0},
    "time": {"s": 1.0, "min": 60.0, "h": 3600.0},
}


class UnitError(ValueError):
    """A unit is unknown, or two units do not measure the same thing."""


def kind_of(unit: str) -> str:
    """Return what a unit measures: length, weight or time."""
    for kind, factors in UNITS.items():
        if unit in factors:
            return kind
    raise UnitError(f"unknown unit: {unit}")


def convert(value: float, source: str, target: str) -> float:
    """Return `value`, given in the unit `source`, in the unit `target`."""
    kind = kind_of(source)
    if kind_of(target) != kind:
        raise UnitError(f"{source} and {target} do not measure the same thing")
    factors = UNITS[kind]
    return value * factors[source] / factors[target]


def parse_quantity(text: str) -> tuple[float, str]:
    """Return number and unit of a text such as `3.5 kg`."""
    number, _, unit = text.strip().partition(" ")
    kind_of(unit)
    return float(number), unit
