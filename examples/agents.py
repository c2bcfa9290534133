"""Another agent carries a stage out: a model of its own, in a conversation of its own.

What it says stays there. The stages around it get its result as one message.
"""

import os

from pydantic import BaseModel

from headgate import Flow, Stage, run_flow_sync

SHARED = {"view": {"transcript": "parent"}}
"""These stages continue one conversation."""


class Clauses(BaseModel):
    risky: list[str]


flow = Flow(
    name="contract",
    variables={"PROJECT_NAME": "Hive", "CODING_STANDARDS": "PEP 8", "CLIENT": "secret"},
    stages=[
        Stage(id="simple", name="Format document", agent={"model": "cheap"}),
        Stage(id="read", name="Read the contract", needs=["simple"], options=SHARED),
        Stage(
            id="complex",
            name="Analyze legal contract",
            needs=["read"],
            agent={"model": "strong", "options": {"temperature": 0.2}, "context_transfer": "full"},
            output_schema=Clauses,
        ),
        Stage(
            id="specialized",
            name="Generate code",
            needs=["complex"],
            agent={
                "context_transfer": "summary",  # "full" | "summary" | "minimal"
                "inherit_tools": True,
                "inherit_variables": ["PROJECT_NAME", "CODING_STANDARDS"],
            },
        ),
        Stage(id="report", name="Write the report", needs=["specialized"], options=SHARED),
    ],
)

if __name__ == "__main__":
    models = {
        "cheap": os.environ.get("CHEAP_MODEL", "openai/qwen3-4b"),
        "strong": os.environ.get("STRONG_MODEL", "openai/qwen3-coder"),
    }
    result = run_flow_sync(flow, input="Check the contract.", models=models)
    print(result["complex"].output.risky, result["report"].note.summary)
