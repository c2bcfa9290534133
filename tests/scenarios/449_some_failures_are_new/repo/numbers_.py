def one():
    return 0


def two():
    return 0


def three():
    return 3
