"""The CPU time until something happens: imports, help, and the first request of a run."""

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

_IMPORTS = {
    "agno": "from agno.agent import Agent; from agno.models.openai import OpenAIChat",
    "openai_sdk": "import openai",
    "pydantic_ai": "from pydantic_ai import Agent; from pydantic_ai.models.openai import OpenAIChatModel",
    "openai_agents": "import agents",
    "langgraph": "from langchain.agents import create_agent; from langchain_openai import ChatOpenAI",
    "smolagents": "from smolagents import ToolCallingAgent, OpenAIServerModel",
    "inspect_ai": "import inspect_ai.agent",
    "openhands_sdk": "import openhands.sdk",
    "mini_swe_agent": "from minisweagent.models.litellm_model import LitellmModel",
}
"""What a program that uses a peer imports first, by the peer's environment."""
GIT = ("git", "-c", "user.name=x", "-c", "user.email=x@x", "-c", "init.defaultBranch=main")


def seconds_of(command: Sequence[str | Path], **options: Any) -> float:
    """Until a command has ended."""
    began = time.perf_counter()
    subprocess.run(
        command,
        check=False,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        **options,
    )
    return time.perf_counter() - began


def processor_of(command: Sequence[str | Path], until: socket.socket | None = None, **options: Any) -> float:
    """Seconds of CPU of a command and of what it waited for; `until` somebody connects, it is killed then."""
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        **options,
    )
    if until is not None:
        connection, _ = until.accept()
        with connection:
            connection.recv(1)
            process.send_signal(signal.SIGKILL)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return used.ru_utime + used.ru_stime


def run_headgate(repo: Path, url: str, key: str, *asked: str) -> tuple[float, list[float]]:
    """When `headgate run` was started, and when each of its requests came. SystemExit if it fails."""
    command = [Path(sys.executable).parent / "headgate", "run", "--model", "openai/fake", *asked]
    environment = {**os.environ, "HEADGATE_BASE_URL": url, "HEADGATE_API_KEY": "x"}
    began = time.perf_counter()
    ended = subprocess.run(
        command,
        cwd=repo,
        env=environment,
        check=False,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    with urllib.request.urlopen(f"{url.partition('/' + key)[0]}/stats/{key}") as answer:
        arrived = json.load(answer)["arrived"]
    if not arrived:
        raise SystemExit(f"headgate run sent no request: {ended.stderr.strip()[-500:]}")
    return began, arrived


def measure(peers: Sequence[Path]) -> Iterator[dict[str, Any]]:
    """Seconds of CPU of each start, beside an empty program."""
    python, headgate = Path(sys.executable), Path(sys.executable).parent / "headgate"
    # As an installed package is, also where the environment forbids to write bytecode.
    subprocess.run([python, "-m", "compileall", "-q", Path(__file__).parent.parent / "src"], check=True)

    def row(name: str, seconds: float) -> dict[str, Any]:
        return {"name": name, "seconds": seconds, "python": processor_of([python, "-c", "pass"])}

    yield row("import headgate", processor_of([python, "-c", "import headgate"]))
    yield row("from headgate import run_flow", processor_of([python, "-c", "from headgate import run_flow"]))
    yield row("headgate --help", processor_of([headgate, "--help"]))
    with (
        tempfile.TemporaryDirectory(prefix="headgate-bench-") as folder,
        socket.create_server(("127.0.0.1", 0)) as server,
    ):
        repo = Path(folder)
        (repo / "module.py").write_text("x = 1\n")
        for command in (("init", "-q"), ("add", "-A"), ("commit", "-qm", "Add a module")):
            subprocess.run([*GIT, *command], cwd=repo, check=True)
        address = f"http://127.0.0.1:{server.getsockname()[1]}/v1"
        environment = {**os.environ, "HEADGATE_BASE_URL": address, "HEADGATE_API_KEY": "x"}
        server.settimeout(60)
        asked = [headgate, "run", "--model", "openai/fake", "Change x."]
        used = processor_of(asked, until=server, cwd=repo, env=environment)
        yield row("headgate run, to its first request", used)
    for peer in peers:
        name = peer.parent.parent.name
        if peer.exists() and name in _IMPORTS:
            yield row(f"import {name}", processor_of([peer, "-c", _IMPORTS[name]]))
