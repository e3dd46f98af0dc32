"""Ways to the console: the link of a first start, also from another machine, and errors of the API.

`browser/test_first_run.py` goes there.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.extension import NEXT_STEPS, tell_next_step
from gateway.extras.console.welcome import describe_link
from gateway.extras.signins.signin import SigninLink
from tests.support.settings import load


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


def test_errors_of_the_api_send_callers_to_the_console() -> None:
    assert {name: tell_next_step(name, "https://llm.example.com") for name in NEXT_STEPS} == {
        "places": "The API is under /v1, the console under /console/",
        "top_up": "Top it up in the console under Billing (https://llm.example.com/console/billing),"
        " or ask whoever runs this gateway.",
        "raise_cap": "Raise its cap in the console under Keys (https://llm.example.com/console/keys),"
        " or use another key.",
        "make_key": "Make another in the console under Keys.",
    }
    assert "(/console/billing)" in tell_next_step("top_up")
