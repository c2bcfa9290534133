"""What people and scripts are told of whole tasks, from logs that were recorded once: not a word may change.

`recorded/NAME.jsonl` is the log of a scenario; `recorded/NAME.json` what it says. After a change that is
meant, `python tests/core/test_recorded_logs.py` writes the second again.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from headgate.core import Event, State, read_body
from headgate.log import build_report, render_markdown

LOGS = sorted((Path(__file__).parent / "recorded").glob("*.jsonl"))


def tell(log: Path) -> dict[str, Any]:
    """Everything that is said about a task: the lines as it runs, the report, the page."""
    state, lines = State(), []
    for row in map(json.loads, log.read_text(encoding="utf-8").splitlines()):
        body = read_body(row.pop("kind"), row.pop("body"))
        event = Event(**row, body=body)
        state.apply(event)
        if line := event.line(state):
            lines.append([event.seq, line.tone, line.text])
    report = build_report(state)
    page = render_markdown(report, state).splitlines()
    return {"lines": lines, "report": report.model_dump(mode="json"), "page": page}


@pytest.mark.parametrize("log", LOGS, ids=lambda log: log.stem)
def test_a_recorded_log_says_what_it_said(log: Path) -> None:
    said = json.loads(log.with_suffix(".json").read_text(encoding="utf-8"))
    told = tell(log)
    assert list(told["report"]) == list(said["report"])
    assert json.loads(json.dumps(told)) == said


if __name__ == "__main__":
    for log in LOGS:
        text = json.dumps(tell(log), indent=1, ensure_ascii=False) + "\n"
        log.with_suffix(".json").write_text(text, encoding="utf-8")
