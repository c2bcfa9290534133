"""A cheaper model writes the summaries of ended stages, in requests of its own."""

import os

from headgate import Flow, Stage, run_flow_sync

SHARED = {"view": {"transcript": "parent"}}
flow = Flow(
    name="shared",
    compaction={
        "agent": {
            "model": "cheap",
            "system_prompt": "You are a task summarizer. Extract key outcomes, decisions, and any errors.",
            "output_schema": {
                "type": "object",
                "properties": {
                    "summary": {"type": "string"},
                    "key_outputs": {"type": "array", "items": {"type": "string"}},
                    "decisions": {"type": "array", "items": {"type": "string"}},
                    "errors": {"type": "array", "items": {"type": "string"}},
                },
                "required": ["summary", "key_outputs", "decisions"],
            },
        }
    },
    stages=[
        Stage(id="gather", prompt="Gather the data.", options=SHARED),
        Stage(id="write", needs=["gather"], prompt="Write the report.", options=SHARED),
    ],
)

if __name__ == "__main__":
    cheap = os.environ.get("CHEAP_MODEL", "openai/qwen3-4b")
    result = run_flow_sync(flow, input="A report about bees.", models={"cheap": cheap})
    print(result.status, result["write"].note.summary)
