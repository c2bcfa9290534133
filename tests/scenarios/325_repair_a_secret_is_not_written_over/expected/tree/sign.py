"""Signs texts."""

KEY = "tr0ub4dor-and-3"


def sign(text):
    return f"{KEY}:{text}"
