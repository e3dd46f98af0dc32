"""Device cookies: whose they are, and what strangers cannot do to a browser that has one."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from http.cookies import SimpleCookie
from pathlib import Path

import pytest

from gateway.console.throttle import ADDRESS_TRIES, find_device, make_cookie, name_cookie
from tests.console.kit import API, HOLDER, OPERATOR, OTHER, Console, Reply, open_console
from tests.console.session import (
    PASSWORD,
    PUBLIC,
    SESSION,
    STORED,
    seed_passwords,
    sign_in,
    sign_in_by_link,
    use,
)

HASH = "scrypt$15$8$3$c2FsdA==$aGFzaA=="


@pytest.fixture
async def console(tmp_path: Path) -> AsyncIterator[Console]:
    async with open_console(tmp_path, seed=seed_passwords) as console:
        yield console


def find_cookie(reply: Reply, name: str) -> str:
    """Return the request header of the device that a reply made known."""
    (line,) = (one for one in reply.headers.getall("Set-Cookie") if name_cookie(name) in one)
    return line.partition(";")[0]


async def lock(console: Console, name: str) -> None:
    """Try as a stranger until the name has to wait."""
    while (await sign_in(console, name, "wrong")).status != 429:
        pass


# ---- the cookie ----------------------------------------------------------------------------------


def test_a_cookie_is_of_one_account_and_password() -> None:
    made = make_cookie("alice", HASH)
    device = find_device(made.value, "alice", HASH)
    assert device is not None
    assert len(device) == 16
    assert find_device(made.value, "bob", HASH) is None
    assert find_device(made.value, "alice", HASH.replace("15", "16")) is None
    assert find_device(made.value, "alice", None) is None
    again = make_cookie("alice", HASH)
    assert again.name == made.name != make_cookie("bob", HASH).name
    assert find_device(again.value, "alice", HASH) != device, "each browser has its own count"
    assert made.value not in repr(made)


def test_no_other_text_is_one() -> None:
    value = make_cookie("alice", HASH).value
    raw = bytearray(base64.urlsafe_b64decode(value))
    broken = []
    for place in (0, 15, 16, 47):
        raw[place] ^= 1
        broken.append(base64.urlsafe_b64encode(raw).decode())
        raw[place] ^= 1
    short = ["", "=", "A", "A" * 21, "A" * 22, "A" * 64, value[:-1], f"{value}A", f"{value}AAAA"]
    for text in (*broken, *short, f" {value}", f"{value}\n", "\xff", "x" * 8000):
        assert find_device(text, "alice", HASH) is None


# ---- signing in ----------------------------------------------------------------------------------


async def test_strangers_do_not_lock_out_a_browser_that_has_signed_in(console: Console) -> None:
    """Neither by its name nor from its address; another account's cookie is no help."""
    own = {"Cookie": find_cookie(await sign_in(console, OPERATOR), OPERATOR)}
    others = {"Cookie": find_cookie(await sign_in(console), HOLDER)}
    await lock(console, OPERATOR)
    assert (await sign_in(console, OPERATOR)).status == 429
    assert (await sign_in(console, OPERATOR, **others)).status == 429
    renamed = own["Cookie"].replace(name_cookie(OPERATOR), name_cookie(HOLDER))
    assert (await sign_in(console, OPERATOR, **own)).status == 200
    for number in range(ADDRESS_TRIES):
        await sign_in(console, f"nobody {number}", "wrong")
    refused = await sign_in(console, HOLDER, Cookie=renamed)
    assert (refused.status, refused.json["error"]["code"]) == (429, "too_many_tries")
    assert (await sign_in(console, OPERATOR, **own)).status == 200
    assert (await sign_in(console, HOLDER, **others)).status == 200
    assert (await sign_in(console, OPERATOR)).status == 429, "the name is locked as before"


async def test_a_stolen_cookie_guesses_as_slowly_as_a_stranger(console: Console) -> None:
    stolen = {"Cookie": find_cookie(await sign_in(console), HOLDER)}
    other = {"Cookie": find_cookie(await sign_in(console), HOLDER)}
    for expected in [401] * 5 + [429] * 2:
        assert (await sign_in(console, HOLDER, "wrong", **stolen)).status == expected
    assert (await sign_in(console, HOLDER, **stolen)).status == 429
    assert (await sign_in(console, HOLDER, **other)).status == 200
    assert (await sign_in(console)).status == 200, "nor does it lock others out"


async def test_a_new_password_forgets_devices_but_the_one_that_set_it(console: Console) -> None:
    old = {"Cookie": find_cookie(await sign_in(console), HOLDER)}
    opened = await sign_in(console)
    body = {"current_password": PASSWORD, "new_password": "another horse battery"}
    reply = await console.post(f"{API}/settings/password", body, as_=None, headers=use(opened))
    assert reply.status == 204
    new = {"Cookie": find_cookie(reply, HOLDER)}
    await lock(console, HOLDER)
    for headers, expected in ((old, 429), (new, 200)):
        again = await sign_in(console, HOLDER, "another horse battery", **headers)
        assert again.status == expected


async def test_a_link_makes_a_browser_known_if_there_is_a_password(console: Console) -> None:
    assert find_cookie(await sign_in_by_link(console), HOLDER)
    assert len((await sign_in_by_link(console, OTHER)).headers.getall("Set-Cookie")) == 1
    wrong = await sign_in(console, HOLDER, "wrong")
    assert "Set-Cookie" not in wrong.headers


async def test_the_cookie_is_kept_like_that_of_the_session(tmp_path: Path) -> None:
    async with open_console(tmp_path, server=PUBLIC, seed=seed_passwords) as console:
        reply = await sign_in(console)
        session, device = (SimpleCookie(one) for one in reply.headers.getall("Set-Cookie"))
        ((name, morsel),) = device.items()
        assert name == f"__Host-{name_cookie(HOLDER)}"
        assert morsel["secure"]
        assert morsel["httponly"]
        assert (morsel["samesite"], morsel["path"], morsel["domain"]) == ("Lax", "/", "")
        assert int(morsel["max-age"]) == 400 * 86400
        assert next(iter(session)).endswith("gateway_session")
        assert STORED not in str(device)
        await lock(console, HOLDER)
        plain = {"Cookie": f"{name_cookie(HOLDER)}={morsel.value}"}
        assert (await sign_in(console, **plain)).status == 429
        assert (await sign_in(console, Cookie=f"{name}={morsel.value}")).status == 200
        assert (await console.get(SESSION, as_=None, headers=plain)).status == 401
