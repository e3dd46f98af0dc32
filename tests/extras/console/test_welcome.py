"""Ways to the console: the link of a first start, also from another machine, and errors of the API."""

from __future__ import annotations

import re
from pathlib import Path

import aiohttp
import pytest

from gateway.extension import WAYS, tell_way
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


def test_errors_of_the_api_send_callers_to_the_console() -> None:
    assert {name: tell_way(name, "https://llm.example.com") for name in WAYS} == {
        "places": "The API is under /v1, the console under /console/",
        "top_up": "Top it up in the console under Billing (https://llm.example.com/console/billing),"
        " or ask whoever runs this gateway.",
        "raise_cap": "Raise its cap in the console under Keys (https://llm.example.com/console/keys),"
        " or use another key.",
        "make_key": "Make another in the console under Keys.",
    }
    assert "(/console/billing)" in tell_way("top_up")
