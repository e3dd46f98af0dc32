"""The link that a first start shows: it signs in as the operator, also from another machine."""

from __future__ import annotations

import re
from pathlib import Path

import aiohttp
import pytest

from gateway.extras.console.welcome import describe_link
from gateway.extras.signins.signin import SigninLink
from tests.support.process import GatewayProcess
from tests.support.running import find_first_key
from tests.support.settings import load

LINK = re.compile(r"(http://127\.0\.0\.1:\d+)/console/signin#token=(gwl_[\w-]{43})")


@pytest.mark.parametrize(
    ("server", "url", "has_tunnel"),
    [
        ("", "http://127.0.0.1:8081", True),
        ('host = "0.0.0.0"', "http://127.0.0.1:8081", False),
        ('public_url = "https://llm.example.com"', "https://llm.example.com", False),
    ],
)
def test_the_first_link_can_be_opened_from_another_machine(
    tmp_path: Path, server: str, url: str, *, has_tunnel: bool
) -> None:
    config = load(tmp_path, f"[server]\n{server}\n")
    host = "0.0.0.0" if "0.0.0.0" in server else "127.0.0.1"
    told = describe_link(SigninLink("gwl_x", 0), config.server, (host, 8081))
    assert f"console       {url}/console/signin#token=gwl_x\n" in told
    assert ("-L 8081:127.0.0.1:8081 " in told) == has_tunnel


async def test_newcomer_signs_in_as_operator(newcomer: GatewayProcess) -> None:
    """The link works once, and a browser does not send its token to other sites."""
    path, _ = find_first_key(newcomer)
    found = LINK.search(path.read_text("utf-8"))
    assert found is not None
    origin, token = found.groups()
    assert origin == f"http://127.0.0.1:{newcomer.port}"
    assert token not in newcomer.log
    async with aiohttp.ClientSession(origin, cookie_jar=aiohttp.CookieJar(unsafe=True)) as browser:
        for status in (200, 401):
            async with browser.post("/console/api/session/link", json={"token": token}) as reply:
                assert reply.status == status
        async with browser.get("/console/api/session") as reply:
            account = (await reply.json())["account"]
    assert (account["name"], account["operator"]) == ("operator", True)
