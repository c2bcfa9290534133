"""Reading of small tables written as separated text."""


class RowError(ValueError):
    """A line of the table cannot be read."""


def read_row(line: str, separator: str = ",") -> list[str]:
    """Return the cells of one line.

    A cell may be put in double quotes; then it may contain the separator, and a quote inside
    it is written twice. Text outside quotes is stripped of surrounding spaces.
    """
    cells: list[str] = []
    cell = ""
    quoted = False
    was_quoted = False
    position = 0
    while position < len(line):
        char = line[position]
        if quoted and char == '"':
            if line[position + 1 : position + 2] == '"':
                cell += '"'
                position += 1
            else:
                quoted = False
        elif quoted:
            cell += char
        elif char == '"' and not cell.strip():
            cell = ""
            quoted = was_quoted = True
        elif char == separator:
            cells.append(cell if was_quoted else cell.strip())
            cell = ""
            was_quoted = False
        else:
            cell += char
        position += 1
    if quoted:
        raise RowError(f"quote is not closed: {line}")
    if cell:
        cells.append(cell if was_quoted else cell.strip())
    return cells


def read_table(text: str, separator: str = ",") -> list[dict[str, str]]:
    """Return the rows of a table as dictionaries keyed by the names in its first line."""
    lines = [line for line in text.splitlines() if line.strip()]
    if not lines:
        return []
    names = read_row(lines[0], separator)
    rows = []
    for number, line in enumerate(lines[1:], start=2):
        cells = read_row(line, separator)
        if len(cells) != len(names):
            raise RowError(f"line {number} has {len(cells)} cells, not {len(names)}")
        rows.append(dict(zip(names, cells, strict=True)))
    return rows
