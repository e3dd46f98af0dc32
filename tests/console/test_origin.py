"""The origin of a request: its site, its address and its device."""

from __future__ import annotations

from dataclasses import replace
from ipaddress import ip_network
from pathlib import Path

import pytest
from aiohttp.test_utils import make_mocked_request

from gateway.addresses import find_address, is_trusted
from gateway.admin.signin import find_base_url
from gateway.config.load import load_config
from gateway.config.records import Server
from gateway.console.callers import (
    API_HEADERS,
    NAME,
    SECURE_NAME,
    SECURITY_HEADERS,
    UNKNOWN_DEVICE,
    describe_device,
    find_own_origins,
    is_own_host,
    is_same_site,
    read_session_token,
)
from gateway.console.routes import read_local
from tests.support.rows import each_row

OWN = frozenset({"https://llm.example.com"})
PROXIES = (ip_network("10.0.0.0/8"), ip_network("::1"))


@pytest.fixture
def server(tmp_path: Path) -> Server:
    path = tmp_path / "gateway.toml"
    path.write_text('[server]\nhost = "0.0.0.0"\n', encoding="utf-8")
    return load_config(path, {}).server


# ---- sites ---------------------------------------------------------------------------------------


@each_row(
    ("headers", "expected"),
    [
        ({}, True),
        ({"Sec-Fetch-Site": "same-origin"}, True),
        ({"Sec-Fetch-Site": "none"}, True),
        ({"Sec-Fetch-Site": "same-site"}, False),
        ({"Sec-Fetch-Site": "cross-site"}, False),
        ({"Sec-Fetch-Site": ""}, False),
        ({"Sec-Fetch-Site": "SAME-ORIGIN "}, False),
        ({"Sec-Fetch-Site": "cross-site", "Origin": "https://llm.example.com"}, False),
        ({"Origin": "https://llm.example.com"}, True),
        ({"Origin": "http://llm.example.com"}, False),
        ({"Origin": "https://llm.example.com:8443"}, False),
        ({"Origin": "https://llm.example.com.evil.example"}, False),
        ({"Origin": "https://evil.example", "Host": "evil.example"}, False),
        ({"Origin": "null"}, False),
        ({"Origin": ""}, False),
        ({"Sec-Fetch-Site": "same-origin", "Origin": "http://evil.example"}, False),
        ({"Sec-Fetch-Site": "none", "Origin": "http://evil.example", "Host": "x"}, False),
        ({"Sec-Fetch-Site": "same-origin", "Origin": "null", "Host": ""}, False),
        ({"Sec-Fetch-Site": "same-origin", "Origin": "null", "Host": "null"}, False),
        ({"Sec-Fetch-Site": "same-origin", "Origin": "http://box:9", "Host": "box:9"}, True),
        ({"Sec-Fetch-Site": "cross-site", "Origin": "http://box:9", "Host": "box:9"}, False),
    ],
)
def test_only_the_own_page_and_scripts_may_change(
    headers: dict[str, str], *, expected: bool
) -> None:
    assert is_same_site(headers, OWN) is expected


@each_row(
    ("headers", "expected"),
    [
        ({"Sec-Fetch-Site": "cross-site"}, True),
        ({"Origin": "http://evil.example"}, False),
        ({"Origin": "http://evil.example", "Sec-Fetch-Site": "same-origin"}, False),
        ({"Origin": "http://box:9", "Host": "box:9"}, True),
    ],
)
def test_a_link_from_elsewhere_may_be_followed(headers: dict[str, str], *, expected: bool) -> None:
    """It changes nothing. A request with an origin is a script's of another page."""
    assert is_same_site(headers, OWN, is_change=False) is expected


@each_row(
    ("headers", "expected"),
    [
        ({"Host": "llm.example.com"}, True),
        ({"Host": "LLM.example.com"}, True),
        ({"Host": "llm.example.com", "Origin": "https://llm.example.com"}, True),
        ({"Host": "llm.example.com", "Origin": "http://llm.example.com"}, False),
        ({"Host": "llm.example.com", "Origin": "http://evil.example"}, False),
        ({"Host": "llm.example.com", "Origin": ""}, False),
        ({"Host": "llm.example.com:8080"}, False),
        ({"Host": "evil.example", "Origin": "http://evil.example"}, False),
        ({"Host": "evil.example", "Origin": "https://llm.example.com"}, False),
        ({"Host": ""}, False),
        ({}, False),
    ],
)
def test_a_request_names_the_site_it_is_for(headers: dict[str, str], *, expected: bool) -> None:
    assert is_own_host(headers, OWN) is expected


def test_the_public_url_is_the_one_origin(server: Server) -> None:
    public = replace(server, public_url="https://llm.example.com")
    assert find_own_origins(public, ("127.0.0.1", 8080)) == OWN


def test_without_one_it_is_where_the_connection_came_in(server: Server) -> None:
    loopback = {"http://127.0.0.1:9", "http://localhost:9", "http://[::1]:9"}
    assert find_own_origins(server, ("127.0.0.1", 9)) == loopback
    assert find_own_origins(server, ("192.0.2.7", 9)) == {*loopback, "http://192.0.2.7:9"}
    assert find_own_origins(replace(server, host="gate"), ("::1", 80)) == {
        "http://127.0.0.1", "http://localhost", "http://[::1]", "http://gate",
    }  # fmt: skip
    assert "http://127.0.0.1:8080" in find_own_origins(server, None)


@each_row(
    ("name", "expected"),
    [
        (("127.0.0.1", 80), ("127.0.0.1", 80)),
        (("::1", 80, 0, 0), ("::1", 80)),
        (("::ffff:192.0.2.1", 80, 0, 0), ("192.0.2.1", 80)),
        ("/run/gateway.sock", None),
        (b"\0abstract", None),
        (None, None),
    ],
)
def test_the_near_end_of_a_connection(name: object, expected: tuple[str, int] | None) -> None:
    assert read_local(name) == expected


def test_the_address_for_links(server: Server) -> None:
    assert find_base_url(server) == "http://127.0.0.1:8080"
    assert find_base_url(replace(server, host="::")) == "http://[::1]:8080"
    assert find_base_url(replace(server, host="gate", port=80)) == "http://gate"
    assert find_base_url(replace(server, port=0), ("::1", 9)) == "http://[::1]:9"
    assert find_base_url(replace(server, public_url="https://x"), ("::1", 9)) == "https://x"


@each_row(("public_url", "token"), [(None, "plain"), ("https://llm.example.com", "secure")])
def test_only_the_cookie_of_the_configured_address_is_read(
    server: Server, public_url: str | None, token: str
) -> None:
    """A page on plain http could set the one without the prefix."""
    settings = replace(server, public_url=public_url)
    headers = {"Cookie": f"{NAME}=plain; {SECURE_NAME}=secure"}
    assert read_session_token(make_mocked_request("GET", "/", headers=headers), settings) == token
    assert read_session_token(make_mocked_request("GET", "/"), settings) is None


def test_the_page_loads_nothing_from_elsewhere_and_is_not_framed() -> None:
    policy = SECURITY_HEADERS["Content-Security-Policy"]
    for wanted in ("default-src 'none'", "frame-ancestors 'none'"):
        assert wanted in policy
    assert not [word for word in ("http", "unsafe") if word in policy]
    assert API_HEADERS == {**SECURITY_HEADERS, "Cache-Control": "no-store"}


# ---- addresses -----------------------------------------------------------------------------------


@each_row(
    ("remote", "forwarded", "expected"),
    [
        ("192.0.2.1", [], "192.0.2.1"),
        ("192.0.2.1", ["203.0.113.5"], "192.0.2.1"),
        ("10.0.0.1", [], "10.0.0.1"),
        ("10.0.0.1", ["203.0.113.5"], "203.0.113.5"),
        ("10.0.0.1", ["1.1.1.1, 203.0.113.5"], "203.0.113.5"),
        ("10.0.0.1", ["1.1.1.1", "203.0.113.5"], "203.0.113.5"),
        ("10.0.0.1", ["1.1.1.1, 203.0.113.5, 10.9.9.9"], "203.0.113.5"),
        ("10.0.0.1", ["203.0.113.5", "10.9.9.9"], "203.0.113.5"),
        ("10.0.0.1", ["10.1.1.1, 10.9.9.9"], "10.1.1.1"),
        ("10.0.0.1", ["203.0.113.5, rubbish"], "10.0.0.1"),
        ("10.0.0.1", ["rubbish, 203.0.113.5"], "203.0.113.5"),
        ("10.0.0.1", ["203.0.113.5, rubbish, 10.9.9.9"], "10.0.0.1"),
        ("", ["203.0.113.5, rubbish, 10.9.9.9"], "local"),
        ("10.0.0.1", [""], "10.0.0.1"),
        ("", [], "local"),
        ("", ["203.0.113.5"], "203.0.113.5"),
        ("", ["1.1.1.1, 203.0.113.5, 10.9.9.9"], "203.0.113.5"),
        ("", ["rubbish"], "local"),
        ("10.0.0.1", ["<script>, "], "10.0.0.1"),
        ("::ffff:10.0.0.1", ["203.0.113.5"], "203.0.113.5"),
        ("::1", ["2001:db8::1"], "2001:db8::1"),
        ("::ffff:192.0.2.7", ["203.0.113.5"], "192.0.2.7"),
    ],
)
def test_forwarded_addresses_are_believed_as_far_as_proxies_are(
    remote: str, forwarded: list[str], expected: str
) -> None:
    assert find_address(remote, forwarded, PROXIES) == expected


def test_nobody_is_trusted_by_default(server: Server) -> None:
    assert find_address("127.0.0.1", ["203.0.113.5"], server.trusted_proxies) == "127.0.0.1"


@each_row(
    ("peer", "expected"),
    [
        ("10.0.0.1", True),
        ("::ffff:10.0.0.1", True),
        ("::1", True),
        ("192.0.2.1", False),
        ("", False),
        ("local", False),
        ("10.0.0.1, 192.0.2.1", False),
    ],
)
def test_a_peer_is_trusted_by_its_address_alone(peer: str, *, expected: bool) -> None:
    assert is_trusted(peer, PROXIES) is expected


# ---- devices -------------------------------------------------------------------------------------

WINDOWS = "Mozilla/5.0 (Windows NT 10.0; Win64; x64)"
WEBKIT = "AppleWebKit/537.36 (KHTML, like Gecko)"


@each_row(
    ("user_agent", "expected"),
    [
        ("Mozilla/5.0 (X11; Linux x86_64; rv:147.0) Gecko/20100101 Firefox/147.0", "Firefox on Linux"),
        (f"{WINDOWS} {WEBKIT} Chrome/159.0.0.0 Safari/537.36", "Chrome on Windows"),
        (f"{WINDOWS} {WEBKIT} Chrome/159.0.0.0 Safari/537.36 Edg/159.0.0.0", "Edge on Windows"),
        (f"{WINDOWS} {WEBKIT} Chrome/159.0.0.0 Safari/537.36 OPR/120.0.0.0", "Opera on Windows"),
        (
            f"Mozilla/5.0 (Linux; Android 16; Pixel 9) {WEBKIT} Chrome/159.0.0.0 Mobile Safari/537.36",
            "Chrome on Android",
        ),
        (
            f"Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) {WEBKIT} Version/26.0 Safari/605.1.15",
            "Safari on macOS",
        ),
        (
            f"Mozilla/5.0 (iPhone; CPU iPhone OS 19_0 like Mac OS X) {WEBKIT} CriOS/159.0 Safari/604.1",
            "Chrome on iPhone",
        ),
        ("curl/8.14.1", "curl"),
        ("Python/3.11 aiohttp/3.14.5", "Python"),
        ("Mozilla/5.0", UNKNOWN_DEVICE),
        ("", UNKNOWN_DEVICE),
        ("<script>alert(1)</script>", UNKNOWN_DEVICE),
        ("\N{RIGHT-TO-LEFT OVERRIDE}", UNKNOWN_DEVICE),
        ("x" * 8000, "x" * 30),
    ],
)  # fmt: skip
def test_a_device_in_two_words(user_agent: str, expected: str) -> None:
    assert describe_device(user_agent) == expected
