"""A task's page: what comes first, what is said once, which form it has, what can be read behind it."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from page_visitor import Site, open_site

FLOW = """\
name: short
stages:
  - {id: work, prompt: Do it., budget: {turns: 6, verify_loops: 1}}
checks: [tests_touched, verify]
"""
FAILING_TEST = """\
import unittest


class Sums(unittest.TestCase):
    def test_sum(self):
        self.assertEqual(1 + 1, 3)
"""
TESTS = {"steps": [{"name": "tests", "command": "python3 -m unittest -q test_sums", "timeout": 60}]}
PASSING = {"steps": [{"name": "tests", "command": "true", "timeout": 60}]}
WRITES = {
    "calls": [
        {"write_file": {"path": "a.py", "content": "a = 1\n"}},
        {"stage_done": {"summary": "Wrote it."}},
    ]
}
SCRIPT_CALLS = {"accept": "application/json"}


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with open_site(tmp_path) as made:
        (made.repo / "flow.yaml").write_text(FLOW)
        (made.repo / "test_sums.py").write_text(FAILING_TEST)
        yield made


async def carry_out(site: Site, *, passes: bool, **options: str) -> str:
    """The page of a task that has been carried out."""
    # The second reply is about a test for the change, or else the hypotheses.
    second = {"calls": [{"stage_done": {"summary": "It needs no test."}}]} if passes else {"text": "A typo."}
    replies = [{"text": "I write <a.py>.", **WRITES}, second]
    site.configure(replies, flow="flow.yaml", verification=PASSING if passes else TESTS)
    await site.visitor.submit({"text": "Write a.py\n\nwith one line", **options})
    await site.work()
    name = site.engine.store.tasks()[-1].task.id
    return (await site.visitor.get(f"/tasks/{name}")).text


def in_order(page: str, *parts: str) -> bool:
    places = [page.index(part) for part in parts]
    return places == sorted(places)


async def test_the_page_of_a_proposal(site: Site) -> None:
    """The result comes first, the text is shown once, and the diff before what is done with it."""
    text = "Write a.py\n\nwith one line\n\nConstraints:\n- no tests\n"
    page = await carry_out(site, passes=True, dry_run="1", text=text)
    first = (">Result</h2>", 'id="now"', ">Changes</h2>", 'class="diff"', ">Apply</button>")
    assert in_order(page, *first, ">Discard</button>", ">Timeline</h2>", 'id="talk"', 'id="runs"')
    assert page.count(">Apply</button>") == 1
    head = page[page.index("<main") : page.index(">Result</h2>")]
    assert (head.count("Write a.py"), head.count("no tests")) == (1, 1)
    assert '<pre class="text">with one line</pre>' in head


async def test_the_page_of_a_stuck_task(site: Site) -> None:
    """It names the test that failed, its conversation can be read, and one form has both ways to go on."""
    page = await carry_out(site, passes=False)
    assert "STUCK" in page
    (runs,) = re.findall(r'<section id="runs".*?</section>', page, re.DOTALL)
    assert runs.count('class="run-reason"') == 1
    assert "test_sum" in runs
    assert "AssertionError" in runs
    assert "Failed verifications" not in page
    last = site.engine.store.events("t1")[-1].body.model_dump()["summary"]
    assert "combined.log" in last
    (run,) = re.findall(r"/tasks/t1/runs/(run_\w+)\" aria-label", runs)
    assert f'<a href="/tasks/t1/runs/{run}">{run}</a>' in page
    assert "combined.log" not in page
    assert "Open a line to read what the model was told" in page
    told = await site.behind(page, "WORK: working")
    assert "I write &lt;a.py&gt;." in told
    assert "To the model (task)" in told
    assert "The model calls write_file" in told
    assert page.count("<textarea") == 1
    forms = (">Undo</button>", ">Timeline</h2>", "<textarea", ">Try again</button>", 'name="follows"')
    assert in_order(page, *forms)
    page = (await site.visitor.submit({"text": "Write b.py", "follows": "t1"})).text
    assert 'follow-up of <a href="/tasks/t1">t1</a>' in page
    page = (await site.visitor.submit({"text": "and b.py"}, "/tasks/t1/resume")).text
    assert "Added for this attempt:</strong> and b.py" in page


async def test_runs_that_fail_for_the_same_reason_say_it_once(site: Site) -> None:
    flow = FLOW.replace("verify_loops: 1", "verify_loops: 3") + "fix: work\n"
    (site.repo / "flow.yaml").write_text(flow)
    calls = [
        [
            {"write_file": {"path": f"{name}.py", "content": "a = 1\n"}},
            {"stage_done": {"summary": "Wrote it."}},
        ]
        for name in "abc"
    ]
    site.configure(
        [*({"calls": one} for one in calls), {"text": "A typo."}], flow="flow.yaml", verification=TESTS
    )
    await site.visitor.submit({"text": "Write them"})
    await site.work()
    page = (await site.visitor.get("/tasks/t1")).text
    (runs,) = re.findall(r'<section id="runs".*?</section>', page, re.DOTALL)
    reasons = re.findall(r'<span class="run-reason">(.*?)</span>', runs)
    assert len(reasons) == 3
    assert "AssertionError" in reasons[0]
    assert [reason.partition(";")[0] for reason in reasons[1:]] == ["as in run 1", "as in run 2"]


async def test_undone_is_a_state_of_its_own_and_a_success_keeps_no_conversation(site: Site) -> None:
    page = await carry_out(site, passes=True)
    assert "Open a line to read" not in page
    told = await site.behind(page, "WORK: working")
    assert "It is kept for the last ten tasks that ended STUCK" in told
    assert "I write" not in told
    page = (await site.visitor.submit({}, "/tasks/t1/undo")).text
    assert "<title>t1 UNDONE" in page
    assert 'class="badge state-undone"' in page
    assert "it was SUCCESS" in page
    assert "state-success" not in page
    home = (await site.visitor.get("/")).text
    assert 'class="badge state-undone"' in home


async def test_a_script_is_told_where_to_go_or_why_not(site: Site) -> None:
    site.configure([WRITES], flow="flow.yaml", verification=PASSING)
    sent = await site.visitor.post("/tasks", {"text": "Write a.py"}, **SCRIPT_CALLS)
    assert (sent.status, json.loads(sent.text)) == (200, {"go": "/tasks/t1"})
    refused = await site.visitor.post("/tasks", {"text": " "}, **SCRIPT_CALLS)
    assert (refused.status, json.loads(refused.text)["detail"]) == (422, "Say in plain words what to do.")
    refused = await site.visitor.post("/tasks/t1/say", {"text": " "}, **SCRIPT_CALLS)
    assert (refused.status, json.loads(refused.text)["detail"]) == (
        422,
        "There is nothing to say: give a text.",
    )
    gone = await site.visitor.post("/tasks/t1/cancel", {"from": "home"}, **SCRIPT_CALLS)
    assert json.loads(gone.text) == {"go": "/"}
