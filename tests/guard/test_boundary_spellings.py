"""Every way in which people spell a boundary protects what they mean by it, and nothing else."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.core import parse_task_text
from headgate.guard import Boundaries, resolve_boundaries

ROOTS = ("$PWD", "${PWD}", "$(pwd)", "/home/me/my shop")
FILES = (
    "README.md",
    "a,b.txt",
    "app.py",
    "app/(shop)/page.tsx",
    "config/prod.yaml",
    "db/migrations/0001.sql",
    "db/seeds/users.sql",
    "docs/my notes/a.md",
    "infra/Dockerfile",
    "packages/api/schema/v1.sql",
    "poetry.lock",
    "src/app.py",
    "src/auth/login.py",
    "src/billing/invoices.py",
    "web/[id]/page.tsx",
    "web/i/page.tsx",
)
MIGRATIONS = {"db/migrations/0001.sql"}
DB = MIGRATIONS | {"db/seeds/users.sql"}
AUTH = {"src/auth/login.py"}
README = {"README.md"}

SPELLINGS: list[tuple[str, set[str]]] = [
    ("db/**", DB),
    ("db", DB),
    ("db/*", DB),
    ("./db/", DB),
    ("db/./migrations", MIGRATIONS),
    ("db//migrations", MIGRATIONS),
    ("src/../db", DB),
    ("db/migrations/...", MIGRATIONS),
    ("db\\migrations", MIGRATIONS),
    ("DB/Migrations", MIGRATIONS),
    ("db/**, src/auth/**", DB | AUTH),
    ("db/** src/auth/**", DB | AUTH),
    ("db/**; src/auth/**", DB | AUTH),
    ("db/**, src/auth/**, and README.md", DB | AUTH | README),
    ('["db/**", "src/auth/**"]', DB | AUTH),
    ("src/{auth,billing}", AUTH | {"src/billing/invoices.py"}),
    ("{db,src/auth}/**, README.md", DB | AUTH | README),
    ("db/migrations/** (owned by the DBA, and by the auditors).", MIGRATIONS),
    ("db/migrations (DBA), src/auth (security team)", MIGRATIONS | AUTH),
    ("db/migrations \u2014 see README.md", MIGRATIONS),
    ("db/migrations/**  # owned by the DBA", MIGRATIONS),
    ("`db/migrations/`.", MIGRATIONS),
    ("`db/migrations` and `src/auth`", MIGRATIONS | AUTH),
    ('"db/migrations", "src/auth"', MIGRATIONS | AUTH),
    ("\u201cdb/migrations\u201d", MIGRATIONS),
    ("**db/migrations**", MIGRATIONS),
    ("${PWD}/db/**", DB),
    ("$(pwd)/db/migrations", MIGRATIONS),
    ("/home/me/my shop/db, /home/me/my shop/src/auth", DB | AUTH),
    ("src/auth/login.py.", AUTH),
    ("Leave README.md alone.", README),
    ("Don\u2019t touch db/migrations or the auth module.", MIGRATIONS | AUTH),
    ("Do not touch db/migrations. The auth module is off limits.", MIGRATIONS | AUTH),
    ("neither the auth module nor the billing code", AUTH | {"src/billing/invoices.py"}),
    ("anything below db/ plus the Dockerfile", DB | {"infra/Dockerfile"}),
    ("app/(shop)/**", {"app/(shop)/page.tsx"}),
    ("web/[id]/page.tsx", {"web/[id]/page.tsx"}),
    ("web/[ij]/page.tsx", {"web/i/page.tsx"}),
    ("docs/my notes/a.md, README.md", {"docs/my notes/a.md"} | README),
    ("a,b.txt", {"a,b.txt"}),
    ("app.py/", {"app.py", "src/app.py"}),
    ("src/app.py/**", {"src/app.py"}),
    ("/app.py", {"app.py"}),
    ("*.lock", {"poetry.lock"}),
    ("src/**, !src/auth/**", {"src/app.py", "src/billing/invoices.py"}),
    ("schema/**", {"packages/api/schema/v1.sql"}),
    ("migrations/0001.sql", MIGRATIONS),
    (".", set(FILES)),
    ("the payment provider", set()),
    ("e.g. db/migrations", MIGRATIONS),
    ("/**, !src/auth/**", set(FILES) - AUTH),
    ("db/** except db/seeds/users.sql", MIGRATIONS),
    ("db/**, but not db/seeds/users.sql.", MIGRATIONS),
    ("`db/` except for `db/seeds`", MIGRATIONS),
    ("db except seeds", MIGRATIONS),
    ("$PWD/db excluding $PWD/db/seeds", MIGRATIONS),
    ("db/** and src/** except src/auth/** and src/app.py", DB | {"src/billing/invoices.py"}),
    ("schema/** except schema/v2.sql", {"packages/api/schema/v1.sql"}),
    ("*.lock except poetry.lock, src/auth", set()),
    ("src/** except auth/**", {"src/app.py", "src/billing/invoices.py"}),
    (". except src/auth", set(FILES) - AUTH),
    ("Stay out of src/auth", AUTH),
    ("src/auth is off limits to everyone", AUTH),
    ("Keep everything in src/auth as it is", AUTH),
    ("Keep in mind that db/migrations is the DBA's", MIGRATIONS),
    ("src/auth/login.py:12", AUTH),
]  # fmt: skip


def present(pattern: str) -> bool:
    return any(map(Boundaries([pattern]).covers, FILES))


@pytest.mark.parametrize(("text", "protected"), SPELLINGS)
def test_a_spelling_protects_what_it_means(text: str, protected: set[str]) -> None:
    found = resolve_boundaries([text], FILES, ROOTS, present)
    guard = Boundaries(found.globs)
    assert {path for path in FILES if guard.covers(path)} == protected
    assert bool(found.unenforced) != bool(protected)
    assert found.unmatched == ()


@pytest.mark.parametrize(
    ("text", "globs"),
    [
        ("db/migratoins/**", ("db/migratoins/**",)),
        ("vendor", ("vendor",)),
        ("$PWD/vendor/", ("/vendor/",)),
        ("Leave not/there/yet.py alone", ("not/there/yet.py",)),
        ("db/**, srv/**", ("db/**", "srv/**")),
    ],
)
def test_a_path_to_be_is_enforced_and_said_to_match_nothing_now(text: str, globs: tuple[str, ...]) -> None:
    found = resolve_boundaries([text], FILES, ROOTS, present)
    assert found.globs == globs
    assert found.unenforced == ()
    assert found.unmatched == (globs[-1],)
    assert found.problems() == (
        f'Boundary "{globs[-1]}" matches nothing now. It holds once such a file exists; check the spelling.',
    )


OPPOSITES = [
    "Stay within src/auth",
    "Limit all changes to src/auth",
    "Keep your changes in src/auth",
    "Do not leave src/auth",
    "only touch src/auth",
    "src/auth only",
    "anything that is not in src/auth",
    "Do not touch anything outside src/auth",
    "everything except src",
    "nothing but src/auth",
    "db/** except the seeds of the customers",
    "Don't touch anything in db/** except the folder db/seeds",
    "db/** except db/seeds except db/migrations",
]


@pytest.mark.parametrize("text", OPPOSITES)
def test_words_that_allow_a_path_do_not_protect_it(text: str) -> None:
    found = resolve_boundaries([text], FILES, ROOTS, present)
    assert found.globs == ()
    assert found.problems() == (
        f'Boundary "{text}" is not enforced: it says where changes may go, or makes an exception that is not'
        ' understood. Write "/**, !src/auth/**" to protect everything except src/auth,'
        ' or "db/**, !db/seed.sql" to protect db except one file.',
    )


@pytest.mark.parametrize("other", ["db/seeds/users.sql", "db/**", "the seeds", "db/seeds"])
@pytest.mark.parametrize("first", [True, False])
def test_an_exception_opens_nothing_that_another_boundary_protects(other: str, first: bool) -> None:
    texts = ["db/** except db/seeds/**", other] if first else [other, "db/** except db/seeds/**"]
    guard = Boundaries(resolve_boundaries(texts, FILES, ROOTS, present).globs)
    assert {path for path in FILES if guard.covers(path)} == DB


def test_a_boundary_beside_an_exception_covers_no_more_than_before() -> None:
    found = resolve_boundaries(["db/** except db/seeds/**", "src/**", "web"], FILES, ROOTS, present)
    assert found.globs == ("db/**", "!db/seeds/**", "src/**", "web", "**/web/**")


def test_people_read_what_an_exception_was_taken_to_mean() -> None:
    found = resolve_boundaries(["db/** except db/seeds"], FILES, ROOTS, present)
    assert found.describe() == ('Boundary "db/** except db/seeds": db/**, !db/seeds, !db/seeds/**.',)


HEADINGS = [
    "Boundaries:\n- db/**\n- src/auth/**",
    "Boundaries: db/**, src/auth/**",
    "BOUNDARIES: db/**,\n    src/auth/**",
    "## Boundaries\n\ndb/**\nsrc/auth/**",
    "## Boundaries ##\n\n- db/**\n\n- src/auth/**",
    "**Boundaries:**\n\n* `db/**`\n* `src/auth/**`",
    "Boundaries\n----------\ndb/**\nsrc/auth/**",
    "- Boundaries:\n  - db/**\n  - src/auth/**",
    "Boundaries (do not write there):\n- db/**\n- src/auth/**",
    "Out of scope:\n- [ ] db/**\n- [x] src/auth/**",
    "Do not modify:\n1. db/**\n2. src/auth/**",
    "Boundaries:\n```\ndb/**\nsrc/auth/**\n```",
    "Boundaries:\n- db/**\n\nNon-goals:\nspeed\n\nBoundaries:\n- src/auth/**",
]


@pytest.mark.parametrize(("number", "section"), list(enumerate(HEADINGS)))
def test_a_section_of_the_text_protects_what_it_means(number: int, section: str) -> None:
    parts = ("Fix the login.", section) if number % 2 else (section, "Fix the login.")
    parsed = parse_task_text("\n\n".join(parts))
    found = resolve_boundaries(parsed.constraints.boundaries, FILES, ROOTS, present)
    assert parsed.request == "Fix the login."
    assert {path for path in FILES if Boundaries(found.globs).covers(path)} == DB | AUTH
    assert found.problems() == ()


NAMES = st.text("abcXYZ0123_-", min_size=1, max_size=6).filter(lambda name: name[0].isalpha())
PATHS = st.lists(NAMES, min_size=2, max_size=4).map(lambda parts: "/".join(["q", *parts]) + ".py")
FORMS = [
    "{}", "`{}`", "'{}'", '"{}"', "./{}", "/{}", "$PWD/{}", "{}.", "{},", "{} (owned by ops, and by us)",
    "`{}` (a note)", "{} - a note", "Don't touch {}", "the file `{}`", "{}/", "{}/**", "{}/.",
]  # fmt: skip
FOLDER_FORMS = [*FORMS, "{}/*", "everything under {}", "{}/..."]


@given(
    st.lists(PATHS, min_size=1, max_size=6, unique_by=str.lower),
    st.data(),
)
def test_any_existing_paths_are_protected_exactly_however_they_are_spelled(
    files: list[str], data: st.DataObject
) -> None:
    folders = sorted({path.rpartition("/")[0] for path in files})
    chosen = data.draw(st.lists(st.sampled_from([*files, *folders]), min_size=1, max_size=3, unique=True))
    spelled = [
        data.draw(st.sampled_from(FORMS if path in files else FOLDER_FORMS)).format(path) for path in chosen
    ]
    joined = data.draw(st.sampled_from(["bullets", ", ", " and ", "; ", "\n"]))
    lists = spelled if joined == "bullets" else [joined.join(spelled)]

    found = resolve_boundaries(
        lists, files, ROOTS, lambda pattern: any(map(Boundaries([pattern]).covers, files))
    )

    guard = Boundaries(found.globs)
    meant = {
        path
        for path in files
        for one in chosen
        if path.casefold() == one.casefold() or path.casefold().startswith(f"{one.casefold()}/")
    }
    assert {path for path in files if guard.covers(path)} == meant
    assert found.problems() == ()
