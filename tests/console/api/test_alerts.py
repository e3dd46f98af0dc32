"""Alerts in the console: the operator's list and test, a holder's webhook, threshold and test."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.console.kit import API, HOLDER, OPERATOR, OTHER, Console, open_console
from tests.support.rows import each_row

OWN: Final = f"{API}/settings/alerts"
URL: Final = "https://hooks.example.com/gateway?token=of-the-holder"
ALERTS: Final = (
    '[alerts]\nwebhook = "https://ops.example.com/hook"\nwebhook_secret = "ops-secret"\n'
)


@pytest.fixture
async def console(tmp_path: Path) -> AsyncIterator[Console]:
    async with open_console(tmp_path, more=ALERTS, billing="low_balance = 1") as console:
        yield console


async def save(console: Console, **body: Any) -> Any:
    reply = await console.post(OWN, body)
    assert reply.status == 200, reply.json
    return reply.json


async def test_a_secret_is_shown_once_and_new_with_each_address(console: Console) -> None:
    first = await save(console, webhook=URL)
    assert first["secret"].startswith("whsec_")
    assert (await save(console, webhook=URL, low_balance="5"))["secret"] is None
    shown = (await console.get(OWN)).json
    assert (shown["webhook"], shown["low_balance"]) == (URL, "5.00")
    assert first["secret"] not in str(shown)
    other = await save(console, webhook=URL + "2")
    assert other["secret"] not in {None, first["secret"]}
    assert (await save(console, webhook=None))["secret"] is None
    assert (await console.get(OWN)).json["webhook"] is None


async def test_the_own_threshold_is_that_of_the_notice(console: Console) -> None:
    async def read_notices() -> list[str]:
        overview = (await console.get(f"{API}/overview")).json
        return [one["code"] for one in overview["notices"]]

    assert "balance_low" not in await read_notices()
    await save(console, low_balance="100.5")
    assert "balance_low" in await read_notices()
    assert (await console.get(f"{API}/session")).json["low_balance"] == "100.50"
    assert (await console.get(f"{API}/session", as_=OTHER)).json["low_balance"] == "1.00"


@each_row(
    ("body", "field"),
    [
        ({"webhook": "http://hooks.example.com/"}, "webhook"),
        ({"webhook": "https://127.0.0.1/"}, "webhook"),
        ({"webhook": "https://[::1]/"}, "webhook"),
        ({"webhook": "https://169.254.169.254/latest"}, "webhook"),
        ({"webhook": "hooks"}, "webhook"),
        ({"webhook": 5}, "webhook"),
        ({"low_balance": "-1"}, "low_balance"),
        ({"low_balance": "much"}, "low_balance"),
        ({"url": URL}, "url"),
    ],
)
async def test_what_cannot_be_is_refused(console: Console, body: object, field: str) -> None:
    reply = await console.post(OWN, body)
    assert (reply.refusal[0], reply.refusal[2]) == (400, field)
    assert (await console.get(OWN)).json["webhook"] is None


async def test_tests_are_queued_for_their_receiver(console: Console) -> None:
    assert (await console.post(f"{OWN}/test")).refusal[:2] == (409, "alerts_off")
    await save(console, webhook=URL)
    own = (await console.post(f"{OWN}/test")).json["alerts"]
    assert [(one["kind"], one["channel"]) for one in own] == [("test", "holder")]
    reply = await console.post(f"{API}/alerts/test", as_=OPERATOR)
    found = reply.json
    assert (found["channels"], found["count"]) == (["webhook"], 1)
    assert found["alerts"][0]["channel"] == "webhook"
    assert (await console.get(OWN, as_=OTHER)).json["alerts"] == []


async def test_the_list_is_for_operators(console: Console) -> None:
    for path, method in (("alerts", "GET"), ("alerts/test", "POST")):
        assert (await console.ask(method, f"{API}/{path}", as_=HOLDER)).status == 404


async def test_without_alerts_nobody_sets_a_webhook(tmp_path: Path) -> None:
    async with open_console(tmp_path) as console:
        assert (await console.get(OWN)).json["available"] is False
        assert (await console.post(OWN, {"webhook": URL})).refusal[::2] == (400, "webhook")
        assert (await console.post(OWN, {"low_balance": "5"})).status == 200
        reply = await console.post(f"{API}/alerts/test", as_=OPERATOR)
        assert reply.refusal[:2] == (409, "alerts_off")
