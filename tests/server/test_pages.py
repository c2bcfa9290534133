"""The page as HTML: what it shows, what it must never show as HTML, and its forms without any script."""

import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from page_visitor import Site, open_site

from headgate.core import Task, show_hidden
from headgate.log import Store, TaskRow

EVIL = "<script>alert(1)</script><img src=x onerror=alert(2)>\"'><b hx-get=/>"
FLOW = """\
name: short
stages:
  - {id: work, prompt: Do it., budget: {turns: 6, verify_loops: 2}}
checks: [verify]
"""
PASSING = {"steps": [{"name": "check", "command": "true", "timeout": 60}]}
FAILING = {"steps": [{"name": "check", "command": f"echo '{EVIL[:25]}'; false", "timeout": 60}]}


class _Tags(HTMLParser):
    """Collects every tag and attribute, as a browser would see them."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str, str]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]


def assert_harmless(html: str) -> None:
    """No element or attribute in it comes from a task, a model or a file."""
    page = _Tags()
    page.feed(html)
    scripts = [value for tag, name, value in page.attributes if tag == "script"]
    assert page.tags.count("script") == sum(1 for value in scripts if value.startswith("/static/"))
    pictures = [value for tag, name, value in page.attributes if tag == "img" and name == "src"]
    assert all(value.startswith("/static/") for value in pictures)
    names = {name for _, name, _ in page.attributes}
    assert not [name for name in names if name.startswith("on") or name == "style"]
    assert names & {"hx-get", "hx-post", "hx-on"} == set()
    assert not {"b", "style"} & set(page.tags)


def reply(*calls: dict[str, Any], text: str = "", reasoning: str = "") -> dict[str, Any]:
    made: dict[str, Any] = {"calls": list(calls)} if calls else {}
    return {**made, **({"text": text} if text else {}), **({"reasoning": reasoning} if reasoning else {})}


def done(summary: str = "Done.") -> dict[str, Any]:
    return {"stage_done": {"summary": summary}}


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with open_site(tmp_path) as made:
        (made.repo / "flow.yaml").write_text(FLOW)
        yield made


def configure(site: Site, *replies: dict[str, Any], **settings: Any) -> None:
    site.configure(list(replies), **{"flow": "flow.yaml", "verification": PASSING, **settings})


async def test_a_repository_without_tasks_says_what_to_do(site: Site) -> None:
    page = await site.visitor.get("/")
    assert page.status == 200
    assert "This repository has no tasks yet." in page.text
    assert "Let Headgate choose" in page.text
    assert "Log out" not in page.text  # without a token
    assert (await site.visitor.get("/login")).headers["location"] == "/"
    assert '<option value="staged">' in page.text
    assert "Nothing is running." in page.text
    assert "script-src 'self'" in page.headers["content-security-policy"]
    assert_harmless(page.text)


async def test_a_form_that_says_nothing_keeps_what_was_typed(site: Site) -> None:
    fields = {"text": " ", "keep": "the API\n", "boundaries": EVIL, "flow": "flat", "dry_run": "1"}
    page = await site.visitor.post("/tasks", fields)
    assert page.status == 422
    assert "Say in plain words what to do." in page.text
    assert "the API" in page.text
    assert "&lt;script&gt;alert(1)" in page.text
    assert '<option value="flat" selected>' in page.text
    assert 'name="dry_run" value="1" checked' in page.text
    assert_harmless(page.text)
    assert site.engine.store.tasks() == []


async def test_a_task_from_the_form_to_its_page(site: Site) -> None:
    configure(site, reply({"write_file": {"path": "a.py", "content": "a = 1\n"}}, done("Wrote it.")))
    fields = {"text": "Write a file\r\n\r\nNamed a.py", "keep": "notes\r\n\r\n", "non_goals": "more files"}
    page = await site.visitor.submit(fields)
    assert "QUEUED" in page.text
    assert "It waits at place 1 of the queue." in page.text
    assert "Write a file" in page.text
    (row,) = site.engine.store.tasks()
    assert row.task.text == "Write a file\n\nNamed a.py"
    assert row.task.constraints.keep == ("notes",)
    home = await site.visitor.get("/")
    assert 'action="/tasks/t1/cancel"' in home.text
    await site.work()
    page = await site.visitor.get("/tasks/t1")
    assert "SUCCESS" in page.text
    assert "Wrote it." in page.text
    assert re.search(r'Verified by <a href="(/tasks/t1/runs/\w+)">run_\w+</a>', page.text)
    assert "Run 1 passed" in page.text
    assert re.search(r'class="counts"><span class="added">\+1</span>', page.text)
    assert '<span class="n">a</span>' in page.text  # highlighted
    assert re.search(r'<span class="stamp">\d\d:\d\d</span> <span class="what">SUCCESS</span>', page.text)
    assert re.search(r"<dt>requests</dt><dd>1</dd>", page.text)
    assert "keep_conversations" in await site.behind(page.text, "WORK: working")
    parts = (await site.visitor.get("/tasks/t1/live?after=0")).text
    assert 'id="plan" hx-swap-oob="true"' in parts
    shown = re.findall(r'class="moment[^>]*data-seq="(\d+)"', parts)
    later = (await site.visitor.get(f"/tasks/t1/live?after={shown[1]}")).text
    assert re.findall(r'class="moment[^>]*data-seq="(\d+)"', later) == shown[2:] != []


async def test_nothing_from_a_task_a_model_or_a_file_becomes_html(site: Site) -> None:
    configure(
        site,
        reply(
            {"ls": {"path": EVIL}},
            {"write_file": {"path": "<b>&'.html", "content": f"{EVIL}\n"}},
            {"plan_tasks": {"action": "create", "tasks": [{"id": "1", "description": EVIL}]}},
            done(EVIL),
            text=EVIL,
            reasoning=EVIL,
        ),
        reply({"write_file": {"path": "x.py", "content": f'x = "{EVIL}"\n'}}, done(EVIL), text=EVIL),
        reply(text=EVIL),
        verification=FAILING,
        keep_conversations=True,
    )
    page = await site.visitor.submit({"text": f"{EVIL}\nmore {EVIL}", "keep": EVIL, "non_goals": EVIL})
    assert_harmless(page.text)
    assert_harmless((await site.visitor.get("/")).text)
    await site.work()
    page = await site.visitor.get("/tasks/t1")
    assert "STUCK" in page.text
    assert "Hypotheses from the model" in page.text
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page.text
    assert "&lt;b&gt;&amp;" in page.text  # the name of a file
    assert_harmless(page.text)
    for part in re.findall(r'data-part="([^"]+)"', page.text):
        detail = await site.visitor.get(part)
        assert detail.status == 200
        assert_harmless(detail.text)
    (run_id, *_) = re.findall(r"/tasks/t1/runs/(\w+)", page.text)
    log = await site.visitor.get(f"/tasks/t1/runs/{run_id}")
    assert "&lt;script&gt;" in log.text
    for other in (log, await site.visitor.get("/"), await site.visitor.get(f"/?q={EVIL[1:7]}%3Cb%3E")):
        assert_harmless(other.text)
    assert_harmless((await site.visitor.get("/tasks/t1/live?after=0")).text)
    assert_harmless((await site.visitor.get("/tasks/t1/diff")).text)


async def test_what_a_planner_had_executed_is_its_plan(site: Site) -> None:
    configure(
        site,
        reply({"execute": {"task_type": "generic", "goals": [f"Write a.py {EVIL}"]}}),
        reply({"write_file": {"path": "a.py", "content": "a = 1\n"}}, done()),
        reply({"execute": {"task_type": "code_create", "goals": ["More"]}}),
        reply({"escalate": {"reason": "There is no more."}}),
        reply(done()),
        reply(done()),
        flow="planned",
    )
    await site.visitor.submit({"text": "Write a.py"})
    await site.work()
    page = (await site.visitor.get("/tasks/t1")).text
    _, _, plan = page.partition('<section id="plan"')
    plan, _, _ = plan.partition("</section>")
    assert plan.count('<li class="plan-completed">') == 1
    assert plan.count('<li class="plan-failed">') == 1
    assert "completed: do completed" in plan
    assert "design failed: There is no more" in plan
    assert "Execution 2: handed back" in page
    assert_harmless(page)


async def test_what_is_behind_the_milestones_of_a_failed_fix(site: Site) -> None:
    configure(
        site,
        reply({"write_file": {"path": "a.py", "content": "a = 1\n"}}, done(), text="I write a.py."),
        reply({"edit_file": {"path": "a.py", "old": "a = 1", "new": "a = 2"}}, done(), text="It must be 2."),
        reply(text="Perhaps 3."),
        verification=FAILING,
        keep_conversations=True,
    )
    await site.visitor.submit({"text": "Write a.py"})
    await site.work()
    page = (await site.visitor.get("/tasks/t1")).text
    work = await site.behind(page, "WORK: working", hx_request="true")
    assert "<html" not in work  # a part of the page
    assert "I write a.py." in work
    assert "write_file a.py" in work
    failed = await site.behind(page, "It failed before this task as well")
    assert "<html" in failed
    assert "| &lt;script&gt;" in failed  # the log
    fixed = await site.behind(page, "Verification failed, debugging")
    assert "Diagnosis: It must be 2." in fixed
    assert "| +a = 2" in fixed
    assert "Perhaps 3." in page
    assert "Try again" in page


async def test_a_proposal_is_reviewed_and_applied_without_scripts(site: Site) -> None:
    configure(site, reply({"write_file": {"path": "a.py", "content": "a = 1\n"}}, done()))
    await site.visitor.submit({"text": "Write a.py", "dry_run": "1"})
    await site.work()
    home = await site.visitor.get("/")
    assert "Waiting for you" in home.text
    page = await site.visitor.get("/tasks/t1")
    assert "PROPOSED" in page.text
    assert "1 added" in page.text
    assert not (site.repo / "a.py").exists()
    page = await site.visitor.submit({}, "/tasks/t1/apply")
    assert "to be applied" in page.text
    await site.work()
    assert (site.repo / "a.py").read_text() == "a = 1\n"
    again = await site.visitor.post("/tasks/t1/apply")
    assert again.status == 409
    assert 'role="alert"' in again.text  # on the task's own page
    assert "Timeline" in again.text


async def test_a_proposal_is_discarded_and_tried_again(site: Site) -> None:
    configure(site, reply({"write_file": {"path": "a.py", "content": "a = 1\n"}}, done()))
    await site.visitor.submit({"text": "Write a.py", "dry_run": "1"})
    await site.work()
    page = await site.visitor.submit({}, "/tasks/t1/discard")
    assert "The proposal was discarded." in page.text
    page = await site.visitor.submit({"text": "With two lines"}, "/tasks/t1/resume")
    assert 'retry of <a href="/tasks/t1">t1</a>' in page.text
    assert "With two lines" in page.text
    assert 'Tried again as <a href="/tasks/t2">t2</a>' in (await site.visitor.get("/tasks/t1")).text


async def test_a_task_is_spoken_to_and_followed_up_from_its_page(site: Site) -> None:
    configure(site, reply({"write_file": {"path": "a.py", "content": "a = 1\n"}}, done()))
    page = await site.visitor.submit({"text": "Write a file", "keep": "notes"})
    assert 'action="/tasks/t1/say"' in page.text
    assert "The task starts with it." in page.text
    await site.visitor.submit({"text": EVIL}, "/tasks/t1/say")
    refused = await site.visitor.post("/tasks/t1/say", {"text": " "})
    assert (refused.status, "There is nothing to say" in refused.text) == (422, True)
    await site.work()
    page = await site.visitor.get("/tasks/t1")
    assert "You: &lt;script&gt;alert(1)" in page.text
    assert 'action="/tasks/t1/say"' not in page.text
    assert_harmless(page.text)
    late = await site.visitor.post("/tasks/t1/say", {"text": "More"})
    assert (late.status, "Task t1 has ended: start a follow-up instead." in late.text) == (409, True)
    assert 'formaction="/tasks" name="follows" value="t1">Submit</button>' in page.text
    page = await site.visitor.submit({"text": "Go on", "follows": "t1"})
    assert 'follow-up of <a href="/tasks/t1">t1</a>' in page.text
    assert "The constraints of task t1 hold for this one, too" in page.text
    assert site.engine.store.tasks()[1].task.constraints.keep == ("notes",)
    refused = await site.visitor.post("/tasks", {"text": " ", "follows": "t1"})
    assert (refused.status, 'name="follows" value="t1"' in refused.text) == (422, True)


async def test_a_queued_task_is_removed_from_the_start_page(site: Site) -> None:
    configure(site, reply(done()))
    await site.visitor.submit({"text": "One"})
    await site.visitor.submit({"text": "Two"})
    home = await site.visitor.submit({"from": "home"}, "/tasks/t1/cancel")
    assert "New task" in home.text
    assert "/tasks/t1" not in home.text
    gone = await site.visitor.post("/tasks/t1/cancel", {"from": "home"})
    assert gone.status == 404


async def test_a_paused_queue_says_why_and_can_be_tried_again(site: Site) -> None:
    configure(site, reply({"ls": {}}))
    await site.visitor.submit({"text": "One"})
    await site.visitor.submit({"text": "Two"})
    await site.work()
    home = await site.visitor.get("/")
    assert "The queue is paused: t1 ended INFRA_ERROR" in home.text
    assert 'action="/tasks/t2/resume"' in home.text
    assert "headgate submit" not in home.text
    page = await site.visitor.get("/tasks/t1")
    assert "The environment failed, not the work" in page.text
    configure(site, reply(done("Nothing to do.")))
    assert "Queue" in (await site.visitor.submit({"from": "home"}, "/tasks/t2/resume")).text


async def test_the_history_is_searched(site: Site) -> None:
    configure(site, reply({"ls": {}}))
    for text in ("Mend the gate", "Paint the wall"):
        await site.visitor.submit({"text": text})
    page = await site.visitor.get("/?q=wall")
    assert "1 task with" in page.text
    assert page.text.count(">Mend the gate</a>") == 1  # in the queue
    assert "0 tasks with" in (await site.visitor.get("/?q=roof")).text


class NotAllTasks(Store):
    """One that is too long to be read as a whole."""

    def tasks(self) -> list[TaskRow]:
        raise AssertionError("all tasks were read")


async def test_of_a_long_history_only_one_page_is_read(site: Site) -> None:
    site.engine.store = store = NotAllTasks(site.engine.store.path)
    for number in range(31):
        task = store.add_task(lambda name: Task(id=name, text=f"Old {name}.", goal="x"), float(number))
        await store.append(task.id, [], "RUNNING")
        await store.append(task.id, [], "STUCK")
    first, second = [(await site.visitor.get(f"/?page={page}")).text for page in (1, 2)]
    assert ("Old t31." in first, "Old t2." in first, "Old t1." in first) == (True, True, False)
    assert (second.count("Old "), "Old t1." in second, "Page 2 of 2" in second) == (1, True, True)
    assert "Old t1." in (await site.visitor.get("/tasks/t1")).text


async def test_a_long_diff_is_cut_and_leads_to_the_whole(site: Site) -> None:
    lines = "".join(f"line {number}\n" for number in range(2_000))
    configure(site, reply({"write_file": {"path": "long.txt", "content": lines}}, done()))
    await site.visitor.submit({"text": "Write long.txt"})
    await site.work()
    page = await site.visitor.get("/tasks/t1")
    assert "2,000 added" in page.text
    assert "1,400 more lines are not shown here." in page.text
    assert 'href="/api/tasks/t1/diff"' in page.text
    assert "line 1999" not in page.text


async def test_errors_are_pages_for_people_and_problems_for_programs(site: Site) -> None:
    page = await site.visitor.get("/tasks/t9")
    assert page.status == 404
    assert "There is no task &#34;t9&#34;." in page.text
    assert "All tasks" in page.text
    assert (await site.visitor.get("/nowhere/<b>")).status == 404
    program = await site.visitor.get("/api/tasks/t9")
    assert program.headers["content-type"].startswith("application/problem+json")
    program = await site.visitor.get("/tasks/t9", accept="*/*")
    assert program.headers["content-type"].startswith("application/problem+json")
    for path in ("/tasks/t1/runs/run_20200101_000000_abcdef", "/tasks/x/milestones/1", "/static/none.js"):
        assert (await site.visitor.get(path)).status == 404


async def test_forms_of_other_sites_are_refused(site: Site) -> None:
    configure(site, reply(done()))
    for origin in ("http://evil.example", "null"):
        refused = await site.visitor.post("/tasks", {"text": "One"}, origin=origin)
        assert refused.status == 403
        assert "Only this server" in refused.text
    assert site.engine.store.tasks() == []
    # Otherwise browsers would send the page's own forms with "Origin: null".
    assert (await site.visitor.get("/")).headers["referrer-policy"] == "same-origin"


async def test_a_token_is_asked_for_once(tmp_path: Path) -> None:
    with open_site(tmp_path, token="open sesame") as site:
        sent = await site.visitor.get("/")
        assert (sent.status, sent.headers["location"]) == (303, "/login")
        form = await site.visitor.get("/login")
        assert 'type="password"' in form.text
        assert str(tmp_path) not in form.text
        wrong = await site.visitor.post("/login", {"token": "sesame"})
        assert wrong.status == 401
        assert "That is not the token." in wrong.text
        assert not site.visitor.cookies
        right = await site.visitor.post("/login", {"token": "open sesame"})
        assert right.status == 303
        cookie = right.headers["set-cookie"].lower()
        assert all(part in cookie for part in ("httponly", "samesite=strict", "path=/"))
        assert "secure" not in cookie  # it came over plain HTTP
        assert "sesame" not in cookie
        home = await site.visitor.get("/")
        assert home.status == 200
        assert "Log out" in home.text
        out = await site.visitor.post("/logout")
        assert 'headgate_session=""' in out.headers["set-cookie"]


async def test_files_of_the_page_are_there_and_may_be_kept(site: Site) -> None:
    home = await site.visitor.get("/")
    for address in re.findall(r'"(/static/[^"]+)"', home.text):
        file = await site.visitor.get(address)
        assert file.status == 200
        assert "immutable" in file.headers["cache-control"]
    assert "Zero-Clause BSD" in (await site.visitor.get("/static/htmx.LICENSE.txt")).text


async def test_a_diff_and_a_title_show_what_is_hidden_in_them(site: Site) -> None:
    configure(site, {"text": "Done."})
    page = await site.visitor.post("/tasks", {"text": "Turn \u202eround"})
    page = await site.visitor.get(page.headers["location"])
    assert "Turn [U+202E]round" in page.text
    assert "\u202e" not in page.text
    assert show_hidden("a\u200db \u2066") == "a\u200db [U+2066]"
    assert show_hidden("a\u200db", joiners=True) == "a[U+200D]b"
