"""Whether verification steps can run at all: are the programs and modules that they name there?

They are looked for where steps run: in the same sandbox, with the same environment. Nothing of the repository
is run. What only a shell can tell is taken on trust, and so is what a step before may install.
"""

import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import replace
from pathlib import Path

from headgate.core import VerifyStep
from headgate.errors import HeadgateError
from headgate.first_use import dataclass, regex
from headgate.guard import expand_steps, preparing_steps
from headgate.process import Sandbox, run_command
from headgate.reading import Command, split_commands
from headgate.remembered import show_own_config

SECONDS = 20.0
"""How long the look may take."""
_SHELL_WORDS = """
    . : [ [[ alias break case cd command continue declare done echo elif else esac eval exec exit export
    false fi for function local popd printf pushd pwd read return set shift shopt source test trap true type
    ulimit umask unset wait
"""
_BUILTINS = frozenset(_SHELL_WORDS.split())
_CHANGES_PATH = frozenset({".", "source", "eval", "alias", "trap"})
_SETS_PATH = regex(r"(PATH|PYTHONPATH|VIRTUAL_ENV)\+?=")
_CONDITIONAL = regex(r"\|\||(?:^|[\s;&(])(?:if|for|while|until|case|command -v|which|type|hash|test|\[\[?)\s")
_EXPANDED = regex(r"[$*?~`={}]")
_PYTHON = regex(r"(python|pypy)[\d.]*")
_SHELL = regex(r"(?:.*/)?(?:ba|da|k|z)?sh")
_COMMAND = regex(r"-[eux]*c")
_NODE = frozenset({"npm", "yarn", "pnpm", "bun"})
_MAKE = frozenset({"make", "gmake"})
_LOOK = """
import sys
first = sys.path.pop(0)  # a file of the repository must not stand in for one of Python's own
import importlib.util, os
sys.path.insert(0, first)
try:
    found = importlib.util.find_spec(sys.argv[1])
except Exception:
    sys.exit(0)
if found is None:
    sys.exit(10)
places = [*(found.submodule_search_locations or ()), *filter(os.path.isabs, [found.origin or ""])]
place = os.path.dirname(places[0]) if places else ""
whole = dict.fromkeys([sys.prefix, sys.base_prefix])
for each in whole if any(place.startswith(each + "/") for each in whole) else [place]:
    print(each)
"""
_PROBE = """
look() {{
  cd -- "$2" 2>/dev/null || return
  PATH="$3$PATH"
  found=$(command -v -- "$4") || {{ echo "missing $1 program"; return; }}
  case $found in */*) IFS= read -r line 2>/dev/null < "$found"; case $line in '#!'*)
    set -f; line=${{line#??}}; for word in $line; do
      [ -x "$word" ] || echo "missing $1 interpreter $word"; return 0; done;;
  esac;; esac
}}
module() {{
  cd -- "$2" 2>/dev/null || return
  "$3" -c {look} "$4" >/dev/null 2>&1
  [ $? != 10 ] || echo "missing $1 module"
}}
"""


@dataclass(frozen=True, slots=True)
class Need:
    """Something that a step names, and without which it may not run."""

    step: VerifyStep
    program: str
    folder: Path
    module: str = ""
    """What Python, as the program, is to run."""
    sure: bool = True
    """Without it the step cannot run, and no task can help that."""
    also: str = ""
    """Folders that come before those of PATH, each with a colon behind it."""
    behind: bool = False
    """It is named in a file that the step runs, such as package.json."""


@dataclass(frozen=True, slots=True)
class Missing:
    """A need that is not met."""

    step: VerifyStep
    name: str
    """The program, or the call of the module."""
    why: str
    """A sentence without its full stop."""
    advice: str
    sure: bool = True
    behind: bool = False

    def sentence(self) -> str:
        """Why the step cannot run, and what to do about it."""
        return f'verification step "{self.step.name}" cannot run: {self.why}. {self.advice}'


async def find_missing(
    steps: Sequence[VerifyStep],
    directory: Path,
    environment: Mapping[str, str],
    sandbox: Sandbox | None,
) -> list[Missing]:
    """What the steps need and do not have, the first of each step; empty where that cannot be found out."""
    root = next((place for place in (directory, *directory.parents) if (place / ".git").exists()), directory)
    needs = [
        need for step in _before_installing(steps, directory, root) for need in _needs(step, directory, root)
    ]
    if not needs:
        return []
    lines = [_PROBE.format(look=shlex.quote(_LOOK))]
    for number, need in enumerate(needs):
        words = [str(number), str(need.folder), need.also, need.program]
        lines.append(f"(look {shlex.join(words)})")
        if need.module:
            lines.append(f"(module {shlex.join([str(number), str(need.folder), need.program, need.module])})")
    try:
        with nullcontext(None) if sandbox is None else sandbox.with_fresh_scratch() as fresh:
            done = await run_command(
                "\n".join(lines),
                cwd=directory,
                env=environment,
                timeout=SECONDS,
                max_output=100_000,
                sandbox=fresh,
            )
    except (OSError, HeadgateError):
        return []  # the steps themselves will say it
    found: dict[str, Missing] = {}
    for line in done.output.splitlines():
        if told := re.fullmatch(r"missing (\d+) (\w+) ?(.*)", line):
            need = needs[int(told[1])]
            if missing := _explain(need, told[2], told[3], environment, root, sandbox is not None):
                found.setdefault(need.step.name, missing)
    return list(found.values())


def _before_installing(steps: Sequence[VerifyStep], directory: Path, root: Path) -> Iterator[VerifyStep]:
    """The steps up to the first that installs something: what comes after it may use that."""
    preparing = preparing_steps([step.command for step in steps], os.path.relpath(directory, root), root)
    for step in steps:
        if step.command in preparing:
            return
        yield step


def _needs(step: VerifyStep, directory: Path, root: Path) -> Iterator[Need]:
    """What a step names itself, and what package.json or a Makefile names for it."""
    own = list(_needs_of(step, step.command, directory))
    yield from own
    tools = {need.program for need in own}
    if not tools & (_NODE | _MAKE):
        return
    inside = os.path.relpath(directory, root)
    for text, place in expand_steps([step.command], "" if inside == os.curdir else inside, root)[1:]:
        folder = root / place
        above = [each for each in (folder, *folder.parents) if each == root or root in each.parents]
        also = "".join(f"{each}/node_modules/.bin:" for each in above)
        installed = not tools & _NODE or any((each / "node_modules").exists() for each in above)
        if "\n" not in text.strip():  # it is no script, which may have functions
            for need in _needs_of(step, text.strip().lstrip("@-+"), folder):
                yield replace(need, sure=need.sure and not installed, also=also, behind=True)


def _needs_of(step: VerifyStep, text: str, directory: Path) -> Iterator[Need]:
    """The programs of a command line, up to where it may change what they are."""
    folder: Path | None = directory
    sure = not _CONDITIONAL.search(text)
    for item in split_commands(text.partition("||")[0]):
        if item.program in _CHANGES_PATH or any(map(_SETS_PATH.match, item.words)):
            return
        if item.program == "cd" and item.arguments:
            target = item.arguments[0]
            folder = None if folder is None or _EXPANDED.search(target) else folder / target
        program = _expand(item.program)
        if _SHELL.fullmatch(program) and len(item.arguments) > 1 and _COMMAND.fullmatch(item.arguments[0]):
            for need in _needs_of(step, item.arguments[1], folder or directory):
                yield replace(need, sure=need.sure and sure)
        if not program or program in _BUILTINS or _EXPANDED.search(program):
            continue
        is_path = "/" in program and not Path(program).is_absolute()
        if folder is not None and folder.is_dir():
            yield Need(step, program, folder, _module_of(item), sure)
        elif not is_path:  # the folder may still have to be made
            yield Need(step, program, directory, _module_of(item), sure)


def _expand(program: str) -> str:
    """A program below the home folder, by its path."""
    home = program.startswith(("~/", "$HOME/", "${HOME}/"))
    return str(Path.home() / program.partition("/")[2]) if home else program


def _module_of(item: Command) -> str:
    """The topmost name of the module that Python is to run; empty if it is to run something else."""
    if not _PYTHON.fullmatch(item.program.rpartition("/")[2]):
        return ""
    before = ""
    for word in item.arguments:
        if re.fullmatch(r"-[a-zA-Z]*m", before):
            return word.partition(".")[0] if re.fullmatch(r"[\w.]+", word) else ""
        if not word.startswith("-") and before not in ("-W", "-X"):
            return ""
        before = word
    return ""


# Why something is missing: nobody has installed it, or the sandbox hides it.


def _explain(
    need: Need, kind: str, interpreter: str, environment: Mapping[str, str], root: Path, sandboxed: bool
) -> Missing | None:
    """What is said of a need; None if the repository may have it itself."""
    name = need.program
    is_own = "/" in name and (not Path(name).is_absolute() or Path(name).is_relative_to(root))
    if kind == "module":
        what, why = f"the module {need.module}", f"{name} has no module {need.module}"
        sources = [base / "src" / need.module for base in (root, need.folder)]
        if any(path.exists() or path.with_suffix(".py").exists() for path in sources):
            return None
    elif kind == "interpreter":
        what, why = interpreter, f"{name} needs {interpreter}, which was not found"
    else:
        what, why = name, f"{name} was not found"
    places = _outside(need, kind, interpreter, environment, root) if sandboxed else []
    called = f"{name} -m {need.module}" if kind == "module" else name
    if not places:
        advice = f"Install it, or correct the command: {need.step.command}"
        if need.behind and need.also and need.sure:
            advice = "Install the packages of package.json, with `npm install` for instance"
        return Missing(need.step, called, why, advice, need.sure and not is_own, need.behind)
    why = f"{what} is in {places[0]}, which the sandbox hides"
    shown = ", ".join(map(str, places))
    advice = (
        f"Show it with `commands: {{read: [{shown}]}}` in your own configuration file, {show_own_config()}"
    )
    return Missing(need.step, called, why, advice, need.sure, need.behind)


def _outside(
    need: Need, kind: str, interpreter: str, environment: Mapping[str, str], root: Path
) -> list[Path]:
    """The folders that have it where there is no sandbox."""
    search = need.also + environment.get("PATH", os.defpath)
    if kind == "module":
        return _module_outside(shutil.which(need.program, path=search), need.module, environment)
    if kind == "interpreter":
        found: str | None = interpreter if os.access(interpreter, os.X_OK) else None
    else:
        name = need.program
        found = shutil.which(str(need.folder / name) if "/" in name else name, path=search)
    return [] if found is None else [_folder_to_show(Path(found), root)]


def _folder_to_show(place: Path, root: Path) -> Path:
    """The folder that a program needs: a whole environment, or the one that it lies in."""
    if place.is_relative_to(root):  # a link
        place = Path(os.path.realpath(place))
    home = place.parent.parent
    return home if (home / "pyvenv.cfg").exists() or (home / "lib").is_dir() else place.parent


def _module_outside(python: str | None, module: str, environment: Mapping[str, str]) -> list[Path]:
    """Where Python has a module without a sandbox. Nothing of the repository is looked at.

    In an environment, that is all of it, with the Python that it was made from: without them, the sandbox has
    another Python, and the module alone would not help.
    """
    with suppress(OSError, subprocess.SubprocessError), tempfile.TemporaryDirectory() as elsewhere:
        done = subprocess.run(
            [str(python), "-c", _LOOK, module],
            cwd=elsewhere, env=environment, capture_output=True, text=True, timeout=SECONDS, check=False,
        )  # fmt: skip
        if done.returncode == 0:
            return [Path(line) for line in done.stdout.splitlines() if line not in ("", "/usr", "/usr/local")]
    return []
