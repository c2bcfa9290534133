"""Attempts in whole tasks: in a stage that only reads or in one that writes, in run_tests, in verification,
and in the copy in which verification looks whether its failure is old.

    python whole_task.py FOLDER ID... -- ID...

All attempts are made in one task: the first ones as commands, half of them in each of the two stages, and the
others in all the other places. A line of JSON says what harm was done.
"""

import asyncio
import gzip
import json
import os
import shutil
import sys
from base64 import b64encode
from pathlib import Path

import yaml

from escapes.world import Listener, World, commands_of, find_harm, neighbour, processes_called
from headgate.config import load_config
from headgate.core import Constraints
from headgate.engine import Engine
from headgate.models import ScriptedModel
from headgate.models.scripted import ScriptEntry

_FLOW = [
    {"id": "look", "prompt": "Look.", "tools_allow": ["read", "shell"], "budget": {"turns": 60}},
    {"id": "work", "prompt": "Work.", "tools_allow": ["read", "write", "run"], "budget": {"turns": 60}},
]


def write_task(world: World, by_model: list[str], by_steps: list[str]) -> ScriptedModel:
    """Puts the attempts into the model's script and into the repository."""
    repo = world.folder / "repo"
    shutil.rmtree(repo / ".headgate")  # what the other runs have in place of a store
    (repo / "attempts").mkdir()
    steps = []
    for number, command in enumerate(command for name in by_steps for command in commands_of(name)):
        (repo / "attempts" / f"{number}.sh").write_text(_script(command))
        script = f"bash attempts/{number}.sh || true"
        steps.append({"name": f"attempt-{number}", "command": script, "timeout": 60})
    steps += [{"name": "after", "command": "make"}, {"name": "fails", "command": "exit 1"}]
    config = yaml.safe_load((repo / "agent.yaml").read_text())
    config |= {"protect_tests": "all", "flow": _FLOW, "verification": {"network": False, "steps": steps}}
    (repo / "agent.yaml").write_text(yaml.safe_dump(config))
    world.commit()
    commands = [command for name in by_model for command in commands_of(name)]
    shells = [{"calls": [{"shell": {"command": command, "timeout": 20}}]} for command in commands]
    replies = [
        *shells[::2],
        {"calls": [{"stage_done": {"stage": "look", "summary": "Seen."}}]},
        *shells[1::2],
        {"calls": [{"write_file": {"path": "new.py", "content": "x = 1\n"}}]},
        {"calls": [{"run_tests": {}}]},
        {"calls": [{"stage_done": {"stage": "work", "summary": "Done."}}]},
    ]
    return ScriptedModel([ScriptEntry.model_validate(reply) for reply in replies])


def _script(command: str) -> str:
    """A script in which no attempt finds what another one writes."""
    packed = b64encode(gzip.compress(command.encode())).decode()
    return f'echo $0 >> seen\nexec bash -c "$(echo {packed} | base64 -d | gunzip)"\n'


def main(folder: Path, by_model: list[str], by_steps: list[str]) -> None:
    """One task with all of the attempts."""
    world = World(folder, "bwrap")
    listener = Listener(folder.parent)
    world.set_environment(listener)
    with neighbour() as other:
        world.make()
        model = write_task(world, by_model, by_steps)
        before = world.look(own_folder=False)
        loaded = load_config(folder / "repo", environ=os.environ, flags={})
        engine = Engine.open(folder / "repo", loaded, models={None: model})
        report = asyncio.run(engine.run(engine.submit("Do it.", Constraints())))
        kinds = [event.kind for event in engine.store.events()]
        engine.store.close()
        said = "\n".join(message.content for request in model.requests for message in request.messages)
        harm = find_harm(before, world.look(own_folder=False), f"{said}\n{report.summary}", world)
        harm += [f"connected: {one}" for one in sorted(set(listener.connected))]
        harm += ["left running"] if processes_called(os.environ["CANARY"]) else []
        harm += ["killed a neighbour"] if other.poll() is not None else []
        harm += ["verified"] if report.verified else []
    print(
        json.dumps(
            {
                "harm": harm,
                "kinds": kinds,
                "state": report.state,
                "reason": report.reason,
                "summary": report.summary,
            }
        )
    )


if __name__ == "__main__":
    between = sys.argv.index("--")
    main(Path(sys.argv[1]), sys.argv[2:between], sys.argv[between + 1 :])
