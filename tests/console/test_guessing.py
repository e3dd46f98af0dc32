"""Guessing at names and passwords reveals nothing and is slow."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from gateway.admin import passwords
from tests.console.kit import HOLDER, OPERATOR, OTHER, Console, open_console, start_console
from tests.console.session import (
    LOG2_N,
    OUTDATED,
    PASSWORD,
    SESSION,
    SET_HASH,
    STORED,
    P,
    execute,
    read_events,
    seed_passwords,
    sign_in,
    sign_in_by_link,
)


@pytest.fixture
async def console(tmp_path: Path) -> AsyncIterator[Console]:
    async with open_console(tmp_path, seed=seed_passwords) as console:
        yield console


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
)
async def test_what_is_wrong_is_not_said(console: Console, name: str, password: str) -> None:
    """The stored hash is not a password, and an account without a password accepts none."""
    reply = await sign_in(console, name, password)
    assert reply.refusal == (401, "wrong_credentials", None)
    assert reply.error["message"] == (
        "Name or password is wrong. Try again, or ask the operator for a sign-in link."
    )
    assert "Set-Cookie" not in reply.headers
    known = name if name in {HOLDER, OTHER} else None
    assert read_events(console) == [("nobody", "session.fail", known)]


@pytest.fixture
def hashed(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int, int]]:
    """The cost of every hash that was computed."""
    costs: list[tuple[int, int, int]] = []
    scrypt = passwords._scrypt

    def note(password: str, salt: bytes, cost: tuple[int, int, int]) -> bytes:
        costs.append(cost)
        return scrypt(password, salt, cost)

    monkeypatch.setattr(passwords, "_scrypt", note)
    return costs


async def test_unknown_names_cost_the_same(
    console: Console, hashed: list[tuple[int, int, int]]
) -> None:
    """One hash with the same parameters, whether or not the name is known, or has a password."""
    for name in (HOLDER, OTHER, "nobody"):
        assert (await sign_in(console, name, "wrong")).refusal == (401, "wrong_credentials", None)
    assert hashed == [(LOG2_N, passwords.R, P)] * 3


def make_body(size: int) -> bytes:
    """Make a body of so many bytes, with a password that is too long."""
    body = b'{"name": "%s", "password": "%s"}'
    empty = len(body % (HOLDER.encode(), b""))
    return body % (HOLDER.encode(), b"x" * (size - empty))


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
        (make_body(64 * 1024), 400, "password"),
        (make_body(64 * 1024 + 1), 413, None),
        (b'{"name": "holder", "password": "\xff"}', 400, None),
        (b'{"name": "holder", "password": "\\ud800"}', 400, None),
        (b"[]", 400, None),
    ],
)
async def test_what_cannot_be_is_refused_without_work(
    console: Console,
    hashed: list[tuple[int, int, int]],
    body: Any,
    status: int,
    field: str | None,
) -> None:
    reply = await console.post(SESSION, body, as_=None)
    assert hashed == []
    assert (reply.status, reply.error.get("field")) == (status, field)


async def test_the_sixth_try_waits_and_a_link_does_not(console: Console) -> None:
    """Known and unknown names are throttled alike, and nobody can lock out the owner."""
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
    execute(console, SET_HASH, OUTDATED)
    for _ in range(5):
        assert (await sign_in(console, HOLDER, "wrong")).status == 401
    await asyncio.sleep(1)  # the shortest delay, on the real clock
    assert (await sign_in(console)).status == 200
    assert (await sign_in(console, HOLDER, "wrong")).status == 401
    assert (await sign_in(console)).status == 200


@pytest.mark.slow
async def test_a_thousand_tries_at_once_take_no_memory(tmp_path: Path) -> None:
    """Two hashes run at once; the other requests get a plain error; health works."""
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
    """Make a client without a time-out, as a busy machine is slow with a thousand requests."""
    return aiohttp.ClientSession(
        cookie_jar=aiohttp.DummyCookieJar(), timeout=aiohttp.ClientTimeout(total=120)
    )


def read_rss_mib(status: Path) -> float:
    line = next(one for one in status.read_text().splitlines() if one.startswith("VmRSS"))
    return int(line.split()[1]) / 1024
