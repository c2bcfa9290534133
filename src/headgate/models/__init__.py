"""Talking to models: one protocol, one module per wire format."""

from headgate.models.connect import find_window, open_fitted, open_model
from headgate.models.discovery import PLACES, FoundModel, FoundServer, best_first, find_servers
from headgate.models.endpoint import DEFAULT_URLS, explain_local_name, find_endpoint, is_hosted
from headgate.models.profile import find_profile, profile_for, with_price
from headgate.models.scripted import ScriptedModel
from headgate.models.transports.choice import find_out, is_asked, with_num_ctx
from headgate.models.transports.cutting import explain_remedy
from headgate.models.transports.servers import ask_loaded_window, identify
from headgate.models.wire.connect import check_model, open_wire
from headgate.models.wire.encoding import UNPARSED, parse_arguments
from headgate.models.wire.failures import (
    KeyRefused,
    ModelUnknown,
    QuotaSpent,
    ServerTrouble,
    ToolsUnsupported,
)
from headgate.models.wire.http import list_models

__all__ = [
    "DEFAULT_URLS",
    "PLACES",
    "UNPARSED",
    "FoundModel",
    "FoundServer",
    "KeyRefused",
    "ModelUnknown",
    "QuotaSpent",
    "ScriptedModel",
    "ServerTrouble",
    "ToolsUnsupported",
    "ask_loaded_window",
    "best_first",
    "check_model",
    "explain_local_name",
    "explain_remedy",
    "find_endpoint",
    "find_out",
    "find_profile",
    "find_servers",
    "find_window",
    "identify",
    "is_asked",
    "is_hosted",
    "list_models",
    "open_fitted",
    "open_model",
    "open_wire",
    "parse_arguments",
    "profile_for",
    "with_num_ctx",
    "with_price",
]
