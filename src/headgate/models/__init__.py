"""Talking to models: one protocol, one module per wire format."""
