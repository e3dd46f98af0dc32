"""The origin of a request: its site, its address and its device."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from aiohttp.test_utils import make_mocked_request

from gateway.addresses import find_address
from gateway.admin.signin import find_base_url
from gateway.config.load import load_config
from gateway.config.records import Server
from gateway.console.callers import (
    API_HEADERS,
    NAME,
    SECURE_NAME,
    SECURITY_HEADERS,
    find_own_origins,
    read_session_token,
)
from tests.support.rows import each_row


@pytest.fixture
def server(tmp_path: Path) -> Server:
    path = tmp_path / "gateway.toml"
    path.write_text('[server]\nhost = "0.0.0.0"\n', encoding="utf-8")
    return load_config(path, {}).server


# ---- sites ---------------------------------------------------------------------------------------


def test_the_public_url_is_the_one_origin(server: Server) -> None:
    public = replace(server, public_url="https://llm.example.com")
    assert find_own_origins(public, ("127.0.0.1", 8080)) == {"https://llm.example.com"}


def test_without_one_it_is_where_the_connection_came_in(server: Server) -> None:
    loopback = {"http://127.0.0.1:9", "http://localhost:9", "http://[::1]:9"}
    assert find_own_origins(server, ("127.0.0.1", 9)) == loopback
    assert find_own_origins(server, ("192.0.2.7", 9)) == {*loopback, "http://192.0.2.7:9"}
    assert find_own_origins(replace(server, host="gate"), ("::1", 80)) == {
        "http://127.0.0.1", "http://localhost", "http://[::1]", "http://gate",
    }  # fmt: skip
    assert "http://127.0.0.1:8080" in find_own_origins(server, None)


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


def test_nobody_is_trusted_by_default(server: Server) -> None:
    assert find_address("127.0.0.1", ["203.0.113.5"], server.trusted_proxies) == "127.0.0.1"
