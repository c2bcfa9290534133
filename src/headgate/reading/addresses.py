"""Reading addresses of machines."""

from ipaddress import ip_address


def is_loopback(host: str) -> bool:
    """Whether a host's name or address can only mean this machine, as `localhost` and `127.0.0.1` do.

    `x.localhost` may be another one: not every resolver keeps such names on the machine.
    """
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
