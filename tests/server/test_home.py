"""The start page: what tasks would be carried out with, the queue, and the history with its figures."""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from page_visitor import Site, open_site
from serving import make_repo, serving

CHEAP = {"model": "openai/small", "base_url": "http://127.0.0.1:9/v1"}
DEFAULT = {"model": "openai/large", "base_url": "http://127.0.0.1:8/v1"}


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with open_site(tmp_path) as made:
        subprocess.run(["git", "-C", str(made.repo), "checkout", "-qb", "feature"], check=True)
        yield made


def rows(page: str) -> dict[str, str]:
    """The tasks of the history by their ids, as text."""
    found = re.findall(r'<a class="row" id="line-t\d+" href="/tasks/(t\d+)">(.*?)</a>', page, re.DOTALL)
    return {name: " ".join(re.sub(r"<[^>]+>", " ", row).split()) for name, row in found}


async def test_the_model_its_server_and_the_branch_are_shown(site: Site) -> None:
    site.configure([], **DEFAULT)
    page = (await site.visitor.get("/")).text
    shown = dict(re.findall(r"<dt>(.*?)</dt><dd>(.*?)</dd>", page))
    assert shown == {"Model": "openai/large", "Server": "http://127.0.0.1:8/v1", "Branch": "feature"}
    assert '<select id="model"' not in page  # there is nothing to choose from


async def test_why_no_task_can_be_submitted_is_said_before_one_is(site: Site) -> None:
    (site.repo / "agent.yaml").write_text("modell: x\n")
    page = (await site.visitor.get("/")).text
    assert "modell" in page
    assert page.count("agent.yaml") == 1
    refused = await site.visitor.post("/tasks", {"text": "Add a line"})
    assert (refused.status, refused.text.count("agent.yaml"), "Add a line" in refused.text) == (409, 1, True)


async def test_a_model_of_the_configuration_is_chosen(site: Site) -> None:
    site.configure([], **DEFAULT, models={"cheap": CHEAP})
    page = (await site.visitor.get("/")).text
    assert '<option value="cheap">cheap – openai/small</option>' in page
    await site.visitor.submit({"text": "One", "model": "cheap"})
    (row,) = site.engine.store.tasks()
    assert (row.task.model, row.task.models[0]) == ("cheap", ("openai/small", "http://127.0.0.1:9/v1"))
    refused = await site.visitor.post("/tasks", {"text": "Two", "model": "script:x.yaml"})
    assert refused.status == 409
    assert (
        "The configuration has no model &#34;script:x.yaml&#34;: choose one of openai/large, cheap."
        in refused.text
    )
    assert len(site.engine.store.tasks()) == 1


@pytest.mark.parametrize(
    ("model", "expected"), [("cheap", 201), ("openai/large", 201), ("openai/other", 409), ("", 422), (3, 422)]
)
async def test_the_api_takes_only_models_of_the_configuration(
    tmp_path: Path, model: Any, expected: int
) -> None:
    settings = (
        "model: openai/large\nbase_url: http://127.0.0.1:8/v1\n"
        "models: {cheap: {model: openai/small, base_url: http://127.0.0.1:9/v1}}\n"
    )
    async with serving(make_repo(tmp_path, settings), works=False) as server:
        status, body = await server.ask("POST", "/api/tasks", json={"text": "One", "model": model})
        assert status == expected, body
        stored = [row.task.model for row in server.service.rows()]
        assert stored == ([model] if expected == 201 else [])


async def test_the_history_has_figures_and_can_be_narrowed(site: Site) -> None:
    writes = {"write_file": {"path": "a.py", "content": "a = 1\nb = 2\n"}}
    done = {"stage_done": {"summary": "Wrote it."}}
    settings = {"task_flow_mode": "flat"}
    site.configure([{"calls": [writes, done]}], **settings)
    await site.visitor.submit({"text": "Write the gate"})
    await site.work()
    site.configure([{"text": "?"}], **settings)
    await site.visitor.submit({"text": "Paint the gate"})
    await site.work()
    shown = rows((await site.visitor.get("/")).text)
    assert list(shown) == ["t2", "t1"]
    assert re.fullmatch(
        r"t1 ✓ SUCCESS Write the gate just now \d+ s script:.*\.yaml 1 file \+2 −0", shown["t1"]
    )
    assert shown["t2"].endswith("no changes")
    await site.visitor.submit({}, "/tasks/t1/undo")
    assert list(rows((await site.visitor.get("/?state=UNDONE")).text)) == ["t1"]
    assert list(rows((await site.visitor.get("/?state=SUCCESS")).text)) == []
    other = (await site.visitor.get("/?q=gate&state=INFRA_ERROR")).text
    assert list(rows(other)) == ["t2"]
    assert "1 task with “gate” in the state INFRA_ERROR." in other
    assert "<option selected>INFRA_ERROR</option>" in other
    assert list(rows((await site.visitor.get("/parts?q=gate&state=UNDONE")).text)) == ["t1"]


async def test_the_queue_has_a_line_for_each_task(site: Site) -> None:
    site.configure([], **DEFAULT)
    for number in range(3):
        await site.visitor.submit({"text": f"Task {number}\nand more about it"})
    page = (await site.visitor.get("/")).text
    queue = page[page.index(">Queue</h2>") : page.index(">History</h2>")]
    assert queue.count("<li>") == 3
    assert "<p" not in queue
    assert "and more" not in queue
