"""The sandbox: bubblewrap's arguments for a command, and whether bubblewrap works here.

Inside, the whole file system is read-only and what people keep private is not there: home folders, sockets,
other processes. `Sandbox` says what is given back: the repository to write to, folders to read, a private
/tmp and home. A command that leaves its process group cannot outlive the call: its process namespace ends
with it.
"""

import os
import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import field, replace
from functools import cache
from pathlib import Path
from typing import Self

from headgate.first_use import dataclass
from headgate.process.syscalls import syscall_filter
from headgate.programs import find_program
from headgate.regular_files import open_up_folders, temporary_folder

_PRIVATE = ("/home", "/root", "/run", "/mnt", "/media", "/tmp", "/var/tmp")
"""Folders that are empty in the sandbox. Some hold what people keep private, some the sockets of services."""
_ROOT_ONLY = (
    "/etc/shadow",
    "/etc/gshadow",
    "/etc/shadow-",
    "/etc/gshadow-",
    "/etc/sudoers",
    "/var/spool/cron",
)
_TMP = "/tmp"
_SHARED_MEMORY = "/dev/shm"
_KERNEL_SETTINGS = ("/proc/sys", "/proc/sysrq-trigger", "/proc/irq", "/proc/bus", "/proc/fs")
TOOL_CACHES = (".cache", ".vite", ".vite-temp", ".vitest")
"""What tools write to `node_modules` although they install nothing."""
_DROPPED_VARIABLES = ("XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS", "XDG_CACHE_HOME", "XDG_CONFIG_HOME")
_SHARED_MEMORY_MB = 1024
_EMPTY_FOLDER_MB = 16
_PROBE_SECONDS = 20
MOST_MOUNTS = 1000
"""How many files are mounted one by one, read-only or hidden, for one command."""
_READ, _WRITE, _HIDE = "--ro-bind-try", "--bind-try", "hide"
_PROCESSES_COUNTED_APART = (5, 14)
"""Since this kernel, the limit on processes counts those of a user namespace; before, all of the user's."""


@dataclass(frozen=True, slots=True)
class CommandLimits:
    """The most that one command may use. None sets no limit."""

    memory_mb: int | None = None
    processes: int | None = None
    file_mb: int | None = None


@dataclass(frozen=True, slots=True)
class Bubblewrap:
    """A bubblewrap that works on this system."""

    program: str
    can_disable_namespaces: bool
    call_filter: bytes | None = None
    """Which system calls commands may use; None where that cannot be limited."""


@dataclass(frozen=True, slots=True)
class Sandbox:
    """What commands can reach. Paths are real paths of this system."""

    bubblewrap: Bubblewrap
    home: Path
    """The home folder. A private folder is mounted there."""
    scratch: Path
    """Holds the private `home` and `tmp`: commands with the same one see each other's files there."""
    writable: tuple[Path, ...] = ()
    """What commands may change: the repository."""
    read_only: tuple[Path, ...] = ()
    """What they may read but not change, also inside what is writable."""
    hidden: tuple[Path, ...] = ()
    """What they may not even read: folders look empty, files cannot be opened."""
    toolchain: Callable[[], tuple[Path, ...]] = tuple
    """Finds, below the home folder, what programs need to run: read-only. Asked for each command."""
    caches: Callable[[], tuple[Path, ...]] = tuple
    """Finds, below the home folder, what tools have downloaded or built."""
    writes_caches: bool = False
    network: bool = False
    limits: CommandLimits = field(default_factory=CommandLimits)

    def without_writing(self) -> Self:
        """This sandbox, but the repository is read-only."""
        return replace(self, writable=(), read_only=(*self.writable, *self.read_only))

    def with_paths(
        self,
        *,
        read_only: Iterable[Path] = (),
        writable: Iterable[Path] = (),
        hidden: Iterable[Path] = (),
    ) -> Self:
        """This sandbox, with more that can be read or written, or not even read."""
        return replace(
            self,
            read_only=(*self.read_only, *read_only),
            writable=(*self.writable, *writable),
            hidden=(*self.hidden, *hidden),
        )

    def in_copy(self, tree: Path) -> Self:
        """This sandbox for a copy of the repository: the copy can be changed, the repository cannot.

        Installed packages are linked from the copy. Tools may write to their caches among the packages.
        """
        caches = [root / "node_modules" / name for root in self.writable for name in TOOL_CACHES]
        real = [path for path in caches if path.is_dir() and os.path.realpath(path) == str(path)]
        return replace(self.without_writing(), writable=(tree, *real))

    @contextmanager
    def with_fresh_scratch(self) -> Iterator[Self]:
        """This sandbox, with a home and a /tmp in which nothing lies yet; they are gone with the block."""
        with temporary_folder("headgate-sandbox-") as scratch:
            yield replace(self, scratch=scratch)

    @contextmanager
    def wrap(self, command: Sequence[str], cwd: Path) -> Iterator[tuple[list[str], tuple[int, ...]]]:
        """The words that run a command in the sandbox, and the files that it has to inherit."""
        for name in ("home", "tmp"):
            (self.scratch / name).mkdir(parents=True, exist_ok=True)
        open_up_folders(self.scratch / "home", self.scratch / "tmp")
        self.scratch.chmod(0o700)  # other users must not run what commands leave there
        with _call_filter(self.bubblewrap.call_filter) as (words, files):
            words = [*self._arguments(), *words, "--chdir", os.path.realpath(cwd)]
            yield [*words, "--", *_limiting(self.limits), *command], files

    def _arguments(self) -> list[str]:
        words = [self.bubblewrap.program, "--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts"]
        # No session of its own inside: the command has one already, and its whole group is ended at once.
        words += ["--unshare-cgroup-try", "--die-with-parent", "--cap-drop", "ALL"]
        if self.bubblewrap.can_disable_namespaces:
            words.append("--disable-userns")
        if not self.network:
            words.append("--unshare-net")
        words += ["--ro-bind", "/", "/", "--dev", "/dev", *_empty(_SHARED_MEMORY, _SHARED_MEMORY_MB)]
        words += ["--proc", "/proc"]
        for name in _KERNEL_SETTINGS:  # root could write them, and they hold for the whole machine
            words += ["--ro-bind", name, name] if Path(name).exists() else []
        private = {*_PRIVATE, str(self.home)}
        for folder in sorted(private):
            if Path(folder).is_dir() and not Path(folder).is_symlink():
                words += _empty(folder)
        for path in _ROOT_ONLY:
            words += _hide(Path(path)) if os.access(path, os.R_OK) else []
        if self.network:
            words += _name_resolution()
        words += ["--bind", str(self.scratch / "tmp"), _TMP]
        words += ["--bind", str(self.scratch / "home"), str(self.home)]
        words += self._mounts()
        words += ["--setenv", "TMPDIR", _TMP]
        return words + [word for name in _DROPPED_VARIABLES for word in ("--unsetenv", name)]

    def _mounts(self) -> list[str]:
        """Outer folders come first, so that what lies inside one is mounted over it."""
        options = dict.fromkeys(self.toolchain(), _READ)
        options |= dict.fromkeys(self.caches(), _WRITE if self.writes_caches else _READ)
        options |= dict.fromkeys(self.writable, _WRITE)
        options |= dict.fromkeys(self.read_only, _READ)
        options |= dict.fromkeys(self.hidden, _HIDE)
        words: list[str] = []
        for path in sorted(options):
            option = options[path]
            words += _hide(path) if option == _HIDE else [option, str(path), str(path)]
        return words


@contextmanager
def _call_filter(program: bytes | None) -> Iterator[tuple[list[str], tuple[int, ...]]]:
    """The words that set a filter for system calls, and the pipe that it is read from."""
    if program is None:
        yield [], ()
        return
    read_end, write_end = os.pipe()
    try:
        with os.fdopen(write_end, "wb") as sink:
            sink.write(program)  # far less than a pipe holds
        yield ["--seccomp", str(read_end)], (read_end,)
    finally:
        os.close(read_end)


def _empty(folder: str, megabytes: int = _EMPTY_FOLDER_MB) -> list[str]:
    return ["--size", str(megabytes << 20), "--tmpfs", folder]


def _hide(path: Path) -> list[str]:
    if path.is_dir():
        return _empty(str(path))
    return ["--ro-bind", os.devnull, str(path)] if path.exists() else []


def _name_resolution() -> list[str]:
    """The file that says where names are looked up may lie in a folder that is empty in the sandbox."""
    real = os.path.realpath("/etc/resolv.conf")
    return ["--ro-bind-try", real, real] if real.startswith("/run/") else []


def _limiting(limits: CommandLimits) -> list[str]:
    """A shell that sets the limits and becomes the command."""
    settings: list[str] = []
    if limits.memory_mb is not None:
        # Address space (-v) is no measure: Node, Go and the JVM reserve far more than they use.
        settings.append(f"ulimit -d {limits.memory_mb << 10}")
    if limits.processes is not None and _kernel() >= _PROCESSES_COUNTED_APART:
        settings.append(f"ulimit -u {limits.processes}")
    if limits.file_mb is not None:
        settings.append(f"ulimit -f {limits.file_mb << 10}")
    if not settings:
        return []
    script = "".join(f"{setting} 2>/dev/null; " for setting in settings)
    return [find_program("bash") or "/bin/bash", "-c", f'{script}exec "$@"', "sandbox"]


def _kernel() -> tuple[int, ...]:
    return tuple(int(part) for part in os.uname().release.split("-")[0].split(".")[:2] if part.isdigit())


@dataclass(frozen=True, slots=True)
class NoSandbox:
    """Why there is no sandbox here, and what to do about it."""

    reason: str
    advice: str


@cache
def find_bubblewrap(path: str | None) -> Bubblewrap | NoSandbox:
    """The bubblewrap on a search path, if a command can really be run in it."""
    program = find_program("bwrap", path)
    if program is None:
        return NoSandbox(
            "bubblewrap is not installed",
            "Install it: apt install bubblewrap, dnf install bubblewrap or pacman -S bubblewrap."
            if os.uname().sysname == "Linux"
            else "It exists for Linux only: run Headgate in a container or a virtual machine.",
        )
    told = _run([program, "--help"])
    found = Bubblewrap(program, "--disable-userns" in told[1])
    failed, output = True, ""
    for call_filter in (syscall_filter(), None):
        found = replace(found, call_filter=call_filter)
        with _call_filter(call_filter) as (words, files):
            failed, output = _run(
                [program, "--unshare-user", "--unshare-pid", "--unshare-net", "--ro-bind", "/", "/"]
                + ["--dev", "/dev", "--proc", "/proc", "--tmpfs", _TMP]
                + (["--disable-userns"] if found.can_disable_namespaces else [])
                + [*words, "--", "/bin/sh", "-c", ":"],
                files,
            )
        if not failed:
            return found
    reason = output.strip().splitlines()[-1] if output.strip() else "it ended with an error"
    return NoSandbox(f"bubblewrap does not work here ({reason.removeprefix('bwrap: ')})", _explain(reason))


def _run(words: Sequence[str], files: tuple[int, ...] = ()) -> tuple[bool, str]:
    """Whether it failed, and what it printed."""
    try:
        done = subprocess.run(
            words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            timeout=_PROBE_SECONDS, check=False, pass_fds=files,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError) as error:
        return True, str(error)
    return done.returncode != 0, done.stdout.decode(errors="replace")


def _explain(reason: str) -> str:
    if "uid map" in reason or "namespace" in reason or "ermission" in reason:
        return (
            "Unprivileged user namespaces are switched off. On Ubuntu 24.04 and later, allow them for "
            "bwrap with an AppArmor profile (apt install apparmor-profiles) or with "
            "`sysctl kernel.apparmor_restrict_unprivileged_userns=0`; elsewhere with "
            "`sysctl kernel.unprivileged_userns_clone=1`. In a container, start it with "
            "`--security-opt seccomp=unconfined`, or treat the container as the sandbox."
        )
    return "Run `bwrap --ro-bind / / true` to see the error."


# What programs need of a home folder.


_TOOLCHAINS = """
    .pyenv .rbenv .nodenv .asdf .sdkman .nvm .fnm .volta .bun/bin .deno/bin .rustup .cargo/bin
    .cargo/config.toml .cargo/config .cargo/env .ghcup .opam .dotnet .rvm .local/bin .local/lib
    .local/share/uv .local/share/mise .local/share/fnm .local/share/pnpm .local/share/pipx
    .local/share/virtualenv .local/share/virtualenvs .virtualenvs .local/pipx miniconda3 anaconda3
    miniforge3 mambaforge .jdks .juliaup .elan go/bin
"""
_CACHES = """
    .cache/pip .cache/uv .cache/pypoetry .cache/pdm .cache/go-build .cache/yarn .cache/pnpm
    .cache/deno .cache/node .cache/bazel .cache/ccache .cache/sccache .cache/ms-playwright
    .cache/Cypress .cache/electron .cache/pre-commit .cache/mypy .cache/coursier .cache/zig
    .npm/_cacache .yarn/berry .pnpm-store .bun/install/cache .cargo/registry .cargo/git
    .m2/repository .m2/wrapper .gradle/caches .gradle/wrapper .gradle/native .gradle/jdks go/pkg/mod
    .ivy2/cache .sbt/boot .cabal/packages .cabal/store .stack/pantry .nuget/packages .composer/cache
    .bundle/cache .hex/packages .mix/archives .pub-cache/hosted .gem/ruby .local/share/pnpm/store
    .julia/packages .julia/compiled
"""
_ROOT_VARIABLES = """
    VIRTUAL_ENV CONDA_PREFIX PYENV_ROOT RUSTUP_HOME NVM_DIR JAVA_HOME GOROOT DOTNET_ROOT
    ANDROID_HOME ANDROID_SDK_ROOT SDKMAN_DIR VOLTA_HOME
"""
_PREFIX_FOLDERS = ("bin", "sbin", "shims", "condabin")


def pythons_of(programs: Iterable[Path]) -> list[Path]:
    """The folders of the programs that these lead to, as `python` in a virtual environment does.

    A link in a repository may lead anywhere: it counts if it leads to an installed Python.
    """
    real = (program.resolve() for program in programs if os.access(program, os.F_OK))
    return [place.parent for place in real if any((place.parent.parent / "lib").glob("python3*"))]


def toolchain_paths(home: Path, environ: Mapping[str, str], further: Iterable[Path] = ()) -> tuple[Path, ...]:
    """What programs need below a home folder: known places, what the environment names, what is on the PATH.

    `further` are folders like those on the PATH.
    """
    found = {f"{home}/{name}" for name in _TOOLCHAINS.split()}
    found.update(str(Path(environ[name])) for name in _ROOT_VARIABLES.split() if environ.get(name))
    on_path = (Path(entry) for entry in environ.get("PATH", "").split(os.pathsep) if entry)
    for folder in (*on_path, *further):
        prefix = folder.parent if folder.name in _PREFIX_FOLDERS else folder
        # A folder directly in the home folder that begins with a dot often holds credentials as well.
        bare = (
            prefix == home
            or (prefix.parent == home and prefix.name.startswith("."))
            or prefix.name == ".local"
        )
        found.add(str(folder if bare else prefix))
    return _inside(home, found)


def cache_paths(home: Path) -> tuple[Path, ...]:
    """What tools keep below a home folder for the next time."""
    return _inside(home, (f"{home}/{name}" for name in _CACHES.split()))


def _inside(home: Path, paths: Iterable[str]) -> tuple[Path, ...]:
    """Those that exist below the home folder; a link counts for what it leads to as well."""
    existing = {path for path in paths if os.access(path, os.R_OK)}  # others cannot be used anyway
    real = {os.path.realpath(path) for path in existing}
    return tuple(sorted(Path(path) for path in existing | real if path.startswith(f"{home}/")))
