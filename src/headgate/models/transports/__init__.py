"""Transports: ways to call tools. Each one wraps a model and is a model itself."""
