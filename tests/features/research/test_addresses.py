"""Which addresses count as public, and which may be opened by `allow_private`."""

from ipaddress import ip_address

import pytest

from headgate.features.research import is_local, is_public


@pytest.mark.parametrize(
    "address", ["1.1.1.1", "93.184.216.34", "2606:4700::1111", "2a00:1450:4001:80e::200e", "::ffff:1.1.1.1"]
)
def test_public_addresses(address: str) -> None:
    assert is_public(ip_address(address))
    assert is_local(ip_address(address))


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "127.255.255.254",
        "::1",
        "10.0.0.1",
        "172.16.0.1",
        "172.31.255.255",
        "192.168.1.1",
        "100.64.0.1",
        "fc00::1",
        "fd12:3456::1",
        "::ffff:127.0.0.1",
        "::ffff:10.0.0.1",
        "::ffff:192.168.0.1",
        "::192.168.0.1",
        "2002:c0a8:0001::1",
        "64:ff9b::10.0.0.1",
        "64:ff9b::7f00:1",
    ],
)
def test_private_addresses_have_to_be_allowed(address: str) -> None:
    assert not is_public(ip_address(address))
    assert is_local(ip_address(address))


@pytest.mark.parametrize(
    "address",
    [
        "0.0.0.0",
        "::",
        "169.254.169.254",
        "169.254.0.1",
        "fe80::1",
        "fe80::1%2",
        "::ffff:169.254.169.254",
        "64:ff9b::169.254.169.254",
        "2002:a9fe:a9fe::",
        "100.100.100.200",
        "168.63.129.16",
        "fd00:ec2::254",
        "fd20:ce::254",
        "64:ff9b:1::7f00:1",
        "64:ff9b:1::a9fe:a9fe",
        "::ffff:0:127.0.0.1",
        "5f00::1",
        "::ffff:0.0.0.0",
        "224.0.0.1",
        "239.255.255.250",
        "ff02::1",
        "255.255.255.255",
        "240.0.0.1",
    ],
)
def test_what_is_never_a_page(address: str) -> None:
    assert not is_public(ip_address(address))
    assert not is_local(ip_address(address))


@pytest.mark.parametrize("address", ["fec0::1", "2001:db8::1", "192.0.2.1", "198.18.0.1", "198.51.100.7"])
def test_what_nobody_can_reach_is_not_public(address: str) -> None:
    assert not is_public(ip_address(address))
