"""The session cookie: hidden from scripts and other sites, and over https alone where there is https."""

from __future__ import annotations

from http.cookies import Morsel
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request

from gateway.config.records import Config
from gateway.console.origin import (
    API_HEADERS,
    MAX_AGE_SECONDS,
    NAME,
    SECURE_NAME,
    SECURITY_HEADERS,
    read_session_token,
    write_session_cookie,
)
from tests.support.settings import load

HTTPS = 'public_url = "https://llm.example.com"'
HTTP = 'public_url = "http://llm.example.com"'


def configure(folder: Path, server: str) -> Config:
    return load(folder, f"[server]\n{server}\n")


def write(config: Config, token: str | None) -> Morsel[str]:
    response = web.Response()
    write_session_cookie(response, token, config.server)
    (morsel,) = response.cookies.values()
    return morsel


@pytest.mark.parametrize(
    ("server", "name", "secure"),
    [("", NAME, False), (HTTP, NAME, False), (HTTPS, SECURE_NAME, True)],
)
def test_the_cookie_is_out_of_reach(
    tmp_path: Path, server: str, name: str, *, secure: bool
) -> None:
    morsel = write(configure(tmp_path, server), "gws_x")
    assert (morsel.key, morsel.value, morsel["secure"]) == (name, "gws_x", secure)
    assert (morsel["httponly"], morsel["samesite"], morsel["path"]) == (True, "Lax", "/")
    assert morsel["max-age"] == str(MAX_AGE_SECONDS)
    assert not morsel["domain"], "a prefix __Host- forbids it"


def test_a_cookie_is_deleted_by_an_empty_one_of_its_name(tmp_path: Path) -> None:
    morsel = write(configure(tmp_path, HTTPS), None)
    assert (morsel.key, morsel.value, morsel["max-age"]) == (SECURE_NAME, "", "0")


@pytest.mark.parametrize(("server", "token"), [("", "plain"), (HTTPS, "secure")])
def test_only_the_cookie_of_the_configured_address_is_read(
    tmp_path: Path, server: str, token: str
) -> None:
    """A page on plain http could set the one without the prefix."""
    settings = configure(tmp_path, server).server
    headers = {"Cookie": f"{NAME}=plain; {SECURE_NAME}=secure"}
    assert read_session_token(make_mocked_request("GET", "/", headers=headers), settings) == token
    assert read_session_token(make_mocked_request("GET", "/"), settings) is None


def test_the_page_loads_nothing_from_elsewhere_and_is_not_framed() -> None:
    policy = SECURITY_HEADERS["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "http" not in policy
    assert "unsafe" not in policy
    assert API_HEADERS == {**SECURITY_HEADERS, "Cache-Control": "no-store"}
