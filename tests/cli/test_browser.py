"""The page in a real browser, with a real server. Screenshots are kept in build/screenshots.

Skipped where there is no Chromium, or Playwright is not installed.
"""

import json
import shutil
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from processes import GATED, ended, until
from serve_process import free_port, server

playwright = pytest.importorskip("playwright.async_api", reason="Playwright is not installed")
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium: apt-get install chromium")
SHOTS = Path(__file__).parents[2] / "build" / "screenshots"
PATIENCE_MS = 120_000
HOSTILE = "<img src=x onerror=document.title='hacked'>"
FLAGS = [
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
]
expect = playwright.expect


@asynccontextmanager
async def browsing(width: int = 1200, *, dark: bool = False) -> AsyncIterator[playwright.Page]:
    """A page of a browser. Code that fails, or that the page's policy refuses, fails the test."""
    async with playwright.async_playwright() as driver:
        browser = await driver.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        context = await browser.new_context(
            viewport={"width": width, "height": 900}, color_scheme="dark" if dark else "light"
        )
        page = await context.new_page()
        page.set_default_timeout(PATIENCE_MS)
        expect.set_options(timeout=PATIENCE_MS)
        errors: list[str] = []
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("dialog", lambda dialog: errors.append("a dialog was opened"))
        page.on("console", lambda said: errors.append(said.text) if _is_bad(said) else None)
        yield page
        await browser.close()
        assert errors == []


def _is_bad(said: playwright.ConsoleMessage) -> bool:
    # Requests that fail while the server is gone are told as errors as well: some tests are about that.
    return said.type == "error" and "Content Security Policy" in said.text


async def shoot(page: playwright.Page, name: str) -> None:
    SHOTS.mkdir(parents=True, exist_ok=True)
    await page.screenshot(path=SHOTS / f"{name}.png", full_page=True)


async def submit(page: playwright.Page, text: str, *, dry_run: bool = False) -> None:
    await page.get_by_label("What should be done?").fill(text)
    if dry_run:
        await page.get_by_label("Dry run").check()
    await page.get_by_role("button", name="Submit").click()
    await page.wait_for_url("**/tasks/t*")


async def lines(page: playwright.Page) -> list[str]:
    """The lines of the timeline."""
    return [
        str(text)
        for text in await page.locator("#timeline > [data-seq] > details > summary").all_inner_texts()
    ]


@pytest.fixture
def served(repo: Path) -> Path:
    (repo / "gated.yaml").write_text(GATED)
    (repo / "agent.yaml").write_text("task_flow_mode: flat\nmodel: script:gated.yaml\n")
    return repo


async def test_submit_watch_live_expand_reload_and_restart(served: Path) -> None:
    # A command that was interrupted has changed nothing, so the model is asked once more.
    (served / "gated.yaml").write_text(GATED + "- text: Done.\n")
    port = free_port()
    async with browsing() as page:
        async with server(served, port) as first:
            await page.goto(f"http://localhost:{port}/")
            await shoot(page, "empty")
            await submit(page, "Wait for the gate")
            await expect(page.locator("#timeline")).to_contain_text("WORK: working...")
            await until((served / "started").exists)
            await expect(page.locator("#now")).to_contain_text("shell")
            await page.locator("#timeline summary").last.click()
            await expect(page.locator("#timeline")).to_contain_text("touch started")
            await shoot(page, "running")
            before = await lines(page)
            await page.reload()
            await expect(page.locator("#timeline")).to_contain_text("WORK: working...")
            assert await lines(page) == before
            first.send_signal(signal.SIGTERM)
            await ended(first)
            await expect(page.get_by_text("The server does not answer")).to_be_visible()
            await shoot(page, "server-gone")
        (served / "go").touch()
        async with server(served, port):
            await expect(page.locator("#timeline")).to_contain_text("SUCCESS")
            await expect(page.get_by_text("The server does not answer")).to_be_hidden()
            after = await lines(page)
            await shoot(page, "finished")
            await page.reload()
            assert await lines(page) == after
    assert after[: len(before)] == before
    assert sum("resumed where it was interrupted" in line for line in after) == 1


async def test_cancel_a_queued_and_a_running_task(served: Path) -> None:
    port = free_port()
    async with server(served, port), browsing(400) as page:
        await page.goto(f"http://localhost:{port}/")
        await submit(page, "Wait for the gate")
        await until((served / "started").exists)
        await page.goto(f"http://localhost:{port}/")
        await submit(page, "Another one")
        await page.goto(f"http://localhost:{port}/")
        await shoot(page, "queue-on-a-phone")
        await page.get_by_role("button", name="Remove").click()
        await expect(page.get_by_text("Another one")).to_have_count(0)
        await page.get_by_role("button", name="Cancel").click()
        await expect(page.locator("#history").get_by_text("CANCELLED")).to_be_visible()
        await page.get_by_role("link", name="Wait for the gate").click()
        await expect(page.get_by_role("button", name="Try again")).to_be_visible()
        wide = "document.documentElement.scrollWidth > document.documentElement.clientWidth"
        assert not await page.evaluate(wide)  # nothing sticks out on a phone


async def test_a_proposal_is_reviewed_and_applied_and_html_stays_text(served: Path) -> None:
    name = f"{HOSTILE}.html"
    script = [
        {"text": HOSTILE, "calls": [{"write_file": {"path": name, "content": f"<p>{HOSTILE}</p>\n"}}]},
        {"calls": [{"stage_done": {"stage": "work", "summary": f"Wrote it. {HOSTILE}"}}]},
    ]
    (served / "hostile.yaml").write_text(json.dumps(script))
    (served / "agent.yaml").write_text(
        "task_flow_mode: flat\nmodel: script:hostile.yaml\nkeep_conversations: true\n"
    )
    port = free_port()
    async with server(served, port), browsing(dark=True) as page:
        await page.goto(f"http://localhost:{port}/")
        await submit(page, f"Write a page {HOSTILE}", dry_run=True)
        await expect(page.get_by_role("button", name="Apply")).to_be_visible()
        await expect(page.get_by_text(name).first).to_be_visible()
        for summary in await page.locator("#timeline summary").all():
            await summary.click()
        await shoot(page, "proposal")
        assert not (served / name).exists()
        await page.get_by_role("button", name="Apply").click()
        await expect(page.locator("#timeline")).to_contain_text("SUCCESS")
        assert (served / name).read_text() == f"<p>{HOSTILE}</p>\n"
        for place in ("/", "/?q=write", "/tasks/t1", "/tasks/t1/diff"):
            await page.goto(f"http://localhost:{port}{place}")
            assert await page.locator("img[src=x]").count() == 0
            assert "hacked" not in (await page.title()).replace(HOSTILE, "")


async def test_what_is_typed_is_kept_while_the_server_is_away_and_sent_with_a_key(served: Path) -> None:
    port = free_port()
    async with browsing() as page:
        text = page.get_by_label("What should be done?")
        async with server(served, port):
            await page.goto(f"http://localhost:{port}/")
            await text.fill("Wait for the gate")
        await text.press("Control+Enter")
        await expect(page.get_by_text("Your text is kept")).to_be_visible()
        await shoot(page, "server-gone-while-typing")
        async with server(served, port):
            await expect(page.locator("#lost")).to_be_hidden()
            await expect(text).to_have_value("Wait for the gate")
            await text.press("Control+Enter")
            await page.wait_for_url("**/tasks/t1")
            await until((served / "started").exists)
            await page.get_by_label("Say something").fill("Half a line")
            await page.get_by_role("button", name="Cancel").click()
            await expect(page.get_by_role("button", name="Try again")).to_be_visible()
            await expect(page.get_by_label("Go on from here")).to_have_value("Half a line")
            await page.get_by_role("button", name="follow-up").click()
            await page.wait_for_url("**/tasks/t2")
            await expect(page.get_by_text("follow-up of t1", exact=True)).to_be_visible()


async def test_keys_move_through_lists_and_to_the_search(served: Path) -> None:
    focused = "document.activeElement.textContent.trim()"
    port = free_port()
    async with server(served, port, "--no-worker"), browsing() as page:
        await page.goto(f"http://localhost:{port}/")
        for text in ("One", "Two", "Three"):
            await submit(page, text)
            await page.keyboard.press("/")  # no field for it here: on the start page
            await expect(page.locator("#q")).to_be_focused()
        await page.keyboard.type("jk/")
        await expect(page.locator("#q")).to_have_value("jk/")
        await page.locator("#q").blur()
        for key, expected in zip(
            "jjkkjjj", ("One", "Two", "One", "One", "Two", "Three", "Three"), strict=True
        ):
            await page.keyboard.press(key)
            assert await page.evaluate(focused) == expected
        await page.keyboard.press("k")
        added = await page.request.post(f"http://localhost:{port}/api/tasks", data={"text": "Added"})
        assert added.ok
        await expect(page.get_by_text("Added", exact=True)).to_be_visible()
        assert await page.evaluate(focused) == "Two"
        await page.get_by_label("What should be done?").fill("Four")
        await page.get_by_role("button", name="Remove t1").click()
        await expect(page.get_by_text("One", exact=True)).to_have_count(0)
        await expect(page.get_by_label("What should be done?")).to_have_value("Four")
        await page.get_by_label("What should be done?").fill(" ")
        await page.get_by_role("button", name="Submit").click()
        await expect(page.get_by_role("alert")).to_have_text("Say in plain words what to do.")
