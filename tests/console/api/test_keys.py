"""Keys, budgets and tokens in the console's API: each task, and one reply alone with the secret."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, Final

import pytest

from gateway import ids
from gateway.admin import keys
from gateway.console.api.keys import MAX_LIVE_KEYS
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


async def edit(console: Console, key_id: str, **changes: Any) -> Any:
    return (await console.patch(f"{KEYS}/{key_id}", changes)).json


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


# ---- changing ------------------------------------------------------------------------------------


async def test_what_is_not_named_stays_and_null_clears(console: Console) -> None:
    terms: dict[str, Any] = {
        "name": "n",
        "cap": "5",
        "expires": "2999-01-01",
        "models": ["vendor/large"],
    }
    key_id, secret = await make_key(console, **terms)
    shown = {**terms, "cap": "5.00", "expires": FAR}
    assert shown.items() <= (await edit(console, key_id)).items()
    assert {**shown, "name": "m"}.items() <= (await edit(console, key_id, name="m")).items()
    assert (await console.complete(secret)).status == 403, "another model"
    cleared = await edit(console, key_id, cap=None, expires=None, models=None)
    assert {"name": "m", "cap": None, "expires": None, "models": None}.items() <= cleared.items()
    assert (await console.complete(secret)).status == 200, "in force with the reply"
    assert (await edit(console, key_id, cap="0.000000001"))["status"] == "cap_spent"
    assert (await console.complete(secret)).status == 402
    assert (await edit(console, key_id, name="", cap="1"))["name"] == ""
    assert (await console.complete(secret)).status == 200


async def test_operators_set_any_limits_and_holders_narrow_theirs(console: Console) -> None:
    limits: dict[str, Any] = {
        "requests_per_minute": 600,
        "tokens_per_minute": 10**9,
        "concurrency": 1,
    }
    key_id, _ = await make_key(console, **limits)
    assert limits.items() <= (await console.get(f"{KEYS}/{key_id}")).json.items()
    shown = await edit(console, key_id, tokens_per_minute=0, concurrency=None)
    assert (shown["tokens_per_minute"], shown["concurrency"]) == (0, None)
    own, _ = await make_key(console, as_=OPERATOR, requests_per_minute=0, concurrency=51)
    wide = await console.patch(f"{KEYS}/{own}", {"requests_per_minute": 10**9}, as_=OPERATOR)
    assert wide.json["requests_per_minute"] == 10**9


async def test_a_rotated_key_works_in_its_grace_and_is_replaced_once(console: Console) -> None:
    old_id, old_secret = await make_key(console, name="n")
    reply = await rotate(console, old_id, 3600)
    assert (reply.status, set(reply.json)) == (201, {"key", "old", "secret"})
    new, old = reply.json["key"], reply.json["old"]
    assert (new["name"], new["status"], new["replaced_by"]) == ("n", "active", None)
    assert (old["id"], old["status"], old["replaced_by"]) == (old_id, "active", new["id"])
    for secret in (old_secret, reply.json["secret"]):
        assert (await console.complete(secret)).status == 200
    for refused in (
        await rotate(console, old_id),
        await console.patch(f"{KEYS}/{old_id}", {"expires": None}),
    ):
        assert refused.refusal == (409, "already_replaced", None)
    assert (await edit(console, old_id, name="old"))["name"] == "old"
    assert find_bytes(console.folder, reply.json["secret"]) == []
    replies = await asyncio.gather(*(rotate(console, new["id"]) for _ in range(5)))
    assert sorted(reply.status for reply in replies) == [201, 409, 409, 409, 409]
    assert (await console.get(f"{KEYS}?status=all")).json["count"] == 3


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


# ---- who may -------------------------------------------------------------------------------------


async def test_anothers_key_is_as_unknown_as_none(console: Console) -> None:
    key_id, secret = await make_key(console)
    unknown = "key_0000000000000000"
    for method, rest, body in (
        ("GET", "", None),
        ("PATCH", "", {"name": "mine"}),
        ("PATCH", "", {}),
        ("POST", "/rotate", {"grace_seconds": 0}),
        ("POST", "/revoke", None),
    ):
        replies = [
            await console.ask(method, f"{KEYS}/{one}{rest}", body, as_=OTHER)
            for one in (key_id, unknown)
        ]
        texts = {reply.error["message"].replace(key_id, unknown) for reply in replies}
        assert [reply.refusal for reply in replies] == [(404, "not_found", None)] * 2
        assert len(texts) == 1
    assert (await console.get(f"{KEYS}?status=all", as_=OTHER)).json["keys"] == []
    assert (await console.complete(secret)).status == 200


async def test_who_did_what_is_noted_without_the_secret(console: Console) -> None:
    key_id, secret = await make_key(console, name="n")
    await edit(console, key_id, name="m", cap="5", expires="2999-01-01", models=["a", "b"])
    new = (await rotate(console, key_id, 60)).json
    for _ in range(2):
        reply = await revoke(console, new["key"]["id"], as_=OPERATOR)
        assert (reply.json["account"], reply.json["status"]) == (HOLDER, "revoked")
    assert (await console.complete(new["secret"])).status == 401
    events = "SELECT actor, action, target, detail FROM events WHERE action LIKE 'key.%'"
    rows = execute(console, f"{events} AND account = 'holder' AND address = '127.0.0.1'")
    assert rows == [
        (HOLDER, "key.add", key_id, "n"),
        (HOLDER, "key.edit", key_id, "name 'm'; cap 5.00; expires 2999-01-01 00:00 UTC; 2 models"),
        (HOLDER, "key.rotate", key_id, f"replaced by {new['key']['id']}, grace 60 s"),
        (OPERATOR, "key.revoke", new["key"]["id"], "m"),
    ]
    assert secret not in str(rows)


async def test_an_operator_adds_a_key_to_any_account(console: Console) -> None:
    path = f"{API}/accounts/{console.account_id(HOLDER)}/keys"
    reply = await console.post(path, {"name": "made for you"}, as_=OPERATOR, key="1")
    assert (reply.status, reply.json["key"]["account"]) == (201, HOLDER)
    listed = (await console.get(KEYS)).json["keys"]
    assert [one["id"] for one in listed] == [reply.json["key"]["id"]]
    refused = await console.post(path, {}, as_=OPERATOR)
    assert refused.refusal == (400, "idempotency_key_missing", None)


async def test_an_operator_edits_and_rotates_the_key_of_any_account(console: Console) -> None:
    """Beyond the holder's limits, from the holder's budgets alone; events name the operator."""
    key_id, _ = await make_key(console, name="n")
    url, own, theirs = (
        f"{KEYS}/{key_id}",
        await add_budget(console),
        await add_budget(console, as_=OTHER),
    )
    changes = {"requests_per_minute": 10**9, "budget_id": own.json["id"]}
    edited = (await console.patch(url, changes, as_=OPERATOR)).json
    assert (edited["account"], edited["requests_per_minute"]) == (HOLDER, 10**9)
    assert edited["budget"]["name"] == "team"
    assert (await console.patch(url, {}, as_=OPERATOR)).json == edited
    assert (await console.get(url, as_=OPERATOR)).json == edited
    refused = await console.patch(url, {"budget_id": theirs.json["id"]}, as_=OPERATOR)
    assert refused.refusal == (404, "invalid_field", "budget_id")
    rotated = await console.post(f"{url}/rotate", {"grace_seconds": 0}, as_=OPERATOR)
    assert (rotated.status, rotated.json["key"]["account"]) == (201, HOLDER)
    assert rotated.json["old"]["replaced_by"] == rotated.json["key"]["id"]
    assert (await console.complete(rotated.json["secret"])).status == 200
    events = "SELECT actor, account FROM events WHERE action IN ('key.edit', 'key.rotate')"
    assert execute(console, events) == [(OPERATOR, HOLDER)] * 2


# ---- budgets -------------------------------------------------------------------------------------


async def add_budget(console: Console, *, as_: str = HOLDER, **changed: Any) -> Reply:
    return await console.post(BUDGETS, {**TEAM, **changed}, as_=as_, key=str(changed))


async def test_a_budget_is_added_shown_changed_and_removed(console: Console) -> None:
    added = await add_budget(console)
    budget = added.json
    assert (added.status, budget["name"], budget["period"]) == (201, "team", "month")
    assert (budget["account"], budget["amount"]) == (HOLDER, "100.00")
    assert (budget["spent"], budget["remaining_nano"]) == ("0.00", 10**11)
    assert budget["resets"].endswith("-01T00:00:00.000Z")
    assert (await add_budget(console)).json == budget, "a repeated request adds none"
    assert (await console.get(BUDGETS)).json == {"count": 1, "budgets": [budget]}
    url = f"{BUDGETS}/{budget['id']}"
    assert (await console.patch(url, {})).json == budget
    changed = await console.patch(url, {"name": "crew", "amount": "5", "period": "day"})
    assert (changed.json["name"], changed.json["amount_nano"]) == ("crew", 5 * 10**9)
    assert (await console.delete(url)).status == 204
    assert (await console.get(BUDGETS)).json == {"count": 0, "budgets": []}
    assert (await console.delete(url)).status == 404


async def test_keys_spend_from_a_budget_of_their_own_or_a_shared_one(console: Console) -> None:
    team = (await add_budget(console)).json
    own_id, _ = await make_key(console, budget_amount="5", budget_period="day")
    own = (await console.get(f"{KEYS}/{own_id}")).json["budget"]
    assert (own["name"], own["amount"]) == (None, "5.00")
    await make_key(console, budget_id=team["id"])
    listed = (await console.get(BUDGETS)).json["budgets"]
    assert [(one["name"], one["keys"]) for one in listed] == [("team", 1)], "no key's own"
    edited = (await edit(console, own_id, budget_amount="6", budget_period="week"))["budget"]
    assert (edited["id"], edited["period"]) == (own["id"], "week")
    assert (await edit(console, own_id, name="n"))["budget"] is not None
    assert (await edit(console, own_id, budget_id=None))["budget"] is None
    in_use = await console.delete(f"{BUDGETS}/{team['id']}")
    assert in_use.refusal[:2] == (409, "budget_in_use")
    unknown = await console.post(KEYS, {"budget_id": 99})
    assert unknown.refusal == (404, "invalid_field", "budget_id")


async def test_a_name_is_taken_once_in_an_account(
    console: Console, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.console.api.keys.MAX_BUDGETS", 2)
    await add_budget(console)
    assert (await add_budget(console, amount="7")).refusal == (409, "name_taken", "name")
    assert (await add_budget(console, as_=OTHER)).status == 201
    assert (await add_budget(console, name="b")).status == 201
    assert (await add_budget(console, name="c")).refusal == (409, "too_many_budgets", None)


async def test_budgets_of_others_are_for_operators_alone(console: Console) -> None:
    url = f"{API}/accounts/{console.account_id(OTHER)}/budgets"
    added = await console.post(url, TEAM, as_=OPERATOR, key="k")
    assert (added.status, added.json["account"]) == (201, OTHER)
    counts = [(await console.get(BUDGETS, as_=one)).json["count"] for one in (HOLDER, OTHER)]
    assert counts == [0, 1]
    theirs = f"{BUDGETS}/{added.json['id']}"
    for reply in (
        await console.patch(theirs, {"amount": "1", "period": "day"}),
        await console.delete(theirs),
        await console.patch(f"{BUDGETS}/01", {}),
    ):
        assert reply.status == 404
    edited = await console.patch(theirs, {"amount": "1", "period": "day"}, as_=OPERATOR)
    assert edited.json["amount"] == "1.00"
    assert (await console.get(url, as_=OPERATOR)).json["budgets"] == [edited.json]
    assert (await console.delete(theirs, as_=OPERATOR)).status == 204


# ---- tokens --------------------------------------------------------------------------------------


async def make_token(console: Console, role: str = "accounts") -> dict[str, Any]:
    reply = await console.post(TOKENS, {"name": role, "role": role}, as_=OPERATOR)
    assert reply.status == 201, reply.body
    made: dict[str, Any] = reply.json
    return made


async def test_a_token_is_added_listed_used_and_revoked(console: Console) -> None:
    made = await make_token(console)
    secret, token = made["secret"], made["token"]
    headers = {"Authorization": f"bearer {secret}"}
    assert (token["status"], token["created_by"], token["last_used"]) == ("active", OPERATOR, None)
    assert (await console.get(f"{API}/accounts", as_=None, headers=headers)).status == 200
    listed = await console.get(TOKENS, as_=OPERATOR)
    (found,) = listed.json["tokens"]
    assert found == {**token, "last_used": found["last_used"]}
    assert found["last_used"] is not None
    assert secret.encode() not in listed.body
    again = await console.post(TOKENS, {"name": "accounts", "role": "read"}, as_=OPERATOR)
    assert again.refusal == (409, "name_taken", "name")
    for _ in range(2):
        reply = await console.post(f"{TOKENS}/{token['id']}/revoke", as_=OPERATOR)
        assert (reply.status, reply.json["status"]) == (200, "revoked")
    refused = await console.get(f"{API}/accounts", as_=None, headers=headers)
    assert refused.refusal == (401, "token_revoked", None)
    unknown = await console.post(f"{TOKENS}/tok_x/revoke", as_=OPERATOR)
    assert unknown.refusal == (404, "not_found", None)
    events = "SELECT actor, action, target FROM events WHERE action LIKE 'token.%'"
    assert execute(console, events) == [
        (OPERATOR, "token.add", token["id"]),
        (OPERATOR, "token.revoke", token["id"]),
    ]


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


async def test_a_shop_serves_holders_alone(console: Console) -> None:
    """A key of an operator's account would be paid by it; an operator's token may make one."""
    shop, full = [
        {"Authorization": f"Bearer {(await make_token(console, role))['secret']}"}
        for role in ("accounts", "operator")
    ]
    operator = f"{API}/accounts/{console.account_id(OPERATOR)}"
    key, _ = await make_key(console, as_=OPERATOR)
    for path, body in (
        (f"{operator}/keys", {}),
        (f"{operator}/budgets", TEAM),
        (f"{KEYS}/{key}/revoke", None),
    ):
        refused = await console.post(path, body, as_=None, key="1", headers=shop)
        assert refused.refusal == (403, "token_not_allowed", None)
        allowed = await console.post(path, body, as_=None, key="2", headers=full)
        assert allowed.status in {200, 201}
    account = {"name": "boss", "operator": True}
    refused = await console.post(f"{API}/accounts", account, as_=None, key="3", headers=shop)
    assert refused.refusal == (403, "token_not_allowed", None)
