"""Signing in, over HTTP: who gets in, what a guesser learns, where a session ends."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import sqlite3
import statistics
import time
from collections.abc import AsyncIterator
from contextlib import closing
from dataclasses import replace
from http.cookies import Morsel, SimpleCookie
from pathlib import Path
from typing import Any, Final

import aiohttp
import pytest
from console_kit import API, HOLDER, OPERATOR, OTHER, Console, Reply, open_console, start_console

from gateway import accounts
from gateway.ledger.book_signins import HOLDER_IDLE_MS, OPERATOR_IDLE_MS, SESSION_MS
from gateway.ledger.books import Books
from gateway.passwords import hash_password

PASSWORD: Final = "correct horse battery"
STORED: Final = hash_password(PASSWORD)
SET_HASH: Final = "UPDATE passwords SET hash = ? WHERE account_id = 1"
SESSION: Final = f"{API}/session"
PUBLIC: Final = 'public_url = "https://llm.example.com"'
LINUX: Final = {"User-Agent": "Mozilla/5.0 (X11; Linux x86_64; rv:147.0) Gecko Firefox/147.0"}


def make_cheap_hash() -> str:
    """Of the same password, with parameters of old."""
    salt = b"0123456789abcdef"
    hashed = hashlib.scrypt(PASSWORD.encode(), salt=salt, n=2**4, r=8, p=1, dklen=32)
    encoded = (base64.urlsafe_b64encode(one).decode() for one in (salt, hashed))
    return "$".join(("scrypt", "4", "8", "1", *encoded))


def seed_passwords(books: Books) -> None:
    for name in (HOLDER, OPERATOR):
        books.set_password(name, STORED)


@pytest.fixture
async def console(tmp_path: Path) -> AsyncIterator[Console]:
    async with open_console(tmp_path, seed=seed_passwords) as console:
        yield console


async def sign_in(
    console: Console, name: str = HOLDER, password: str = PASSWORD, **headers: str
) -> Reply:
    body = {"name": name, "password": password}
    return await console.post(SESSION, body, as_=None, headers=headers)


async def sign_in_by_link(console: Console, name: str = HOLDER, **headers: str) -> Reply:
    body = {"token": console.make_link_token(name)}
    return await console.post(f"{SESSION}/link", body, as_=None, headers={**LINUX, **headers})


def read_set_cookie(reply: Reply) -> Morsel[str]:
    (morsel,) = SimpleCookie(reply.headers["Set-Cookie"]).values()
    return morsel


def use(reply: Reply) -> dict[str, str]:
    """The headers of a request in the session that a reply opened."""
    morsel = read_set_cookie(reply)
    return {"Cookie": f"{morsel.key}={morsel.value}"}


async def is_in(console: Console, reply: Reply) -> bool:
    asked = await console.get(SESSION, as_=None, headers=use(reply))
    assert asked.status in {200, 401}
    return asked.status == 200


def execute(console: Console, statement: str, *values: object) -> list[Any]:
    with closing(sqlite3.connect(console.database)) as connection, connection:
        return connection.execute(statement, values).fetchall()


def read_events(console: Console) -> list[tuple[str, str, str | None]]:
    return execute(
        console, "SELECT actor, action, account FROM events WHERE action LIKE 'session%'"
    )


# ---- in ------------------------------------------------------------------------------------------


async def test_a_password_opens_a_session(console: Console) -> None:
    reply = await sign_in(console, **LINUX)
    assert reply.status == 200
    session = reply.json["session"]
    assert reply.json == {
        "account": {
            "id": 1, "name": HOLDER, "operator": False, "suspended": False,
            "balance": "100.00", "balance_nano": 100 * 10**9, "held": "0.00", "held_nano": 0,
            "created": reply.json["account"]["created"],
        },
        "session": session,
        "has_password": True,
        "current_password_needed": True,
        "currency": "USD",
        "base_url": None,
        "version": reply.json["version"],
        "models": ["demo/echo", "vendor/large"],
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
    execute(console, SET_HASH, make_cheap_hash())
    assert (await sign_in(console)).status == 200
    ((stored,),) = execute(console, "SELECT hash FROM passwords WHERE account_id = 1")
    assert stored.startswith("scrypt$15$8$3$")
    assert (await sign_in(console)).status == 200


# ---- the cookie ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
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
    """A neighbour under the same domain can set the other one."""
    async with open_console(tmp_path, server=PUBLIC) as console:
        token = read_set_cookie(await sign_in_by_link(console)).value
        headers = {"Cookie": f"gateway_session={token}"}
        assert (await console.get(SESSION, as_=None, headers=headers)).status == 401


@pytest.mark.parametrize(
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
        secret = accounts.add_key(books, HOLDER).secret
    bearer = {"Authorization": f"Bearer {secret}"}
    assert (await console.get(SESSION, as_=None, headers=bearer)).status == 401
    reply = await sign_in_by_link(console)
    assert (await console.get("/v1/models", as_=None, headers=use(reply))).status == 401


# ---- what a guesser learns -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "password"),
    [
        (HOLDER, "wrong"),
        (HOLDER, STORED),
        (HOLDER, PASSWORD + " "),
        (OTHER, PASSWORD),
        ("nobody", PASSWORD),
        (HOLDER.upper(), PASSWORD),
        ("' OR 1=1 --", PASSWORD),
        ("nobody\0", PASSWORD),
        ("n" * 60_000, PASSWORD),
    ],
    ids=("wrong", "hash", "space", "none", "nobody", "upper", "sql", "nul", "long"),
)
async def test_what_is_wrong_is_not_said(console: Console, name: str, password: str) -> None:
    """The stored hash is no password, and an account without a password has none."""
    reply = await sign_in(console, name, password)
    assert reply.refusal == (401, "wrong_credentials", None)
    assert reply.error["message"] == (
        "Name or password is wrong. Try again, or ask the operator for a sign-in link."
    )
    assert "Set-Cookie" not in reply.headers
    known = name if name in {HOLDER, OTHER} else None
    assert read_events(console) == [("nobody", "session.fail", known)]


async def test_unknown_names_take_as_long(tmp_path: Path) -> None:
    """20 tries in turn: the medians are alike. (Of work, which other tests do not slow.)"""
    seconds: dict[str, list[float]] = {"known": [], "unknown": []}
    async with open_console(tmp_path, seed=seed_many) as console:
        for number in range(10):
            for kind, taken in seconds.items():
                began = time.process_time()
                reply = await sign_in(console, f"{kind} {number}", "wrong")
                taken.append(time.process_time() - began)
                assert reply.refusal == (401, "wrong_credentials", None)
    known, unknown = (statistics.median(taken) for taken in seconds.values())
    print(f"known {known * 1000:.1f} ms, unknown {unknown * 1000:.1f} ms")
    assert abs(known - unknown) < 0.15 * max(known, unknown)


def seed_many(books: Books) -> None:
    for number in range(10):
        books.set_password(accounts.add_account(books, f"known {number}").name, STORED)


@pytest.mark.parametrize(
    ("body", "status", "field"),
    [
        ({"name": HOLDER, "password": "x" * 1025}, 400, "password"),
        ({"name": HOLDER, "password": "x" * 60_000}, 400, "password"),
        ({"name": HOLDER, "password": "x\0"}, 400, "password"),
        ({"name": HOLDER, "password": ""}, 400, "password"),
        ({"name": HOLDER, "password": None}, 400, "password"),
        ({"name": HOLDER, "password": ["x"]}, 400, "password"),
        ({"password": PASSWORD}, 400, "name"),
        ({"name": HOLDER, "password": PASSWORD, "operator": True}, 400, "operator"),
        ({"name": HOLDER, "password": "x" * (2**20 - 100)}, 413, None),
        (b'{"name": "holder", "password": "\xff"}', 400, None),
        (b'{"name": "holder", "password": "\\ud800"}', 400, None),
        (b"[]", 400, None),
    ],
)
async def test_what_cannot_be_is_refused_without_work(
    console: Console, body: Any, status: int, field: str | None
) -> None:
    began = time.perf_counter()
    reply = await console.post(SESSION, body, as_=None)
    assert time.perf_counter() - began < 0.15
    assert (reply.status, reply.error.get("field")) == (status, field)


async def test_the_sixth_try_waits_and_a_link_does_not(console: Console) -> None:
    """Known or not, a name is throttled alike; nobody can lock its owner out."""
    for name in (HOLDER, "nobody"):
        replies = await asyncio.gather(*(sign_in(console, name, "wrong") for _ in range(7)))
        assert sorted(one.status for one in replies) == [401] * 5 + [429] * 2
        for refused in (one for one in replies if one.status == 429):
            assert refused.refusal == (429, "too_many_tries", None)
            assert refused.error["retry_after_seconds"] == 1
            assert refused.headers["Retry-After"] == "1"
    assert (await sign_in_by_link(console)).status == 200
    assert (await sign_in(console, OPERATOR)).status == 200


async def test_a_delay_ends_and_success_ends_the_counting(console: Console) -> None:
    execute(console, SET_HASH, make_cheap_hash())
    for _ in range(5):
        assert (await sign_in(console, HOLDER, "wrong")).status == 401
    await asyncio.sleep(1)  # the shortest delay, on the real clock
    assert (await sign_in(console)).status == 200
    assert (await sign_in(console, HOLDER, "wrong")).status == 401
    assert (await sign_in(console)).status == 200


async def test_a_thousand_tries_at_once_take_no_memory(tmp_path: Path) -> None:
    """Two hashes at once, and a plain answer to everybody else; health goes on."""
    async with start_console(tmp_path) as console, make_patient_client() as client:
        assert console.process is not None
        assert console.process.process is not None
        status = Path(f"/proc/{console.process.process.pid}/status")
        await sign_in(console, "nobody", "wrong")
        before = read_rss_mib(status)
        peaks: list[float] = []
        crowd = replace(console, web=client)
        tries = asyncio.gather(
            *(sign_in(crowd, f"nobody {number % 4}", "wrong") for number in range(1000))
        )
        while not tries.done():
            peaks.append(read_rss_mib(status))
            assert (await console.get("/healthz", as_=None)).status == 200
            await asyncio.wait([tries], timeout=0.05)
        statuses = [one.status for one in await tries]
        after = read_rss_mib(status)
    assert set(statuses) == {401, 429}
    assert 4 * 5 <= statuses.count(401) <= 4 * 12, "five of each, then fewer and fewer"
    print(f"before {before:.0f} MiB, at most {max(peaks):.0f}, after {after:.0f}")
    assert max(peaks) - before <= 64 + 16  # the two hashes, and a hundred connections
    assert after - before <= 64


def make_patient_client() -> aiohttp.ClientSession:
    """A busy machine takes its time for a thousand requests."""
    return aiohttp.ClientSession(
        cookie_jar=aiohttp.DummyCookieJar(), timeout=aiohttp.ClientTimeout(total=120)
    )


def read_rss_mib(status: Path) -> float:
    line = next(one for one in status.read_text().splitlines() if one.startswith("VmRSS"))
    return int(line.split()[1]) / 1024


# ---- out -----------------------------------------------------------------------------------------


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


@pytest.mark.parametrize(
    ("name", "idle_ms"), [(HOLDER, HOLDER_IDLE_MS), (OPERATOR, OPERATOR_IDLE_MS)]
)
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


# ---- changing the password -----------------------------------------------------------------------


async def change(console: Console, session: Reply, **body: str) -> Reply:
    return await console.post(
        f"{API}/settings/password", body, as_=None, headers={**LINUX, **use(session)}
    )


async def test_a_new_password_ends_all_sessions_but_this(console: Console) -> None:
    here, there = await sign_in(console), await sign_in(console)
    reply = await change(console, here, current_password=PASSWORD, new_password="another horse")
    assert (reply.status, reply.body) == (204, b"")
    assert [await is_in(console, one) for one in (here, there, reply)] == [False, False, True]
    assert (await sign_in(console)).status == 401
    assert (await sign_in(console, HOLDER, "another horse")).status == 200


async def test_a_link_sets_a_password_without_the_old_one(console: Console) -> None:
    """And from then on the session has to know it."""
    reply = await change(console, await sign_in_by_link(console), new_password="another horse")
    assert reply.status == 204
    shown = await console.get(SESSION, as_=None, headers=use(reply))
    assert shown.json["current_password_needed"] is True
    again = await change(console, reply, new_password="a third horse")
    assert again.refusal == (403, "wrong_password", "current_password")


@pytest.mark.parametrize(
    ("body", "refusal"),
    [
        ({"new_password": "another horse"}, (403, "wrong_password", "current_password")),
        (
            {"current_password": "wrong", "new_password": "another horse"},
            (403, "wrong_password", "current_password"),
        ),
        (
            {"current_password": STORED, "new_password": "another horse"},
            (403, "wrong_password", "current_password"),
        ),
        (
            {"current_password": PASSWORD, "new_password": "too short"},
            (400, "invalid_field", "new_password"),
        ),
        (
            {"current_password": PASSWORD, "new_password": "x" * 1025},
            (400, "invalid_field", "new_password"),
        ),
        (
            {"current_password": PASSWORD, "new_password": "0123456789\0"},
            (400, "invalid_field", "new_password"),
        ),
        (
            {"current_password": "x" * 1025, "new_password": "another horse"},
            (400, "invalid_field", "current_password"),
        ),
        ({"current_password": PASSWORD}, (400, "invalid_field", "new_password")),
    ],
)
async def test_a_refused_change_changes_nothing(
    console: Console, body: dict[str, str], refusal: tuple[int, str, str]
) -> None:
    session = await sign_in(console)
    reply = await change(console, session, **body)
    assert reply.refusal == refusal
    assert await is_in(console, session)
    ((stored,),) = execute(console, "SELECT hash FROM passwords WHERE account_id = 1")
    assert stored == STORED


async def test_a_session_left_open_is_no_way_to_guess(console: Console) -> None:
    session = await sign_in(console)
    execute(console, SET_HASH, make_cheap_hash())
    body = {"current_password": "wrong", "new_password": "another horse"}
    replies = [await change(console, session, **body) for _ in range(11)]
    assert [one.status for one in replies] == [403] * 10 + [429]
    assert 3500 <= replies[-1].error["retry_after_seconds"] <= 3600


# ---- other sites ---------------------------------------------------------------------------------

FOREIGN: Final = (
    {"Sec-Fetch-Site": "cross-site"},
    {"Sec-Fetch-Site": "same-site"},
    {"Sec-Fetch-Site": "cross-site", "Origin": "http://127.0.0.1:{port}"},
    {"Origin": "https://evil.example"},
    {"Origin": "https://evil.example", "Host": "evil.example"},
    {"Origin": "http://127.0.0.1:1"},
    {"Origin": "null"},
)
OWN: Final[tuple[dict[str, str], ...]] = (
    {},
    {"Sec-Fetch-Site": "same-origin"},
    {"Sec-Fetch-Site": "none"},
    {"Origin": "http://127.0.0.1:{port}"},
    {"Origin": "http://localhost:{port}"},
)


async def ask_from(console: Console, session: Reply, headers: dict[str, str]) -> int:
    """A change in the session, with just these headers about where it comes from."""
    filled = {name: value.format(port=console.port) for name, value in headers.items()}
    async with console.web.delete(
        f"{console.root_url}{API}/sessions", headers={**use(session), **filled}
    ) as response:
        body = await response.read()
    if response.status != 200:
        assert json.loads(body)["error"]["code"] == "cross_site"
    return response.status


async def test_other_sites_change_nothing(console: Console) -> None:
    here, there = await sign_in_by_link(console), await sign_in_by_link(console)
    for headers in FOREIGN:
        assert await ask_from(console, here, headers) == 403
    assert await is_in(console, there)
    for headers in OWN:
        assert await ask_from(console, here, headers) == 200
    assert not await is_in(console, there)


@pytest.mark.parametrize("headers", FOREIGN)
async def test_other_sites_sign_nobody_in(console: Console, headers: dict[str, str]) -> None:
    token = console.make_link_token(HOLDER)
    for path, body in (
        (SESSION, {"name": HOLDER, "password": PASSWORD}),
        (f"{SESSION}/link", {"token": token}),
    ):
        filled = {name: value.format(port=console.port) for name, value in headers.items()}
        async with console.web.post(console.root_url + path, json=body, headers=filled) as response:
            assert response.status == 403
            assert "Set-Cookie" not in response.headers
    assert (await console.post(f"{SESSION}/link", {"token": token}, as_=None)).status == 200


async def test_the_public_url_is_the_one_origin(tmp_path: Path) -> None:
    async with open_console(tmp_path, server=PUBLIC) as console:
        session = await sign_in_by_link(console)
        assert await ask_from(console, session, {"Origin": "https://llm.example.com"}) == 200
        assert await ask_from(console, session, {"Origin": "http://127.0.0.1:{port}"}) == 403


@pytest.mark.parametrize(
    ("server", "expected"), [("", "127.0.0.1"), ('trusted_proxies = ["127.0.0.1"]', "203.0.113.5")]
)
async def test_forwarded_addresses_count_from_trusted_proxies(
    tmp_path: Path, server: str, expected: str
) -> None:
    async with open_console(tmp_path, server=server) as console:
        token = console.make_link_token(HOLDER)
        headers = {"X-Forwarded-For": "1.1.1.1, 203.0.113.5"}
        await console.post(f"{SESSION}/link", {"token": token}, as_=None, headers=headers)
        assert execute(console, "SELECT address FROM sessions") == [(expected,)]


# ---- secrets -------------------------------------------------------------------------------------


async def test_no_secret_is_written_anywhere(tmp_path: Path) -> None:
    """Password, link and session; stopping the process proves it of its log and its folder."""
    async with start_console(tmp_path) as console:
        assert console.process is not None
        token = console.make_link_token(HOLDER)
        session = await console.post(f"{SESSION}/link", {"token": token}, as_=None)
        await change(console, session, new_password=PASSWORD)
        by_password = await sign_in(console)
        await sign_in(console, PASSWORD, PASSWORD + "?")
        secrets = [PASSWORD, token, *(read_set_cookie(one).value for one in (session, by_password))]
        console.process.canaries += [one.encode() for one in secrets]
        replies = [
            await console.get(path, as_=None, headers=use(by_password))
            for path in (SESSION, f"{API}/sessions")
        ]
        for reply in (by_password, *replies):
            assert not [
                word for word in (*secrets, "scrypt", "digest") if word.encode() in reply.body
            ]
