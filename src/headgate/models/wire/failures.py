"""Failures of servers: which model error a status and a body, or a broken connection, stand for."""

import errno
import re
import socket
import ssl
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from math import isfinite
from typing import Any, Literal
from urllib.parse import urlsplit

from headgate.errors import ContextOverflow, ModelError, ModelRefused, ModelUnavailable, ReplyInvalid
from headgate.first_use import dataclass, regex
from headgate.models.encoding import decode_json, encode_json, mapping_in
from headgate.models.endpoint import DEFAULT_URLS, Endpoint, is_hosted
from headgate.models.wire.connection import CannotConnect, NotHttp
from headgate.models.wire.http1 import ProxyFailed

_OVERFLOW = regex(
    r"exceed_context_size|exceeds? the available context size"  # llama.cpp
    r"|context_length_exceeded|maximum context length|exceeds? the context window"  # OpenAI, vLLM, SGLang
    r"|longer than the (maximum )?model('s)? (length|context)|too long to fit into the model"  # vLLM
    r"|longer than the model's context length|max_tokens must be at least 1, got -"  # SGLang, vLLM
    r"|input length exceeds|exceeds? (the )?max(imum)? context|longer than the context length"  # Ollama
    r"|exceeds? (the )?context (length|limit|size)"
    r"|prompt (is )?too long|exceed context limit|request_too_large"  # Anthropic, Ollama
    r"|tokens when (the )?context (the )?overflows|reached context length of"  # LM Studio
    r"|greater than the context length"
    r"|input token count.{0,40}exceeds the maximum|reduce the length of the (messages|prompt|input)"  # others
    r"|too large for model with \d+ maximum context|context.window.(is )?(exceeded|full)"
)
_TOO_LARGE_FOR_ANY_WAIT = regex(r"request too large for|(input|output) tokens must be reduced")
_REPLY_UNUSABLE = regex(
    r"tool_use_failed|output_parse_failed|json_validate_failed|malformed_function_call"
    r"|failed to parse tool call|error parsing tool call|tool call validation failed"
    r"|failed to call a function"
    r"|failed to parse (the )?(model )?(output|generation|input at pos)|could not parse tool call"
    r"|harmonyerror|unexpected tokens remaining in message header"
)
_NO_TOOLS = regex(
    r"requires? --jinja"  # llama.cpp
    r"|--enable-auto-tool-choice|--tool-call-parser"  # vLLM, SGLang
    r"|does(n't| not) support (tools|tool use|tool calling|function calling)"  # Ollama, others
    r"|(tools|tool use|tool calling|function calling) (is|are) not supported"
    r"|no endpoints found that support tool use"
)
_NO_GRAMMAR = regex(
    r"failed to (parse|initiali[sz]e|create|compile) .{0,20}(grammar|sampler)"  # llama.cpp
    r"|error parsing grammar|json schema (conversion|error)|invalid json schema in format"  # the same, Ollama
)
_QUOTA = regex(r"insufficient_quota|insufficient credits|exceeded your current quota|billing_error")
_LOADING = regex(
    r"(?<!error )(?<!while )(?<!failed )(?<!no )\bloading (the )?model\b"  # llama.cpp, Ollama
    r"|model_loading|model\b.{0,200}\bis (currently |still )?(being loaded|loading)\b"  # LM Studio, others
    r"|\bstill loading\b"
)
_LOADING_SECONDS = 15.0
_UNKNOWN_MODEL = regex(
    r"model_not_found|(unknown|invalid|no such) model\b|model\b.{0,200}\b(not found|(does not|doesn't) exist)"
)
_STATUS_OF_TYPE = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "rate_limit_exceeded": 429,
    "api_error": 500,
    "server_error": 500,
    "timeout_error": 504,
    "overloaded_error": 529,
}
_WAIT = {408, 409, 425, 429}
_DETAIL_CHARS = 300
_MASKED_KEY = regex(r"\S*\*{3,}\S*")
_TITLE = regex(r"<title[^>]*>(.*?)</title>", re.IGNORECASE | re.DOTALL)


Cause = Literal["unreachable", "loading", "busy", "away", "broken", "silent", "cut"]
_IS_THERE = ("broken", "silent")
_GATEWAY = {502, 503, 504}
"""What is said for a server that is not there, or not ready."""


class ServerTrouble(ModelUnavailable):
    """No reply for now, and why: what a person can do about it depends on that."""

    def __init__(self, message: str, cause: Cause, *, retry_after: float | None = None) -> None:
        super().__init__(message, retry_after=retry_after)
        self.cause = cause
        self.server = "loading" if cause == "loading" else "" if cause in _IS_THERE else "away"


class KeyRefused(ModelRefused):
    """The server does not accept the API key."""


class QuotaSpent(ModelRefused):
    """The account may ask no more; waiting does not change that."""


class ToolsUnsupported(ModelRefused):
    """The server, as it was started, or the model cannot take tools."""


class ModelUnknown(ModelRefused):
    """The server has no such model, or nothing at this address."""


class RequestRejected(ModelRefused):
    """The server objects to the request's form; `detail` is all of what it said."""

    def __init__(self, message: str, detail: str) -> None:
        super().__init__(message)
        self.detail = detail


@dataclass(frozen=True, slots=True)
class Complaint:
    """What a server said in place of a reply."""

    message: str = ""
    code: str = ""
    type: str = ""
    status: int | None = None
    generation: str = ""
    """What the model had written, where the server could not read it."""

    @property
    def text(self) -> str:
        return f"{self.code} {self.type} {self.message}".lower()


def explain_response(endpoint: Endpoint, status: int, headers: Mapping[str, str], body: bytes) -> ModelError:
    """The error for an answer with a status other than 200."""
    moved = 300 <= status < 400 and headers.get("Location")
    return _explain(endpoint, status, Complaint(moved) if moved else read_body(body), retry_after(headers))


def explain_event(endpoint: Endpoint, payload: Mapping[str, Any]) -> ModelError:
    """The error for a complaint that came inside a reply, after the status 200."""
    complaint = read_complaint(payload)
    status = (
        complaint.status or _STATUS_OF_TYPE.get(complaint.type) or _STATUS_OF_TYPE.get(complaint.code) or 500
    )
    return _explain(endpoint, status, complaint, None)


def _explain(endpoint: Endpoint, status: int, complaint: Complaint, wait: float | None) -> ModelError:
    address = endpoint_label(endpoint)
    detail = safe_excerpt(endpoint, complaint.message)
    said = f": {detail}" if detail else ""
    said += "" if said.endswith((".", "!", "?", "…")) else "."
    text = complaint.text
    if status in (401, 403):
        return KeyRefused(
            f"{address} refused the API key (HTTP {status}){_MASKED_KEY.sub('(key)', said)} "
            "Set HEADGATE_API_KEY to a key that this server accepts for this model."
        )
    if status == 413 or _TOO_LARGE_FOR_ANY_WAIT.search(text) or (status != 429 and _OVERFLOW.search(text)):
        return ContextOverflow(f"The request does not fit the context of {endpoint.model}{said}")
    if _REPLY_UNUSABLE.search(text):
        wrote = safe_excerpt(endpoint, complaint.generation)
        wrote = f" It wrote: {wrote}" if wrote else ""
        error = ReplyInvalid(f"The server could not read the model's reply{said}{wrote}")
        error.said = complaint.generation
        return error
    if _NO_TOOLS.search(text):
        return ToolsUnsupported(f"{address} cannot offer tools to {endpoint.model} (HTTP {status}){said}")
    if status == 402 or _QUOTA.search(text):
        return QuotaSpent(f"{address} has no quota left for this account (HTTP {status}){said}")
    if status == 404 and endpoint.provider == "ollama" and "model" in text:
        return ModelUnknown(
            f'{address} does not have the model "{endpoint.model}" (HTTP {status}){said} '
            f"Get it with `ollama pull {endpoint.model}`, or choose one of those that `ollama list` shows."
        )
    if status in (404, 405):
        return ModelUnknown(
            f'{address} does not know the model "{endpoint.model}" or this address (HTTP {status}){said} '
            f"Check the model's name and base_url.{_hint_version(endpoint)}"
        )
    if 300 <= status < 400:
        return ModelRefused(
            f"{address} answers with a redirection (HTTP {status}){said} Set base_url to the new address."
        )
    if status in (501, 505):
        return ModelRefused(f"{address} cannot answer this request (HTTP {status}){said} Check base_url.")
    if (status >= 500 and not _NO_GRAMMAR.search(text)) or status in _WAIT:
        if _LOADING.search(complaint.message.lower()):
            wait = _LOADING_SECONDS if wait is None else wait
            return ServerTrouble(
                f"{address} is still loading its model (HTTP {status}){said}", "loading", retry_after=wait
            )
        cause: Cause = "busy" if status in (429, 529) else "away" if status in _GATEWAY else "broken"
        return ServerTrouble(f"{address} cannot answer now (HTTP {status}){said}", cause, retry_after=wait)
    if _UNKNOWN_MODEL.search(text):
        return ModelUnknown(f'{address} does not know the model "{endpoint.model}" (HTTP {status}){said}')
    return RequestRejected(f"{address} rejected the request (HTTP {status}){said}", complaint.message)


def endpoint_label(endpoint: Endpoint) -> str:
    """The server as an error text names it."""
    return f"The model server at {endpoint.root}"


def _hint_version(endpoint: Endpoint) -> str:
    if endpoint.provider == "openai" and not urlsplit(endpoint.root).path.strip("/"):
        return f" Most servers expect it to end in /v1: {endpoint.root}/v1"
    return ""


def safe_excerpt(endpoint: Endpoint, text: str) -> str:
    """A server's words on one short line, without control characters and without secrets."""
    for secret in endpoint.secrets:
        text = text.replace(secret, "(key)")
    text = "".join(char if char.isprintable() else " " for char in text)
    text = " ".join(text.split())
    return text if len(text) <= _DETAIL_CHARS else text[: _DETAIL_CHARS - 1] + "…"


def read_body(body: bytes) -> Complaint:
    """What the body of a refusal says, be it JSON of any known shape, a web page or plain text."""
    text = body.decode("utf-8", "replace").strip()
    try:
        value = decode_json(text)
    except ValueError:
        if "<html" in text[:2000].lower() or text[:9].lower() == "<!doctype":
            title = _TITLE.search(text)
            named = f' titled "{" ".join(title[1].split())}"' if title and title[1].strip() else ""
            return Complaint(f"it sent a web page{named} instead of an API answer.")
        return Complaint(text)
    return read_complaint(value)


def read_complaint(value: object) -> Complaint:
    """What a decoded body or event complains of."""
    if isinstance(value, list) and value:
        value = value[0]
    if not isinstance(value, Mapping):
        return Complaint("" if value is None else str(value))
    inner = value.get("error")
    if isinstance(inner, str) and inner:
        return Complaint(inner, code=_word(value.get("code")), type=_word(value.get("type")))
    fields = inner if isinstance(inner, Mapping) else value
    message = fields.get("message") or fields.get("detail") or fields.get("error") or ""
    raw = mapping_in(fields, "metadata").get("raw")
    numbers = (_number(_word(fields.get(name))) for name in ("status_code", "code", "status"))
    return Complaint(
        message="; ".join(_plain(part) for part in (message, raw) if part),
        code=_word(fields.get("code")),
        type=_word(fields.get("type")),
        status=next((int(number) for number in numbers if number and 400 <= number < 600), None),
        generation=_plain(fields.get("failed_generation") or ""),
    )


def retry_after(headers: Mapping[str, str]) -> float | None:
    """The seconds that a server asks to wait, from `retry-after-ms` or `Retry-After` (seconds or a date)."""
    milliseconds = _number(headers.get("retry-after-ms", ""))
    if milliseconds is not None:
        return milliseconds / 1000
    value = headers.get("Retry-After", "").strip()
    seconds = _number(value)
    if seconds is not None or not value:
        return seconds
    try:
        then = parsedate_to_datetime(value)
        # The server's own clock, where it tells it, spares us the difference between the two.
        now = parsedate_to_datetime(headers["Date"]) if "Date" in headers else datetime.now(UTC)
        return max(0.0, (then - now).total_seconds())
    except (ValueError, TypeError):
        return None


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return max(0.0, value) if isfinite(value) else None


def _word(value: object) -> str:
    return str(value).lower() if isinstance(value, str | int) else ""


def _plain(value: object) -> str:
    return value if isinstance(value, str) else encode_json(value).decode()


# What went wrong between us and a server, in one plain sentence: the library's own words help nobody.


CHECK_NETWORK = "check this machine's network connection"
_NO_WAY = {errno.ENETUNREACH, errno.EHOSTUNREACH, errno.ENETDOWN, errno.EHOSTDOWN, errno.EADDRNOTAVAIL}


TRANSPORT_ERRORS = (OSError, UnicodeError, CannotConnect, NotHttp, ProxyFailed)


def explain_transport(endpoint: Endpoint, error: Exception) -> ModelError:
    """The error for a request that got no answer at all."""
    server = endpoint_label(endpoint)
    match error:
        case UnicodeError():
            return ModelRefused(f"{server} has no valid address: correct base_url.")
        case ssl.SSLCertVerificationError():
            correct = "" if is_hosted(endpoint) else "correct base_url, or "
            return ModelRefused(
                f"{server} has a certificate that is not trusted{_certificate_fault(error)}: "
                f"{correct}make this machine trust the certificate."
            )
        case ProxyFailed():
            return ServerTrouble(
                f"{server} cannot be reached through the proxy: check HTTP_PROXY and HTTPS_PROXY.",
                "unreachable",
            )
        case CannotConnect(error=socket.gaierror() as cause):
            return _unknown_host(endpoint, cause)
        case ssl.SSLError():
            return ServerTrouble(
                f"{server} does not speak TLS: write http:// in base_url, or correct its port.", "unreachable"
            )
        case CannotConnect(error=cause):
            return _no_connection(endpoint, cause)
        case NotHttp():
            return ServerTrouble(
                f"What listens at {endpoint.root} does not speak HTTP: correct base_url.", "unreachable"
            )
    return ServerTrouble(f"{server} closed the connection before it answered.", "cut")


def _unknown_host(endpoint: Endpoint, error: OSError) -> ServerTrouble:
    host = urlsplit(endpoint.root).hostname
    if is_hosted(endpoint):
        return ServerTrouble(f'The host "{host}" cannot be found: {CHECK_NETWORK}.', "unreachable")
    if isinstance(error, socket.gaierror) and error.errno == socket.EAI_AGAIN:
        return ServerTrouble(
            f'The host "{host}" cannot be looked up now: check the network, or correct base_url.',
            "unreachable",
        )
    return ServerTrouble(f'There is no host "{host}": correct base_url.', "unreachable")


def _no_connection(endpoint: Endpoint, error: OSError) -> ServerTrouble:
    if is_hosted(endpoint) and error.errno != errno.ECONNRESET:
        told = f"{endpoint_label(endpoint)} cannot be reached: {CHECK_NETWORK}."
    elif error.errno == errno.ECONNREFUSED:
        told = f"Nothing listens at {endpoint.root}: {_how_to_start(endpoint)}."
    elif error.errno in _NO_WAY:
        told = f"{endpoint.root} cannot be reached from here: check the network, or correct base_url."
    elif error.errno == errno.ECONNRESET:
        return ServerTrouble(f"{endpoint_label(endpoint)} closed the connection before it answered.", "cut")
    else:
        told = f"{endpoint_label(endpoint)} cannot be reached: start it, or correct base_url."
    return ServerTrouble(told, "unreachable")


def _how_to_start(endpoint: Endpoint) -> str:
    if endpoint.provider == "ollama" and endpoint.root == DEFAULT_URLS["ollama"]:
        return "start Ollama with `ollama serve`"
    if endpoint.provider == "ollama":
        return "start Ollama there, or correct its address (base_url or OLLAMA_HOST)"
    return "start the model server or correct base_url"


def _certificate_fault(error: ssl.SSLCertVerificationError) -> str:
    said = error.verify_message
    return f" ({said})" if said else ""
