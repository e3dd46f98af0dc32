"""Hosts and ports as people and browsers write them."""

from __future__ import annotations

from typing import Final

from gateway.addresses import join_address, make_local_url, make_origin, make_tunnel_command
from tests.support.rows import each_row


@each_row(
    ("host", "port", "address", "origin"),
    [
        ("127.0.0.1", 8080, "127.0.0.1:8080", "http://127.0.0.1:8080"),
        ("llm.example.com", 80, "llm.example.com:80", "http://llm.example.com"),
        ("::1", 8080, "[::1]:8080", "http://[::1]:8080"),
        ("::1", 80, "[::1]:80", "http://[::1]"),
    ],
)
def test_an_origin_leaves_out_the_port_that_browsers_leave_out(
    host: str, port: int, address: str, origin: str
) -> None:
    assert (join_address(host, port), make_origin(host, port)) == (address, origin)


@each_row(
    ("host", "url"),
    [
        ("0.0.0.0", "http://127.0.0.1:1"),
        ("::", "http://[::1]:1"),
        ("192.0.2.1", "http://192.0.2.1:1"),
    ],
)
def test_an_address_that_stands_for_all_is_reached_at_the_loopback(host: str, url: str) -> None:
    assert make_local_url(host, 1) == url


REACHED: Final = {"SSH_CONNECTION": "198.51.100.1 50000 203.0.113.5 22", "USER": "root"}


@each_row(
    ("host", "environ", "command"),
    [
        ("127.0.0.1", REACHED, "ssh -L 8080:127.0.0.1:8080 root@203.0.113.5"),
        ("::1", REACHED, "ssh -L 8080:[::1]:8080 root@203.0.113.5"),
        ("localhost", {}, "ssh -L 8080:localhost:8080 USER@SERVER"),
        (
            "127.0.0.1",
            {"SSH_CONNECTION": "2001:db8::1 50000 2001:db8::2 2222"},
            "ssh -p 2222 -L 8080:127.0.0.1:8080 USER@2001:db8::2",
        ),
        ("127.0.0.1", {"SSH_CONNECTION": "odd"}, "ssh -L 8080:127.0.0.1:8080 USER@SERVER"),
        ("0.0.0.0", REACHED, None),
        ("llm.example.com", REACHED, None),
    ],
)
def test_a_loopback_address_is_reached_by_a_tunnel(
    host: str, environ: dict[str, str], command: str | None
) -> None:
    assert make_tunnel_command(host, 8080, environ) == command
