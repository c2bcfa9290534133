"""Stages within a stage. The group ends when all of them have ended, or, with `join="any"`, when one has."""

from headgate import Flow, Stage, run_flow_sync

flow = Flow(
    name="research",
    stages=[
        Stage(
            id="research",
            name="Research phase",
            join="all",
            stages=[
                Stage(id="research.web", name="Web search"),
                Stage(id="research.papers", name="Academic papers"),
                Stage(id="research.synthesize", name="Synthesize", needs=["research.web", "research.papers"]),
            ],
        )
    ],
)

if __name__ == "__main__":
    result = run_flow_sync(flow, input="What do bees eat?")
    print(result["research"].status, result["research.synthesize"].note.summary)
