"""Splitting of bills, in whole cents."""


def to_cents(amount: str) -> int:
    """Return an amount such as `12`, `12.5` or `12.50` in cents."""
    whole, _, decimals = amount.strip().partition(".")
    if len(decimals) > 2:
        raise ValueError(f"more than two decimals: {amount}")
    return int(whole) * 100 + int(decimals.rjust(2, "0"))


def to_text(cents: int) -> str:
    """Return cents as an amount with two decimals."""
    return f"{cents // 100}.{cents % 100:02d}"


def split(cents: int, people: int) -> list[int]:
    """Split cents as evenly as possible; the first people pay the odd cents."""
    if people < 1:
        raise ValueError("somebody has to pay")
    share, odd = divmod(cents, people)
    return [share + 1] * odd + [share] * (people - odd)


def split_bill(amount: str, names: list[str]) -> dict[str, str]:
    """Return what each person pays of a bill."""
    shares = split(to_cents(amount), len(names))
    return {name: to_text(share) for name, share in zip(names, shares, strict=True)}
