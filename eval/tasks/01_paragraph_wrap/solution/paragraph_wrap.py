"""Wrapping of plain paragraphs to a line width."""


def words_of(text: str) -> list[str]:
    """Return the words of a paragraph; any run of white space separates two words."""
    return text.split()


def wrap(text: str, width: int) -> list[str]:
    """Break a paragraph into lines of at most `width` characters.

    A word longer than the width gets a line of its own and is never cut.
    """
    if width < 1:
        raise ValueError(f"width must be positive, not {width}")
    lines: list[str] = []
    current = ""
    for word in words_of(text):
        if not current:
            current = word
        elif len(current) + 1 + len(word) <= width:
            current += " " + word
        else:
            lines.append(current)
            current = word
    if current:
        lines.append(current)
    return lines


def wrap_with_prefix(text: str, width: int, prefix: str) -> list[str]:
    """Wrap a paragraph and put `prefix` before each line, counted as part of the width."""
    return [prefix + line for line in wrap(text, width - len(prefix))]
