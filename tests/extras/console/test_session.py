"""Signing in over HTTP. Guessing reveals nothing, is slow, leaves traces, and locks nobody out; no secret is in a file.

`played/sessions.txt` has the rest.
"""

from __future__ import annotations

import asyncio
import re
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import pytest

from gateway.extras.signins import passwords, throttle
from tests import ROOT
from tests.extras.console.kit import API, Console, open_console, start_console
from tests.extras.console.session import (
    OUTDATED,
    PASSWORD,
    SESSION,
    SET_HASH,
    STORED,
    open_with_passwords,
    read_events,
    read_set_cookie,
    seed_passwords,
    sign_in,
    use,
)
from tests.extras.signins.visits import LOG2_N, P
from tests.support.extras import need_extra
from tests.support.rows import each_row
from tests.support.served import HOLDER, OPERATOR, OTHER, Reply
from tests.support.waiting import until

console = open_with_passwords
Costs = list[tuple[int, int, int]]
FAIL2BAN: Final = re.compile(r"<!-- fail2ban -->.*?\nfailregex = ([^\n]+)\n", re.DOTALL)


@pytest.fixture
def hashed(monkeypatch: pytest.MonkeyPatch) -> Costs:
    """The cost of every hash that was computed."""
    costs: Costs = []
    scrypt = passwords._scrypt

    def note(password: str, salt: bytes, cost: tuple[int, int, int]) -> bytes:
        costs.append(cost)
        return scrypt(password, salt, cost)

    monkeypatch.setattr(passwords, "_scrypt", note)
    return costs


# ---- nothing is revealed -------------------------------------------------------------------------


async def test_what_is_wrong_costs_the_same(console: Console, hashed: Costs) -> None:
    """`played/sessions.txt` has what is said."""
    tries = ((HOLDER, "wrong"), (HOLDER, STORED), (OTHER, PASSWORD), ("nobody", PASSWORD))
    for name, password in (*tries, ("n" * 60_000, PASSWORD)):
        reply = await sign_in(console, name, password)
        assert reply.refusal == (401, "wrong_credentials", None)
    assert hashed == [(LOG2_N, passwords.R, P)] * 5


def make_body(size: int) -> bytes:
    """Make a body of so many bytes, with a password that is too long."""
    body = b'{"name": "%s", "password": "%s"}'
    empty = len(body % (HOLDER.encode(), b""))
    return body % (HOLDER.encode(), b"x" * (size - empty))


@each_row(
    ("body", "status", "field"),
    [
        ({"name": HOLDER, "password": "x" * 1025}, 400, "password"),
        (make_body(64 * 1024), 400, "password"),
        (make_body(64 * 1024 + 1), 413, None),
        (b'{"name": "holder", "password": "\xff"}', 400, None),
        (b'{"name": "holder", "password": "\\ud800"}', 400, None),
    ],
)
async def test_what_cannot_be_is_refused_without_work(
    console: Console, hashed: Costs, body: Any, status: int, field: str | None
) -> None:
    reply = await console.post(SESSION, body, as_=None)
    assert hashed == []
    assert (reply.status, reply.error.get("field")) == (status, field)


# ---- it leaves traces ----------------------------------------------------------------------------


async def try_link(console: Console) -> Reply:
    return await console.post(f"{SESSION}/link", {"token": f"gwl_{'x' * 43}"}, as_=None)


async def test_made_up_links_do_not_hide_guesses_and_wait_for_nobody(console: Console) -> None:
    """To write one down would need the lock that another program has here."""
    for _ in range(throttle.NOTED_ADDRESS + 5):
        assert (await try_link(console)).status == 401
    assert len(read_events(console)) == throttle.NOTED_ADDRESS
    assert (await sign_in(console, "nobody", "wrong")).status == 401
    assert len(read_events(console)) == throttle.NOTED_ADDRESS + 1
    with closing(sqlite3.connect(console.database, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        assert (await try_link(console)).status == 401


async def test_failures_of_known_accounts_are_always_noted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(throttle, "NOTED_ADDRESS", 1)
    async with open_console(tmp_path, seed=seed_passwords) as console:
        for name in ("first", "second", HOLDER):
            assert (await sign_in(console, name, "wrong")).status == 401
        await until(lambda: len(read_events(console)) > 1, "the note")
        assert [account for *_, account in read_events(console)] == [None, HOLDER]


@pytest.mark.slow
async def test_fail2ban_finds_failures_and_nothing_else(tmp_path: Path) -> None:
    """The regular expression in the documents is tried on the log itself."""
    found = FAIL2BAN.search(
        (ROOT / "gateway/extras/console/console.md").read_text(encoding="utf-8")
    )
    assert found is not None
    pattern = re.compile(found[1].replace("<HOST>", r"(?P<host>\S+)"))
    server = 'trusted_proxies = ["127.0.0.1"]'
    async with start_console(tmp_path, server=server, seed=seed_passwords) as console:
        process = console.process
        await sign_in(console, HOLDER, "wrong", **{"X-Forwarded-For": "203.0.113.5"})
        await try_link(console)
        assert (await sign_in(console)).status == 200
        for path in (SESSION, f"{API}/accounts/somebody"):
            assert (await console.get(path, as_=None)).status == 401
        await until(lambda: "path=/console/api/accounts/{id} " in process.log, "the line")
        hosts = [match["host"] for match in pattern.finditer(process.log)]
    assert hosts == ["203.0.113.5", "127.0.0.1"]
    assert "somebody" not in process.log


# ---- hashes, cookies, secrets --------------------------------------------------------------------


async def test_an_old_hash_is_renewed(console: Console) -> None:
    console.execute(SET_HASH, OUTDATED)
    assert (await sign_in(console)).status == 200
    ((stored,),) = console.execute("SELECT hash FROM passwords WHERE account_id = 1")
    assert stored.split("$")[:4] == STORED.split("$")[:4]
    assert (await sign_in(console)).status == 200


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


@pytest.mark.slow
@need_extra("codes")
@need_extra("script_tokens")
async def test_no_secret_is_written_anywhere(tmp_path: Path) -> None:
    """`process.stop` searches log, database and write-ahead log for passwords, links, keys, codes."""
    async with start_console(tmp_path, seed=seed_passwords) as console:
        link = console.make_link_token(OTHER)
        by_link = await console.post(f"{SESSION}/link", {"token": link}, as_=None)
        new = {"new_password": PASSWORD}
        await console.post(f"{API}/settings/password", new, as_=None, headers=use(by_link))
        by_password = await sign_in(console, OTHER)
        await sign_in(console, PASSWORD, f"{PASSWORD}?")
        cookies = [read_set_cookie(one).value for one in (by_link, by_password)]
        codes = {"amount": "5", "count": 2}
        made = [
            await console.post(f"{API}/{path}", body, as_=as_, key="1")
            for path, body, as_ in (
                ("codes", codes, OPERATOR),
                ("tokens", {"name": "shop", "role": "read"}, OPERATOR),
                ("accounts/1/keys", {}, OPERATOR),
                ("keys", {}, HOLDER),
            )
        ]
        key = f"{API}/keys/{made[3].json['key']['id']}/rotate"
        made.append(await console.post(key, {"grace_seconds": 60}))
        for code in (*made[0].json["codes"][:1], *made[0].json["codes"][:1], "2222-2222-2222-2222"):
            await console.post(f"{API}/billing/redeem", {"code": code}, key=code[-1:])
        assert (await console.complete(made[4].json["secret"], stream=True)).status == 200
        secrets = [PASSWORD, link, *cookies, *(one.json["secret"] for one in made[1:])]
        for code in made[0].json["codes"]:
            secrets += [code, code.replace("-", "")]
        console.process.canaries += [one.encode() for one in secrets]
        for path in ("session", "sessions", "keys", "audit/log", "codes", "tokens"):
            shown = (await console.get(f"{API}/{path}", as_=OPERATOR)).body + by_password.body
            assert not [one for one in (*secrets, "scrypt", "digest") if one.encode() in shown]
        assert console.process.find_canaries() == []
