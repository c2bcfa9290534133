"""Evaluation of arithmetic formulas with named values."""

from collections.abc import Mapping

from formula_parser import FormulaError, Node, parse

__all__ = ["FormulaError", "evaluate"]


def evaluate(text: str, values: Mapping[str, float] | None = None) -> float:
    """Return the value of a formula such as `2 * (width + 1)`."""
    return _value(parse(text), values or {})


def _value(node: Node, values: Mapping[str, float]) -> float:
    if isinstance(node, float):
        return node
    if isinstance(node, str):
        if node not in values:
            raise FormulaError(f"unknown name: {node}")
        return values[node]
    operator, left_node, right_node = node
    left = _value(left_node, values)
    right = _value(right_node, values)
    if operator == "+":
        return left + right
    if operator == "-":
        return left - right
    if operator == "*":
        return left * right
    if right == 0:
        raise FormulaError("division by zero")
    return left / right
