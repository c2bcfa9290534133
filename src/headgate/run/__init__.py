"""The loop: turn, stage, flow."""
