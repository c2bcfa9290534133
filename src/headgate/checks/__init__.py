"""What must hold to leave a stage or to end a flow."""
