"""Whole runs that are to be killed anywhere: a repository, a flow, and a model that goes through steps."""

import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from headgate.core import Message, Reply, Request, ToolCall, Usage
from headgate.tree import git

Step = str | list[tuple[str, dict[str, Any]]]

GATE = """\
# Waits for ever, once, at the gate that the file `wait` names; the file `pid` says that it does.
if [ "$(cat "$CRASH_GATE/wait" 2>/dev/null)" = "$1" ]; then
  mv "$CRASH_GATE/wait" "$CRASH_GATE/waited"
  echo $$ > "$CRASH_GATE/new" && mv "$CRASH_GATE/new" "$CRASH_GATE/pid"
  exec sleep 600
fi
"""
CHECK = 'sh gate.sh "verify $(cat n.txt)"; echo "n is $(cat n.txt)"; test "$(cat n.txt)" = 3\n'
PATCH = """\
*** Begin Patch
*** Update File: calc.py
@@
 def double(n):
-    return n + n
+    return 2 * n
*** Add File: docs/deep/new.md
+Doubling is multiplying by two.
*** Delete File: old.txt
*** End Patch
"""
FILES = {
    "n.txt": "0\n",
    "calc.py": "def double(n):\n    return n + n\n",
    "old.txt": "old\n",
    "tests/test_calc.py": "",
    "gate.sh": GATE,
    "check.sh": CHECK,
}
CONFIG = "flow: flow.yaml\nverification: {steps: [{name: check, command: sh check.sh, timeout: 300}]}\n"
FLOW = """\
stages:
  - id: explore
    tools: {allow: [read]}
    view: {transcript: parent}
    checks: [{files_read: 2}]
  - id: plan
    view: {transcript: parent}
    advance: rules
    checks: [plan_written]
    needs: [explore]
  - id: implement
    view: {transcript: parent}
    checks: [code_changed]
    allow_missing_done: true
    budget: {replan_every: 2}
    needs: [plan]
checks: [diff_scope, tests_touched, verify]
fix: implement
"""
WRITE_FLOW = """\
stages:
  - id: work
    checks: [code_changed]
checks: [verify]
"""
RETRY_FLOW = """\
stages:
  - id: work
    checks: [code_changed]
    budget: {turns: 2, retries: 1}
checks: [verify]
"""


def plan(*descriptions: str) -> tuple[str, dict[str, Any]]:
    tasks = [{"id": str(n), "description": text} for n, text in enumerate(descriptions, 1)]
    return "plan_tasks", {"action": "create", "tasks": tasks}


def edit(old: str, new: str) -> tuple[str, dict[str, Any]]:
    return "edit_file", {"path": "n.txt", "old": old, "new": new}


def done(summary: str) -> tuple[str, dict[str, Any]]:
    return "stage_done", {"summary": summary}


@dataclass(frozen=True)
class Scenario:
    """One run, from the files it begins with to the words of its model."""

    name: str
    flow: str
    steps: list[Step]
    tree: dict[str, str]
    """The files that it changes, as they are in the end."""
    gone: frozenset[str] = frozenset()
    dry_run: bool = False
    """It only proposes, and the proposal is then applied."""
    text: str = "Make n 3."
    worktree: bool = False
    """It works in a worktree of its own."""

    def make_repository(self, path: Path) -> None:
        for name, text in {**FILES, "agent.yaml": CONFIG, "flow.yaml": self.flow}.items():
            (path / name).parent.mkdir(parents=True, exist_ok=True)
            (path / name).write_text(text)
        git(path, "init", "-q", "--template=")
        if self.worktree:
            git(path, "add", "-A")
            who = ("-c", "user.name=p", "-c", "user.email=p@example.org")
            git(path, *who, "commit", "-q", "-m", "start")

    @property
    def original_tree(self) -> dict[str, bytes]:
        files = {**FILES, "agent.yaml": CONFIG, "flow.yaml": self.flow}
        return {name: text.encode() for name, text in files.items()}

    @property
    def final_tree(self) -> dict[str, bytes]:
        files = {**FILES, "agent.yaml": CONFIG, "flow.yaml": self.flow, **self.tree}
        return {name: text.encode() for name, text in files.items() if name not in self.gone}


TEST = "from calc import double\n\n\ndef test_double():\n    assert double(2) == 4\n"
RICH = Scenario(
    "rich",
    FLOW,
    [
        [("write_file", {"path": "n.txt", "content": "9\n"})],  # refused: this stage only reads
        [("ls", {}), ("read_file", {"path": "n.txt"}), ("read_file", {"path": "calc.py"})],
        [done("n.txt holds n, calc.py doubles.")],
        [plan("Change n.txt", "Change calc.py, docs/deep/new.md and old.txt")],
        [edit("0", "1")],
        [("apply_patch", {"patch": PATCH})],
        [("shell", {"command": "sh gate.sh shell; cp n.txt copy.txt"})],
        [done("n is 1.")],
        # A look at the diff found copy.txt, which no step names; it stays. The test is a thing of its own.
        [("write_file", {"path": "tests/test_calc.py", "content": TEST}), done("Tested.")],
        # The first verification failed.
        [edit("1", "2"), done("n is 2.")],
        # So did the second: the plan is written again.
        [plan("Change n.txt once more")],
        [edit("2", "3")],
        "Now n is 3.",
    ],
    {
        "n.txt": "3\n",
        "calc.py": "def double(n):\n    return 2 * n\n",
        "docs/deep/new.md": "Doubling is multiplying by two.\n",
        "copy.txt": "1\n",
        "tests/test_calc.py": TEST,
    },
    frozenset({"old.txt"}),
)
RETRY = Scenario(
    "retry",
    RETRY_FLOW,
    [
        [("ls", {})],
        [("read_file", {"path": "n.txt"})],
        [done("Nothing was changed, and these turns are over.")],  # the final turn: refused, then tried again
        [("write_file", {"path": "n.txt", "content": "3\n"})],
        [done("n is 3.")],
    ],
    {"n.txt": "3\n"},
)
WRITES = Scenario(
    "writes",
    WRITE_FLOW,
    [[edit("0", "3")], [("apply_patch", {"patch": PATCH})], [done("n is 3.")]],
    {name: RICH.tree[name] for name in ("n.txt", "calc.py", "docs/deep/new.md")},
    RICH.gone,
)
SCOUTED = Scenario(
    "scouted",
    f"scouts: [code, build]\n{WRITE_FLOW}",
    [[("write_file", {"path": "n.txt", "content": "3\n"})], [done("n is 3.")]],
    {"n.txt": "3\n"},
    text="The check fails. Make n 3.",
)
DRY = replace(WRITES, name="dry", dry_run=True)
APART = replace(WRITES, name="apart", worktree=True)
SCENARIOS = {scenario.name: scenario for scenario in (RICH, RETRY, WRITES, SCOUTED, DRY, APART)}


@dataclass
class Worker:
    """A model that remembers nothing: what it says follows from what it is shown.

    It takes its steps in order, and takes one again that it is told was interrupted.
    """

    scenario: Scenario
    name: str = field(default="worker")

    async def reply(self, request: Request, on_delta: object = None) -> Reply:
        spoken = [n for n, message in enumerate(request.messages) if message.role == "assistant"]
        number = 0
        if spoken:
            answers = request.messages[spoken[-1] + 1 :]
            lost = any("interrupted" in answer.content for answer in answers if answer.failed)
            number = int(request.messages[spoken[-1]].content.split()[1]) + (not lost)
        step = self.scenario.steps[number]
        text = f"Step {number} {step if isinstance(step, str) else ''}".strip()
        wanted = enumerate([] if isinstance(step, str) else step)
        calls = tuple(
            ToolCall(f"c{number}.{len(spoken)}.{n}", name, json.dumps(args)) for n, (name, args) in wanted
        )
        # What the log keeps of a reply for good is its size, which here says which step it was.
        return Reply(Message("assistant", text, calls), Usage(prompt=100, completion=number))
