"""Sign in and out over HTTP: credentials, cookies and the end of sessions."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gateway.admin import accounts, keys
from gateway.ledger.signin_records import HOLDER_IDLE_MS, OPERATOR_IDLE_MS, SESSION_MS
from tests.console.kit import API, HOLDER, OPERATOR, OTHER, Console, open_console
from tests.console.session import (
    LINUX,
    OUTDATED,
    PUBLIC,
    SESSION,
    SET_HASH,
    STORED,
    execute,
    is_in,
    read_events,
    read_set_cookie,
    seed_passwords,
    sign_in,
    sign_in_by_link,
    use,
)
from tests.support.rows import each_row


@pytest.fixture
async def console(tmp_path: Path) -> AsyncIterator[Console]:
    async with open_console(tmp_path, seed=seed_passwords) as console:
        yield console


# ---- in -------------------------------------------------------------------------------------------


async def test_a_password_opens_a_session(console: Console) -> None:
    reply = await sign_in(console, **LINUX)
    assert reply.status == 200
    session = reply.json["session"]
    assert reply.json == {
        "account": {
            "id": 1, "name": HOLDER, "operator": False, "suspended": False,
            "balance": "100.00", "balance_nano": 100 * 10**9, "held": "0.00", "held_nano": 0,
            "created": reply.json["account"]["created"], "models": None,
            "requests_per_minute": None, "tokens_per_minute": None, "concurrency": None,
        },
        "session": session,
        "by_proxy": False,
        "has_password": True,
        "current_password_needed": True,
        "currency": "USD",
        "base_url": None,
        "version": reply.json["version"],
        "key_limits": {"requests_per_minute": 600, "tokens_per_minute": 0, "concurrency": 50},
        "models": ["demo/echo", "vendor/large"],
        "embedding_models": [],
        "top_up_text": None,
        "low_balance": None,
        "low_balance_nano": None,
    }  # fmt: skip
    assert (await console.get(SESSION, as_=None, headers=use(reply))).json == reply.json
    (listed,) = (await console.get(f"{API}/sessions", as_=None, headers=use(reply))).json[
        "sessions"
    ]
    assert listed == {
        **session,
        "current": True,
        "device": "Firefox on Linux",
        "address": "127.0.0.1",
        "last_seen": session["created"],
    }
    assert read_events(console) == [(HOLDER, "session.open", HOLDER)]


async def test_a_link_opens_a_session_once(console: Console) -> None:
    token = console.make_link_token(OTHER)
    first, second = await asyncio.gather(
        *(console.post(f"{SESSION}/link", {"token": token}, as_=None) for _ in range(2))
    )
    assert sorted((first.status, second.status)) == [200, 401]
    opened, refused = sorted((first, second), key=lambda one: one.status)
    assert refused.refusal == (401, "link_invalid", None)
    assert "Set-Cookie" not in refused.headers
    assert opened.json["has_password"] is False
    assert opened.json["current_password_needed"] is False
    assert await is_in(console, opened)
    unknown = await console.post(f"{SESSION}/link", {"token": "x"}, as_=None)
    assert unknown.error["message"] == refused.error["message"]


async def test_what_the_page_shows_is_configured(tmp_path: Path) -> None:
    billing = 'low_balance = 1\ntop_up_text = "Ask the office."'
    async with open_console(tmp_path, server=PUBLIC, billing=billing) as console:
        shown = (await sign_in_by_link(console)).json
    assert shown["base_url"] == "https://llm.example.com/v1"
    assert (shown["low_balance"], shown["low_balance_nano"]) == ("1.00", 10**9)
    assert shown["top_up_text"] == "Ask the office."


async def test_a_suspended_account_may_look(console: Console) -> None:
    with console.open_books() as books:
        accounts.suspend(books, HOLDER)
    reply = await sign_in(console)
    assert reply.json["account"]["suspended"] is True


async def test_an_old_hash_is_renewed(console: Console) -> None:
    execute(console, SET_HASH, OUTDATED)
    assert (await sign_in(console)).status == 200
    ((stored,),) = execute(console, "SELECT hash FROM passwords WHERE account_id = 1")
    assert stored.split("$")[:4] == STORED.split("$")[:4]
    assert (await sign_in(console)).status == 200


# ---- the cookie -----------------------------------------------------------------------------------


@each_row(
    ("server", "name", "secure"),
    [
        ("", "gateway_session", False),
        ('public_url = "http://llm.example.com"', "gateway_session", False),
        (PUBLIC, "__Host-gateway_session", True),
    ],
)
async def test_the_cookie_is_out_of_reach(
    tmp_path: Path, server: str, name: str, *, secure: bool
) -> None:
    async with open_console(tmp_path, server=server) as console:
        reply = await sign_in_by_link(console)
        ended = await console.delete(SESSION, as_=None, headers=use(reply))
        for one, max_age in ((reply, str(30 * 24 * 3600)), (ended, "0")):
            cookie = read_set_cookie(one)
            assert cookie.key == name
            assert (cookie["path"], cookie["domain"]) == ("/", "")
            assert (cookie["httponly"], cookie["samesite"]) == (True, "Lax")
            assert bool(cookie["secure"]) is secure
            assert cookie["max-age"] == max_age
        assert read_set_cookie(ended).value == ""


async def test_with_https_only_its_own_cookie_counts(tmp_path: Path) -> None:
    """A neighbour on the same domain can set the cookie without the prefix, so it is ignored."""
    async with open_console(tmp_path, server=PUBLIC) as console:
        token = read_set_cookie(await sign_in_by_link(console)).value
        headers = {"Cookie": f"gateway_session={token}"}
        assert (await console.get(SESSION, as_=None, headers=headers)).status == 401


@each_row(
    "cookie", ["", "gateway_session=", "gateway_session=x", "gateway_session=gws_\udcff", "=;=;,"]
)
async def test_no_other_cookie_is_a_session(console: Console, cookie: str) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", console.port)
    head = f"GET {SESSION} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nCookie: {cookie}\r\n\r\n"
    writer.write(head.encode(errors="surrogateescape"))
    answer = await reader.read()
    writer.close()
    await writer.wait_closed()
    assert answer.startswith(b"HTTP/1.1 401 ")
    assert b"not_signed_in" in answer


async def test_a_key_is_no_session_and_a_session_no_key(console: Console) -> None:
    with console.open_books() as books:
        secret = keys.add_key(books, HOLDER).secret
    bearer = {"Authorization": f"Bearer {secret}"}
    assert (await console.get(SESSION, as_=None, headers=bearer)).status == 401
    reply = await sign_in_by_link(console)
    assert (await console.get("/v1/models", as_=None, headers=use(reply))).status == 401


# ---- out ------------------------------------------------------------------------------------------


async def test_signing_out_ends_the_session(console: Console) -> None:
    reply = await sign_in_by_link(console)
    ended = await console.delete(SESSION, as_=None, headers=use(reply))
    assert (ended.status, ended.body) == (204, b"")
    assert not await is_in(console, reply)
    again = await console.delete(SESSION, as_=None, headers=use(reply))
    assert again.status == 204
    assert (await console.delete(SESSION, as_=None)).status == 204
    assert read_events(console)[1:] == [(HOLDER, "session.end", HOLDER)]


async def test_signing_in_again_gives_a_new_id(console: Console) -> None:
    first = await sign_in_by_link(console)
    second = await sign_in_by_link(console, **use(first))
    assert read_set_cookie(first).value != read_set_cookie(second).value
    assert first.json["session"]["id"] != second.json["session"]["id"]
    assert [await is_in(console, one) for one in (first, second)] == [False, True]


@each_row(("name", "idle_ms"), [(HOLDER, HOLDER_IDLE_MS), (OPERATOR, OPERATOR_IDLE_MS)])
async def test_a_session_ends_when_it_is_not_used(
    console: Console, name: str, idle_ms: int
) -> None:
    reply = await sign_in_by_link(console, name)
    back = "UPDATE sessions SET last_seen_ms = last_seen_ms - ?"
    execute(console, back, idle_ms - 60_000)
    assert await is_in(console, reply)
    execute(console, back, idle_ms)
    assert not await is_in(console, reply)


async def test_a_session_ends_after_thirty_days(console: Console) -> None:
    reply = await sign_in_by_link(console)
    execute(console, "UPDATE sessions SET expires_ms = expires_ms - ?", SESSION_MS - 60_000)
    assert await is_in(console, reply)
    execute(console, "UPDATE sessions SET expires_ms = expires_ms - 60000")
    assert not await is_in(console, reply)


async def test_a_session_ended_elsewhere_is_out_at_the_next_request(console: Console) -> None:
    here, there = await sign_in_by_link(console), await sign_in_by_link(console)
    path = f"{API}/sessions/{there.json['session']['id']}"
    assert (await console.delete(path, as_=None, headers=use(here))).status == 204
    assert [await is_in(console, one) for one in (here, there)] == [True, False]
    assert (await console.delete(path, as_=None, headers=use(here))).status == 404
    own = f"{API}/sessions/{here.json['session']['id']}"
    ended = await console.delete(own, as_=None, headers=use(here))
    assert (ended.status, read_set_cookie(ended).value) == (204, "")
    assert not await is_in(console, here)


async def test_nobody_ends_or_sees_the_sessions_of_others(console: Console) -> None:
    mine, theirs = await sign_in_by_link(console), await sign_in_by_link(console, OPERATOR)
    for reply, other in ((mine, theirs), (theirs, mine)):
        path = f"{API}/sessions/{other.json['session']['id']}"
        refused = await console.delete(path, as_=None, headers=use(reply))
        unknown = await console.delete(f"{API}/sessions/x", as_=None, headers=use(reply))
        assert refused.refusal == unknown.refusal == (404, "not_found", None)
        assert refused.error["message"] == unknown.error["message"]
        listed = await console.get(f"{API}/sessions", as_=None, headers=use(reply))
        assert [one["id"] for one in listed.json["sessions"]] == [reply.json["session"]["id"]]
    assert [await is_in(console, one) for one in (mine, theirs)] == [True, True]


async def test_all_others_end_at_once(console: Console) -> None:
    made = [await sign_in_by_link(console) for _ in range(3)]
    reply = await console.delete(f"{API}/sessions", as_=None, headers=use(made[1]))
    assert reply.json == {"revoked": 2}
    assert [await is_in(console, one) for one in made] == [False, True, False]
