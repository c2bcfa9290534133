"""Talking to models: one protocol, one module per wire format. What asks servers is in `network`."""

from headgate.models.connect import check_model, find_window, open_configured_model
from headgate.models.encoding import UNPARSED, parse_arguments
from headgate.models.endpoint import DEFAULT_URLS, explain_local_name, find_endpoint, is_hosted
from headgate.models.profile import find_profile, profile_for, with_price
from headgate.models.scripted import ScriptedModel

__all__ = [
    "DEFAULT_URLS",
    "UNPARSED",
    "ScriptedModel",
    "check_model",
    "explain_local_name",
    "find_endpoint",
    "find_profile",
    "find_window",
    "is_hosted",
    "open_configured_model",
    "parse_arguments",
    "profile_for",
    "with_price",
]
