"""Which addresses a page may be fetched from: those that anybody on the internet can reach."""

from collections.abc import Callable
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address

Address = IPv4Address | IPv6Address
Permits = Callable[[Address], bool]

_NAT64 = IPv6Network("64:ff9b::/96")
_COMPATIBLE = IPv6Network("::/96")
_UNICAST = IPv6Network("2000::/3")
"""All that is routed on the internet by IPv6. Python knows some of the rest as global: other translations of
IPv4, segment routing."""
_METADATA = frozenset(map(ip_address, ("168.63.129.16", "100.100.100.200", "fd00:ec2::254", "fd20:ce::254")))
"""Services of clouds for their machines, at addresses that look public, or private like any other."""


def is_public(address: Address) -> bool:
    """Whether an address is one of the public internet, also where it stands for another one."""
    inner = _carried(address)
    if inner is not None:
        return is_public(inner)
    if isinstance(address, IPv6Address) and address not in _UNICAST:
        return False
    return address.is_global and not address.is_multicast and address not in _METADATA


def is_local(address: Address) -> bool:
    """Whether an address is public, or in a private network where pages may be meant to be read.

    What machines tell only themselves stays closed: link-local addresses and the metadata of clouds.
    """
    inner = _carried(address)
    if inner is not None:
        return is_local(inner)
    closed = address.is_link_local or address.is_multicast or address.is_unspecified or address in _METADATA
    return not closed and (address.is_loopback or not address.is_reserved)


def _carried(address: Address) -> Address | None:
    """The IPv4 address that is meant by one of IPv6, in any of the ways in which that can be written."""
    if not isinstance(address, IPv6Address):
        return None
    if address.ipv4_mapped or address.sixtofour:
        return address.ipv4_mapped or address.sixtofour
    if address.teredo:
        return address.teredo[1]
    if address in _NAT64 or (address in _COMPATIBLE and int(address) > 1):
        return IPv4Address(int(address) & 0xFFFFFFFF)
    return None
