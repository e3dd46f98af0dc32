"""`providers` and `refusals`: what the server counted, also when it does not run."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from gateway.ledger.alert_records import UpstreamFailure
from gateway.ledger.opening import open_ledger
from gateway.ledger.serving.ledger import ServingLedger
from gateway.times import DAY_MS, unix_ms
from tests.support.cli import Cli

URL = "https://api.example.com/v1/chat/completions"
REASON = "status 401: the provider refuses our key"


def count(cli: Cli, note: Callable[[ServingLedger], None], *, ago_ms: int = 0) -> None:
    """Let a serving process count, and stop."""

    async def serve() -> None:
        async with open_ledger(cli.database, clock=lambda: unix_ms() - ago_ms) as ledger:
            note(ledger)

    asyncio.run(serve())


def fail(ledger: ServingLedger) -> None:
    for _ in range(3):
        ledger.note_upstream_call("demo", "echo", UpstreamFailure(0, "req_9", 401, REASON, URL))


def refuse(ledger: ServingLedger) -> None:
    (account,) = ledger.accounts()
    for _ in range(3):
        ledger.note_refusal(account.id, "rate_limit_exceeded", "", "req_1")
    ledger.note_refusal(None, "invalid_api_key", "", "req_2")


def test_providers_and_how_they_answer(cli: Cli, alice: str) -> None:
    assert alice
    asked = cli.done("providers").out.splitlines()
    assert asked[1].split("  ")[0:1] == ["demo"]
    assert "not asked yet" in asked[1]
    count(cli, fail)
    line = cli.done("providers").out.splitlines()[1]
    for words in ("failing (3 of 3 in the last hour)", "3, 3 failed", REASON, URL, "req_9"):
        assert words in line
    (row,) = cli.done("providers", "--json").json
    assert (row["provider"], row["model"], row["state"]) == ("demo", "echo", "failing")
    assert row["hour"] == row["today"] == {"calls": 3, "failures": 3}
    assert row["last_failure"] == {
        "at": "1970-01-01T00:00:00.000Z",
        "request_id": "req_9",
        "status": 401,
        "reason": REASON,
        "url": URL,
    }


def test_a_provider_is_not_called_off_for_a_key_that_only_the_server_has(
    cli: Cli, alice: str
) -> None:
    """The verb runs without the server's variables, so it cannot know."""
    assert alice
    more = '[models.far]\nroutes = ["vendor/far"]\nprice = "free"\n'
    cli.config.write_text(cli.config.read_text(encoding="utf-8") + more, encoding="utf-8")
    assert [row["state"] for row in cli.done("providers", "--json").json] == ["not_asked"] * 2
    failure = UpstreamFailure(0, "req_9", 401, REASON, URL)
    count(cli, lambda ledger: ledger.note_upstream_call("vendor", "far", failure))
    assert cli.done("providers", "--json").json[1]["state"] == "failing"


def test_refusals_for_whom_and_why(cli: Cli, alice: str) -> None:
    count(cli, refuse)
    lines = cli.done("refusals").out.splitlines()
    assert lines[0].split("  ")[0] == "LAST UTC"
    assert {"rate_limit_exceeded", "alice", "3", "req_1"} <= set(
        next(line for line in lines if "alice" in line).split()
    )
    assert any("unknown key" in line and "invalid_api_key" in line for line in lines)
    (mine,) = cli.done("refusals", "--account", alice, "--json").json
    assert (mine["account"], mine["count"], mine["last_request_id"]) == ("alice", 3, "req_1")
    assert cli.run("refusals", "--account", "nobody").code != 0


def test_old_refusals_are_shown_when_asked_for(cli: Cli, alice: str) -> None:
    assert alice
    count(cli, refuse, ago_ms=9 * DAY_MS)
    assert cli.done("refusals", "--json").json == []
    assert len(cli.done("refusals", "--since", "2020-01-01", "--json").json) == 2
