"""A model server on loopback for benchmarks: it answers by what the request is about, not by its number."""

import json
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from exercise_set import ANSWERS

Calls = list[tuple[str, Mapping[str, Any]]]
Behaviour = Callable[["Asked"], Calls]


class Asked:
    """A request, as a behaviour looks at it."""

    def __init__(self, body: Mapping[str, Any]) -> None:
        self.messages = body["messages"]
        self.tools = sorted(tool["function"]["name"] for tool in body.get("tools", ()))
        self.text = "\n".join(str(message.get("content")) for message in self.messages)

    @property
    def solution(self) -> str:
        """The file to write."""
        found = re.search(r"Write the solution in (\S+)\.", self.text)
        assert found, self.text
        return found[1]

    @property
    def has_failed(self) -> bool:
        """Whether the tests were run, and failed."""
        return "Verification failed" in self.text


DONE = ("stage_done", {"stage": "solve", "summary": "Done."})


def stub_first(asked: Asked) -> Calls:
    """Submits the stub, and the solution when it has seen the tests fail."""
    return [*(solve(asked)[:-1] if asked.has_failed else []), DONE]


def solve(asked: Asked) -> Calls:
    """Submits the solution at once."""
    return [("write_file", {"path": asked.solution, "content": ANSWERS[asked.solution]}), DONE]


class ModelServer:
    """Runs on loopback, and remembers what it was asked."""

    def __init__(self, behaviour: Behaviour) -> None:
        self.behaviour = behaviour
        self.asked: list[Asked] = []
        self.gate = threading.Event()
        """Replies wait for it; open by default."""
        self.gate.set()
        self.url = ""


@contextmanager
def model_server(behaviour: Behaviour) -> Iterator[ModelServer]:
    """A server that has a behaviour."""
    model = ModelServer(behaviour)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked = Asked(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            model.asked.append(asked)
            model.gate.wait()
            calls = [
                {
                    "id": f"c{number}",
                    "type": "function",
                    "function": {"name": name, "arguments": json.dumps(arguments)},
                }
                for number, (name, arguments) in enumerate(model.behaviour(asked))
            ]
            message = {"role": "assistant", "content": "", "tool_calls": calls}
            choice = {"index": 0, "message": message, "finish_reason": "tool_calls"}
            usage = {"prompt_tokens": 100 * len(asked.messages), "completion_tokens": 10}
            body = json.dumps({"object": "chat.completion", "choices": [choice], "usage": usage}).encode()
            try:
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)
            except ConnectionError:
                pass  # who asked is gone, as some tests want it

        def log_message(self, format: str, *args: object) -> None:
            """Silent: the tests' output is for failures."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        model.url = f"http://127.0.0.1:{server.server_port}/v1"
        try:
            yield model
        finally:
            model.gate.set()
            server.shutdown()
            thread.join()
