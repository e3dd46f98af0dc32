"""Health and Providers on PostgreSQL: which gateways there are, and which one a figure is of."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import aiohttp
from aiohttp import web

from gateway.admin import accounts, signin
from gateway.admin.checks import name_process
from gateway.app import make_app, make_gateway
from gateway.config.load import load_config
from gateway.ledger.locations import DatabaseUrl
from gateway.ledger.opening import open_books, open_ledger
from gateway.version import find_version
from tests.admin.kit import get
from tests.console.kit import API, CONFIG, OPERATOR, Console, read_cookie


@contextlib.asynccontextmanager
async def open_node(folder: Path, url: str) -> AsyncIterator[Console]:
    """Serve from the database in this process, and sign the operator in."""
    location = DatabaseUrl(url)
    with open_books(location, create=True) as books:
        accounts.add_account(books, OPERATOR, operator=True)
        token = signin.make_signin_link(books, OPERATOR).token
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        text = CONFIG.format(port=port, server="", billing="", more=f'[storage]\nurl = "{url}"')
        (folder / "gateway.toml").write_text(text, encoding="utf-8")
        config = load_config(folder / "gateway.toml", {})
        async with open_ledger(location) as ledger, aiohttp.ClientSession() as session:
            gateway = make_gateway(config, ledger, lambda _call, _status: None)
            runner = web.AppRunner(make_app(gateway), access_log=None, auto_decompress=False)
            await runner.setup()
            await web.SockSite(runner, listener).start()
            console = Console(folder, port, session, gateway)
            reply = await console.ask("POST", f"{API}/session/link", {"token": token})
            console.cookies[OPERATOR] = read_cookie(reply)
            yield console
            await runner.cleanup()
            gateway.ticker.close()
            gateway.close()


async def test_operators_see_the_gateways(tmp_path: Path, postgres_url: str) -> None:
    from gateway.ledger.postgres.nodes import register
    from gateway.ledger.postgres.schema import open_session

    mine = name_process(os.getpid())
    async with open_node(tmp_path, postgres_url) as console:
        health = await get(console, f"{API}/health")
        assert health["node"] == mine
        (node,) = health["nodes"]
        assert (node["name"], node["version"]) == (mine, find_version())
        assert node["since"] <= node["seen"]
        with closing(open_session(postgres_url)) as session:
            register(session)
        assert len((await get(console, f"{API}/health"))["nodes"]) == 2
        assert (await get(console, f"{API}/providers"))["node"] == mine
