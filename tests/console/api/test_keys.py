"""Keys, budgets and tokens in the console's API: lists, limits and races. `played/keys.txt` has the rest."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, Final

import pytest

from gateway import ids
from gateway.admin import keys
from gateway.console.keys import MAX_LIVE_KEYS
from gateway.times import DAY_MS, unix_ms
from tests.console.kit import (
    API,
    HOLDER,
    OPERATOR,
    OTHER,
    Console,
    Reply,
    execute,
    find_bytes,
    read_pages,
    start_console,
)
from tests.ledger.contract.kit import admission, settlement

KEYS: Final = f"{API}/keys"
BUDGETS: Final = f"{API}/budgets"
TOKENS: Final = f"{API}/tokens"
FAR: Final = "2999-01-01T00:00:00.000Z"
TEAM: Final = {"name": "team", "amount": "100", "period": "month"}


async def make_key(console: Console, *, as_: str = HOLDER, **terms: Any) -> tuple[str, str]:
    """Make a key and return its id and the key itself."""
    reply = await console.post(KEYS, terms, as_=as_)
    assert reply.status == 201, reply.body
    return reply.json["key"]["id"], reply.json["secret"]


async def revoke(console: Console, key_id: str, *, as_: str = HOLDER) -> Reply:
    return await console.post(f"{KEYS}/{key_id}/revoke", as_=as_)


async def rotate(console: Console, key_id: str, grace_seconds: int = 0) -> Reply:
    return await console.post(f"{KEYS}/{key_id}/rotate", {"grace_seconds": grace_seconds})


# ---- making and reading --------------------------------------------------------------------------


async def test_a_key_is_made_shown_once_and_works_at_once(console: Console) -> None:
    terms = {"name": " laptop ", "cap": "2.5", "expires": "2999-01-01", "models": ["demo/echo"]}
    made = await console.post(KEYS, terms)
    assert made.status == 201
    assert made.headers["Cache-Control"] == "no-store"
    key, secret = made.json["key"], made.json["secret"]
    assert ids.is_well_formed(secret)
    assert made.json == {"secret": secret, "key": {
        "id": key["id"], "account": HOLDER, "name": "laptop", "display": f"sk-ru-…{secret[-4:]}",
        "models": ["demo/echo"], "requests_per_minute": None, "tokens_per_minute": None,
        "concurrency": None, "cap": "2.50", "cap_nano": 2_500_000_000, "spent": "0.00",
        "spent_nano": 0, "created": key["created"], "expires": FAR, "revoked": None,
        "last_used": None, "spent_30d": "0.00", "spent_30d_nano": 0, "status": "active",
        "replaced_by": None, "budget": None,
    }}  # fmt: skip
    assert (await console.complete(secret)).status == 200
    for path in (f"{KEYS}/{key['id']}", KEYS):
        shown = await console.get(path)
        assert (shown.status, secret.encode() in shown.body) == (200, False)
    assert find_bytes(console.folder, secret) == []


async def test_a_key_tells_what_it_was_used_for(console: Console) -> None:
    """The sum of 30 days is that of today and 29 days before."""
    key_id, secret = await make_key(console)
    assert (await console.complete(secret)).status == 200
    key = (await console.get(f"{KEYS}/{key_id}")).json
    ((cost, ended_ms),) = execute(console, "SELECT cost_nano, ended_ms FROM requests")
    assert key["spent_nano"] == key["spent_30d_nano"] == cost > 0
    assert execute(console, "SELECT last_used_ms FROM keys") == [(ended_ms,)]
    assert key["last_used"] is not None
    assert console.gateway is not None
    ledger = console.gateway.ledger
    known = ledger.find_key(ids.digest(secret))
    assert known is not None
    for days_ago, more in ((0, 1), (29, 20), (30, 400)):
        ended_ms = unix_ms() - days_ago * DAY_MS
        await ledger.settle(ledger.hold(known, admission()), settlement(more, ended_ms=ended_ms))
    (shown,) = (await console.get(KEYS)).json["keys"]
    assert (shown["spent_nano"] - cost, shown["spent_30d_nano"] - cost) == (421, 21)


async def test_keys_are_listed_in_pages_the_newest_first(console: Console) -> None:
    ids = [(await make_key(console, name=f"k{number}"))[0] for number in range(5)]
    await make_key(console, as_=OTHER)
    with console.open_books() as books, books.changing() as connection:
        connection.execute("UPDATE keys SET created_ms = 5 WHERE name < 'k3'")
    newest = "SELECT id FROM keys WHERE account_id = 1 ORDER BY created_ms DESC, id DESC"
    for path in (KEYS, f"{KEYS}?status=all&limit=2"):
        listed = [key["id"] for key in await read_pages(console, path, "keys")]
        assert listed == [key_id for (key_id,) in execute(console, newest)]
        assert sorted(listed) == sorted(ids)


async def test_live_keys_are_those_that_have_not_ended(console: Console) -> None:
    dead, ended, live = [(await make_key(console))[0] for _ in range(3)]
    spent, secret = await make_key(console, cap="0.000000001")
    await revoke(console, dead)
    assert (await console.complete(secret)).status == 200
    with console.open_books() as books, books.changing() as connection:
        connection.execute("UPDATE keys SET expires_ms = 5 WHERE id = ?", (ended,))
    assert {key["id"] for key in (await console.get(KEYS)).json["keys"]} == {spent, live}
    everything = (await console.get(f"{KEYS}?status=all")).json
    assert everything["count"] == 4
    assert {key["id"]: key["status"] for key in everything["keys"]} == {
        dead: "revoked", ended: "expired", spent: "cap_spent", live: "active",
    }  # fmt: skip
    for reply in (
        await rotate(console, ended),
        await console.patch(f"{KEYS}/{ended}", {"expires": FAR}),
    ):
        assert reply.refusal == (409, "key_dead", None)


async def test_keys_that_work_are_a_bounded_number(console: Console) -> None:
    with console.open_books() as books, books.changing():
        *_, last = [keys.add_key(books, HOLDER) for _ in range(MAX_LIVE_KEYS)]
    assert (await console.post(KEYS, {})).refusal == (409, "too_many_keys", None)
    assert (await console.post(KEYS, {}, as_=OPERATOR)).status == 201
    await revoke(console, last.key.id)
    assert (await console.post(KEYS, {})).status == 201


async def test_a_key_is_replaced_once_and_the_new_one_is_in_no_file(console: Console) -> None:
    key_id, _ = await make_key(console)
    replies = await asyncio.gather(*(rotate(console, key_id, 3600) for _ in range(5)))
    made, *refused = sorted(replies, key=lambda one: one.status)
    assert made.status == 201
    assert {one.refusal for one in refused} == {(409, "already_replaced", None)}
    assert find_bytes(console.folder, made.json["secret"]) == []
    assert (await console.get(f"{KEYS}?status=all")).json["count"] == 2


# ---- budgets -------------------------------------------------------------------------------------


async def add_budget(console: Console, *, as_: str = HOLDER, **changed: Any) -> Reply:
    return await console.post(BUDGETS, {**TEAM, **changed}, as_=as_, key=str(changed))


async def test_a_name_is_taken_once_in_an_account(
    console: Console, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.console.keys.MAX_BUDGETS", 2)
    await add_budget(console)
    assert (await add_budget(console, amount="7")).refusal == (409, "name_taken", "name")
    assert (await add_budget(console, as_=OTHER)).status == 201
    assert (await add_budget(console, name="b")).status == 201
    assert (await add_budget(console, name="c")).refusal == (409, "too_many_budgets", None)


# ---- tokens --------------------------------------------------------------------------------------


async def make_token(console: Console, role: str = "accounts") -> dict[str, Any]:
    reply = await console.post(TOKENS, {"name": role, "role": role}, as_=OPERATOR)
    assert reply.status == 201, reply.body
    made: dict[str, Any] = reply.json
    return made


@pytest.mark.slow
async def test_a_shop_serves_a_customer_and_no_secret_is_in_a_file(tmp_path: Path) -> None:
    """A repeated request has no second effect. `stop` searches logs, database and write-ahead log."""
    async with start_console(tmp_path) as console:
        made = await make_token(console)
        headers = {"Authorization": f"Bearer {made['secret']}"}

        async def post(path: str, body: object) -> Any:
            replies = [
                await console.post(f"{API}/{path}", body, as_=None, key="cs_1", headers=headers)
                for _ in range(2)
            ]
            return replies[0].json, replies[1]

        account, again = await post("accounts", {"name": "customer-17"})
        assert again.json == account
        path = f"accounts/{account['id']}"
        key, again = await post(f"{path}/keys", {"name": "first", "cap": "4"})
        assert again.refusal == (409, "already_done", None)
        assert again.error["key"] == key["key"]["id"]
        assert (key["key"]["account"], key["key"]["cap"]) == ("customer-17", "4.00")
        credit, again = await post(f"{path}/credit", {"amount": "5", "note": "order cs_1"})
        assert again.json == credit
        assert credit["account"]["balance"] == "5.00"
        assert (await console.complete(key["secret"], stream=True)).status == 200
        usage = await console.get(f"{API}/{path}/usage?by=model", as_=None, headers=headers)
        assert [one["requests"] for one in usage.json["rows"]] == [1]
        revoke = f"{KEYS}/{key['key']['id']}/revoke"
        revoked = (await console.post(revoke, as_=None, headers=headers)).json
        assert (revoked["status"], revoked["spent_30d"]) == ("revoked", revoked["spent"])
        assert (await console.complete(key["secret"])).status == 401
        assert console.process is not None
        rotated = await rotate(console, (await make_key(console))[0], 60)
        secrets = (made["secret"], key["secret"], rotated.json["secret"])
        console.process.canaries += [one.encode() for one in secrets]
        assert console.process.find_canaries() == []
        events = "SELECT DISTINCT actor FROM events WHERE account = 'customer-17'"
        assert execute(console, events) == [("token accounts",)]
