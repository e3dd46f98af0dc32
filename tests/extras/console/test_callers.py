"""The senders of requests: what a header can and cannot make believe."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Final

import aiohttp
import pytest
import pytest_asyncio

from tests.extras.console.kit import API, Console, open_console
from tests.extras.console.session import seed_passwords
from tests.support.rows import each_row
from tests.support.served import HOLDER, OPERATOR

pytestmark = pytest.mark.asyncio(loop_scope="module")

HEADER: Final = "Remote-User"
PROXY: Final = "127.0.0.2"
SETTINGS: Final = f'trusted_proxies = ["{PROXY}"]\n[console]\nidentity_header = "{HEADER}"\n'


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def shared(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Console]:
    """A gateway that trusts a proxy."""
    async with open_console(
        tmp_path_factory.mktemp("console"), server=SETTINGS, seed=seed_passwords
    ) as console:
        yield console


# ---- a proxy's word ------------------------------------------------------------------------------


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def behind(shared: Console) -> AsyncIterator[Console]:
    """The same gateway, asked from the address of the proxy."""
    connector = aiohttp.TCPConnector(local_addr=(PROXY, 0))
    async with aiohttp.ClientSession(
        connector=connector, cookie_jar=aiohttp.DummyCookieJar()
    ) as client:
        yield replace(shared, web=client)


async def who(console: Console, **headers: str) -> str | int:
    """Return the name of the account that the console takes the request for, or the status."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    reply = await console.get(f"{API}/session", as_=None, headers=named)
    name: str | int = reply.json["account"]["name"] if reply.status == 200 else reply.status
    return name


@each_row("names", [
    (HOLDER, HOLDER), (HOLDER, OPERATOR), ("", OPERATOR), ("x" * 101,), ("\udcff",), (f"a\tb{HOLDER}",),
])  # fmt: skip
async def test_a_name_must_be_one_account_s(behind: Console, names: tuple[str, ...]) -> None:
    lines = "".join(f"{HEADER}: {name}\r\n" for name in names)
    head = f"GET {API}/session HTTP/1.1\r\nHost: localhost:{behind.port}\r\nConnection: close\r\n{lines}\r\n"
    reader, writer = await asyncio.open_connection("127.0.0.1", behind.port, local_addr=(PROXY, 0))
    writer.write(head.encode("utf-8", "surrogateescape"))
    reply = await reader.read()
    writer.close()
    await writer.wait_closed()
    assert b'"code":"identity_invalid"' in reply


@each_row("name", [HOLDER, OPERATOR])
async def test_sessions_by_the_header_are_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Whoever has many addresses fills no table; those that are signed in stay so."""
    monkeypatch.setattr("gateway.extras.console.state.MAX_CHANGES", 2)
    async with open_console(tmp_path, server=SETTINGS.replace(PROXY, "127.0.0.1")) as console:
        for number, answer in ((1, name), (2, name), (3, 429), (1, name)):
            forwarded = f"192.0.2.{number}"
            assert await who(console, Remote_User=name, X_Forwarded_For=forwarded) == answer
        assert console.execute("SELECT count(*) FROM sessions") == [(2,)]
