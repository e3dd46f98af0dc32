"""Secrets in no file of a serving process, old hashes, broken cookies. `played/sessions.txt` has the rest."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.extras.console.kit import API, Console, start_console
from tests.extras.console.session import (
    OUTDATED,
    PASSWORD,
    SESSION,
    SET_HASH,
    STORED,
    open_with_passwords,
    read_set_cookie,
    seed_passwords,
    sign_in,
    use,
)
from tests.support.extras import need_extra
from tests.support.rows import each_row
from tests.support.served import HOLDER, OPERATOR, OTHER

console = open_with_passwords


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
