"""A whole task over real HTTP: a small server that streams as OpenAI-compatible ones do."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest
from command import headgate
from loopback import serving

REPLIES: list[tuple[str, dict[str, Any]]] = [
    ("ls", {}),
    ("write_file", {"path": "src/new.py", "content": "x = 1\n"}),
    ("shell", {"command": "python3 src/new.py && echo fine; printenv HEADGATE_API_KEY"}),
    ("stage_done", {"stage": "work", "summary": "Wrote src/new.py."}),
]


class Streaming(BaseHTTPRequestHandler):
    """Answers the nth request with the nth reply, in small pieces; the first one only at the second try."""

    requests: ClassVar[list[dict[str, Any]]] = []
    bodies: ClassVar[list[bytes]] = []
    failures: ClassVar[int] = 0

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if not type(self).failures:
            type(self).failures = 1
            self.send_response(503)
            self.send_header("Retry-After", "0")
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        self.bodies.append(body)
        self.requests.append({"key": self.headers["Authorization"], **json.loads(body)})
        name, arguments = REPLIES[len(self.requests) - 1]
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        text = json.dumps(arguments)
        function = {"name": name, "arguments": ""}
        self.send(
            {"delta": {"tool_calls": [{"index": 0, "id": "c1", "type": "function", "function": function}]}}
        )
        for start in range(0, len(text), 7):
            piece = {"index": 0, "function": {"arguments": text[start : start + 7]}}
            self.send({"delta": {"tool_calls": [piece]}})
        self.send(
            {"delta": {}, "finish_reason": "tool_calls"}, usage={"prompt_tokens": 100, "completion_tokens": 9}
        )
        self.wfile.write(b"data: [DONE]\n\n")

    def send(self, choice: dict[str, Any], **more: Any) -> None:
        chunk = {"object": "chat.completion.chunk", "choices": [{"index": 0, **choice}], **more}
        self.wfile.write(b"data: " + json.dumps(chunk).encode() + b"\n\n")
        self.wfile.flush()

    def log_message(self, format: str, *args: object) -> None:
        """Silent: the tests' output is for failures."""


@pytest.fixture
def server() -> Iterator[tuple[str, type[Streaming]]]:
    class Fresh(Streaming):
        requests: ClassVar[list[dict[str, Any]]] = []
        bodies: ClassVar[list[bytes]] = []

    with ThreadingHTTPServer(("127.0.0.1", 0), Fresh) as running:
        thread = threading.Thread(target=running.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{running.server_port}/v1", Fresh
        running.shutdown()
        thread.join()


def test_a_task_over_http(repo: Path, server: tuple[str, type[Streaming]]) -> None:
    url, seen = server
    (repo / "agent.yaml").write_text(
        "task_flow_mode: flat\nverification:\n  steps:\n    - {name: t, command: test -f src/new.py}\n"
    )
    run = headgate(
        repo, "run", "Write src/new.py", "--model", "openai/m", "--base-url", url, HEADGATE_API_KEY="k-123456"
    )
    assert run.returncode == 0, run.stderr + run.stdout
    assert "Verified by run_" in run.stdout
    assert "asking again in 0 s (1 of 4)" in run.stderr
    assert (repo / "src" / "new.py").read_text() == "x = 1\n"
    assert [request["key"] for request in seen.requests] == ["Bearer k-123456"] * 4
    assert seen.requests[0]["stream"] is True
    assert {tool["function"]["name"] for tool in seen.requests[0]["tools"]} >= {"ls", "shell", "stage_done"}
    shell = seen.requests[3]["messages"][-1]
    assert shell["role"] == "tool"
    assert "fine" in shell["content"]
    assert "k-123456" not in shell["content"]
    assert "exit code 1" in shell["content"]
    for earlier, later in zip(seen.bodies, seen.bodies[1:], strict=False):
        assert later.startswith(earlier[: earlier.rindex(b'}],"tools"')])
    report = json.loads(headgate(repo, "report", "t1", "--json").stdout)
    assert (report["requests"], report["prompt_tokens"], report["completion_tokens"]) == (4, 400, 36)


def test_a_refused_key_is_said_once_and_never_shown(repo: Path) -> None:
    complaint = {"error": {"message": "Incorrect API key: sk-topsecret", "code": "invalid_api_key"}}
    with serving(lambda body: (401, complaint)) as address:
        (repo / "agent.yaml").write_text(f"model: openai/small\nbase_url: {address}\ntask_flow_mode: flat\n")
        done = headgate(repo, "run", "Do it", HEADGATE_API_KEY="sk-topsecret")
    shown = done.stdout + done.stderr
    assert (done.returncode, shown.count("refused the API key"), shown.count("Set HEADGATE_API_KEY")) == (
        3,
        1,
        1,
    )
    assert headgate(repo, "report", "t1").stdout.count("refused the API key") == 1
    kept = b"".join(path.read_bytes() for path in (repo / ".headgate").rglob("*") if path.is_file())
    assert ("sk-topsecret" in shown, b"sk-topsecret" in kept) == (False, False)
