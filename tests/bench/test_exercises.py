"""Which exercises a folder has, and what the copies of them hold."""

import json
import os
from pathlib import Path

import pytest
from exercise_set import EXERCISES, write_exercise, write_exercises

from headgate.bench import Exercise, canonical_language, find_exercises
from headgate.bench.languages import find_language, unskip
from headgate.bench.work_folder import make_work_folder
from headgate.errors import ConfigError

LEAP = EXERCISES["python/exercises/practice/leap"]


def test_any_depth_and_both_layouts(tmp_path: Path) -> None:
    write_exercises(tmp_path)
    write_exercise(tmp_path / "top", LEAP)
    write_exercise(tmp_path / "top" / "inside", LEAP)  # belongs to the exercise around it
    (tmp_path / "plain" / "repo").mkdir(parents=True)
    (tmp_path / "plain" / "task.txt").write_text("Do it.")
    (tmp_path / "plain" / "agent.yaml").write_text("")
    (tmp_path / "no" / "exercise").mkdir(parents=True)
    (tmp_path / "node_modules").mkdir()
    write_exercise(tmp_path / "node_modules" / "leap", LEAP)
    write_exercise(tmp_path / ".hidden" / "leap", LEAP)
    found = find_exercises(tmp_path)
    assert [one.name for one in found] == sorted([*EXERCISES, "plain", "top"])
    assert {one.problem for one in found} == {""}
    assert [one.language for one in found if one.name in EXERCISES] == sorted(
        name.split("/")[0] for name in EXERCISES
    )


def test_the_folder_itself_may_be_one(tmp_path: Path) -> None:
    write_exercise(tmp_path / "leap", LEAP)
    assert [one.name for one in find_exercises(tmp_path / "leap")] == ["leap"]


def test_links_are_not_followed(tmp_path: Path) -> None:
    write_exercise(tmp_path / "elsewhere" / "leap", LEAP)
    folder = tmp_path / "set"
    folder.mkdir()
    (folder / "linked").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ConfigError, match="There are no exercises"):
        find_exercises(folder)
    (folder / "loop").symlink_to(folder)
    write_exercise(folder / "leap", LEAP)
    (tmp_path / "secret.txt").write_text("secret")
    for link, target in (("out.txt", "../../secret.txt"), ("absolute.txt", str(tmp_path / "secret.txt"))):
        (folder / "leap" / link).symlink_to(target)
    (folder / "leap" / "inside.txt").symlink_to("leap.py")
    (one,) = find_exercises(folder)
    work = make_work_folder(one, tmp_path / "work", folder)
    assert sorted(path.name for path in work.repo.iterdir()) == [
        ".git",
        "inside.txt",
        "leap.py",
        "leap_test.py",
    ]


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({"solution": ["../out.py"], "test": ["leap_test.py"]}, "'../out.py' is not a file of the exercise"),
        ({"solution": ["leap.py"], "test": ["/etc/passwd"]}, "'/etc/passwd' is not a file of the exercise"),
        ({"solution": ["leap.py"], "test": ["gone.py"]}, "gone.py is missing"),
        ({"solution": ["leap.py"], "test": ["link.py"]}, "link.py is a link, and links are not followed"),
        ({"solution": [], "test": ["leap_test.py"]}, ".meta/config.json names no solution files"),
        ({"solution": ["leap.py"], "test": []}, ".meta/config.json names no tests"),
        ({"solution": "leap.py"}, ".meta/config.json cannot be used: files.solution: input should be"),
        ([], ".meta/config.json cannot be used: files: input should be"),
    ],
)
def test_what_is_wrong_with_one(tmp_path: Path, files: object, said: str) -> None:
    write_exercise(tmp_path / "leap", LEAP)
    (tmp_path / "leap" / "link.py").symlink_to("leap_test.py")
    (tmp_path / "leap" / ".meta" / "config.json").write_text(json.dumps({"files": files}))
    (one,) = find_exercises(tmp_path)
    assert said in one.problem


def test_instructions_that_are_not_utf8(tmp_path: Path) -> None:
    write_exercise(tmp_path / "leap", LEAP)
    (tmp_path / "leap" / ".docs" / "instructions.md").write_bytes(b"caf\xe9 \x00 years")
    (one,) = find_exercises(tmp_path)
    assert "caf\ufffd" in one.text
    assert "\x00" not in one.text


def test_no_instructions(tmp_path: Path) -> None:
    write_exercise(tmp_path / "leap", LEAP)
    for doc in (tmp_path / "leap" / ".docs").iterdir():
        doc.unlink()
    (one,) = find_exercises(tmp_path)
    assert one.problem == "there are no instructions in .docs"


def test_languages() -> None:
    assert find_language(["a.rs", "Cargo.toml"], ["python"]) == "rust"
    assert find_language(["README"], ["practice", "c++"]) == "cpp"
    assert find_language([], ["practice"]) == "other"
    assert canonical_language(" Golang ") == "go"


def test_switched_off_tests_count() -> None:
    javascript = (
        "xtest('a', f); xit ('b', f); xdescribe('c', f); it.skip('d', f); test('xtest', f); maxit(1);"
    )
    assert unskip("javascript", javascript) == (
        "test('a', f); it ('b', f); describe('c', f); it('d', f); test('xtest', f); maxit(1);"
    )
    java = '@Disabled("Remove (to) \\"run\\"")\n@Test\nvoid a() {}\n@Disabled\n@Test\nvoid b() {}\n'
    assert unskip("java", java) == "\n@Test\nvoid a() {}\n\n@Test\nvoid b() {}\n"
    assert unskip("python", "xtest(") == "xtest("


def made(tmp_path: Path, name: str) -> tuple[Exercise, Path]:
    (one,) = find_exercises(write_exercises(tmp_path / "set", [name]))
    return one, tmp_path / "work"


def test_the_copy_has_no_solution_and_all_tests_on(tmp_path: Path) -> None:
    one, place = made(tmp_path, "javascript/exercises/practice/leap")
    (one.source / "build").mkdir()
    (one.source / "build" / "old.js").write_text("")
    work = make_work_folder(one, place, tmp_path / "set")
    assert work.repo.name == "leap"
    assert sorted(path.name for path in work.repo.iterdir()) == [".git", "leap.js", "leap.spec.js"]
    assert (work.repo / "leap.spec.js").read_text().startswith("# test('2000')\n")
    assert (one.source / "leap.spec.js").read_text().startswith("# xtest('2000')\n")


def test_odd_files(tmp_path: Path) -> None:
    """Names that are no text, files that cannot be written, pipes."""
    one, place = made(tmp_path, "python/exercises/practice/leap")
    odd = os.fsdecode(b"tests/\xff[1].py")
    (one.source / "tests").mkdir()
    (one.source / odd).write_text("assert True\n")
    for path in (one.source / "leap.py", one.source / "leap_test.py"):
        path.chmod(0o444)
    os.mkfifo(one.source / "pipe")
    work = make_work_folder(one, place, tmp_path / "set")
    assert not (work.repo / "pipe").exists()
    assert (work.repo / "leap.py").stat().st_mode & 0o600 == 0o600
    assert set(work.tests) == {"leap_test.py", odd}
    (work.repo / odd).write_text("changed\n")
    work.restore_tests()
    assert (work.repo / odd).read_text() == "assert True\n"


def test_tests_are_put_back_whatever_has_happened_to_them(tmp_path: Path) -> None:
    one, place = made(tmp_path, "rust/exercises/practice/leap")
    work = make_work_folder(one, place, tmp_path / "set")
    test, outside = work.repo / "tests" / "leap.rs", tmp_path / "outside"
    original = test.read_bytes()
    outside.mkdir()
    (outside / "leap.rs").write_text("mine")

    def change() -> None:
        test.write_text("true\n")

    def make_executable() -> None:
        test.chmod(0o777)

    def remove_folder() -> None:
        test.unlink()
        test.parent.rmdir()

    def replace_by_folder() -> None:
        test.unlink()
        test.mkdir()
        (test / "x").write_text("")

    def replace_by_link() -> None:
        test.unlink()
        test.symlink_to(outside / "leap.rs")

    def replace_folder_by_link() -> None:
        remove_folder()
        test.parent.symlink_to(outside)

    def make_hard_link() -> None:
        test.unlink()
        test.hardlink_to(outside / "leap.rs")

    for damage in (
        change,
        make_executable,
        remove_folder,
        replace_by_folder,
        replace_by_link,
        replace_folder_by_link,
        make_hard_link,
    ):
        damage()
        work.restore_tests()
        assert not test.is_symlink(), damage.__name__
        assert not test.parent.is_symlink(), damage.__name__
        assert test.read_bytes() == original, damage.__name__
        assert test.stat().st_mode & 0o111 == 0, damage.__name__
        assert (outside / "leap.rs").read_text() == "mine", damage.__name__
