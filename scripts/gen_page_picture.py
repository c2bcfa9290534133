"""Writes docs/page.png: what `headgate serve` shows of the demo's task. Needs Playwright and Chromium."""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

TARGET = Path(__file__).parents[1] / "docs" / "page.png"
WIDTH, HEIGHT = 1120, 1000


def main() -> None:
    """Runs the demo, serves its repository, and takes the picture."""
    headgate = [sys.executable, "-m", "headgate"]
    with tempfile.TemporaryDirectory() as place:
        repo = Path(place) / "basket"
        subprocess.run([*headgate, "demo", "--into", str(repo)], check=True, capture_output=True)
        serving = [*headgate, "serve", "--port", "0", "--no-worker"]
        with subprocess.Popen(serving, cwd=repo, stderr=subprocess.PIPE, text=True) as server:
            assert server.stderr is not None
            take_picture(server.stderr.readline().split()[-1])
            server.terminate()


def take_picture(url: str) -> None:
    """The upper part of the task's page."""
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT})
        page.goto(f"{url}/tasks/t1")
        page.screenshot(path=TARGET)
        browser.close()


if __name__ == "__main__":
    main()
