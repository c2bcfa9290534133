"""What `headgate doctor` says about how tools will be called."""

import asyncio
from dataclasses import replace

from headgate.cli.checkup import Finding
from headgate.core.messages import Reply
from headgate.core.settings import ModelSettings
from headgate.models.failures import ToolsUnsupported

CHECK = "tool transport"
_IGNORED = "this server does not enforce a schema"


async def check_transport(
    settings: ModelSettings, answer: Reply | ToolsUnsupported, fresh: bool, total: float
) -> Finding | None:
    """The transport that a task would begin with, and why; None where there is nothing to choose.

    `answer` is what the question with a tool brought: with `fresh`, or where nothing is remembered, the probe
    goes on from there.
    """
    # The HTTP client is slow to import, and most checks do without.
    from headgate.models.profile import find_profile
    from headgate.models.transports.opening import find_out, is_asked

    named = settings.tool_transport if settings.tool_transport != "auto" else None
    configured = Finding(CHECK, "ok", f"{named}, as configured")
    if named in ("native", "text"):
        return configured
    if not is_asked(settings):
        return configured if named else None
    try:
        async with asyncio.timeout(total):
            found = await find_out(settings, first=answer, fresh=fresh)
    except TimeoutError:
        found = None
    if named and found and found.constrains is False:
        return Finding(CHECK, "warn", f"{configured.detail}, but {_IGNORED}", "Leave tool_transport out.")
    if named:
        return configured
    if found is None:
        return Finding(CHECK, "note", "native: the server did not answer the probe")
    chosen = found.choose(find_profile(settings.model.partition("/")[2]))
    return Finding(CHECK, "ok", f"{chosen}: {found.describe()}")


def ease(finding: Finding, transport: Finding | None) -> Finding:
    """A failure of the server's own calls, where tools are called in another way."""
    if transport is None or transport.detail.startswith("native") or finding.status == "ok":
        return finding
    if finding.status == "warn":
        return replace(finding, fix="Headgate calls tools in another way.")
    return replace(
        finding, status="warn", fault="", fix=f"Headgate calls tools in another way. {finding.fix}"
    )
