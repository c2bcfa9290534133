"""The baseline: one prompt with the program and what its tests print, the whole file back, three tries.

No Headgate: this is what a short script does. A further try goes on with the conversation and says what the
tests print now.
"""

import json
import time
import urllib.request
from pathlib import Path
from typing import Any

from evaltasks import Result, Task, checked_out, is_solved, run_check
from halves import holds

from headgate.features.repair.answers import code_in
from headgate.reading.source_text import find_functions

TRIES = 3
_PROMPT = """{task}

{sources}

The tests print:
```
{output}
```

Reply with the full corrected file in one ```python block.{name_it}"""
_AGAIN = """The tests still fail:
```
{output}
```
Reply with the full corrected file in one ```python block.{name_it}"""


class Server:
    """Asks a compatible server, greedily, and counts what that costs."""

    def __init__(self, base_url: str, key: str, model: str) -> None:
        self.base_url, self.key, self.model = base_url, key, model

    def forget(self) -> None:
        """Asks something else, so that a run finds nothing in the server's cache that another left there."""
        self._post([{"role": "user", "content": "Hello"}], max_tokens=1)

    def ask(self, messages: list[dict[str, str]], result: Result) -> str:
        """The reply's text."""
        reply = self._post(messages, max_tokens=1500)
        usage = reply["usage"]
        cached = (usage.get("prompt_tokens_details") or {}).get("cached_tokens") or 0
        result.requests += 1
        result.prompt += usage["prompt_tokens"]
        result.evaluated += usage["prompt_tokens"] - cached
        result.completion += usage["completion_tokens"]
        return str(reply["choices"][0]["message"]["content"])

    def _post(self, messages: list[dict[str, str]], max_tokens: int) -> dict[str, Any]:
        body = {"model": self.model, "messages": messages, "temperature": 0.0, "max_tokens": max_tokens}
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {self.key}"}
        request = urllib.request.Request(
            f"{self.base_url}/chat/completions", json.dumps(body).encode(), headers
        )
        with urllib.request.urlopen(request, timeout=1200) as response:
            reply: dict[str, Any] = json.load(response)
        return reply


def run_baseline(task: Task, server: Server, run: str) -> Result:
    """One task."""
    result = Result(run, task.name, task.level, flow="baseline", limit=f"{TRIES} tries")
    started = time.monotonic()
    with checked_out(task) as repo:
        sources = task.sources()
        name_it = " Begin with the file's name." if len(sources) > 1 else ""
        shown = "\n\n".join(f"{path}:\n```python\n{text}```" for path, text in sources.items())
        output = run_check(repo)[1][-3000:]
        prompt = _PROMPT.format(task=task.text, sources=shown, output=output, name_it=name_it)
        messages = [{"role": "user", "content": prompt}]
        for _ in range(TRIES):
            reply = server.ask(messages, result)
            code = code_in(reply)
            (repo / which_file(reply, code, sources)).write_text(f"{code}\n", encoding="utf-8")
            passed, output = run_check(repo)
            if passed:
                break
            again = _AGAIN.format(output=output[-2000:], name_it=name_it)
            messages += [{"role": "assistant", "content": reply}, {"role": "user", "content": again}]
        result.seconds = round(time.monotonic() - started, 1)
        result.solved = is_solved(task, repo)
        if result.solved and (task.folder / "held_out").exists():
            result.holds = holds(task, repo)
    result.ending = "solved" if result.solved else "not solved"
    return result


def which_file(reply: str, code: str, sources: dict[str, str]) -> Path:
    """The file that a reply is about: one that it names before the code, else the one with most in common."""
    before = reply.partition("```")[0]
    named = [path for path in sources if path in before or path in code.partition("\n")[0]]
    if named:
        return Path(named[0])
    written = {function.name for function in find_functions(code)}
    in_common = {
        path: len(written & {function.name for function in find_functions(text)})
        for path, text in sources.items()
    }
    return Path(max(in_common, key=lambda path: in_common[path]))
