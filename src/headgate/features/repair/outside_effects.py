"""Code that reaches more than its own objects: files, processes, the network.

A change runs it with other values than it was written for. In a sandbox that is a private copy of the tree;
without one it could be anything, so no small change is tried there.
"""

import ast
from collections.abc import Container, Iterator

_FILES = "unlink rmdir rename touch mkdir chmod symlink_to write_text write_bytes write truncate rmtree"
_OTHERS = "kill terminate send_signal send sendall execute executemany executescript commit system run Popen"
_NETWORK = "delete post put patch request connect urlopen"
_METHODS = frozenset(f"{_FILES} {_OTHERS} {_NETWORK}".split())
_FUNCTIONS = frozenset({"open", "exec", "eval", "__import__", "input"})
_LIBRARY = (
    "os shutil subprocess pathlib socket ssl http urllib ftplib smtplib sqlite3 tempfile signal io mmap"
)
_PACKAGES = (
    "requests httpx aiohttp paramiko boto3 psycopg psycopg2 pymongo redis sqlalchemy multiprocessing ctypes"
)
_MODULES = frozenset(f"{_LIBRARY} {_PACKAGES}".split())


def reaches_out(tree: ast.AST, modules: Container[str]) -> bool:
    """Whether a call in the tree may have an effect outside the program.

    `modules`: names whose functions and methods may have one. `os.path` is none of them.
    """
    calls = (node.func for node in ast.walk(tree) if isinstance(node, ast.Call))
    return any(_is_reaching(called, modules) for called in calls)


def _is_reaching(called: ast.expr, modules: Container[str]) -> bool:
    if isinstance(called, ast.Attribute) and called.attr in _METHODS:
        return True
    root = root_name(called)
    is_path = ast.unparse(called).startswith(f"{root}.path.")
    return root in _FUNCTIONS or (root in modules and not is_path)


def root_name(node: ast.expr) -> str:
    """The name that an expression begins with."""
    while isinstance(node, ast.Attribute | ast.Subscript | ast.Call):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else ""


def outside_modules(module: ast.Module) -> set[str]:
    """The names by which a file knows modules that reach files, processes or the network."""
    return set(_outside_names(module))


def _outside_names(module: ast.Module) -> Iterator[str]:
    for node in ast.walk(module):
        match node:
            case ast.Import(names):
                yield from (
                    (each.asname or each.name).split(".")[0]
                    for each in names
                    if each.name.split(".")[0] in _MODULES
                )
            case ast.ImportFrom(module=str(name), names=names) if name.split(".")[0] in _MODULES - {"io"}:
                yield from (each.asname or each.name for each in names if name != "os.path")
            case _:
                pass
