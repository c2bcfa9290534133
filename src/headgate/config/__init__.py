"""`agent.yaml`, flows and prompts: what a user may change, typed and checked when it is loaded."""
