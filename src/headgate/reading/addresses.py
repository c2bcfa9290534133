"""Reading addresses of machines."""

from ipaddress import ip_address

_NETWORK_NAMES = (".local", ".lan", ".internal", ".home.arpa")
"""Ends of names that only a private network knows."""


def is_loopback(host: str) -> bool:
    """Whether a host's name or address can only mean this machine, as `localhost` and `127.0.0.1` do.

    `x.localhost` may be another one: not every resolver keeps such names on the machine.
    """
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def reaches_this_machine(host: str) -> bool:
    """Whether a request to a host is answered by this machine; `0.0.0.0` and `x.localhost` mean it, too."""
    return is_loopback(host) or host.endswith(".localhost") or host in ("0.0.0.0", "::")


def is_private(host: str) -> bool:
    """Whether a host is this machine, or one of a private network by its address."""
    try:
        return ip_address(host).is_private
    except ValueError:
        return reaches_this_machine(host)


def is_nearby(host: str) -> bool:
    """Whether a host is this machine, or one of a private network by its address or its name."""
    is_name = bool(host) and ":" not in host and ("." not in host or host.endswith(_NETWORK_NAMES))
    return is_name or is_private(host)
