"""Parsing of formulas into trees.

A tree is a number, a name, or a tuple (operator, left tree, right tree).
"""

from formula_tokens import FormulaError, tokens_of

__all__ = ["FormulaError", "Node", "parse"]

Node = float | str | tuple


def parse(text: str) -> Node:
    """Return the tree of a formula."""
    parser = _Parser(tokens_of(text))
    tree = parser.sum()
    if parser.peek() is not None:
        raise FormulaError(f"unexpected {parser.peek()}")
    return tree


class _Parser:
    def __init__(self, tokens: list[str]) -> None:
        self._tokens = tokens
        self._position = 0

    def peek(self) -> str | None:
        """Return the next token without taking it, None at the end."""
        if self._position < len(self._tokens):
            return self._tokens[self._position]
        return None

    def take(self) -> str:
        """Return the next token and step over it."""
        token = self.peek()
        if token is None:
            raise FormulaError("formula ends too early")
        self._position += 1
        return token

    def sum(self) -> Node:
        """Parse products joined by + and -."""
        tree = self.product()
        while self.peek() in ("+", "-"):
            operator = self.take()
            tree = (operator, tree, self.product())
        return tree

    def product(self) -> Node:
        """Parse single values joined by * and /."""
        tree = self.single()
        while self.peek() in ("*", "/"):
            operator = self.take()
            tree = (operator, tree, self.single())
        return tree

    def single(self) -> Node:
        """Parse a number, a name or a formula in parentheses."""
        token = self.take()
        if token == "(":
            tree = self.sum()
            if self.take() != ")":
                raise FormulaError("expected )")
            return tree
        if token[0].isdigit():
            return float(token)
        if token[0].isalpha():
            return token
        raise FormulaError(f"unexpected {token}")
