"""What `headgate doctor` asks of the model: is it there, does it stream, does it call tools?

The server's list of models is asked for, and one question with one tool. Where nothing is remembered of how
the model calls tools, or with `--fresh`, two more tiny questions may follow; tasks then go by the answers.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import replace
from pathlib import Path

from headgate import models
from headgate.cli.model_choice import addresses_to_ask, describe_server
from headgate.cli.setup_checks import DoctorFinding, configuration_fault, environment_fault
from headgate.config import Config, provider_of, same_server, show_address
from headgate.core import Delta, ModelSettings, Reply, nearest
from headgate.errors import ConfigError, HeadgateError, ModelError, ModelRefused
from headgate.models import find_endpoint, find_profile, is_hosted
from headgate.models.network import (
    PROBE_TOOL,
    USUAL_ADDRESSES,
    KeyRefused,
    ModelUnknown,
    QuotaSpent,
    ServerTrouble,
    ToolsUnsupported,
    ask_loaded_window,
    can_be_probed,
    explain_remedy,
    find_server_facts,
    find_servers,
    identify_server,
    judge_calls,
    list_models,
    open_wire,
    question_with_tool,
    rank_models,
    with_num_ctx,
)

CHECK = "tool transport"
_IGNORED = "this server does not enforce a schema"


async def check_transport(
    settings: ModelSettings, answer: Reply | ToolsUnsupported, fresh: bool, total: float
) -> DoctorFinding | None:
    """The transport that a task would begin with, and why; None where there is nothing to choose.

    `answer` is the reply to the question with a tool. With `fresh`, or where nothing is remembered, the probe
    goes on from there.
    """
    named = settings.tool_transport if settings.tool_transport != "auto" else None
    configured = DoctorFinding(CHECK, "ok", f"{named}, as configured")
    if named in ("native", "text"):
        return configured
    if not can_be_probed(settings):
        return configured if named else None
    try:
        async with asyncio.timeout(total):
            found = await find_server_facts(settings, first=answer, fresh=fresh)
    except TimeoutError:
        found = None
    if named and found and found.constrains is False:
        return DoctorFinding(
            CHECK, "warn", f"{configured.detail}, but {_IGNORED}", "Leave tool_transport out."
        )
    if named:
        return configured
    if found is None:
        return DoctorFinding(CHECK, "note", "native: the server did not answer the probe")
    chosen = found.choose(find_profile(settings.model.partition("/")[2]))
    return DoctorFinding(CHECK, "ok", f"{chosen}: {found.describe()}")


def relax_finding(finding: DoctorFinding, transport: DoctorFinding | None) -> DoctorFinding:
    """A failure of the server's own calls, where tools are called in another way."""
    if transport is None or transport.detail.startswith("native") or finding.status == "ok":
        return finding
    if finding.status == "warn":
        return replace(finding, fix="Headgate calls tools in another way.")
    return replace(
        finding, status="warn", fault="", fix=f"Headgate calls tools in another way. {finding.fix}"
    )


SMALL_WINDOW = 16_384
"""A task's prompt outgrows less than this within a few turns."""


async def check_window(settings: ModelSettings) -> DoctorFinding | None:
    """The window that Ollama has loaded the model with; None where another server is asked, or it is fine.

    To be called after a reply: only then is the model loaded.
    """
    provider = provider_of(settings.model)
    if provider not in ("ollama", "openai"):
        return None
    endpoint = find_endpoint(settings)
    kind, _ = await identify_server(endpoint, settings.timeouts)
    if kind not in ("ollama", "ollama-api"):
        return None
    window = await ask_loaded_window(endpoint, settings.timeouts) or settings.num_ctx
    if window is None:
        return None
    detail = f"{window:,} tokens"
    if kind == "ollama":
        detail += ", and Ollama silently cuts off what does not fit"
    if window >= SMALL_WINDOW:
        return DoctorFinding("context window", "ok", f"{window:,} tokens")
    return DoctorFinding("context window", "warn", detail, f"{explain_remedy(kind, endpoint.model)}.")


def judge_speed(reply: Reply) -> DoctorFinding | None:
    """How fast the model writes and how long it took to load, where its server tells.

    How fast it reads is not told: the question is too short for that.
    """
    timing, written = reply.timing, reply.usage.completion
    if timing is None or not timing.completion or not written:
        return None
    loaded = f"; the server loaded it in {timing.load:.0f} s" if timing.load >= 1 else ""
    return DoctorFinding(
        "speed", "ok", f"the model writes {written / timing.completion:.0f} tokens per second{loaded}"
    )


async def list_servers(environ: Mapping[str, str]) -> list[DoctorFinding]:
    """The model servers on this machine, for somebody who has yet to name a model."""
    servers = await find_servers(addresses_to_ask(environ))
    best = rank_models(servers)
    found = [DoctorFinding("server", "note", describe_server(server)) for server in servers]
    if best:
        where = f" and base_url: {best[0].base_url}" if best[0].base_url else ""
        found[-1] = DoctorFinding("server", "note", found[-1].detail, f"Write model: {best[0].spec}{where}.")
    return found


Say = Callable[[str], None]

_SWITCH_ON = (
    "Turn on tool calling in the server. llama.cpp: start llama-server with --jinja. "
    "vLLM: start it with --enable-auto-tool-choice --tool-call-parser NAME. "
    "Ollama: choose a model with the tag `tools`. LM Studio: choose a model that is marked for tool use."
)
_SWITCHES = {
    "--jinja": "Start llama-server with --jinja.",
    "--enable-auto-tool-choice": "Start vLLM with --enable-auto-tool-choice and the --tool-call-parser that "
    "fits the model.",
    "does not support tools": "Choose a model that can call tools; on Ollama, one with the tag `tools`.",
}
_NO_LIST = "it does not list its models"
_PROXY = "If this machine needs a proxy to reach the internet, set HTTPS_PROXY."
_FIXES = {
    # What to do is in the sentence itself; this is what one then needs to know.
    "unreachable": "Usual addresses: {addresses}.",
    "loading": "Wait until the server has loaded its model, then run this again.",
    "busy": "Wait and run this again; if it happens again, check the limits of your account.",
    "broken": "Check the model server's log: the server failed.",
    "silent": "The model may still be loading, or it may be too large for this machine: check the "
    "server, or choose a smaller model.",
    "cut": "The connection to the server broke: check its log, because it may have crashed.",
}


PATIENCE, FIRST_TOKEN = 180.0, 120.0
"""How long the model is waited for, in seconds: for its whole reply, and for the beginning of it."""


async def examine_model(
    config: Config,
    repo: Path,
    say: Say,
    patience: float,
    fresh: bool = False,
    environ: Mapping[str, str] | None = None,
) -> AsyncIterator[DoctorFinding]:
    """Whether the default model is configured, reachable, streaming and able to call tools.

    Where none is configured that can be asked, the servers that `environ` leads to are listed.
    """
    try:
        settings = config.model_settings()
        if provider_of(settings.model) == "script":
            try:
                models.check_model(settings, repo)
                yield DoctorFinding("model", "ok", settings.model)
            except HeadgateError as error:
                yield configuration_fault("model", str(error))
            return
        models.check_model(settings, repo)
    except ConfigError as error:
        yield configuration_fault("model", str(error))
        for finding in await list_servers(environ) if environ is not None else ():
            yield finding
        return
    where = f" at {show_address(settings.base_url)}" if settings.base_url else ""
    yield DoctorFinding("model", "ok", f"{settings.model}{where}")
    limit = min(settings.timeouts.first_token, FIRST_TOKEN, patience)
    waits = settings.timeouts.model_copy(update={"first_token": limit})
    settings = settings.model_copy(update={"timeouts": waits})
    try:
        async for finding in _check_server(settings, say, patience, fresh):
            yield finding
    except ConfigError as error:
        yield configuration_fault("model", str(error))


async def _check_server(
    settings: ModelSettings, say: Say, total: float, fresh: bool
) -> AsyncIterator[DoctorFinding]:
    if provider_of(settings.model) == "ollama":
        settings = await with_num_ctx(settings)
    offered: list[str] | None = None
    say("Asking the server for its models ...")
    try:
        async with asyncio.timeout(total):
            offered = await list_models(settings)
        told = _NO_LIST if offered is None else f"{len(offered)} model{'s' * (len(offered) != 1)}"
    except KeyRefused:
        # Some keys may ask a model and not see the list; whether this one may, the question below shows.
        told = "it does not list its models for this key"
    except TimeoutError:
        yield environment_fault("server", f"it did not list its models in {total:g} s", _FIXES["silent"])
        return
    except ModelError as error:
        yield _model_fault("server", error, settings)
        return
    reached = DoctorFinding("server", "ok", f"reachable, {told}")
    if told != _NO_LIST:
        yield reached
    async for finding in _check_reply(settings, offered, say, total, fresh):
        if told == _NO_LIST and finding.check not in ("reply", "model name"):
            # It lists no models, but it has answered like a model server.
            told = ""
            yield reached
        yield finding


async def _check_reply(
    settings: ModelSettings, offered: list[str] | None, say: Say, total: float, fresh: bool
) -> AsyncIterator[DoctorFinding]:
    name = settings.model.partition("/")[2]
    listed = offered is None or name in offered or f"{name}:latest" in offered
    pieces: list[Delta] = []
    question = question_with_tool(settings.max_tokens)
    say(f"Asking the model, waiting at most {total:g} s ...")
    try:
        async with asyncio.timeout(total), open_wire(settings) as model:
            reply = await model.reply(question, pieces.append)
    except TimeoutError:
        heard = "did not finish" if pieces else "did not answer"
        yield environment_fault("reply", f"the model {heard} in {total:g} s", _FIXES["silent"])
        return
    except ModelUnknown as error:
        close = nearest(name, offered or [])
        fix = f"Did you mean {settings.model.partition('/')[0]}/{close}?" if close else ""
        yield configuration_fault("model name", str(error), fix)
        return
    except ToolsUnsupported as error:
        fix = next((fix for sign, fix in _SWITCHES.items() if sign in str(error)), _SWITCH_ON)
        transport = await check_transport(settings, error, fresh, total)
        yield relax_finding(environment_fault("tool calls", str(error), fix), transport)
        if transport:
            yield transport
        return
    except ModelError as error:
        yield _model_fault("reply", error, settings)
        return
    if not listed:
        yield DoctorFinding("model name", "note", f'the server accepts "{name}" but does not list it')
    count = sum(bool(piece.text or piece.reasoning or piece.arguments) for piece in pieces)
    if count > 1:
        yield DoctorFinding("streaming", "ok", f"a reply arrived in {count} pieces")
    elif provider_of(settings.model) != "ollama":  # it sends every call in one piece, as it should
        yield DoctorFinding(
            "streaming", "note", "a reply arrived in one piece: a task's progress will be less visible"
        )
    transport = await check_transport(settings, reply, fresh, total)
    yield relax_finding(judge_tool_call(reply, settings.model), transport)
    if transport:
        yield transport
    for finding in (judge_speed(reply), await check_window(settings)):
        if finding:
            yield finding


def judge_tool_call(reply: Reply, model: str) -> DoctorFinding:
    """What a reply to the question says about the model and its server."""
    message = reply.message
    native = judge_calls(reply, find_profile(model.partition("/")[2]))
    if native == "calls" and any(call.name == PROBE_TOOL.name for call in message.calls):
        return DoctorFinding("tool calls", "ok", "the model called the tool as asked")
    if message.calls:
        called = message.calls[0].name[:60]
        detail = (
            f'the model did not call {PROBE_TOOL.name} as asked: it called "{called}" with other arguments'
        )
        return DoctorFinding("tool calls", "warn", detail, "It may work badly: choose another model.")
    if native == "text":
        detail = "the server does not turn the model's calls into tool calls: they arrived as text"
        return environment_fault("tool calls", detail, _SWITCH_ON)
    if native == "unknown":
        detail = f"the model had not called the tool after {question_with_tool().max_tokens} tokens"
    elif message.content.strip():
        detail = "the model answered in words instead of calling the tool"
    else:
        detail = "the model answered nothing instead of calling the tool"
    return DoctorFinding("tool calls", "warn", detail, f"It may still work. If not: {_SWITCH_ON}")


def _model_fault(check: str, error: ModelError, settings: ModelSettings) -> DoctorFinding:
    if (
        isinstance(error, ServerTrouble)
        and error.cause == "unreachable"
        and is_hosted(find_endpoint(settings))
    ):
        return environment_fault(check, str(error), _PROXY)
    if isinstance(error, ServerTrouble):
        return environment_fault(
            check, str(error), _FIXES[error.cause].format(addresses=other_addresses(settings))
        )
    if isinstance(error, QuotaSpent):
        return environment_fault(check, str(error), "Check the quota and the billing of your account.")
    if isinstance(error, KeyRefused):
        return configuration_fault(check, str(error))  # it says what to do
    if isinstance(error, ModelRefused):
        return configuration_fault(check, str(error), "Check `model`, `base_url` and the model's settings.")
    return environment_fault(check, str(error), "Check the model server's log, or choose another model.")


def other_addresses(settings: ModelSettings) -> str:
    """The usual addresses of model servers, without the one that has just been tried."""
    tried = same_server(find_endpoint(settings).root)
    usual = ((name, f"{root}/v1") for name, root in USUAL_ADDRESSES)
    return ", ".join(f"{name} {address}" for name, address in usual if same_server(address) != tried)
