"""Changing one's password, requests from other sites, and places where no secret may appear."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

import pytest

from tests.console.kit import API, HOLDER, Console, Reply, open_console, start_console
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


@pytest.fixture
async def console(tmp_path: Path) -> AsyncIterator[Console]:
    async with open_console(tmp_path, seed=seed_passwords) as console:
        yield console


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
