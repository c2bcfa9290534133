"""`headgate ask`: the answer alone on standard output, and nothing changed."""

import json
from pathlib import Path

import pytest
from command import environment, headgate

from launcher import launch

ANSWER = "It lowercases the text.\n\nSee slug.py, line 1."
SCRIPT = f"""
- calls: [{{read_file: {{path: slug.py}}}}]
  expect: {{tools_exclude: [write_file, edit_file, apply_patch, shell, run_tests]}}
- text: {json.dumps(ANSWER)}
"""


@pytest.fixture
def asked(repo: Path) -> Path:
    (repo / "slug.py").write_text("def slug(text): return text.lower()\n")
    (repo / "ask.yaml").write_text(SCRIPT)
    (repo / "agent.yaml").write_text("model: script:ask.yaml\n")
    return repo


def test_the_answer_is_all_of_the_output(asked: Path) -> None:
    run = headgate(asked, "ask", "How does slug() work?")
    assert (run.returncode, run.stdout) == (0, f"{ANSWER}\n"), run.stderr
    assert "SUCCESS (answered)" in run.stderr
    assert "Answered.\nNo file was changed.\n" in run.stderr
    shown = headgate(asked, "show").stdout
    assert f"{ANSWER}\n\nAnswered.\n" in shown
    report = json.loads(headgate(asked, "report", "--json").stdout)
    assert (report["flow"], report["answer"], report["files_changed"]) == ("ask", ANSWER, [])


def test_a_question_from_standard_input_and_from_a_file(asked: Path) -> None:
    assert headgate(asked, "ask", "-", stdin="How does slug() work?\n").stdout == f"{ANSWER}\n"
    (asked / "question.txt").write_text("How does slug() work?\n")
    assert headgate(asked, "ask", "--file", "question.txt").stdout == f"{ANSWER}\n"


def test_what_others_change_meanwhile_is_not_the_question_s_doing(asked: Path) -> None:
    words = ["-m", "headgate", "ask", "--json", "How does slug() work?"]
    with (asked / "out.txt").open("w") as out:  # grows with every event, while the task runs
        assert launch(words, asked, environment(asked), (0, out.fileno(), 2)).reap() == 0
    *events, report = map(json.loads, (asked / "out.txt").read_text().splitlines())
    assert (report["kind"], report["answer"], report["files_changed"]) == ("report", ANSWER, [])
    assert [event["body"]["text"] for event in events if event["kind"] == "answer_given"] == [ANSWER]
    diff = headgate(asked, "diff")
    assert (diff.returncode, diff.stdout) == (0, "")


def test_a_long_answer_is_cut_and_says_so(asked: Path) -> None:
    (asked / "ask.yaml").write_text(SCRIPT.replace(json.dumps(ANSWER), json.dumps("x" * 30_000)))
    run = headgate(asked, "ask", "How does slug() work?")
    assert run.stdout == f"{'x' * 20_000} [... 10,000 more characters]\n"


def test_an_answer_cannot_steer_the_terminal(asked: Path) -> None:
    (asked / "ask.yaml").write_text(SCRIPT.replace(json.dumps(ANSWER), json.dumps("a\x1b[2Jb\x07c")))
    assert headgate(asked, "ask", "How does slug() work?").stdout == "abc\n"


def test_a_model_that_reads_nothing_has_no_answer(asked: Path) -> None:
    (asked / "ask.yaml").write_text("- text: I know it.\n" * 8)
    run = headgate(asked, "ask", "How does slug() work?")
    assert (run.returncode, run.stdout) == (1, "")
    assert 'Stage "answer" did not complete: no file was read.' in run.stderr
    assert "read at least" not in run.stderr


@pytest.mark.parametrize(
    ("args", "told"),
    [
        ((), 'headgate ask "..."'),
        (("How", "so?"), "Put the text in quotes"),
        (("--file", "missing.txt"), "Cannot read missing.txt"),
    ],
)
def test_what_is_no_question(asked: Path, args: tuple[str, ...], told: str) -> None:
    run = headgate(asked, "ask", *args)
    assert (run.returncode, told in run.stderr) == (2, True), run.stderr
