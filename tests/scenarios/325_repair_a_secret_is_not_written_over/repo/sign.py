"""Signs texts."""

KEY = "tr0ub4dor-and-3"


def sign(text):
    key = "tr0ub4dor-and-3"
    return f"{key}:{text.upper()}"
