"""Requests in a row that the server of a model did not answer."""

from dataclasses import dataclass


@dataclass(slots=True)
class Unanswered:
    """Counts them, from the first after an answer."""

    count: int = 0
    since: float = 0.0
    """When the first of them failed."""
    server: str = ""
    """What the server is at; empty where it is there, and answers with an error."""
    reason: str = ""
    """What the latest one said."""
    is_news: bool = False
    """That is not what the one before it said."""
    is_away_again: bool = False
    """The one before it found the server at the same."""
    refused: bool = False
    """The server will not answer however often it is asked."""

    def take(self, detail: str, server: str, at: float, *, refused: bool) -> None:
        """Takes a request that failed."""
        self.is_news = self.reason != detail
        self.is_away_again = self.count > 0 and self.server == server
        self.reason, self.server, self.refused = detail, server, refused
        self.since = self.since if self.count else at
        self.count += not self.refused

    def seconds(self, at: float) -> float:
        """From the first of them to a time at which there was no answer."""
        return max(at - self.since, 0.0) if self.count else 0.0
