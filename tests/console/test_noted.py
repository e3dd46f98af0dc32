"""Failed sign-ins leave traces: in the audit log whatever else goes on, and in the log for fail2ban."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from gateway.console import throttle
from tests import ROOT
from tests.console.kit import HOLDER, Console, Reply, open_console, start_console
from tests.console.session import SESSION, read_events, seed_passwords, sign_in
from tests.support.waiting import until

FAIL2BAN = re.compile(r"<!-- fail2ban -->.*?\nfailregex = ([^\n]+)\n", re.DOTALL)


async def try_link(console: Console) -> Reply:
    return await console.post(f"{SESSION}/link", {"token": f"gwl_{'x' * 43}"}, as_=None)


async def test_made_up_links_do_not_hide_guesses(tmp_path: Path) -> None:
    async with open_console(tmp_path, seed=seed_passwords) as console:
        for _ in range(205):
            assert (await try_link(console)).status == 401
        assert len(read_events(console)) == throttle.NOTED_ADDRESS
        assert (await sign_in(console, "nobody", "wrong")).status == 401
        assert len(read_events(console)) == throttle.NOTED_ADDRESS + 1


async def test_failures_of_known_accounts_are_always_noted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(throttle, "NOTED_ADDRESS", 1)
    async with open_console(tmp_path, seed=seed_passwords) as console:
        for name in ("first", "second", HOLDER):
            assert (await sign_in(console, name, "wrong")).status == 401
        await until(lambda: len(read_events(console)) > 1, "the note")
        assert [account for *_, account in read_events(console)] == [None, HOLDER]


async def test_a_made_up_link_waits_for_nobody(tmp_path: Path) -> None:
    """To write it would need the lock that another program has here."""
    async with open_console(tmp_path, seed=seed_passwords) as console:
        await sign_in(console, "nobody", "wrong")
        for _ in range(throttle.NOTED_ADDRESS):
            assert (await try_link(console)).status == 401
        with closing(sqlite3.connect(console.folder / "gateway.db", isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            assert (await try_link(console)).status == 401


async def test_fail2ban_finds_failures_and_nothing_else(tmp_path: Path) -> None:
    """The regular expression in the documents is tried on the log itself."""
    found = FAIL2BAN.search((ROOT / "gateway/docs/operation.md").read_text(encoding="utf-8"))
    assert found is not None
    pattern = re.compile(found[1].replace("<HOST>", r"(?P<host>\S+)"))
    async with start_console(
        tmp_path, server='trusted_proxies = ["127.0.0.1"]', seed=seed_passwords
    ) as console:
        assert console.process is not None
        await sign_in(console, HOLDER, "wrong", **{"X-Forwarded-For": "203.0.113.5"})
        await try_link(console)
        assert (await sign_in(console)).status == 200
        assert (await console.get(SESSION, as_=None)).status == 401
        assert (await console.get("/console/api/accounts/somebody", as_=None)).status == 401
        process = console.process
        await until(lambda: "path=/console/api/accounts/{id} " in process.log, "the line")
        hosts = [match["host"] for match in pattern.finditer(process.log)]
    assert hosts == ["203.0.113.5", "127.0.0.1"]
    assert "somebody" not in process.log
