"""The API against its own description: schemathesis sends what the document allows, and what it does not."""

import asyncio
import sys
from pathlib import Path

from serving import make_repo, serving

EXAMPLES = 3
SETTINGS = "task_flow_mode: flat\nverification: {steps: [{name: tests, command: 'true'}]}\n"


async def test_the_api_does_what_its_description_says(tmp_path: Path) -> None:
    repo = make_repo(tmp_path, SETTINGS)
    async with serving(repo, works=False) as server:
        command = [sys.executable, "-m", "schemathesis.cli", "run", f"{server.url}/openapi.json"]
        # Streams do not end, so there is no answer to wait for; test_feed.py is about them.
        command += ["--exclude-path-regex", ".*/events$"]
        # A queued task that is cancelled leaves nothing: "created, but not found" is what was asked for.
        command += ["--checks", "all", "--exclude-checks", "ensure_resource_availability"]
        command += [
            "--phases",
            "examples,coverage,fuzzing",
            "--max-examples",
            str(EXAMPLES),
            "--seed",
            "1",
            "--no-color",
        ]
        running = await asyncio.create_subprocess_exec(
            *command, cwd=tmp_path, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
        )
        said = (await running.communicate())[0].decode()
    assert running.returncode == 0, said
    assert "Tested: 14" in said
