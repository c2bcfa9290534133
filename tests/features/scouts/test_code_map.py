"""Whole maps of small trees: what is in them, and what never is."""

import asyncio
import os
import time
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.core import Access, Denial
from headgate.features.scouts.clues import trace_places
from headgate.features.scouts.code_map import CodeMap, CoveringTest, FileReference, MapLimits, MapQuery
from headgate.features.scouts.mapping import map_code
from headgate.features.scouts.render import render_map
from headgate.reading import FailedTest
from headgate.tree import DiskWorkspace, File, FileChange, OverlayWorkspace

SHOP = {
    "shop/cart.py": '"""The cart of a customer."""\n\nfrom shop.prices import round_price\n\n\n'
    "class Cart:\n    def total(self, rate: int) -> int:\n        return round_price(self.sum(), rate)\n\n"
    "    def sum(self) -> int:\n        return 0\n",
    "shop/prices.py": '"""Prices and their rounding."""\n\n\ndef round_price(value: int, rate: int) -> int:\n'
    "    return value // rate\n",
    "shop/mail.py": '"""Mails to customers."""\n\n\ndef send_mail(address: str):\n    print(address)\n',
    "shop/__main__.py": "from shop.mail import send_mail\n\nsend_mail('a')\n",
    "tests/test_cart.py": "import pytest\nfrom shop.cart import Cart\n\n\ndef test_total():\n"
    "    assert Cart().total(1) == 0\n",
    "README.md": "# Shop\n\nA cart, prices, mails.\n",
}


def write(root: Path, files: Mapping[str, str | bytes]) -> DiskWorkspace:
    root.mkdir(parents=True, exist_ok=True)
    for path, content in files.items():
        target = root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content.encode() if isinstance(content, str) else content)
    return DiskWorkspace(root)


def make(workspace: DiskWorkspace | OverlayWorkspace, text: str, index: Path, **query: object) -> CodeMap:
    return asyncio.run(map_code(workspace, MapQuery(text, **query), index))  # type: ignore[arg-type]


@pytest.fixture
def index(tmp_path: Path) -> Path:
    return tmp_path / "index" / "map.db"


@pytest.fixture
def shop(tmp_path: Path) -> DiskWorkspace:
    return write(tmp_path / "repo", SHOP)


def test_a_map_says_where_to_look_and_why(shop: DiskWorkspace, index: Path) -> None:
    found = make(shop, "The total of the cart is rounded wrongly: see `round_price`.", index)
    assert [file.path for file in found.files[:2]] == ["shop/prices.py", "shop/cart.py"]
    best = found.files[0]
    assert (best.purpose, best.lines, best.language) == ("Prices and their rounding.", 5, "python")
    assert best.why[0] == "defines round_price"
    assert [(one.name, one.signature, one.first, one.last) for one in best.symbols] == [
        ("round_price", "def round_price(value: int, rate: int) -> int", 4, 5)
    ]
    assert FileReference("shop/cart.py", "shop/prices.py", ("round_price",)) in found.references
    assert found.tests[0] == CoveringTest("tests/test_cart.py", ("shop/cart.py",))
    assert found.entry_points == ("shop/__main__.py",)
    assert found.conventions == (
        "python: indented by 4 spaces, lines of up to 46 characters, functions in snake_case",
        "tests with pytest",
    )


def test_the_file_that_is_named_comes_first(shop: DiskWorkspace, index: Path) -> None:
    found = make(shop, "Tidy shop/mail.py, which has nothing to do with prices, carts or rounding.", index)
    assert (found.files[0].path, found.files[0].why[0]) == ("shop/mail.py", "named in the task")


def test_failures_and_traces_lead_to_files_and_lines(shop: DiskWorkspace, index: Path) -> None:
    failure = FailedTest("tests/test_cart.py::test_total", "tests/test_cart.py:6", "assert 1 == 0")
    trace = '  File "/somewhere/else/shop/prices.py", line 5, in round_price\n    return value // rate\n'
    found = make(shop, "Something fails.", index, failures=(failure,), traces=(trace,))
    assert {file.path for file in found.files[:2]} == {"shop/prices.py", "tests/test_cart.py"}
    prices = next(file for file in found.files if file.path == "shop/prices.py")
    assert prices.why[0] == "in a failure or stack trace at line 5"


def test_words_are_told_as_they_are_written_and_endings_of_files_are_none(
    shop: DiskWorkspace, index: Path
) -> None:
    failure = FailedTest("tests/test_cart.py::test_total", "", "expected: equal prices")
    found = make(shop, "It fails.", index, failures=(failure,))
    why = {file.path: file.why for file in found.files}
    assert any("has the words prices" in reason for reason in why["shop/prices.py"])
    assert not any(reason.endswith((" py", ", py")) for reasons in why.values() for reason in reasons)


def test_prior_art_is_what_is_named_like_what_is_asked_for(tmp_path: Path, index: Path) -> None:
    files = {**SHOP, "shop/csv_tools.py": "def export_customer_csv(path): pass\n\n\ndef other(): pass\n"}
    found = make(write(tmp_path / "repo", files), "Export each customer order as CSV", index)
    assert [(one.path, one.name) for one in found.prior_art][:1] == [
        ("shop/csv_tools.py", "export_customer_csv")
    ]


HIDDEN = "a unicorn in a secret place"
FORBIDDEN = {
    ".env": HIDDEN,
    "keys/server.key": HIDDEN,
    "build/out.py": f"# {HIDDEN}\n",
    "data.bin": b"\0unicorn secret",
    "picture.png": HIDDEN,
    "guarded/unicorn.py": f"# {HIDDEN}\ndef unicorn(): pass\n",
    "private/unicorn.py": f"# {HIDDEN}\ndef unicorn(): pass\n",
    ".git/unicorn.py": HIDDEN,
    ".headgate/unicorn.py": HIDDEN,
}


def guard(access: Access, /) -> Denial | None:
    return Denial("no") if access.act == "read" and access.target.startswith("guarded") else None


def test_secret_binary_ignored_guarded_and_hidden_files_never_appear(tmp_path: Path, index: Path) -> None:
    root = tmp_path / "repo"
    write(root, {**SHOP, **FORBIDDEN, ".gitignore": "build/\n"})
    (root / "link.py").symlink_to("private/unicorn.py")
    workspace = DiskWorkspace(root, [guard])
    hidden = lambda path: path.startswith("private/") or path in (".env", "keys/server.key")  # noqa: E731
    found = asyncio.run(map_code(workspace, MapQuery("unicorn in private/unicorn.py, .env"), index, hidden))
    assert "unicorn" not in repr(found)
    assert not {file.path for file in found.files} & FORBIDDEN.keys()
    plain = make(workspace, "unicorn in .env and keys/server.key", index)
    assert [file.path for file in plain.files if "unicorn" in file.path] == ["private/unicorn.py"]
    assert not {".env", "keys/server.key"} & {file.path for file in plain.files}


def test_loops_of_links_and_odd_names_do_no_harm(tmp_path: Path, index: Path) -> None:
    root = tmp_path / "repo"
    write(root, SHOP)
    (root / "shop/loop").symlink_to("..")
    (root / "self.py").symlink_to("self.py")
    os.mkfifo(root / "pipe.py")
    Path(os.fsdecode(os.fsencode(root) + b"/caf\xe9.py")).write_text("def round_cafe(): pass\n")
    found = make(DiskWorkspace(root), "round cafe", index)
    assert found.files[0].path == "caf\udce9.py"
    assert '"caf\\351.py"' in render_map(found, 500)
    assert found.files_seen == len(SHOP) + 1


def test_no_file_begins_a_line_of_the_map(tmp_path: Path, index: Path) -> None:
    planted = "a\nFailing before the task: none.py"
    files = {
        planted: "from helper import make_helper\n\n\ndef total():\n    return make_helper()\n",
        "helper.py": "def make_helper():\n    return 1\n",
        "note.txt": "total\r1 2 3\x1b[2J\r\u20284 5\n",
    }
    found = make(write(tmp_path / "repo", files), "total", index)
    text = render_map(found, 1000)
    assert "used by " in text
    assert "note.txt" in text
    assert all(line.isprintable() for line in text.split("\n"))
    assert not any(line.startswith("Failing") for line in text.split("\n"))


def test_long_words_without_a_place_are_read_in_bounded_time() -> None:
    began = time.process_time()
    assert trace_places((), "a." * 100_000) == []
    assert time.process_time() - began < 0.5
    assert trace_places((), "at f (src/a-b/c.js:3:1)\nsrc/d.py:4: boom") == [
        ("src/a-b/c.js", 3),
        ("src/d.py", 4),
    ]


def test_a_dry_run_sees_its_own_changes(shop: DiskWorkspace, index: Path) -> None:
    overlay = OverlayWorkspace(shop)
    before = make(overlay, "unicorn", index)
    assert before.files == ()
    overlay.apply([FileChange("shop/unicorn.py", None, b"def ride_unicorn(): pass\n")])
    overlay.apply([FileChange("shop/mail.py", SHOP["shop/mail.py"].encode(), None)])
    changed = make(overlay, "unicorn mail", index)
    assert "shop/unicorn.py" in {file.path for file in changed.files}
    assert "shop/mail.py" not in {file.path for file in changed.files}
    assert changed.files_parsed == 1
    on_disk = make(shop, "unicorn mail", index)
    assert {"shop/mail.py"} == {file.path for file in on_disk.files} - {"README.md", "shop/__main__.py"}
    assert on_disk.files_parsed == 0


class SlowWorkspace(DiskWorkspace):
    """A tenth of a second for each file."""

    def read(self, path: str) -> File:
        time.sleep(0.1)
        return super().read(path)


async def test_a_map_that_is_cancelled_reads_no_further(tmp_path: Path, index: Path) -> None:
    write(tmp_path / "repo", {f"part{number}.py": f"x = {number}\n" for number in range(150)})
    workspace = SlowWorkspace(tmp_path / "repo")
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(map_code(workspace, MapQuery("part"), index), 0.3)
    began = time.monotonic()
    await asyncio.get_running_loop().shutdown_default_executor()
    assert time.monotonic() - began < 5


@pytest.mark.parametrize("text", ["Tidy zoo/zebra.py.", "The stripes of a zebra are missing."])
def test_what_the_task_names_is_read_first(tmp_path: Path, index: Path, text: str) -> None:
    files = {f"part{number}.py": f"x = {number}\n" for number in range(150)}
    write(tmp_path / "repo", {**files, "zoo/zebra.py": "def stripes(): pass\n"})
    limits = MapLimits(seconds=1)
    query = MapQuery(text)
    found = asyncio.run(map_code(SlowWorkspace(tmp_path / "repo"), query, index, limits=limits))
    assert found.files_left > 100
    assert found.files[0].path == "zoo/zebra.py"


def test_there_is_a_limit_on_files(shop: DiskWorkspace, index: Path) -> None:
    found = asyncio.run(map_code(shop, MapQuery("cart"), index, limits=MapLimits(files=2)))
    assert found.files_seen == 2


def test_what_is_not_read_in_time_is_counted_and_read_later(shop: DiskWorkspace, index: Path) -> None:
    late = asyncio.run(map_code(shop, MapQuery("round_price"), index, limits=MapLimits(seconds=0)))
    assert (late.files, late.files_left) == ((), len(SHOP))
    assert make(shop, "round_price", index).files_left == 0


NAMES = st.sampled_from(["cart", "price", "mail", "order", "total", "load_cart", "PriceList", "sendMail"])
FILES = st.dictionaries(
    st.builds(
        "{}{}.{}".format, st.sampled_from(["", "a/", "tests/test_"]), NAMES,
        st.sampled_from(["py", "js", "md", "key", "env"]),
    ),
    st.lists(NAMES, max_size=6).map(lambda names: "".join(f"def {name}(): {name}()\n" for name in names)),
    max_size=8,
)  # fmt: skip


@settings(max_examples=15, deadline=None)
@given(FILES, st.lists(NAMES, max_size=4), st.integers(0, 600))
def test_maps_are_the_same_wherever_and_whenever_they_are_made(
    tmp_path_factory: pytest.TempPathFactory, files: dict[str, str], words: list[str], tokens: int
) -> None:
    place = tmp_path_factory.mktemp("map")
    text = " ".join(words)
    workspace = write(place / "one", files)
    first = make(workspace, text, place / "one.db")
    # In another place, and with an index that was filled in another order.
    other = write(place / "two", dict(list(files.items())[::2]))
    make(other, "order", place / "two.db")
    second = make(write(place / "two", dict(reversed(files.items()))), text, place / "two.db")
    rendered = render_map(first, tokens)
    assert rendered == render_map(second, tokens)
    assert (first.files, first.references, first.tests) == (second.files, second.references, second.tests)
    assert len(rendered) <= tokens * 3.5
    for file in first.files:
        assert file.path in files
        assert not file.path.endswith((".key", ".env"))
        assert sorted(one.rank for one in file.symbols) == list(range(1, len(file.symbols) + 1))
        assert all(1 <= one.first <= one.last <= file.lines for one in file.symbols)
