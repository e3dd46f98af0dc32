"""The mark of what changed, and replies that all who look share. Renewals are no use of a session."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

import pytest

from gateway.extras.console.callers import RENEWAL
from gateway.extras.live_pages import renewer
from tests.extras.console.kit import API, Console
from tests.support.served import HOLDER, OPERATOR, OTHER, Reply

LOOK: Final = {RENEWAL: "1"}
TIMEOUT_SECONDS: Final = 30


async def renew(console: Console, path: str, as_: str = OPERATOR) -> Reply:
    return await console.get(f"{API}/{path}", as_=as_, headers=LOOK)


async def read_marks(console: Console) -> dict[str, str]:
    return {who: (await renew(console, "live", who)).json["mark"] for who in (HOLDER, OPERATOR)}


async def test_the_mark_changes_with_what_the_caller_sees(
    console: Console, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(renewer, "SHARED_SECONDS", -1.0)
    monkeypatch.setattr("gateway.extras.observations.observer.WRITE_SECONDS", 0.02)
    mine, others = [await console.add_key(name) for name in (HOLDER, OTHER)]
    await read_marks(console)
    steps: list[tuple[Callable[[], Awaitable[object]], str]] = [
        (lambda: console.complete(mine), f"{HOLDER} {OPERATOR}"),
        (lambda: console.complete(others), OPERATOR),
        (lambda: console.post(f"{API}/keys", {}, as_=OTHER), OPERATOR),
        (lambda: console.complete(mine, model="no/such"), f"{HOLDER} {OPERATOR}"),
    ]
    for act, changed in steps:
        before = await read_marks(console)
        assert (await read_marks(console))[HOLDER] == before[HOLDER], "without a reason"
        await act()
        async with asyncio.timeout(TIMEOUT_SECONDS):  # a refusal is written a little later
            while find_changed(before, await read_marks(console)) != changed:
                pass


def find_changed(before: dict[str, str], after: dict[str, str]) -> str:
    return " ".join(who for who in after if after[who] != before[who])


async def test_all_who_look_share_what_is_read_once(console: Console) -> None:
    secret = await console.add_key()
    first = await renew(console, "gateway")
    await console.complete(secret)
    assert (await renew(console, "gateway")).body == first.body
    assert (await console.get(f"{API}/gateway", as_=OPERATOR)).body != first.body
    assert (await renew(console, "activity", HOLDER)).json["count"] == 1
    assert (await renew(console, "activity", OTHER)).json["count"] == 0
    assert (await renew(console, "gateway", HOLDER)).status == 404
    csv = [await renew(console, "activity.csv", HOLDER) for _ in range(2)]
    assert csv[0].body == csv[1].body


async def test_operators_share_the_list_of_calls_across_sessions(console: Console) -> None:
    """Each session would read it again, and it is what costs most; holders share within their session alone."""
    secret = await console.add_key()
    first = {who: await renew(console, "activity", who) for who in (OPERATOR, HOLDER)}
    await console.complete(secret)
    for who in (OPERATOR, HOLDER):
        await console.sign_in(who)
    assert (await renew(console, "activity")).body == first[OPERATOR].body
    assert (await renew(console, "activity", HOLDER)).body != first[HOLDER].body
    assert (await renew(console, "activity?account=holder")).json["count"] == 1


async def test_a_renewal_is_no_use_of_the_session(console: Console) -> None:
    await console.get(f"{API}/session")
    seen = "SELECT last_seen_ms FROM sessions"
    console.execute("UPDATE sessions SET last_seen_ms = last_seen_ms - 600000")
    before = console.execute(seen)
    for path in ("live", "overview"):
        assert (await renew(console, path, HOLDER)).status == 200
    assert console.execute(seen) == before
    await console.get(f"{API}/overview")
    assert console.execute(seen) != before
