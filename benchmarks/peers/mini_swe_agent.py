"""mini-swe-agent: each turn runs a command in a shell, which is what this agent does."""

import os
import tempfile
from pathlib import Path

folder = Path(tempfile.mkdtemp(prefix="headgate-bench-"))
(folder / "module.py").write_text("def handler(event, context): return process(event)\n" * 20)
os.environ |= {
    "BENCHMARK_FILE": str(folder / "module.py"),
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "MSWEA_COST_TRACKING": "ignore_errors",
    "MSWEA_GLOBAL_CONFIG_DIR": str(folder),
    "MSWEA_SILENT_STARTUP": "1",
}

import minisweagent.config
import yaml
from minisweagent.agents.default import DefaultAgent
from minisweagent.environments.local import LocalEnvironment
from minisweagent.models.litellm_model import LitellmModel
from session import TASK, Place, measure

CONFIG = yaml.safe_load((Path(minisweagent.config.__file__).parent / "mini.yaml").read_text())


def session(url: str, turns: int, place: Place) -> str:
    """One task."""
    given = {name: value for name, value in CONFIG["model"].items() if name != "model_kwargs"}
    to = {"api_base": url, "api_key": "x", "drop_params": True}
    model = LitellmModel(model_name="openai/fake", model_kwargs=to, **given)
    texts = {name: CONFIG["agent"][name] for name in ("system_template", "instance_template")}
    environment = LocalEnvironment(**CONFIG["environment"])
    return str(
        DefaultAgent(model, environment, step_limit=0, cost_limit=0.0, **texts).run(TASK)["submission"]
    )


measure(session, script="bash")
