"""Changing one's password, requests from other sites, and places where no secret may appear."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator
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
    execute,
    is_in,
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


# ---- one-time codes -------------------------------------------------------------------------------

TOTP: Final = f"{API}/settings/totp"


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


async def sign_in_with(console: Console, code: str | None, **headers: str) -> Reply:
    body = {"name": OPERATOR, "password": PASSWORD, "code": code}
    return await console.post(SESSION, body, as_=None, headers=headers)


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
    assert (await sign_in_with(console, show(key, 1))).status == 200
    assert (await sign_in_with(console, show(key, 1))).refusal == (401, "wrong_code", "code")
    assert (await sign_in_with(console, recovery[0])).status == 200
    assert (await sign_in_with(console, recovery[0])).status == 401
    wrong = {"name": OPERATOR, "password": "wrong", "code": show(key, 1)}
    reply = await console.post(SESSION, wrong, as_=None)
    assert reply.refusal == (401, "wrong_credentials", None), "a code says nothing by itself"
    assert (await sign_in(console, HOLDER)).status == 200
    assert (await sign_in_by_link(console, OPERATOR)).status == 200, "a link is a way of its own"
    noted = "SELECT detail FROM events WHERE action = 'session.fail'"
    assert execute(console, noted) == [("by code",)] * 2 + [("by password",)]


async def test_guessing_at_codes_is_as_slow_as_at_passwords(console: Console) -> None:
    key, _ = await set_up(console, await sign_in(console, OPERATOR))
    for expected in [401] * 5 + [429] * 2:
        assert (await sign_in_with(console, "000000")).status == expected
    assert (await sign_in(console, OPERATOR)).status == 429
    assert (await sign_in_with(console, show(key, 1))).status == 429


async def test_a_code_that_is_sent_twice_at_once_opens_one_session(console: Console) -> None:
    key, _ = await set_up(console, await sign_in(console, OPERATOR))
    replies = await asyncio.gather(*(sign_in_with(console, show(key, 1)) for _ in range(4)))
    assert sorted(reply.status for reply in replies) == [200, 401, 401, 401]


async def test_codes_are_removed_by_one(console: Console) -> None:
    here = await sign_in(console, OPERATOR)
    key, recovery = await set_up(console, here)
    assert (await send_code(console, here, "remove", "000000")).refusal == (
        *(403, "wrong_code", "code"),
    )
    assert (await console.post(TOTP, as_=None, headers=use(here))).refusal[0] == 409
    assert (await send_code(console, here, "confirm", show(key, 1))).refusal[0] == 409
    assert (await send_code(console, here, "remove", recovery[5])).status == 204
    assert (await send_code(console, here, "remove", recovery[6])).refusal[0] == 404
    assert (await sign_in(console, OPERATOR)).status == 200


async def test_tries_at_a_set_up_are_limited(console: Console) -> None:
    here = await sign_in(console, OPERATOR)
    await console.post(TOTP, as_=None, headers=use(here))
    for expected in [403] * 10 + [429]:
        assert (await send_code(console, here, "confirm", "000000")).status == expected


# ---- signing in again -----------------------------------------------------------------------------


async def ask_all(console: Console, session: Reply) -> list[tuple[int, str | None]]:
    """Ask for what lets others in, and for what would let a thief of the session stay."""
    other = f"{API}/accounts/{console.account_id(OTHER)}"
    found = []
    for method, path, body in (
        ("POST", f"{API}/accounts", {"name": "second", "operator": True}),
        ("PATCH", other, {"operator": True}),
        ("POST", f"{other}/signin-link", {}),
        ("POST", f"{API}/tokens", {"name": "shop", "role": "read"}),
        ("POST", TOTP, {}),
    ):
        reply = await console.ask(method, path, body, key="once", headers=use(session))
        found.append((reply.status, reply.error["code"] if reply.status >= 400 else None))
    return found


async def test_who_lets_others_in_has_just_signed_in(console: Console) -> None:
    old = await sign_in(console, OPERATOR)
    execute(console, "UPDATE sessions SET created_ms = created_ms - 600001")
    assert await ask_all(console, old) == [(403, "sign_in_again")] * 5
    for method, path, body, status in (
        ("POST", f"{API}/accounts", {"name": "third"}, 201),
        ("PATCH", f"{API}/accounts/{console.account_id(OTHER)}", {"concurrency": 5}, 200),
        ("PATCH", f"{API}/accounts/{console.account_id(OTHER)}", {"operator": False}, 200),
    ):
        reply = await console.ask(method, path, body, key="other", headers=use(old))
        assert reply.status == status, reply.body
    fresh = await sign_in(console, OPERATOR, Cookie=use(old)["Cookie"])
    assert not await is_in(console, old), "the new session takes its place"
    assert await ask_all(console, fresh) == [
        *((201, None), (200, None), (201, None), (201, None), (201, None)),
    ]


async def test_an_old_session_by_link_sets_no_password_for_an_operator(console: Console) -> None:
    """It does not ask for the present one, and setting one signs in anew."""
    by_link, holders = await sign_in_by_link(console, OPERATOR), await sign_in_by_link(console)
    execute(console, "UPDATE sessions SET created_ms = created_ms - 600001")
    reply = await change(console, by_link, new_password="another horse")
    assert reply.refusal == (403, "sign_in_again", None)
    assert (await change(console, holders, new_password="another horse")).status == 204


# ---- changing the password ------------------------------------------------------------------------


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
    """After that, the session has to give the new password to change it again."""
    reply = await change(console, await sign_in_by_link(console), new_password="another horse")
    assert reply.status == 204
    shown = await console.get(SESSION, as_=None, headers=use(reply))
    assert shown.json["current_password_needed"] is True
    again = await change(console, reply, new_password="a third horse")
    assert again.refusal == (403, "wrong_password", "current_password")


@each_row(
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
    execute(console, SET_HASH, OUTDATED)
    body = {"current_password": "wrong", "new_password": "another horse"}
    replies = [await change(console, session, **body) for _ in range(11)]
    assert [one.status for one in replies] == [403] * 10 + [429]
    assert 3500 <= replies[-1].error["retry_after_seconds"] <= 3600


# ---- other sites ----------------------------------------------------------------------------------

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
    """Send a change with the session, and with these headers alone about its origin."""
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


@each_row("headers", FOREIGN)
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


@each_row(
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


# ---- secrets --------------------------------------------------------------------------------------


async def test_no_secret_is_written_anywhere(tmp_path: Path) -> None:
    """`process.stop` searches log and folder for password, link and session."""
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
