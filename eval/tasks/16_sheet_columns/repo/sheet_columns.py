"""Names of spreadsheet columns and cells: A, B, ..., Z, AA, AB and so on."""


def column_name(number: int) -> str:
    """Return the name of a column; the first column has the number 1."""
    if number < 1:
        raise ValueError(f"no column {number}")
    name = ""
    while number > 1:
        number, letter = divmod(number - 1, 26)
        name = chr(ord("A") + letter) + name
    return name


def column_number(name: str) -> int:
    """Return the number of the column with the given name."""
    if not name.isascii() or not name.isalpha():
        raise ValueError(f"not a column: {name}")
    number = 0
    for letter in name.upper():
        number = number * 26 + ord(letter) - ord("A") + 1
    return number


def cell_name(column: int, row: int) -> str:
    """Return the name of a cell, such as B3."""
    return f"{column_name(column)}{row}"


def columns_between(first: str, last: str) -> list[str]:
    """Return the names of all columns from `first` to `last`, both included."""
    return [column_name(number) for number in range(column_number(first), column_number(last) + 1)]
