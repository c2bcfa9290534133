"""Small matrices as lists of rows."""

Matrix = list[list[float]]


def shape(matrix: Matrix) -> tuple[int, int]:
    """Return the number of rows and of columns."""
    return len(matrix), len(matrix[0])


def transpose(matrix: Matrix) -> Matrix:
    """Return the matrix with rows and columns exchanged."""
    return [list(column) for column in zip(*matrix, strict=True)]


def identity(size: int) -> Matrix:
    """Return the square matrix with ones on its diagonal and zeros elsewhere."""
    return [[1 if row == column else 0 for column in range(size)] for row in range(size)]


def multiply(left: Matrix, right: Matrix) -> Matrix:
    """Return the product: as many rows as `left` and as many columns as `right`."""
    rows, inner = shape(left)
    if inner != len(right):
        raise ValueError(f"cannot multiply {shape(left)} by {shape(right)}")
    columns = len(left[0])
    return [
        [sum(left[row][k] * right[k][column] for k in range(inner)) for column in range(columns)]
        for row in range(rows)
    ]


def power(matrix: Matrix, exponent: int) -> Matrix:
    """Return a square matrix multiplied by itself `exponent` times."""
    result = identity(len(matrix))
    for _ in range(exponent):
        result = multiply(result, matrix)
    return result
