"""Which paths a boundary means."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.guard import Boundaries, ResolvedBoundaries, resolve_boundaries
from headgate.guard.boundaries import fixed_prefix

FILES = [
    "README.md",
    "agent.yaml",
    "package.json",
    "src/auth/login.py",
    "src/auth/tokens.py",
    "src/auth_client.py",
    "src/billing/invoices.py",
    "src/sessionStorage.ts",
    "src/session/storage.py",
    "src/user_profile.py",
    "src/utils/dates.py",
    "db/migrations/0001.sql",
    "old/migration/x.sql",
    "legacy/auth.py",
    "tests/test_auth.py",
    "docs/my notes/a.md",
    "web/[id]/page.tsx",
    "web/pages/[id].tsx",
]


@pytest.mark.parametrize(
    "text",
    [
        "migrations/**", "*.lock", "src/auth", "/src/auth/", "vendor/", "not/there/yet.py", "docs",
        "README.md", "readme.MD", "!src/auth/tokens.py", "docs/my notes", "docs/my notes/*.md", ".env",
        "package.json", "auth", "file?.py", "[ab].py",
    ],
)  # fmt: skip
def test_patterns_and_paths_stay_as_they_are(text: str) -> None:
    assert resolve_boundaries([text], FILES) == ResolvedBoundaries((text,))


@pytest.mark.parametrize(
    ("text", "paths"),
    [
        ("the auth module", ["src/auth/", "legacy/auth.py"]),
        ("Don't touch the Auth module", ["src/auth/", "legacy/auth.py"]),
        ("database migrations", ["db/migrations/"]),
        ("the user_profile view", ["src/user_profile.py"]),
        ("the old tests", ["old/", "tests/"]),
        ("don't break the login flow", ["src/auth/login.py"]),
        ("anything under src/billing/.", ["src/billing/"]),
        ("do not edit `package.json`", ["package.json"]),
        ("all *.sql files", ["*.sql"]),
    ],
)
def test_prose_that_names_paths(text: str, paths: list[str]) -> None:
    found = resolve_boundaries([text], FILES)
    assert [(one, sorted(meant)) for one, meant in found.resolved] == [(text, sorted(paths))]
    assert found.unenforced == ()


@pytest.mark.parametrize(
    "text",
    [
        "the payment service", "public API", "the module", "nothing at all!", "the authentication code",
        "the invoice views", "user profiles", "Make a note of it", "everything except src/auth",
        "only the auth module", "all files other than README.md", "the CI", "bug #12", "#12", "база данных",
    ],
)  # fmt: skip
def test_prose_that_does_not(text: str) -> None:
    found = resolve_boundaries([text], FILES)
    assert found.resolved == ()
    assert found.unenforced


def test_enumerations_are_taken_apart() -> None:
    assert resolve_boundaries(
        ["the auth module, the payment code and the invoices"], FILES
    ) == ResolvedBoundaries(
        globs=("/src/auth/", "/legacy/auth.py", "/src/billing/invoices.py"),
        resolved=(
            ("the auth module", ("src/auth/", "legacy/auth.py")),
            ("the invoices", ("src/billing/invoices.py",)),
        ),
        unenforced=("the payment code",),
    )


def test_a_word_that_names_nothing_yet_is_a_pattern_too() -> None:
    found = resolve_boundaries(["vendor", "`vendor`", " "], FILES, matches=lambda pattern: False)
    assert found == ResolvedBoundaries(("vendor",), (), (), ("vendor",))
    assert Boundaries(found.globs).covers("lib/vendor/x")


def test_what_people_are_told() -> None:
    assert resolve_boundaries(["the login form", "*.lock", "the payment service"], FILES).describe() == (
        'Boundary "the login form": src/auth/login.py.',
        'Boundary "the payment service" is not enforced: it names no path here.',
    )


def test_what_is_found_is_what_is_enforced() -> None:
    files = ["web/[id]/page.tsx", "a b/pay*ment.py", "a b/payments/x.py"]
    found = resolve_boundaries(["web/[id]/page.tsx", "the payments code"], files)
    guard = Boundaries(found.globs)
    assert [path for path in (*files, "web/i/page.tsx", "a b/payXment.py") if guard.covers(path)] == [
        "web/[id]/page.tsx",
        "a b/payments/x.py",
    ]


@pytest.mark.parametrize(
    ("pattern", "prefix"),
    [
        ("migrations/**", "migrations"),
        ("./src/api/", "src/api"),
        ("src/./api/x.py", "src/api/x.py"),
        ("/docs", "docs"),
        ("docs", ""),
        ("docs/", ""),
        ("*.lock", ""),
        ("**/x", ""),
        ("a/b*/c", "a"),
        ("a/[bc]/d", "a"),
        (r"a/\b/c", "a"),
    ],
)
def test_fixed_prefix(pattern: str, prefix: str) -> None:
    assert fixed_prefix(pattern) == prefix


PARTS = st.lists(st.sampled_from(["a", "B", "*", "**", "a*", "?", "[ab]", "x.py"]), min_size=1, max_size=3)
PATHS = st.lists(st.sampled_from(["a", "b", "A", "ab", "x.py"]), min_size=1, max_size=4).map("/".join)


@given(
    st.lists(st.tuples(st.sampled_from(["", "/", "./", "!"]), PARTS, st.sampled_from(["", "/"])), max_size=3),
    PATHS,
)
def test_no_covered_path_is_behind_a_door_that_is_not_entered(
    patterns: list[tuple[str, list[str], str]], path: str
) -> None:
    guard = Boundaries([start + "/".join(parts) + end for start, parts, end in patterns])
    above = path
    while guard.covers(path) and (above := above.rpartition("/")[0]):
        assert guard.enters(above)


@given(st.lists(st.text(max_size=30), max_size=4), st.lists(st.text(min_size=1, max_size=12), max_size=6))
def test_any_text_is_resolved_or_listed(boundaries: list[str], files: list[str]) -> None:
    found = resolve_boundaries(boundaries, files)
    Boundaries(found.globs)
    told = {text for text, _ in found.resolved} | set(found.unenforced)
    assert bool(told or found.globs) == any(text.strip().strip("`'\"") for text in boundaries)
