"""The page."""

from fastapi import FastAPI

from headgate.server.access import Access
from headgate.server.service import Service


def add_pages(app: FastAPI, service: Service, access: Access) -> None:
    """Placeholder until the templates are there."""
