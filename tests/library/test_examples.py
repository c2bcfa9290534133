"""Every program in `examples/`, run as it stands with a scripted model."""

import os
from pathlib import Path

import pytest

from launcher import run_python

EXAMPLES = Path(__file__).parents[2] / "examples"
PRINTED = {
    "agents": "['liability', 'notice'] Do not sign it.\n",
    "model_driven": "['Ada Lovelace', 'Charles Babbage'] skipped Ada wrote to Charles.\n",
    "callbacks": "Starting: read\nDone: read: It was read.\n1 of 2\n"
    "Starting: write\nDone: write: It was written.\n2 of 2\n",
    "checkpoints": "['plan', 'apply']\n",
    "compaction": "completed ['gather', 'write']\n",
    "compaction_agent": "completed The report is written.\n",
    "conditions": "analyze completed \npositive_path completed \nnegative_path skipped condition\n",
    "dependencies": "completed ['1', '2', '4', '3', '5']\n",
    "errors": "completed skipped completed ['risky']\n",
    "parallel": "completed ['answer', 'papers', 'search', 'web']\n",
    "report": "completed\n['Bees: a survey', 'Bees in practice', 'Against Bees']\nBees are studied well.\n",
    "stage_tools": "completed ['queue.py']\n",
    "subtasks": "completed Nectar and pollen.\n",
    "validation": "person Ada Lovelace\n",
    "variables_and_instructions": "translate completed\nsummarize completed\nreview completed\n",
}


@pytest.mark.parametrize("name", sorted(path.stem for path in EXAMPLES.glob("*.py")))
def test_an_example_prints_what_it_should(name: str, tmp_path: Path) -> None:
    scripts = EXAMPLES / "scripts"
    model = {"HEADGATE_MODEL": f"script:{scripts / name}.yaml"}
    model |= {f"{each.upper()}_MODEL": f"script:{scripts / name}.{each}.yaml" for each in ("cheap", "strong")}
    done = run_python([str(EXAMPLES / f"{name}.py")], tmp_path, {**os.environ, **model})
    assert (done.stdout, done.stderr, done.returncode) == (PRINTED[name], "", 0)
