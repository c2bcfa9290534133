"""Secret files are found under the names that commands and editors give them."""

import os
from pathlib import Path

import pytest

from headgate.core import Access, Denial
from headgate.guard import DEFAULT_SECRETS, RenamedSecrets, SecretNames, SecretScan


def hidden(scan: SecretScan, root: Path) -> list[str]:
    return [str(path.relative_to(root)) for path in scan.look().hidden]


def make(root: Path, *names: str) -> None:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(f"TOKEN=value-of-{name}\n")


def test_a_renamed_folder(tmp_path: Path) -> None:
    make(tmp_path, "config/.env", "home/.aws/credentials", "app.py")
    scan = SecretScan(tmp_path)
    assert hidden(scan, tmp_path) == ["config/.env", "home/.aws/credentials"]
    (tmp_path / "config").rename(tmp_path / "c2")
    (tmp_path / "home/.aws").rename(tmp_path / "home/aws")  # the name alone says nothing now
    assert hidden(scan, tmp_path) == ["c2/.env", "home/aws/credentials"]


def test_a_folder_moved_where_git_would_not_look(tmp_path: Path) -> None:
    make(tmp_path, "config/.env", "node_modules/x.js", "sub/.git/HEAD", "sub/.headgate/x")
    scan = SecretScan(tmp_path)
    for place in ("node_modules/c", "sub/.git/c", "sub/.headgate/c"):
        (tmp_path / "config").rename(tmp_path / place)
        assert hidden(scan, tmp_path) == [f"{place}/.env"]
        (tmp_path / place).rename(tmp_path / "config")


def test_files_that_appear(tmp_path: Path) -> None:
    make(tmp_path, "app/main.py")
    scan = SecretScan(tmp_path)
    assert hidden(scan, tmp_path) == []
    make(tmp_path, "app/.env.local", "app/.env~")
    assert hidden(scan, tmp_path) == ["app/.env.local", "app/.env~"]


def test_hard_links(tmp_path: Path) -> None:
    make(tmp_path, ".env", "app/main.py")
    scan = SecretScan(tmp_path)
    (tmp_path / "app/x.txt").hardlink_to(tmp_path / ".env")
    assert hidden(scan, tmp_path) == [".env", "app/x.txt"]
    (tmp_path / ".env").unlink()
    assert hidden(scan, tmp_path) == ["app/x.txt"]


def test_another_file_with_the_number_of_a_deleted_one(tmp_path: Path) -> None:
    make(tmp_path, ".env")
    scan = SecretScan(tmp_path)
    scan.look()
    (tmp_path / ".env").rename(tmp_path / "main.py")  # the same inode
    (tmp_path / "main.py").write_text("print('longer than the file that was there before')\n")
    assert hidden(scan, tmp_path) == []


def test_links_count_for_what_they_lead_to(tmp_path: Path) -> None:
    root = tmp_path / "repo"
    make(tmp_path, "outside.txt", "repo/kept.txt", "repo/.env.example")
    (root / ".env").symlink_to("kept.txt")
    (root / "a.env").symlink_to(tmp_path / "outside.txt")
    (root / "b.env").symlink_to(".env.example")
    (root / "c.env").symlink_to("/proc/self/environ")
    (root / "d.env").symlink_to("nowhere")
    assert SecretScan(root).look().hidden == (tmp_path / "outside.txt", root / "kept.txt")


@pytest.mark.skipif(os.getuid() == 0, reason="root can list every folder")
@pytest.mark.parametrize("mode", [0o000, 0o300, 0o400])
def test_a_folder_without_permissions(tmp_path: Path, mode: int) -> None:
    make(tmp_path, "config/.env", "config/sub/.env")
    scan = SecretScan(tmp_path)
    (tmp_path / "config").chmod(mode)
    assert hidden(scan, tmp_path) == ["config"]
    (tmp_path / "config").chmod(0o700)


def test_folders_too_deep_for_a_mount(tmp_path: Path) -> None:
    make(tmp_path, "config/.env")
    scan = SecretScan(tmp_path)
    place, deep = os.open(tmp_path, os.O_RDONLY), "d" * 200
    for _ in range(25):
        os.mkdir(deep, dir_fd=place)
        below = os.open(deep, os.O_RDONLY, dir_fd=place)
        os.close(place)
        place = below
    os.rename(tmp_path / "config", "config", dst_dir_fd=place)
    os.close(place)
    assert hidden(scan, tmp_path) == [deep]


def test_a_folder_that_did_not_change_is_not_listed_again(tmp_path: Path) -> None:
    make(tmp_path, ".env")
    scan = SecretScan(tmp_path)
    first = scan.look()
    assert scan.look() == first


COPIES = [
    *(
        ".env~",
        ".env.bak",
        ".env.swp",
        "#.env#",
        ".#.env",
        ".env.~1~",
        ".env-prod",
        ".env_local",
        ".env.orig~",
    ),
    *("a/server.key~", ".server.key.swp", "credentials.json.bak", "credentials.json.old2", "x.pem.tmp"),
    *(".netrc.dpkg-old", "secrets.yaml_backup", "#secrets.yaml#", ".aws/credentials.bak"),
]
NO_COPIES = [
    *(
        "notes~",
        "main.py.bak",
        "#x#",
        ".#main.py",
        ".env.example",
        ".env-example",
        ".env_sample",
        "~",
        ".bak",
    ),
    *("id_rsa.pub", "old", "keys.py.orig", "kept.bak"),
]


def test_copies_that_editors_and_tools_leave() -> None:
    names = SecretNames([*DEFAULT_SECRETS, "!kept.bak", "kept"])
    assert [path for path in COPIES + NO_COPIES if names.covers(path)] == COPIES


def test_tools_cannot_read_what_a_command_renamed(tmp_path: Path) -> None:
    make(tmp_path, ".env", "vault/.aws/credentials", "app.py")
    scan = SecretScan(tmp_path)
    guard = RenamedSecrets(scan)
    assert guard(Access("read", "app.py")) is None
    (tmp_path / ".env").rename(tmp_path / "x.txt")
    (tmp_path / "vault/.aws").rename(tmp_path / "aws")
    scan.expect_changes()
    for path in ("x.txt", "aws/credentials"):
        assert guard(Access("read", path)) == Denial(
            f"{path} may contain secrets: tools cannot read or write it."
        )
    assert guard(Access("write", "app.py")) is None


def test_a_folder_whose_name_makes_it_secret_is_hidden_whole_if_it_is_large(tmp_path: Path) -> None:
    make(tmp_path, "a.pem", *(f".env/lib/{number}.py" for number in range(1001)))
    assert hidden(SecretScan(tmp_path), tmp_path) == [".env", "a.pem"]
