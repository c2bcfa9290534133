"""The page with the results: it needs nothing else, shows what it is given as text, and fits its window.

What needs a browser is skipped where there is no Chromium.
"""

import re
import shutil
from collections.abc import Iterator
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest

from headgate.bench import (
    ComparedRun,
    Evidence,
    ExerciseResult,
    RunSettings,
    render_comparison_page,
    render_page,
    summarise,
)
from headgate.bench.facts import RunFacts
from headgate.bench.results import Timing, Tokens, TryResult

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
HOSTILE = "<img src=x onerror=document.title='hacked'></script>\"'&"
SETTINGS = RunSettings(
    exercises="set",
    model=f"openai/{HOSTILE}",
    base_url="",
    tries=2,
    timeout=None,
    commands={},
    flow="bench",
    flow_text="",
    config_text="",
    runs=(RunFacts(started="2026-01-02T03:04:05+00:00", version="9.8", commit="abc", machine=HOSTILE),),
)
LANGUAGES = ("cpp", "go", "java", "javascript", "python", "rust")


def many(count: int) -> list[ExerciseResult]:
    """Results of every kind."""
    return list(_make(count))


def _make(count: int) -> Iterator[ExerciseResult]:
    kinds, languages = cycle((1, 2, None, "problem", None)), cycle(LANGUAGES)
    for number in range(count):
        kind, language = next(kinds), next(languages)
        passed = kind if isinstance(kind, int) else None
        failed = TryResult(reason=f"{HOSTILE} failed")
        tries = [failed] * ((passed or 3) - 1) + ([TryResult(reason=None)] if passed else [])
        yield ExerciseResult(
            name=f"{language}/exercises/practice/{HOSTILE if number == 3 else 'a-rather-long-name'}-{number}",
            language=language,
            passed=passed,
            tries=() if kind == "problem" else tuple(tries),
            problem=f"{HOSTILE} is not installed" if kind == "problem" else "",
            reason="done" if passed else "verify_loops",
            final_turns=("max_turns",) if number % 9 == 0 else (),
            tokens=Tokens(sent=number**3, cached=number, generated=number * 7 % 1000),
            cost=0.01,
            timing=Timing(started="", seconds=float(number * 13 % 190)),
        )


def look_up(result: ExerciseResult) -> Evidence:
    """What an exercise opens to: with lines that are longer than any window."""
    diff = f"--- a/x\n+++ b/x\n@@ -1 +1 @@\n-{HOSTILE}\n+{'long ' * 100}\n"
    return Evidence(diff, tuple(f"{HOSTILE} printed\n" * 50 for _ in result.tries))


@pytest.mark.parametrize("count", [0, 1, 225])
def test_it_stands_alone_and_escapes(count: int) -> None:
    page = render_page(summarise(many(count), 2), SETTINGS, look_up)
    assert not re.search(r"<[^>]*\s(src|href|action|on\w+)\s*=|url\(|@import|https?:", page)
    assert "<img" not in page
    assert page.count("<script>") == page.count("</script>") == 1
    assert page.count("<tr>") == count + bool(count)
    assert page.count('<tr class="more"') == count
    assert page.count("<main>") == page.count("</main>") == 1
    assert "<dt>Date</dt><dd>2026-01-02 03:04 UTC</dd><dt>Headgate</dt><dd>9.8, commit abc</dd>" in page
    assert ("No exercise has a result yet." in page) is (count == 0)
    assert ("Passed within 2 tries" in page) is (count > 0)


def test_without_settings() -> None:
    page = render_page(summarise(many(1)))
    assert "<title>Benchmark</title>" in page
    assert "aria-controls=" not in page  # there is nothing to open


def test_a_comparison() -> None:
    first = many(40)
    flipped = {True: None, False: 1}
    second = [
        result.model_copy(update={"passed": flipped[bool(result.passed)]} if number < 10 else {})
        for number, result in enumerate(first[:-1])
    ]
    page = render_comparison_page(
        ComparedRun(HOSTILE, first, SETTINGS, look_up), ComparedRun("the other", second, None, look_up)
    )
    assert not re.search(r"<[^>]*\s(src|href|action|on\w+)\s*=|url\(|@import|https?:", page)
    assert "<img" not in page
    assert "<h2>Solved by one run only: 8</h2>" in page
    assert "<h2>Solved by both or by neither: 23</h2>" in page
    assert "Left out, because only one run has judged them: 1." in page
    assert page.count("<tr>") == 2 + 8 + 23
    assert len(set(re.findall(r' id="(\w+)"', page))) == 8 + 23
    nothing = render_comparison_page(ComparedRun("a", []), ComparedRun("b", first))
    assert "The two runs have no exercise in common" in nothing


def test_figures() -> None:
    page = render_page(summarise(many(225), 2), SETTINGS)
    assert "45 of 180; 95% interval 19.2% to 31.8%" in page  # 45 of each kind, and 45 that were not judged
    assert "90 of 180; 95% interval 42.8% to 57.2%" in page
    assert page.count("not judged</td>") == 45


@pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium: apt-get install chromium")
async def test_in_a_browser(tmp_path: Path) -> None:
    """Every page in one browser, which takes longer to start than all of them."""
    playwright = pytest.importorskip("playwright.async_api", reason="Playwright is not installed")
    async with playwright.async_playwright() as driver:
        browser = await driver.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"]
        )
        for count in (0, 1, 225):
            file = tmp_path / f"{count}.html"
            page = render_page(summarise(many(count), 2), SETTINGS, look_up)
            file.write_text(page, encoding="utf-8")
            for width, scheme in ((1200, "light"), (360, "dark")):
                tab = await browser.new_page(viewport={"width": width, "height": 800}, color_scheme=scheme)
                await look_at(tab, file, count, width)
        await browser.close()


async def look_at(page: Any, file: Path, count: int, width: int) -> None:
    said: list[str] = []
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", lambda request: said.append(request.url))
    await page.goto(file.as_uri())
    assert await page.evaluate("document.documentElement.scrollWidth") <= width, count
    assert await page.title() == f"Benchmark: openai/{HOSTILE}"
    if count:
        name = page.get_by_role("button", name="python/").or_(page.get_by_role("button", name="cpp/")).first
        assert await page.locator("pre").first.is_visible() is False
        await name.click()
        assert await name.get_attribute("aria-expanded") == "true"
        assert await page.locator("pre").first.is_visible()
        assert await page.evaluate("document.documentElement.scrollWidth") <= width
        await name.click()
    if count == 225:
        key = "rows => rows.map(row => Number(row.cells[4].dataset.key))"
        for order in (sorted, lambda keys: sorted(keys, reverse=True)):
            await page.get_by_role("button", name="Sent").click()
            shown = await page.eval_on_selector_all("tbody tr:not(.more)", key)
            assert shown == order(shown)
        await page.locator("th button", has_text="Exercise").click()
        names = await page.eval_on_selector_all(
            "tbody tr:not(.more)", "rows => rows.map(row => row.cells[0].innerText)"
        )
        assert names[0].startswith("cpp/")
        assert names[-1].startswith("rust/")
    assert said == [file.as_uri()]
    await page.close()
