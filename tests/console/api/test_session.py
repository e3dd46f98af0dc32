"""Sign in and out over HTTP: credentials, one-time codes, cookies, other sites, the end of sessions."""

from __future__ import annotations

import asyncio
import base64
from pathlib import Path
from typing import Final

import pytest

from gateway.admin import signin
from gateway.times import unix_ms
from tests.console.kit import (
    API,
    HOLDER,
    OPERATOR,
    OTHER,
    Console,
    Reply,
    execute,
    open_console,
    start_console,
)
from tests.console.session import (
    LINUX,
    OUTDATED,
    PASSWORD,
    PUBLIC,
    SESSION,
    SET_HASH,
    STORED,
    is_in,
    open_with_passwords,
    read_events,
    read_set_cookie,
    seed_passwords,
    sign_in,
    sign_in_by_link,
    use,
)
from tests.support.rows import each_row

console = open_with_passwords
TOTP: Final = f"{API}/settings/totp"
AGE: Final = "UPDATE sessions SET created_ms = created_ms - 600001"
"""Make all sessions older than the ten minutes after a sign-in."""

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
        "name": HOLDER, "person": None, "session": session, "by_proxy": False, "has_password": True,
        "current_password_needed": True, "currency": "USD", "base_url": None,
        "version": reply.json["version"],
        "key_limits": {"requests_per_minute": 600, "tokens_per_minute": 0, "concurrency": 50},
        "models": ["demo/echo", "vendor/large"], "kinds": {"demo/echo": "chat", "vendor/large": "chat"},
        "top_up_text": None,
        "low_balance": None, "low_balance_nano": None,
    }  # fmt: skip
    headers = use(reply)
    assert (await console.get(SESSION, as_=None, headers=headers)).json == reply.json
    (listed,) = (await console.get(f"{API}/sessions", as_=None, headers=headers)).json["sessions"]
    assert listed == {
        **session, "current": True, "device": "Firefox on Linux", "address": "127.0.0.1",
        "last_seen": session["created"],
    }  # fmt: skip
    assert read_events(console) == [(HOLDER, "session.open", HOLDER)]
    with console.open_books() as books:
        books.accounts.suspend(HOLDER)
    assert (await sign_in(console)).json["account"]["suspended"] is True, "who may look"
    assert (await console.get("/v1/models", as_=None, headers=headers)).status == 401, "no key"


async def test_a_link_opens_a_session_once(console: Console) -> None:
    token = console.make_link_token(OTHER)
    replies = await asyncio.gather(
        *(console.post(f"{SESSION}/link", {"token": token}, as_=None) for _ in range(2))
    )
    opened, refused = sorted(replies, key=lambda one: one.status)
    assert (opened.status, refused.refusal) == (200, (401, "link_invalid", None))
    assert "Set-Cookie" not in refused.headers
    assert (opened.json["has_password"], opened.json["current_password_needed"]) == (False, False)
    assert await is_in(console, opened)
    unknown = await console.post(f"{SESSION}/link", {"token": "x"}, as_=None)
    assert unknown.error["message"] == refused.error["message"]


async def test_what_the_page_shows_is_configured(tmp_path: Path) -> None:
    """With https only its own cookie counts: a neighbour on the domain can set one without prefix."""
    billing = 'low_balance = 1\ntop_up_text = "Ask the office."'
    async with open_console(tmp_path, server=PUBLIC, billing=billing) as console:
        reply = await sign_in_by_link(console)
        headers = {"Cookie": f"gateway_session={read_set_cookie(reply).value}"}
        assert (await console.get(SESSION, as_=None, headers=headers)).status == 401
    shown = reply.json
    assert (shown["low_balance"], shown["top_up_text"]) == ("1.00", "Ask the office.")
    assert shown["base_url"] == "https://llm.example.com/v1"


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
        assert (cookie.key, cookie["path"], cookie["domain"]) == (name, "/", "")
        assert (cookie["httponly"], cookie["samesite"]) == (True, "Lax")
        assert (bool(cookie["secure"]), cookie["max-age"]) == (secure, max_age)
    assert read_set_cookie(ended).value == ""


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


# ---- out ------------------------------------------------------------------------------------------


async def test_signing_out_ends_the_session(console: Console) -> None:
    reply = await sign_in_by_link(console)
    for _ in range(2):
        ended = await console.delete(SESSION, as_=None, headers=use(reply))
        assert (ended.status, ended.body) == (204, b"")
        assert not await is_in(console, reply)
    assert (await console.delete(SESSION, as_=None)).status == 204
    assert read_events(console)[1:] == [(HOLDER, "session.end", HOLDER)]


async def test_a_session_ended_elsewhere_is_out_at_the_next_request(console: Console) -> None:
    """Nobody sees or ends the sessions of others, which are as unknown as none."""
    here, there = await sign_in_by_link(console), await sign_in_by_link(console)
    theirs = await sign_in_by_link(console, OPERATOR)

    async def end(by: Reply, session_id: str) -> Reply:
        return await console.delete(f"{API}/sessions/{session_id}", as_=None, headers=use(by))

    for by, other in ((here, theirs), (theirs, here)):
        refused, unknown = await end(by, other.json["session"]["id"]), await end(by, "x")
        assert refused.refusal == unknown.refusal == (404, "not_found", None)
        assert refused.error["message"] == unknown.error["message"]
    listed = await console.get(f"{API}/sessions", as_=None, headers=use(theirs))
    assert [one["id"] for one in listed.json["sessions"]] == [theirs.json["session"]["id"]]
    assert (await end(here, there.json["session"]["id"])).status == 204
    assert [await is_in(console, one) for one in (here, there)] == [True, False]
    assert (await end(here, there.json["session"]["id"])).status == 404
    ended = await end(here, here.json["session"]["id"])
    assert (ended.status, read_set_cookie(ended).value) == (204, "")
    assert [await is_in(console, one) for one in (here, theirs)] == [False, True]
    made = [await sign_in_by_link(console) for _ in range(3)]
    reply = await console.delete(f"{API}/sessions", as_=None, headers=use(made[1]))
    assert reply.json == {"revoked": 2}
    assert [await is_in(console, one) for one in made] == [False, True, False]


# ---- one-time codes -------------------------------------------------------------------------------


async def set_up(console: Console, session: Reply) -> tuple[bytes, list[str]]:
    """Return the key of the app and the recovery codes."""
    made = await console.post(TOTP, as_=None, headers=use(session))
    assert made.status == 201
    key = base64.b32decode(made.json["secret"])
    reply = await send_code(console, session, "confirm", show(key))
    assert reply.status == 201, reply.body
    codes: list[str] = reply.json["recovery_codes"]
    return key, codes


async def send_code(console: Console, session: Reply, verb: str, code: str) -> Reply:
    return await console.post(f"{TOTP}/{verb}", {"code": code}, as_=None, headers=use(session))


def show(key: bytes, steps: int = 0) -> str:
    return signin.compute_code(key, unix_ms() // signin.STEP_MS + steps)


async def sign_in_with(console: Console, code: str | None) -> Reply:
    body = {"name": OPERATOR, "password": PASSWORD, "code": code}
    return await console.post(SESSION, body, as_=None)


async def test_codes_are_asked_for_once_they_are_set_up(console: Console) -> None:
    here, there = await sign_in(console, OPERATOR), await sign_in(console, OPERATOR)
    key, recovery = await set_up(console, here)
    shown = (await console.get(TOTP, as_=None, headers=use(here))).json
    assert (shown["enabled"], shown["recovery_codes"]) == (True, 10)
    assert [await is_in(console, one) for one in (here, there)] == [True, False]
    for _ in range(7):
        reply = await sign_in(console, OPERATOR)
        assert reply.refusal == (403, "code_needed", "code"), "which is no failed try"
        assert "Set-Cookie" not in reply.headers
    replies = await asyncio.gather(*(sign_in_with(console, show(key, 1)) for _ in range(4)))
    assert sorted(reply.status for reply in replies) == [200, 401, 401, 401], "sent at once"
    assert (await sign_in_with(console, recovery[0])).status == 200
    assert (await sign_in_with(console, recovery[0])).refusal == (401, "wrong_code", "code")
    wrong = {"name": OPERATOR, "password": "wrong", "code": show(key, 1)}
    reply = await console.post(SESSION, wrong, as_=None)
    assert reply.refusal == (401, "wrong_credentials", None), "a code says nothing by itself"
    assert (await sign_in(console, HOLDER)).status == 200
    assert (await sign_in_by_link(console, OPERATOR)).status == 200, "a link is a way of its own"
    noted = "SELECT detail FROM events WHERE action = 'session.fail'"
    assert execute(console, noted) == [("by code",)] * 4 + [("by password",)]


async def test_guessing_at_codes_is_as_slow_as_at_passwords(console: Console) -> None:
    here = await sign_in(console, OPERATOR)
    await console.post(TOTP, as_=None, headers=use(here))
    for expected in [403] * 9:
        assert (await send_code(console, here, "confirm", "000000")).status == expected
    key, _ = await set_up(console, here)
    assert (await send_code(console, here, "remove", "000000")).status == 429, "ten an hour"
    for expected in [401] * 5 + [429] * 2:
        assert (await sign_in_with(console, "000000")).status == expected
    assert (await sign_in(console, OPERATOR)).status == 429
    assert (await sign_in_with(console, show(key, 1))).status == 429


async def test_codes_are_removed_by_one(console: Console) -> None:
    here = await sign_in(console, OPERATOR)
    key, recovery = await set_up(console, here)
    wrong = await send_code(console, here, "remove", "000000")
    assert wrong.refusal == (403, "wrong_code", "code")
    assert (await console.post(TOTP, as_=None, headers=use(here))).status == 409
    assert (await send_code(console, here, "confirm", show(key, 1))).status == 409
    assert (await send_code(console, here, "remove", recovery[5])).status == 204
    assert (await send_code(console, here, "remove", recovery[6])).status == 404
    assert (await sign_in(console, OPERATOR)).status == 200


# ---- signing in again, changing the password -------------------------------------------------------


async def change(console: Console, session: Reply, **body: str) -> Reply:
    headers = {**LINUX, **use(session)}
    return await console.post(f"{API}/settings/password", body, as_=None, headers=headers)


async def test_who_lets_others_in_has_just_signed_in(console: Console) -> None:
    """Or a thief of the session could stay."""
    account = f"{API}/accounts/{console.account_id(OTHER)}"

    async def ask_all(session: Reply) -> list[int | tuple[int, str, str | None]]:
        replies = [
            await console.ask(method, path, body, key="once", headers=use(session))
            for method, path, body in (
                ("POST", f"{API}/accounts", {"name": "second", "operator": True}),
                ("PATCH", account, {"operator": True}),
                ("POST", f"{account}/signin-link", {}),
                ("POST", f"{API}/tokens", {"name": "shop", "role": "read"}),
                ("POST", TOTP, {}),
            )
        ]
        return [one.status if one.status < 400 else one.refusal for one in replies]

    old, by_link = await sign_in(console, OPERATOR), await sign_in_by_link(console, OPERATOR)
    execute(console, AGE)
    assert await ask_all(old) == [(403, "sign_in_again", None)] * 5
    reply = await change(console, by_link, new_password="another horse")
    assert reply.refusal == (403, "sign_in_again", None), "it asks for no present password"
    for method, path, body, status in (
        ("POST", f"{API}/accounts", {"name": "third"}, 201),
        ("PATCH", account, {"concurrency": 5}, 200),
        ("PATCH", account, {"operator": False}, 200),
    ):
        reply = await console.ask(method, path, body, key="other", headers=use(old))
        assert reply.status == status, reply.body
    fresh = await sign_in(console, OPERATOR, Cookie=use(old)["Cookie"])
    assert not await is_in(console, old), "the new session takes its place"
    assert await ask_all(fresh) == [201, 200, 201, 201, 201]


async def test_a_new_password_ends_all_sessions_but_this(console: Console) -> None:
    here, there = await sign_in(console), await sign_in(console)
    reply = await change(console, here, current_password=PASSWORD, new_password="another horse")
    assert (reply.status, reply.body) == (204, b"")
    assert [await is_in(console, one) for one in (here, there, reply)] == [False, False, True]
    assert (await sign_in(console)).status == 401
    assert (await sign_in(console, HOLDER, "another horse")).status == 200


async def test_a_link_sets_a_password_without_the_old_one(console: Console) -> None:
    """After that, the session has to give the new password to change it again."""
    by_link = await sign_in_by_link(console)
    execute(console, AGE)
    reply = await change(console, by_link, new_password="another horse")
    assert reply.status == 204
    shown = await console.get(SESSION, as_=None, headers=use(reply))
    assert shown.json["current_password_needed"] is True
    again = await change(console, reply, new_password="a third horse")
    assert again.refusal == (403, "wrong_password", "current_password")


async def test_a_refused_change_changes_nothing_and_is_no_way_to_guess(console: Console) -> None:
    """Ten tries an hour, for whoever finds a session left open."""
    session = await sign_in(console)
    for current, new, field in (
        (PASSWORD, "too short", "new_password"),
        (PASSWORD, "0123456789\0", "new_password"),
        ("x" * 1025, "another horse", "current_password"),
    ):
        reply = await change(console, session, current_password=current, new_password=new)
        assert reply.refusal == (400, "invalid_field", field)
    for current in ("", STORED, *["wrong"] * 8):
        reply = await change(
            console, session, current_password=current, new_password="another horse"
        )
        assert reply.refusal == (403, "wrong_password", "current_password")
    last = await change(console, session, current_password="wrong", new_password="another horse")
    assert last.status == 429
    assert 3500 <= last.error["retry_after_seconds"] <= 3600
    assert await is_in(console, session)
    assert execute(console, "SELECT hash FROM passwords WHERE account_id = 1") == [(STORED,)]


# ---- other sites ----------------------------------------------------------------------------------


async def test_other_sites_sign_nobody_in(tmp_path: Path) -> None:
    """The link works as before."""
    async with open_console(tmp_path, server=PUBLIC) as console:
        body = {"token": console.make_link_token(HOLDER)}
        for origin, status in (
            ("https://evil.example", 403),
            ("http://127.0.0.1:1", 403),
            ("null", 403),
            ("https://llm.example.com", 200),
        ):
            reply = await console.post(
                f"{SESSION}/link", body, as_=None, headers={"Origin": origin}
            )
            assert (reply.status, "Set-Cookie" in reply.headers) == (status, status == 200)


@pytest.mark.slow
async def test_no_secret_is_written_anywhere(tmp_path: Path) -> None:
    """`process.stop` searches log and folder for password, link and session."""
    async with start_console(tmp_path, seed=seed_passwords) as console:
        assert console.process is not None
        token = console.make_link_token(OTHER)
        session = await console.post(f"{SESSION}/link", {"token": token}, as_=None)
        await change(console, session, new_password=PASSWORD)
        by_password = await sign_in(console, OTHER)
        await sign_in(console, PASSWORD, PASSWORD + "?")
        secrets = [PASSWORD, token, *(read_set_cookie(one).value for one in (session, by_password))]
        console.process.canaries += [one.encode() for one in secrets]
        for path in (SESSION, f"{API}/sessions"):
            reply = await console.get(path, as_=None, headers=use(by_password))
            shown = reply.body + by_password.body
            assert not [one for one in (*secrets, "scrypt", "digest") if one.encode() in shown]
