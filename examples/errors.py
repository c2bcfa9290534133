"""A stage that fails is tried again, after 1, 2 and 4 seconds, and is then skipped."""

from headgate import Callbacks, Flow, Stage, run_flow_sync

flow = Flow(
    name="careful",
    on_error="retry",
    max_retries=1,
    retry_backoff="exponential",
    on_max_retries="skip",
    stages=[
        Stage(
            id="risky", prompt="Try it.", output_schema={"type": "integer"}, options={"budget": {"turns": 1}}
        ),
        Stage(id="rest", prompt="Do the rest."),
    ],
)

if __name__ == "__main__":
    skipped: list[str] = []
    result = run_flow_sync(
        flow, input="Be careful.", callbacks=Callbacks(on_skip=lambda stage, why: skipped.append(stage))
    )
    print(result.status, result["risky"].status, result["rest"].status, skipped)
