"""Tokens in the console's API, and the three requests by which a shop serves a customer."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.console.kit import (
    API,
    HOLDER,
    OPERATOR,
    Console,
    find_bytes,
    open_console,
    start_console,
)
from tests.console.session import execute

TOKENS: Final = f"{API}/tokens"
BUDGET: Final = {"name": "team", "amount": "5", "period": "month"}


@pytest.fixture
async def console(tmp_path: Path) -> AsyncIterator[Console]:
    async with open_console(tmp_path) as opened:
        yield opened


async def make(console: Console, name: str = "shop", role: str = "accounts") -> dict[str, Any]:
    reply = await console.post(TOKENS, {"name": name, "role": role}, as_=OPERATOR)
    assert reply.status == 201, reply.body
    made: dict[str, Any] = reply.json
    return made


async def test_a_token_is_added_listed_used_and_revoked(console: Console) -> None:
    made = await make(console)
    secret, token = made["secret"], made["token"]
    headers = {"Authorization": f"bearer {secret}"}
    assert (token["status"], token["created_by"], token["last_used"]) == ("active", OPERATOR, None)
    assert (await console.get(f"{API}/accounts", as_=None, headers=headers)).status == 200
    listed = await console.get(TOKENS, as_=OPERATOR)
    (found,) = listed.json["tokens"]
    assert found == {**token, "last_used": found["last_used"]}
    assert found["last_used"] is not None
    assert secret.encode() not in listed.body
    for _ in range(2):
        reply = await console.post(f"{TOKENS}/{token['id']}/revoke", as_=OPERATOR)
        assert (reply.status, reply.json["status"]) == (200, "revoked")
    refused = await console.get(f"{API}/accounts", as_=None, headers=headers)
    assert refused.refusal == (401, "token_revoked", None)
    events = "SELECT actor, action, target FROM events WHERE action LIKE 'token.%'"
    assert execute(console, events) == [
        (OPERATOR, "token.add", token["id"]),
        (OPERATOR, "token.revoke", token["id"]),
    ]


@pytest.mark.parametrize(
    ("body", "status", "field"),
    [
        ({"role": "read"}, 400, "name"),
        ({"name": "x"}, 400, "role"),
        ({"name": "x", "role": "holder"}, 400, "role"),
        ({"name": "x", "role": "read", "expires": "2001-01-01"}, 400, "expires"),
        ({"name": "x", "role": "read", "secret": "gwt_"}, 400, "secret"),
        ({"name": "shop", "role": "read"}, 409, "name"),
    ],
)
async def test_what_no_token_can_be(
    console: Console, body: dict[str, str], status: int, field: str
) -> None:
    await make(console)
    reply = await console.post(TOKENS, body, as_=OPERATOR)
    assert (reply.status, reply.error.get("field")) == (status, field)
    assert (await console.get(TOKENS, as_=OPERATOR)).json["count"] == 1


async def test_an_unknown_token_cannot_be_revoked(console: Console) -> None:
    reply = await console.post(f"{TOKENS}/tok_x/revoke", as_=OPERATOR)
    assert reply.refusal == (404, "not_found", None)


async def test_a_shop_adds_account_key_and_credit(tmp_path: Path) -> None:
    """Each secret is in one reply and nowhere else; a repeated request has no second effect."""
    async with start_console(tmp_path) as console:
        made = await make(console)
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
        assert (await console.complete(key["secret"])).status == 200
        usage = await console.get(f"{API}/{path}/usage?by=model", as_=None, headers=headers)
        assert [one["requests"] for one in usage.json["rows"]] == [1]
        revoke = f"{API}/keys/{key['key']['id']}/revoke"
        revoked = (await console.post(revoke, as_=None, headers=headers)).json
        assert (revoked["status"], revoked["spent_30d"]) == ("revoked", revoked["spent"])
        assert revoked["spent_nano"] > 0
        assert (await console.complete(key["secret"])).status == 401
        assert console.process is not None
        console.process.canaries += [made["secret"].encode(), key["secret"].encode()]
        assert find_bytes(tmp_path, made["secret"]) == []
        events = "SELECT DISTINCT actor FROM events WHERE account = 'customer-17'"
        assert execute(console, events) == [("token shop",)]


async def test_an_operator_adds_a_key_to_any_account(console: Console) -> None:
    path = f"{API}/accounts/{console.account_id(HOLDER)}/keys"
    reply = await console.post(path, {"name": "made for you"}, as_=OPERATOR, key="1")
    assert (reply.status, reply.json["key"]["account"]) == (201, HOLDER)
    listed = (await console.get(f"{API}/keys")).json["keys"]
    assert [one["id"] for one in listed] == [reply.json["key"]["id"]]
    refused = await console.post(path, {}, as_=OPERATOR)
    assert refused.refusal == (400, "idempotency_key_missing", None)
    for wrong in ("999", "0", "x"):
        reply = await console.post(f"{API}/accounts/{wrong}/keys", {}, as_=OPERATOR, key="1")
        assert reply.refusal == (404, "not_found", None)
        usage = await console.get(f"{API}/accounts/{wrong}/usage", as_=OPERATOR)
        assert usage.refusal == (404, "not_found", None)


async def test_a_shop_serves_holders_alone(console: Console) -> None:
    """A key of an operator's account would be paid by it; an operator's token may make one."""
    operator = console.account_id(OPERATOR)
    shop, full = [
        {"Authorization": f"Bearer {(await make(console, role, role))['secret']}"}
        for role in ("accounts", "operator")
    ]
    paths = {f"{API}/accounts/{operator}/keys": {}, f"{API}/accounts/{operator}/budgets": BUDGET}
    key = (await console.post(f"{API}/keys", {}, as_=OPERATOR)).json["key"]
    for path, body in {**paths, f"{API}/keys/{key['id']}/revoke": None}.items():
        refused = await console.post(path, body, as_=None, key="1", headers=shop)
        assert refused.refusal == (403, "token_not_allowed", None)
        allowed = await console.post(path, body, as_=None, key="2", headers=full)
        assert allowed.status in {200, 201}
    account = {"name": "boss", "operator": True}
    refused = await console.post(f"{API}/accounts", account, as_=None, key="3", headers=shop)
    assert refused.refusal == (403, "token_not_allowed", None)
