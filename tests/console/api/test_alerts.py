"""Alerts in the console: the operator's list and test, a holder's webhook, threshold and test."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from tests.console.kit import API, OPERATOR, OTHER, Console, open_console

OWN: Final = f"{API}/settings/alerts"
URL: Final = "https://hooks.example.com/gateway?token=of-the-holder"
ALERTS: Final = (
    '[alerts]\nwebhook = "https://ops.example.com/hook"\nwebhook_secret = "ops-secret"\n'
)


async def save(console: Console, **body: Any) -> Any:
    reply = await console.post(OWN, body)
    assert reply.status == 200, reply.json
    return reply.json


async def test_a_holder_has_a_webhook_and_a_threshold(tmp_path: Path) -> None:
    """A secret is shown once and new with each address; a test is queued for its receiver."""
    async with open_console(tmp_path, more=ALERTS, billing="low_balance = 1") as console:
        assert (await console.post(f"{OWN}/test")).refusal[:2] == (409, "alerts_off")
        for wrong in ("http://hooks.example.com/", "https://127.0.0.1/", "https://[::1]/"):
            refused = await console.post(OWN, {"webhook": wrong})
            assert refused.refusal == (400, "invalid_field", "webhook")
        first = await save(console, webhook=URL)
        assert first["secret"].startswith("whsec_")
        assert (await save(console, webhook=URL, low_balance="100.5"))["secret"] is None
        shown = (await console.get(OWN)).json
        assert (shown["webhook"], shown["low_balance"]) == (URL, "100.50")
        assert first["secret"] not in str(shown)
        notices = (await console.get(f"{API}/overview")).json["notices"]
        assert "balance_low" in [one["code"] for one in notices]
        for name, low in (("holder", "100.50"), (OTHER, "1.00")):
            assert (await console.get(f"{API}/session", as_=name)).json["low_balance"] == low
        own = (await console.post(f"{OWN}/test")).json["alerts"]
        assert [(one["kind"], one["channel"]) for one in own] == [("test", "holder")]
        found = (await console.post(f"{API}/alerts/test", as_=OPERATOR)).json
        assert (found["channels"], found["count"]) == (["webhook"], 1)
        assert found["alerts"][0]["channel"] == "webhook"
        assert (await console.get(OWN, as_=OTHER)).json["alerts"] == []
        other = await save(console, webhook=URL + "2")
        assert other["secret"] not in {None, first["secret"]}
        assert (await save(console, webhook=None))["secret"] is None
        assert (await console.get(OWN)).json["webhook"] is None
        overview = (await console.get(f"{API}/overview", as_=OTHER)).json
        assert "balance_low" not in [one["code"] for one in overview["notices"]]


async def test_without_alerts_nobody_sets_a_webhook(console: Console) -> None:
    assert (await console.get(OWN)).json["available"] is False
    assert (await console.post(OWN, {"webhook": URL})).refusal[::2] == (400, "webhook")
    assert (await console.post(OWN, {"low_balance": "5"})).status == 200
    reply = await console.post(f"{API}/alerts/test", as_=OPERATOR)
    assert reply.refusal[:2] == (409, "alerts_off")
