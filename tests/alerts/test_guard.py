"""The addresses that a holder may name."""

from __future__ import annotations

from ipaddress import ip_address

import pytest

from gateway.alerts.guard import Forbidden, check_holder_url, is_public, require_public
from tests.support.rows import each_row

INSIDE = [
    "127.0.0.1", "10.0.0.1", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1",
    "0.0.0.0", "224.0.0.1", "255.255.255.255", "240.0.0.1", "192.0.2.1",
    "::", "::1", "fe80::1", "fc00::1", "fd00:ec2::254", "ff02::1", "2001:db8::1", "fec0::1",
    "::ffff:127.0.0.1", "::ffff:169.254.169.254", "64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe",
    "2002:7f00:1::", "2002:a00:1::",
    "192.0.0.1", "192.0.0.9", "192.0.0.170", "192.88.99.1", "3fff::1", "3fff:fff::1", "5f00::1",
    "::ffff:192.0.0.9", "::ffff:192.88.99.1", "::192.0.0.9", "2002:c000:9::1", "2002:c058:6301::1",
    "64:ff9b::c000:9", "64:ff9b:1::7f00:1", "2001:0:808:808::3fff:fff6", "2001:0:7f00:1::f7f7:f7f7",
    "2606:4700::5efe:a00:1", "2606:4700::200:5efe:c000:9", "::ffff:0:7f00:1",
]  # fmt: skip


@each_row("address", INSIDE)
def test_what_is_inside_is_refused(address: str) -> None:
    assert not is_public(ip_address(address))
    with pytest.raises(Forbidden):
        require_public(address)
    host = f"[{address}]" if ":" in address else address
    with pytest.raises(ValueError, match="public address"):
        check_holder_url(f"https://{host}/hook", any_address=False)


@each_row(
    "address",
    ["1.1.1.1", "8.8.8.8", "192.0.1.1", "2606:4700::1111", "::ffff:8.8.8.8", "2002:808:808::1"],
)
def test_what_is_public_is_allowed(address: str) -> None:
    require_public(address)


@each_row("text", ["localhost", "2130706433", "0x7f.1", "fe80::1%eth0", ""])
def test_what_is_no_public_address_is_refused(text: str) -> None:
    with pytest.raises(Forbidden):
        require_public(text)


@each_row(
    ("url", "problem"),
    [
        ("http://hooks.example.com/", "https://"),
        ("ftp://hooks.example.com/", "must be an address"),
        ("https://user:word@hooks.example.com/", "without a user name"),
        ("https://hooks.example.com/#a", "fragment"),
        ("https://", "must be an address"),
        ("https://hooks.example.com/" + "a" * 500, "at most 500"),
    ],
)
def test_other_addresses_are_refused(url: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        check_holder_url(url, any_address=False)


def test_an_operator_can_allow_any_address() -> None:
    check_holder_url("http://127.0.0.1:9000/hook", any_address=True)
    check_holder_url("https://hooks.example.com/a?b=c", any_address=False)
