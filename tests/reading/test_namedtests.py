"""Which tests exist for what a task names."""

import pytest

from headgate.reading import find_tests

PATHS = (
    "README.md",
    "src/cart.py",
    "src/utils.py",
    "src/admin/utils.py",
    "src/DateParser.java",
    "web/slug.ts",
    "web/slug.spec.ts",
    "pkg/store.go",
    "pkg/store_test.go",
    "lib/order.rb",
    "spec/order_spec.rb",
    "tests/test_cart.py",
    "tests/test_utils.py",
    "tests/admin/test_utils.py",
    "tests/test_parse_date.py",
    "tests/conftest.py",
    "tests/data/cart.json",
    "src/test/DateParserTest.java",
    "a/test_same.py",
    "b/test_same.py",
    "c/test_same.py",
    "d/test_same.py",
    "same.py",
)


@pytest.mark.parametrize(
    ("goal", "tests"),
    [
        ("Fix the total in src/cart.py.", ("tests/test_cart.py",)),
        ("cart.py is wrong", ()),
        ("Fix src/admin/utils.py", ("tests/admin/test_utils.py",)),
        ("Make pkg/store.go safe", ("pkg/store_test.go",)),
        ("lib/order.rb adds up wrongly", ("spec/order_spec.rb",)),
        ("web/slug.ts keeps spaces", ("web/slug.spec.ts",)),
        ("DateParser rejects weeks", ("src/test/DateParserTest.java",)),
        ("parse_date() rejects weeks", ("tests/test_parse_date.py",)),
        ("`slug` keeps spaces", ("web/slug.spec.ts",)),
        ("How does slug() work?", ("web/slug.spec.ts",)),
        ("Read tests/test_cart.py", ()),
        ("slug keeps spaces, and the cart is wrong", ()),
        ("Fix same.py", ()),
        ("Document the README.md", ()),
        ("", ()),
    ],
)
def test_the_find_tests_what_a_task_names(goal: str, tests: tuple[str, ...]) -> None:
    assert find_tests(goal, PATHS) == tests
