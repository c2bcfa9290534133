"""A model server of a few lines on loopback, for tests that need one of their own."""

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@contextmanager
def listing(answers: Mapping[str, Any]) -> Iterator[str]:
    """A server's address, without a path; it answers GETs for these paths with JSON, and others with 404."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = json.dumps(answers.get(self.path, {"error": "not found"})).encode()
            self.send_response(200 if self.path in answers else 404)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Silent: the tests' output is for failures."""

    with _running(Handler) as port:
        yield f"http://127.0.0.1:{port}"


@contextmanager
def serving(answer: Callable[[Any], tuple[int, Any]]) -> Iterator[str]:
    """A server's address; `answer` makes a status and a JSON value of each request's body."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            status, value = answer(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            body = json.dumps(value).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Silent: the tests' output is for failures."""

    with _running(Handler) as port:
        yield f"http://127.0.0.1:{port}/v1"


@contextmanager
def _running(handler: type[BaseHTTPRequestHandler]) -> Iterator[int]:
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()
