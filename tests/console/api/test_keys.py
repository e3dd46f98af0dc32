"""Keys in the console's API: each task, each refusal, and one reply alone with the secret."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import pytest

from gateway import apikeys
from gateway.times import DAY_MS, unix_ms
from tests.console.kit import (
    API,
    HOLDER,
    OPERATOR,
    OTHER,
    Console,
    Reply,
    find_bytes,
    open_console,
    start_console,
)
from tests.ledger.kit import admission, query, settlement
from tests.support.rows import each_row

KEYS: Final = f"{API}/keys"
FAR: Final = "2999-01-01T00:00:00.000Z"


@pytest.fixture
async def console(tmp_path: Path) -> AsyncIterator[Console]:
    async with open_console(tmp_path) as opened:
        yield opened


async def make_key(console: Console, *, as_: str = HOLDER, **terms: Any) -> tuple[str, str]:
    """Make a key and return its id and the key itself."""
    reply = await console.post(KEYS, terms, as_=as_)
    assert reply.status == 201, reply.body
    return reply.json["key"]["id"], reply.json["secret"]


async def revoke(console: Console, key_id: str, *, as_: str = HOLDER) -> Reply:
    return await console.post(f"{KEYS}/{key_id}/revoke", as_=as_)


async def rotate(console: Console, key_id: str, grace_seconds: int = 0) -> Reply:
    return await console.post(f"{KEYS}/{key_id}/rotate", {"grace_seconds": grace_seconds})


async def list_ids(console: Console, query_: str = "", *, as_: str = HOLDER) -> list[str]:
    reply = await console.get(f"{KEYS}{query_}", as_=as_)
    assert reply.status == 200, reply.body
    return [key["id"] for key in reply.json["keys"]]


# ---- making and reading --------------------------------------------------------------------------


async def test_a_key_is_made_shown_once_and_works_at_once(console: Console) -> None:
    terms = {"name": " laptop ", "cap": "2.5", "expires": "2999-01-01", "models": ["demo/echo"]}
    made = await console.post(KEYS, terms)
    assert made.status == 201
    assert made.headers["Cache-Control"] == "no-store"
    assert set(made.json) == {"key", "secret"}
    key, secret = made.json["key"], made.json["secret"]
    assert apikeys.is_well_formed(secret)
    assert key == {
        "id": key["id"],
        "account": HOLDER,
        "name": "laptop",
        "display": f"sk-ru-…{secret[-4:]}",
        "models": ["demo/echo"],
        "requests_per_minute": None,
        "tokens_per_minute": None,
        "concurrency": None,
        "cap": "2.50",
        "cap_nano": 2_500_000_000,
        "spent": "0.00",
        "spent_nano": 0,
        "created": key["created"],
        "expires": FAR,
        "revoked": None,
        "last_used": None,
        "spent_30d": "0.00",
        "spent_30d_nano": 0,
        "status": "active",
        "replaced_by": None,
        "budget": None,
    }
    assert (await console.complete(secret)).status == 200
    shown = await console.get(f"{KEYS}/{key['id']}")
    assert shown.status == 200
    assert secret.encode() not in shown.body
    assert secret.encode() not in (await console.get(KEYS)).body
    assert find_bytes(console.folder, secret) == []


async def test_a_key_tells_what_it_was_used_for(console: Console) -> None:
    key_id, secret = await make_key(console)
    assert (await console.complete(secret)).status == 200
    key = (await console.get(f"{KEYS}/{key_id}")).json
    ((cost, ended_ms),) = query(console.database, "SELECT cost_nano, ended_ms FROM requests")
    assert isinstance(cost, int)
    assert key["spent_nano"] == key["spent_30d_nano"] == cost > 0
    ((last_used_ms,),) = query(console.database, "SELECT last_used_ms FROM keys")
    assert last_used_ms == ended_ms
    assert key["last_used"] is not None


async def test_what_was_spent_in_30_days_counts_today_and_29_days_before(console: Console) -> None:
    _, secret = await make_key(console)
    assert console.gateway is not None
    ledger = console.gateway.ledger
    key = ledger.find_key(apikeys.digest(secret))
    assert key is not None
    for days_ago, cost_nano in ((0, 1), (29, 20), (30, 400)):
        ended_ms = unix_ms() - days_ago * DAY_MS
        await ledger.settle(ledger.hold(key, admission()), settlement(cost_nano, ended_ms=ended_ms))
    (shown,) = (await console.get(KEYS)).json["keys"]
    assert (shown["spent"], shown["spent_nano"]) == ("0.000000421", 421)
    assert (shown["spent_30d"], shown["spent_30d_nano"]) == ("0.000000021", 21)


@pytest.mark.parametrize(
    ("terms", "refusal"),
    [
        ({"name": "x" * 101}, (400, "invalid_field", "name")),
        ({"name": "a\u202eb"}, (400, "invalid_field", "name")),
        ({"name": 5}, (400, "invalid_field", "name")),
        ({"cap": "0"}, (400, "invalid_field", "cap")),
        ({"cap": "-1"}, (400, "invalid_field", "cap")),
        ({"cap": 5}, (400, "invalid_field", "cap")),
        ({"cap": "1e3"}, (400, "invalid_field", "cap")),
        ({"cap": "0.0000000001"}, (400, "invalid_field", "cap")),
        ({"expires": "2001-01-01"}, (400, "invalid_field", "expires")),
        ({"expires": "2999-01-01T00:00:00"}, (400, "invalid_field", "expires")),
        ({"models": []}, (400, "invalid_field", "models")),
        ({"models": [""]}, (400, "invalid_field", "models")),
        ({"models": "demo/echo"}, (400, "invalid_field", "models")),
        ({"secret": "mine"}, (400, "unknown_field", None)),
    ],
)
async def test_terms_that_make_no_sense_are_refused_by_field(
    console: Console, terms: dict[str, object], refusal: tuple[int, str, str | None]
) -> None:
    made = await console.post(KEYS, terms)
    assert made.refusal[:2] == refusal[:2], made.body
    assert refusal[2] is None or made.refusal == refusal
    assert made.error["message"][-1] == "."
    key_id, _ = await make_key(console)
    changed = await console.patch(f"{KEYS}/{key_id}", terms)
    assert changed.refusal == made.refusal
    assert (await console.get(KEYS)).json["count"] == 1


# ---- listing -------------------------------------------------------------------------------------


async def test_keys_are_listed_in_pages_the_newest_first(console: Console) -> None:
    ids = [(await make_key(console, name=f"k{number}"))[0] for number in range(5)]
    await make_key(console, as_=OTHER)
    with console.open_books() as books, books.changing() as connection:
        connection.execute("UPDATE keys SET created_ms = 5 WHERE name < 'k3'")
    made = query(console.database, "SELECT id FROM keys WHERE account_id = 1"
                 " ORDER BY created_ms DESC, id DESC")  # fmt: skip
    newest_first = [str(key_id) for (key_id,) in made]
    assert sorted(newest_first) == sorted(ids)
    assert await list_ids(console) == newest_first
    seen, target, counts = [], f"{KEYS}?status=all&limit=2", set()
    while target:
        page = await console.get(target)
        assert page.status == 200
        seen += [key["id"] for key in page.json["keys"]]
        counts.add(page.json["count"])
        link = page.headers.get("Link", "")
        assert bool(link) == (page.json["next_cursor"] is not None)
        target = link.removeprefix("<").removesuffix('>; rel="next"')
    assert (seen, counts) == (newest_first, {5})


async def test_live_keys_are_those_that_have_not_ended(console: Console) -> None:
    dead, _ = await make_key(console)
    ended, _ = await make_key(console)
    spent, spent_secret = await make_key(console, cap="0.000000001")
    live, _ = await make_key(console)
    await revoke(console, dead)
    assert (await console.complete(spent_secret)).status == 200
    with console.open_books() as books, books.changing() as connection:
        connection.execute("UPDATE keys SET expires_ms = 5 WHERE id = ?", (ended,))
    assert sorted(await list_ids(console)) == sorted([spent, live])
    everything = (await console.get(f"{KEYS}?status=all")).json
    assert everything["count"] == 4
    assert {key["id"]: key["status"] for key in everything["keys"]} == {
        dead: "revoked",
        ended: "expired",
        spent: "cap_spent",
        live: "active",
    }


@each_row(
    ("target", "field"),
    [
        ("?status=dead", "status"),
        ("?limit=0", "limit"),
        ("?limit=201", "limit"),
        ("?cursor=nonsense", "cursor"),
        ("?cursor=WyJ4Il0", "cursor"),  # ["x"]: another list's
    ],
)
async def test_a_list_that_makes_no_sense_is_refused(
    console: Console, target: str, field: str
) -> None:
    assert (await console.get(KEYS + target)).refusal == (400, "invalid_field", field)


# ---- changing ------------------------------------------------------------------------------------


async def test_what_is_not_named_stays_and_null_clears(console: Console) -> None:
    key_id, secret = await make_key(
        console, name="n", cap="5", expires="2999-01-01", models=["vendor/large"]
    )
    path = f"{KEYS}/{key_id}"
    same = (await console.patch(path, {})).json
    assert (same["name"], same["cap"], same["expires"]) == ("n", "5.00", FAR)
    named = (await console.patch(path, {"name": "m"})).json
    assert (named["name"], named["cap"], named["models"]) == ("m", "5.00", ["vendor/large"])
    assert (await console.complete(secret)).status == 403, "another model"
    cleared = (await console.patch(path, {"cap": None, "expires": None, "models": None})).json
    assert (cleared["name"], cleared["cap"], cleared["cap_nano"]) == ("m", None, None)
    assert (cleared["expires"], cleared["models"]) == (None, None)
    assert (await console.complete(secret)).status == 200, "in force with the reply"
    assert (await console.patch(path, {"name": ""})).json["name"] == ""
    assert (await console.get(path)).json["name"] == ""


async def test_holders_narrow_the_limits_of_their_keys_and_operators_set_any(
    console: Console,
) -> None:
    limits: dict[str, Any] = {
        "requests_per_minute": 600,
        "tokens_per_minute": 10**9,
        "concurrency": 1,
    }
    key_id, _ = await make_key(console, **limits)
    url = f"{KEYS}/{key_id}"
    assert limits.items() <= (await console.get(url)).json.items()
    for wide in ({"requests_per_minute": 601}, {"requests_per_minute": 0}, {"concurrency": 51}):
        [name] = wide
        assert (await console.patch(url, wide)).refusal == (400, "invalid_field", name)
        assert (await console.post(KEYS, wide)).refusal == (400, "invalid_field", name)
    reply = await console.patch(url, {"tokens_per_minute": 0, "concurrency": None})
    assert (reply.json["tokens_per_minute"], reply.json["concurrency"]) == (0, None)
    operators, _ = await make_key(console, as_=OPERATOR, requests_per_minute=0, concurrency=51)
    reply = await console.patch(f"{KEYS}/{operators}", {"requests_per_minute": 10**9}, as_=OPERATOR)
    assert reply.json["requests_per_minute"] == 10**9


async def test_a_cap_below_what_was_spent_ends_its_use(console: Console) -> None:
    key_id, secret = await make_key(console)
    await console.complete(secret)
    lowered = (await console.patch(f"{KEYS}/{key_id}", {"cap": "0.000000001"})).json
    assert lowered["status"] == "cap_spent"
    assert (await console.complete(secret)).status == 402
    await console.patch(f"{KEYS}/{key_id}", {"cap": "1"})
    assert (await console.complete(secret)).status == 200


async def test_a_rotated_key_works_in_its_grace_and_is_replaced_once(console: Console) -> None:
    old_id, old_secret = await make_key(console, name="n")
    reply = await rotate(console, old_id, 3600)
    assert reply.status == 201
    assert set(reply.json) == {"key", "old", "secret"}
    new, old = reply.json["key"], reply.json["old"]
    assert (new["name"], new["status"], new["replaced_by"]) == ("n", "active", None)
    assert (old["id"], old["status"], old["replaced_by"]) == (old_id, "active", new["id"])
    for secret in (old_secret, reply.json["secret"]):
        assert (await console.complete(secret)).status == 200
    assert (await rotate(console, old_id)).refusal == (409, "already_replaced", None)
    longer = await console.patch(f"{KEYS}/{old_id}", {"expires": None})
    assert longer.refusal == (409, "already_replaced", None)
    assert (await console.patch(f"{KEYS}/{old_id}", {"name": "old"})).status == 200
    assert find_bytes(console.folder, reply.json["secret"]) == []


async def test_of_two_rotations_at_once_one_has_an_effect(console: Console) -> None:
    key_id, _ = await make_key(console)
    replies = await asyncio.gather(*(rotate(console, key_id) for _ in range(5)))
    assert sorted(reply.status for reply in replies) == [201, 409, 409, 409, 409]
    assert (await console.get(f"{KEYS}?status=all")).json["count"] == 2


@each_row("grace", [-1, 604_801, "3600", None, 1.5])
async def test_a_grace_is_at_most_a_week(console: Console, grace: object) -> None:
    key_id, _ = await make_key(console)
    reply = await console.post(f"{KEYS}/{key_id}/rotate", {"grace_seconds": grace})
    assert reply.refusal == (400, "invalid_field", "grace_seconds")


async def test_a_revoked_key_is_refused_at_once_and_stays_so(console: Console) -> None:
    key_id, secret = await make_key(console)
    first = await revoke(console, key_id)
    assert (first.status, first.json["status"]) == (200, "revoked")
    assert (await console.complete(secret)).status == 401
    assert (await revoke(console, key_id)).json == first.json
    for reply in (
        await rotate(console, key_id),
        await console.patch(f"{KEYS}/{key_id}", {"name": "n"}),
        await console.patch(f"{KEYS}/{key_id}", {"expires": FAR}),
    ):
        assert reply.refusal == (409, "key_dead", None)


async def test_an_expired_key_is_dead(console: Console) -> None:
    key_id, _ = await make_key(console)
    with console.open_books() as books, books.changing() as connection:
        connection.execute("UPDATE keys SET expires_ms = 5")
    assert (await rotate(console, key_id)).refusal == (409, "key_dead", None)
    edited = await console.patch(f"{KEYS}/{key_id}", {"expires": FAR})
    assert edited.refusal == (409, "key_dead", None)


# ---- who may -------------------------------------------------------------------------------------


@each_row("stranger", [OTHER, OPERATOR])
async def test_anothers_key_is_as_unknown_as_none(console: Console, stranger: str) -> None:
    key_id, secret = await make_key(console)
    unknown = "key_0000000000000000"
    for method, rest, body in (
        ("GET", "", None),
        ("PATCH", "", {"name": "mine"}),
        ("PATCH", "", {}),
        ("POST", "/rotate", {"grace_seconds": 0}),
        *([("POST", "/revoke", None)] if stranger == OTHER else []),
    ):
        replies = [
            await console.ask(method, f"{KEYS}/{one}{rest}", body, as_=stranger)
            for one in (key_id, unknown)
        ]
        texts = {reply.error["message"].replace(key_id, unknown) for reply in replies}
        assert [reply.refusal for reply in replies] == [(404, "not_found", None)] * 2
        assert len(texts) == 1
    assert await list_ids(console, "?status=all", as_=stranger) == []
    assert (await console.complete(secret)).status == 200
    assert (await console.get(f"{KEYS}/{key_id}")).json["name"] == ""


async def test_an_operator_may_end_anybodys_key(console: Console) -> None:
    key_id, secret = await make_key(console)
    reply = await revoke(console, key_id, as_=OPERATOR)
    assert (reply.status, reply.json["account"], reply.json["status"]) == (200, HOLDER, "revoked")
    assert (await console.complete(secret)).status == 401


async def test_who_did_what_is_noted_without_the_secret(console: Console) -> None:
    key_id, secret = await make_key(console, name="n")
    await console.patch(
        f"{KEYS}/{key_id}",
        {"name": "m", "cap": "5", "expires": "2999-01-01", "models": ["a", "b"]},
    )
    new = (await rotate(console, key_id, 60)).json
    await revoke(console, new["key"]["id"], as_=OPERATOR)
    await revoke(console, new["key"]["id"], as_=OPERATOR)
    rows = query(
        console.database,
        "SELECT actor, action, account, target, detail, address FROM events"
        " WHERE action LIKE 'key.%' ORDER BY id",
    )
    assert rows == [
        (HOLDER, "key.add", HOLDER, key_id, "n", "127.0.0.1"),
        (
            HOLDER, "key.edit", HOLDER, key_id,
            "name 'm'; cap 5.00; expires 2999-01-01 00:00 UTC; 2 models", "127.0.0.1",
        ),
        (
            HOLDER, "key.rotate", HOLDER, key_id,
            f"replaced by {new['key']['id']}, grace 60 s", "127.0.0.1",
        ),
        (OPERATOR, "key.revoke", HOLDER, new["key"]["id"], "m", "127.0.0.1"),
    ]  # fmt: skip
    assert not any(secret in str(row) for row in rows)


async def test_a_key_stands_in_no_file_of_a_serving_process(tmp_path: Path) -> None:
    """`process.stop` searches logs, database and write-ahead log for the key."""
    async with start_console(tmp_path) as console:
        assert console.process is not None
        key_id, secret = await make_key(console, name="n")
        console.process.canaries += [secret.encode()]
        assert (await console.complete(secret, stream=True)).status == 200
        rotated = await rotate(console, key_id, 60)
        console.process.canaries += [rotated.json["secret"].encode()]
        assert (await revoke(console, key_id)).status == 200
        assert console.process.find_canaries() == []
