"""What `headgate doctor` says about a model's context window and speed, and about servers that are there."""

from collections.abc import Mapping

from headgate.cli.checkup import Finding
from headgate.config.schema import provider_of
from headgate.core.messages import Reply
from headgate.core.settings import ModelSettings
from headgate.models.base import find_endpoint

SMALL_WINDOW = 16_384
"""A task's prompt outgrows less than this within a few turns."""


async def check_window(settings: ModelSettings) -> Finding | None:
    """The window that Ollama has loaded the model with; None where another server is asked, or it is fine.

    To be called after a reply: only then is the model loaded.
    """
    # The HTTP client is slow to import, and most checks do without.
    from headgate.models.transports.cutting import explain_remedy
    from headgate.models.transports.servers import ask_loaded_window, identify

    provider = provider_of(settings.model)
    if provider not in ("ollama", "openai"):
        return None
    endpoint = find_endpoint(settings)
    kind, _ = await identify(endpoint, settings.timeouts)
    if kind not in ("ollama", "ollama-api"):
        return None
    window = await ask_loaded_window(endpoint, settings.timeouts) or settings.num_ctx
    if window is None:
        return None
    detail = f"{window:,} tokens"
    if kind == "ollama":
        detail += ", and Ollama silently cuts off what does not fit"
    if window >= SMALL_WINDOW:
        return Finding("context window", "ok", f"{window:,} tokens")
    return Finding("context window", "warn", detail, f"{explain_remedy(kind, endpoint.model)}.")


def judge_speed(reply: Reply) -> Finding | None:
    """How fast the model writes and how long it took to load, where its server tells.

    How fast it reads is not told: the question is too short for that.
    """
    timing, written = reply.timing, reply.usage.completion
    if timing is None or not timing.completion or not written:
        return None
    loaded = f"; the server loaded it in {timing.load:.0f} s" if timing.load >= 1 else ""
    return Finding(
        "speed", "ok", f"the model writes {written / timing.completion:.0f} tokens per second{loaded}"
    )


async def list_servers(environ: Mapping[str, str]) -> list[Finding]:
    """The model servers on this machine, for somebody who has yet to name a model."""
    from headgate.cli.modelchoice import describe_server, places_to_look
    from headgate.models.discovery import best_first, find_servers

    servers = await find_servers(places_to_look(environ))
    best = best_first(servers)
    found = [Finding("server", "note", describe_server(server)) for server in servers]
    if best:
        where = f" and base_url: {best[0].base_url}" if best[0].base_url else ""
        found[-1] = Finding("server", "note", found[-1].detail, f"Write model: {best[0].spec}{where}.")
    return found
