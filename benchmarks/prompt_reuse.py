"""What a model's server reads: the tokens of each prompt that it does not have from an earlier one.

    python benchmarks/prompt_reuse.py FLOW VISIBILITY    measures one session, such as `staged hidden`

Each built-in flow runs one session of about 30 requests with scripted replies: stages that end, a final
turn, verification that fails, a new plan and the question for hypotheses. The peers, and Headgate with a flow
of one stage, call `read_file` 30 times and are given the same results.
"""

import json
import os
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml
from session import RESULT
from shortened_model import shorten_model

from headgate.cli.local_server import find_model
from headgate.errors import ConfigError

HERE = Path(__file__).resolve().parent
TURNS = 30
CONTEXT = 32_768
LEAST_REQUESTS = 19
"""A session of fewer has not gone as planned."""
GIT = ("git", "-c", "user.name=x", "-c", "user.email=x@x", "-c", "init.defaultBranch=main")
TASK = "Set STATE in src/state.py to 9. Read every module first."
CHECK = "grep -q 'STATE = 9' src/state.py"
Reply = dict[str, Any]


@contextmanager
def reading_server(model: Path, replies: list[Reply], *options: str) -> Iterator[str]:
    """The address of a llama.cpp server that has read nothing yet, behind these replies."""
    server = subprocess.Popen(
        [sys.executable, HERE / "reading_server.py", model, *options],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert server.stdin is not None
    assert server.stdout is not None
    try:
        json.dump(replies, server.stdin)
        server.stdin.close()
        said = next(line for line in server.stdout if line.startswith("port "))
        yield f"http://127.0.0.1:{said.split()[1]}"
    finally:
        server.kill()
        server.wait()


def _read(url: str) -> dict[str, Any]:
    with urllib.request.urlopen(f"{url}/read") as answer:
        return dict(json.load(answer))


# What a model answers.


def call(name: str, **arguments: Any) -> Reply:
    """A reply with one call."""
    function = {"name": name, "arguments": json.dumps(arguments)}
    return {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "", "type": "function", "function": function}],
    }


def say(text: str) -> Reply:
    """A reply in words."""
    return {"role": "assistant", "content": text}


class _Work:
    """Replies that read one module after the other, and count STATE up."""

    def __init__(self) -> None:
        self._module = self._state = 0

    def read(self, count: int) -> list[Reply]:
        """So many modules."""
        first = self._module
        self._module += count
        return [call("read_file", path=f"src/module_{number}.py") for number in range(first, self._module)]

    def edit(self) -> Reply:
        """A change after which the check still fails."""
        self._state += 1
        old, new = f"STATE = {self._state - 1}", f"STATE = {self._state}"
        return call("edit_file", path="src/state.py", old=old, new=new)

    def fix(self, rounds: int) -> list[Reply]:
        """So many rounds that change something and end."""
        return [one for _ in range(rounds) for one in (self.edit(), DONE)]


STATE = call("read_file", path="src/state.py")
DONE = call("stage_done", summary="It is done.")
PLAN = call(
    "plan_tasks", action="create", tasks=[{"id": "1", "description": "Set STATE in src/state.py to 9."}]
)
STUCK = call(
    "agent__task_status",
    status="in-progress",
    done="Modules are read",
    pending="Nothing",
    now="Report",
    ready_for_final_report=False,
    need_to_run_more_tools=False,
)
"""After this, the model is given its final turn."""
HYPOTHESES = say("1. The state is another one than the task says. I do not know which.")


def _ask() -> list[Reply]:
    return [STATE, *_Work().read(19), say("STATE is in src/state.py, line 1.")]


def _bench() -> list[Reply]:
    work = _Work()
    return [STATE, *work.read(24), *work.fix(2)]


def _flat() -> list[Reply]:
    work = _Work()
    return [STATE, *work.read(17), *work.fix(3), PLAN, *work.fix(1), DONE, DONE, HYPOTHESES]


def _staged() -> list[Reply]:
    work = _Work()
    explore = [STATE, *work.read(9), STUCK, DONE]
    return [*explore, PLAN, *work.read(5), *work.fix(3), PLAN, *work.fix(1), DONE, DONE, HYPOTHESES]


def _branched() -> list[Reply]:
    work = _Work()
    explore = [STATE, *work.read(7), STUCK, DONE]
    idle = [*work.read(1), DONE, *work.read(1), DONE]
    return [*explore, PLAN, *work.read(4), *work.fix(3), PLAN, *work.fix(1), *idle, HYPOTHESES]


def _planned() -> list[Reply]:
    work = _Work()

    def execute(goal: str) -> Reply:
        return call("execute", task_type="code_modify", goals=[goal])

    first = [execute("Set STATE"), STATE, *work.read(6), DONE, *work.read(3), *work.fix(2), STUCK, DONE]
    second = [execute("Set STATE to 9"), STATE, *work.read(3), DONE, *work.fix(2), DONE]
    return [*first, *second, call("escalate", reason="The check does not pass."), HYPOTHESES]


SESSIONS: dict[str, Callable[[], list[Reply]]] = {
    "ask": _ask,
    "bench": _bench,
    "flat": _flat,
    "staged": _staged,
    "staged3": _staged,
    "branched": _branched,
    "planned": _planned,
    "repair": lambda: [say("```python\n    result = 0\n```")] * 60,
}
"""What is answered in each flow. `repair` asks short questions until it knows no more."""
SEVERAL = ("staged3", "branched", "planned")
"""Flows of several conversations, for which it matters whether a server keeps more than the latest."""
CODE = """def total(values):
    result = 0
    for value in values:
        result += value
    return result


def label(number):
    text = str(number)
    if number > 9:
        text = text + "!"
    return text
"""
TEST = """from state import label, total


def test_label():
    assert label(total([1, 2, 3])) == "the state of six"
"""


def _repository(repo: Path, flow: str) -> None:
    files = {"src/state.py": "STATE = 0\n"}
    files |= {f"src/module_{number}.py": RESULT for number in range(TURNS)}
    if flow == "repair":
        files = {"state.py": CODE, "test_state.py": TEST}
    for name, text in files.items():
        (repo / name).parent.mkdir(parents=True, exist_ok=True)
        (repo / name).write_text(text)
    for command in (("init", "-q"), ("add", "-A"), ("commit", "-qm", "Add modules")):
        subprocess.run([*GIT, *command], cwd=repo, check=True)


def run_flow(model: Path, flow: str, visibility: str, *options: str) -> dict[str, Any]:
    """One session of a flow, by the command line. `options` are those of the server."""
    check = f"{sys.executable} -m pytest -q test_state.py" if flow == "repair" else CHECK
    with tempfile.TemporaryDirectory() as place, reading_server(model, SESSIONS[flow](), *options) as url:
        repo, config = Path(place) / "repo", Path(place) / "agent.yaml"
        _repository(repo, flow)
        settings = {
            "model": "openai/fake",
            "base_url": f"{url}/flow/{TURNS}/scripted/v1",
            "tools_visibility": visibility,
            "tool_transport": "native",
            "verification": {"steps": [{"name": "check", "command": check, "timeout": 60}]},
        }
        config.write_text(yaml.safe_dump(settings))
        command = [sys.executable, "-P", "-m", "headgate", "run", TASK, "--flow", flow, "--json"]
        ended = subprocess.run(
            [*command, "--repo", repo, "--config", config],
            env={**os.environ, "HEADGATE_API_KEY": "x", "XDG_CACHE_HOME": place, "XDG_CONFIG_HOME": place},
            capture_output=True,
            text=True,
            check=False,
        )
        report = json.loads(ended.stdout.splitlines()[-1])
        if report["state"] == "INFRA_ERROR" or report["requests"] < LEAST_REQUESTS:
            raise SystemExit(f"{flow} ended {report['state']} ({report['reason']}): {ended.stderr[-2000:]}")
        return {"name": flow, "visibility": visibility, **_read(url)}


@contextmanager
def short_model() -> Iterator[Path]:
    """A model that reads fast. ConfigError where the small model is not installed."""
    with tempfile.TemporaryDirectory() as folder:
        model = Path(folder) / "model.gguf"
        shorten_model(find_model(), model, CONTEXT)
        yield model


def measure(peers: Mapping[str, Callable[[str], Any]]) -> Iterator[dict[str, Any]]:
    """A session of each flow, with both lists of tools, and one of each peer, which is given the address."""
    try:
        find_model()
    except ConfigError as error:
        print(f"tokens: not measured: {error}", file=sys.stderr)
        return
    with short_model() as model:
        for flow in SESSIONS:
            for visibility in ("auto", "hidden"):
                yield run_flow(model, flow, visibility)
        for flow in SEVERAL:
            yield run_flow(model, flow, "auto", "alone") | {"visibility": "alone"}
        for name, run in peers.items():
            with reading_server(model, []) as url:
                if run(url):
                    yield {"name": name, "visibility": "", **_read(url)}


if __name__ == "__main__":
    with short_model() as model:
        print(json.dumps(run_flow(model, *sys.argv[1:])))
