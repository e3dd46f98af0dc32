"""Who may ask: keys, accounts, rates and balances, in the order of refusals; keys that ended."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import time
from types import SimpleNamespace
from typing import Any, cast

import pytest

from gateway.api import keys
from gateway.api.keys import explain_end
from gateway.api.limits import Bucket
from gateway.api.state import LOOKUPS_PER_MINUTE
from gateway.errors import LedgerUnavailable
from gateway.ids import make_key
from gateway.ledger.key_records import EndedKey
from tests.support.chat import check_error, check_messages_error, say
from tests.support.client import Cut, request
from tests.support.process import CHAT, MESSAGES
from tests.support.replies import chunked, completion, json_reply
from tests.support.rows import each_row
from tests.support.seed import Caller
from tests.support.stage import Stage

GOOD = json.dumps(say("plain/0")).encode()
JSON_TYPE = {"Content-Type": "application/json"}
ANTHROPIC = {"anthropic-version": "2023-06-01"}
SAME_TEXT_401: set[str] = set()


PATHS = [
    "/",
    "/v1",
    "/v1/nothing",
    f"{CHAT}/",
    f"/v1{CHAT}",
    "/v1/../admin",
    "/v1/%2e%2e/admin",
    f"/{CHAT}",
    "/v1/%zz",
    "/v1/chat%00completions",
    f"{CHAT};a=b",
    "/v1/chat/Completions",
]


@each_row("path", PATHS)
async def test_unknown_path_is_a_404(stage: Stage, path: str) -> None:
    """Paths are compared unchanged: nothing is resolved, decoded or joined before."""
    for key in (stage.key, None):
        reply = await stage.gateway.ask("POST", path, key=key, headers=JSON_TYPE, body=GOOD)
        check_error(reply, 404, "unknown_url")
    assert stage.alpha.connections == 0


def near_miss(key: str) -> str:
    """Return the key with another last character."""
    return key[:-1] + ("a" if key[-1] != "a" else "b")


BAD_KEYS: dict[str, list[tuple[str, str]]] = {
    "no key": [],
    "empty header": [("Authorization", "")],
    "basic authentication": [("Authorization", "Basic dXNlcjpwYXNz")],
    "bearer only": [("Authorization", "Bearer")],
    "bearer and space": [("Authorization", "Bearer ")],
    "x-api-key empty": [("x-api-key", "")],
    "never made": [("Authorization", f"Bearer {make_key()}")],
    "not of ours": [("Authorization", "Bearer sk-proj-abcdefghijklmnop")],
    "prefix alone": [("Authorization", "Bearer sk-ru-")],
    "spaces": [("Authorization", f"Bearer {make_key()} {make_key()}")],
    "quotes": [("Authorization", "Bearer \"'`\\")],
    "sql": [("Authorization", "Bearer ' OR 1=1; DROP TABLE keys; --")],
    "a key of 4 kB": [("Authorization", "Bearer " + "k" * 4096)],
    "0xff": [("Authorization", "Bearer \xff\xfe")],
    "x-api-key": [("x-api-key", make_key())],
    "a cookie": [("Cookie", "session=abcdef")],
}


@each_row("name", BAD_KEYS)
async def test_bad_key_is_a_401(stage: Stage, name: str) -> None:
    """All keys that never were get one text; those that ended are told when."""
    headers = [*JSON_TYPE.items(), *BAD_KEYS[name]]
    reply = await stage.gateway.ask("POST", CHAT, headers=headers, body=GOOD)
    SAME_TEXT_401.add(check_error(reply, 401, "invalid_api_key"))
    assert len(SAME_TEXT_401) == 1


@each_row("key_case", ["lower", "upper", "cut", "longer", "near miss"])
async def test_no_variant_of_a_key_is_the_key(stage: Stage, key_case: str) -> None:
    key = stage.key
    variants = {
        "lower": key.lower(),
        "upper": key.upper(),
        "cut": key[:-1],
        "longer": key + "0",
        "near miss": near_miss(key),
    }
    check_error(await stage.chat(GOOD, key=variants[key_case]), 401, "invalid_api_key")


async def test_key_in_the_query_is_a_401(stage: Stage) -> None:
    """Query strings end up in logs, so the key is refused and not logged."""
    key = stage.key
    for name in ("key", "api_key"):
        reply = await stage.gateway.ask("GET", f"/v1/models?{name}={key}", headers={})
        assert "header" in check_error(reply, 401, "invalid_api_key").lower()
    assert key not in stage.gateway.log


async def test_key_in_the_path_is_not_logged(stage: Stage) -> None:
    await stage.gateway.ask("GET", f"/v1/{stage.key}", key=stage.key)
    assert stage.key not in stage.gateway.log


@each_row("scheme", ["Bearer", "bearer", "BEARER"])
async def test_both_headers_are_keys(stage: Stage, scheme: str) -> None:
    for headers in (
        {"Authorization": f"{scheme} {stage.key}"},
        {"x-api-key": stage.key},
        {"x-api-key": stage.key, "Authorization": f"{scheme} {stage.key}"},
    ):
        assert (await stage.gateway.ask("GET", "/v1/models", headers=headers)).status == 200


async def test_two_different_keys_are_refused(stage: Stage) -> None:
    """With two keys it would be unclear who pays."""
    other = stage.callers["empty"].key
    headers = [*JSON_TYPE.items(), ("x-api-key", other), ("Authorization", f"Bearer {stage.key}")]
    reply = await stage.gateway.ask("POST", CHAT, headers=headers, body=GOOD)
    assert reply.status in {400, 401}
    twice = [("Authorization", f"Bearer {one}") for one in (stage.key, other)]
    reply = await stage.gateway.ask("POST", CHAT, headers=[*JSON_TYPE.items(), *twice], body=GOOD)
    assert reply.status in {400, 401}
    assert stage.alpha.connections == 0


ORDER: dict[str, tuple[str, str, bytes, dict[str, str], int, str | None]] = {
    "404 before 401": ("none", "/v1/nothing", b"", {}, 404, "unknown_url"),
    "401 before 415": ("none", CHAT, b"x", {"Content-Type": "text/plain"}, 401, "invalid_api_key"),
    "401 before 413": ("none", CHAT, b"", {"Content-Length": "99999999"}, 401, "invalid_api_key"),
    "403 before 402": ("suspended-empty", CHAT, GOOD, JSON_TYPE, 403, "account_suspended"),
    "403 before 400": ("suspended", CHAT, b"no json", JSON_TYPE, 403, "account_suspended"),
    "402 before 415": (
        "empty",
        CHAT,
        b"x",
        {"Content-Type": "text/plain"},
        402,
        "insufficient_quota",
    ),
    "402 before 400": ("empty", CHAT, b"no json", JSON_TYPE, 402, "insufficient_quota"),
    "415 before 400": ("rich", CHAT, b"no json", {}, 415, "unsupported_media_type"),
    "400 before 403": ("picky", CHAT, b"no json", JSON_TYPE, 400, None),
    "403 of the model": ("picky", CHAT, GOOD, JSON_TYPE, 403, "model_not_allowed"),
}


@each_row("name", ORDER)
async def test_the_first_fault_in_order_is_told(stage: Stage, name: str) -> None:
    account, path, body, headers, status, code = ORDER[name]
    key = None if account == "none" else stage.callers[account].key
    reply = await stage.gateway.ask("POST", path, key=key, headers=headers, body=body)
    check_error(reply, status, code)
    assert stage.alpha.connections == 0


MESSAGES_ERRORS: list[tuple[str, str, dict[str, str], int, str]] = [
    ("GET", "/v1/models", ANTHROPIC, 401, "authentication_error"),
    ("GET", "/v1/models/none", ANTHROPIC, 401, "authentication_error"),
    ("GET", "/v1/nothing", ANTHROPIC, 404, "not_found_error"),
    ("POST", "/v1/models", ANTHROPIC, 405, "invalid_request_error"),
    ("GET", "/v1/key", ANTHROPIC, 401, "authentication_error"),
    ("GET", "/v1/receipts/req_none", ANTHROPIC, 401, "authentication_error"),
    ("POST", "/v1/key", ANTHROPIC, 405, "invalid_request_error"),
    ("GET", "/v1/messages/nothing", {}, 404, "not_found_error"),
    ("GET", "/v1/messages/x/y", {}, 404, "not_found_error"),
]


@each_row("case", MESSAGES_ERRORS)
async def test_errors_speak_the_messages_dialect_where_it_is_spoken(
    stage: Stage, case: tuple[str, str, dict[str, str], int, str]
) -> None:
    method, path, headers, status, kind = case
    check_messages_error(await stage.gateway.ask(method, path, headers=headers), status, kind)


async def test_unknown_model_speaks_the_callers_dialect(stage: Stage) -> None:
    path = "/v1/models/no/such"
    check_error(await stage.gateway.ask("GET", path, key=stage.key), 404, "model_not_found")
    reply = await stage.gateway.ask("GET", path, key=stage.key, headers=ANTHROPIC)
    check_messages_error(reply, 404, "not_found_error")


async def test_expect_is_refused_before_the_body(stage: Stage) -> None:
    """A bad key or a body that is too large gets no 100 (RFC 9110, section 10.1.1)."""
    expect = JSON_TYPE | {"Expect": "100-continue", "Content-Length": "100"}
    async with stage.gateway.connect() as call:
        await call.send(request("POST", CHAT, expect | {"Authorization": "Bearer nobody"}))
        check_error(await call.read_all(), 401, "invalid_api_key")
    large = expect | {"Authorization": f"Bearer {stage.key}", "Content-Length": "99999999"}
    async with stage.gateway.connect() as call:
        await call.send(request("POST", CHAT, large))
        check_error(await call.read_all(), 413, "request_too_large")


async def test_expect_is_answered_when_all_is_well(stage: Stage) -> None:
    stage.alpha.play(json_reply(completion()))
    body = json.dumps(say(stage.fresh("plain"))).encode()
    headers = JSON_TYPE | {"Expect": "100-continue", "Content-Length": str(len(body))}
    async with stage.gateway.connect() as call:
        await call.send(request("POST", CHAT, headers | {"Authorization": f"Bearer {stage.key}"}))
        await call.read_head()
        assert call.status == 100
        await call.send(body)
        assert (await call.read_all()).status == 200


AUTH = b"Authorization: Bearer %s\r\n"
FRAMINGS: dict[str, bytes] = {
    "two CL": b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\n%sContent-Length: 5\r\n"
    b"Content-Length: 6\r\n\r\nhello!" % AUTH,
    "TE xchunked": b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\n%s"
    b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n" % AUTH,
    "obs-fold": b"GET /v1/models HTTP/1.1\r\nHost: x\r\n%sX-A: b\r\n c\r\n\r\n" % AUTH,
}
"""Beside those of `test_front`, whose refusals are told."""


@each_row("name", FRAMINGS)
async def test_malformed_traffic_is_a_400_and_a_closed_connection(stage: Stage, name: str) -> None:
    """No SDK sends this. Any 400 is right, if the connection closes and no secret is logged."""
    raw = FRAMINGS[name]
    before = len(stage.gateway.log.splitlines())
    async with stage.gateway.connect() as call:
        await call.send(raw % stage.key.encode() if AUTH in raw else raw)
        with contextlib.suppress(Cut):  # closed without a word is an answer too
            reply = await call.read_all()
            assert reply.status == 400
            assert reply.headers["server"] == "gateway"
        await call.read_to_close()
    assert stage.alpha.connections == 0
    added = stage.gateway.log.splitlines()[before:]
    # Lines of requests are written late, and may be those of an earlier test.
    assert len([line for line in added if " req_" not in line]) <= 1
    assert stage.key not in stage.gateway.log


@each_row("encoding", ["gzip, chunked", "identity, chunked"])
async def test_only_chunked_is_a_transfer_encoding(stage: Stage, encoding: str) -> None:
    """A body that was compressed on its way would be taken for JSON that is malformed."""
    headers = JSON_TYPE | {"x-api-key": stage.key, "Transfer-Encoding": encoding}
    body = chunked(GOOD)
    reply = await stage.gateway.ask("POST", CHAT, headers=headers, body=body)
    assert "chunked" in check_error(reply, 400, None)
    reply = await stage.gateway.ask("POST", MESSAGES, headers=headers, body=body)
    check_messages_error(reply, 400, "invalid_request_error")
    assert stage.alpha.connections == 0


async def test_body_shorter_than_declared_is_not_forwarded(stage: Stage) -> None:
    """The caller closes its side early, so the body is incomplete (RFC 9112, section 8)."""
    headers = JSON_TYPE | {"Authorization": f"Bearer {stage.key}", "Content-Length": "5000"}
    async with stage.gateway.connect() as call:
        await call.send(request("POST", CHAT, headers, GOOD))
        call.half_close()
        await call.read_to_close()
    assert stage.alpha.connections == 0


UNKNOWN = "Incorrect API key provided. Its header is "
WAIT_SECONDS = 30.0
TIME = r"\d{4}-\d\d-\d\d \d\d:\d\d UTC\. Make another"


class FakeLedger:
    def __init__(self, ended: EndedKey | Exception | None) -> None:
        self.ended = ended
        self.lookups = 0

    async def read_ended_key(self, _: bytes) -> EndedKey | None:
        self.lookups += 1
        if isinstance(self.ended, Exception):
            raise self.ended
        return self.ended


async def explain(ledger: object, lookups: Bucket | None = None) -> str:
    lookups = lookups or Bucket(LOOKUPS_PER_MINUTE, time.monotonic())
    gateway = SimpleNamespace(ledger=ledger, ended_key_lookups=lookups)
    return (await explain_end(cast("Any", gateway), b"")).message


@each_row(
    ("ended", "told"),
    [
        (
            EndedKey(60_000, None),
            "Incorrect API key provided. This key was revoked on 1970-01-01 00:01 UTC.",
        ),
        (
            EndedKey(60_000, 1),
            "Incorrect API key provided. This key was revoked on 1970-01-01 00:01 UTC.",
        ),
        (
            EndedKey(None, 120_000),
            "Incorrect API key provided. This key expired on 1970-01-01 00:02 UTC.",
        ),
        (None, UNKNOWN),
        (LedgerUnavailable(), UNKNOWN),
    ],
)
async def test_a_key_s_end_is_told(ended: EndedKey | Exception | None, told: str) -> None:
    assert (await explain(FakeLedger(ended))).startswith(told)


async def test_many_made_up_keys_ask_the_ledger_seldom() -> None:
    ledger, lookups = FakeLedger(EndedKey(0, None)), Bucket(LOOKUPS_PER_MINUTE, time.monotonic())
    told = [await explain(ledger, lookups) for _ in range(3 * LOOKUPS_PER_MINUTE)]
    assert LOOKUPS_PER_MINUTE <= ledger.lookups < 2 * LOOKUPS_PER_MINUTE
    assert "revoked" in told[0]
    assert told[-1].startswith(UNKNOWN)


async def test_a_ledger_that_hangs_holds_up_no_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    class Hanging(FakeLedger):
        async def read_ended_key(self, _: bytes) -> EndedKey | None:
            await asyncio.Event().wait()
            raise AssertionError

    monkeypatch.setattr(keys, "LOOKUP_SECONDS", 0)
    assert (await explain(Hanging(None))).startswith(UNKNOWN)


@each_row(("account", "end"), [("revoked", "was revoked"), ("expired", "expired")])
async def test_a_caller_is_told_when_the_key_ended(stage: Stage, account: str, end: str) -> None:
    reply = await stage.chat(say("plain/0"), key=stage.callers[account].key)
    message = check_error(reply, 401, "invalid_api_key")
    assert re.match(rf"Incorrect API key provided\. This key {end} on {TIME}", message)


async def test_a_key_revoked_while_it_is_used_is_told(stage: Stage, spare: Caller) -> None:
    """It leaves the memory with the revocation, which the ledger still knows."""
    assert (await stage.gateway.ask("GET", "/v1/models", key=spare.key)).status == 200
    assert (await stage.gateway.run("key", "revoke", spare.key_id)).code == 0
    async with asyncio.timeout(WAIT_SECONDS):
        while (await stage.gateway.ask("GET", "/v1/models", key=spare.key)).status != 401:
            pass
    reply = await stage.gateway.ask("GET", "/v1/models", key=spare.key)
    assert re.match(
        rf"Incorrect API key provided\. This key was revoked on {TIME}",
        reply.json["error"]["message"],
    )
