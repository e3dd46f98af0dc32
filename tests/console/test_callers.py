"""The senders of requests: tokens by role and route, and what a header can and cannot make believe."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Final

import aiohttp
import pytest
import pytest_asyncio

from gateway.admin import keys
from gateway.console.routes import Route
from gateway.console.throttle import ADDRESS_TRIES
from gateway.ledger.signin_records import TokenRole, TokenTerms
from tests.console.kit import API, HOLDER, OPERATOR, OTHER, Console, execute, open_console
from tests.console.session import PUBLIC, seed_passwords
from tests.console.test_dispatch import call, every_route
from tests.support.rows import each_row

pytestmark = pytest.mark.asyncio(loop_scope="module")

HEADER: Final = "Remote-User"
PROXY: Final = "127.0.0.2"
SETTINGS: Final = f'trusted_proxies = ["{PROXY}"]\n[console]\nidentity_header = "{HEADER}"\n'
ROLES: Final[tuple[TokenRole, ...]] = ("operator", "accounts", "read")


# ---- tokens --------------------------------------------------------------------------------------


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def shared(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Console]:
    """A gateway that trusts a proxy, with a token of each role that has the role's name."""
    async with open_console(
        tmp_path_factory.mktemp("console"), server=SETTINGS, seed=seed_passwords
    ) as console:
        yield console


@pytest.fixture(scope="module")
def secrets(shared: Console) -> dict[TokenRole, str]:
    with shared.open_books() as books:
        return {role: keys.add_token(books, TokenTerms(role, role)).secret for role in ROLES}


def bearing(secret: str, **more: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {secret}", **more}


@each_row("role", ROLES)
@every_route
async def test_a_token_may_do_what_its_role_may(
    shared: Console, secrets: dict[TokenRole, str], route: Route, role: TokenRole
) -> None:
    reply = await call(shared, route, headers=bearing(secrets[role]))
    if role in route.tokens:
        assert reply.status in {200, 400, 404}
    else:
        assert reply.refusal == (403, "token_not_allowed", None)
        assert f"role {role}" in reply.error["message"]


async def test_no_token_says_who_is_an_operator(
    shared: Console, secrets: dict[TokenRole, str]
) -> None:
    headers = bearing(secrets["operator"])
    path = f"{API}/accounts/{shared.account_id(OTHER)}"
    for reply in (
        await shared.patch(path, {"operator": True}, as_=None, headers=headers),
        await shared.post(
            f"{API}/accounts", {"name": "x", "operator": True}, as_=None, key="x", headers=headers
        ),
    ):
        assert reply.refusal == (403, "token_not_allowed", None)
    edited = await shared.patch(path, {"concurrency": 7}, as_=None, headers=headers)
    assert (edited.status, edited.json["concurrency"], edited.json["operator"]) == (200, 7, False)


async def test_a_token_comes_from_anywhere_and_alone(
    shared: Console, secrets: dict[TokenRole, str]
) -> None:
    """No browser sends it by itself, so it needs no Origin; two answers to one question are refused."""
    path = f"{API}/codes/void-batch"
    foreign = bearing(secrets["accounts"], Origin="https://evil.example")
    foreign["Sec-Fetch-Site"] = "cross-site"
    reply = await shared.post(path, {"batch": "none"}, as_=None, headers=foreign)
    assert reply.refusal == (404, "not_found", None), "there is no such batch"
    both = await shared.get(f"{API}/accounts", as_=OPERATOR, headers=bearing(secrets["read"]))
    assert both.refusal == (400, "two_callers", None)
    two = [("Authorization", f"Bearer {secrets[role]}") for role in ("read", "accounts")]
    async with shared.web.get(f"{shared.root_url}{API}/accounts", headers=two) as response:
        assert (response.status, (await response.json())["error"]["code"]) == (400, "two_callers")


async def test_a_token_opens_no_other_door(shared: Console, secrets: dict[TokenRole, str]) -> None:
    for secret in secrets.values():
        assert (await shared.get("/v1/models", as_=None, headers=bearing(secret))).status == 401
        as_cookie = {"Cookie": f"gateway_session={secret}"}
        assert (await shared.get(f"{API}/accounts", as_=None, headers=as_cookie)).status == 401
        asked = await shared.get(f"{API}/accounts?token={secret}", as_=None)
        assert asked.refusal == (401, "not_signed_in", None)


async def test_other_credentials_are_no_tokens(shared: Console) -> None:
    """A proxy may add a bearer credential of its own to requests of people who are signed in."""
    with shared.open_books() as books:
        key = keys.add_key(books, OPERATOR).secret
    for value in (f"Bearer {key}", "Bearer eyJhbGciOi.J9.x", "Basic YTpi", "gwt_"):
        headers = {"Authorization": value}
        assert (await shared.get(f"{API}/session", as_=HOLDER, headers=headers)).status == 200
        refused = await shared.get(f"{API}/accounts", as_=None, headers=headers)
        assert refused.refusal == (401, "not_signed_in", None)


async def test_an_ended_token_is_told_so(shared: Console) -> None:
    with shared.open_books() as books:
        old = keys.add_token(books, TokenTerms("old", "read", books.clock() + 100_000))
        revoked = keys.add_token(books, TokenTerms("revoked", "read"))
        books.tokens.revoke("revoked")
        with books.changing() as connection:
            connection.execute("UPDATE tokens SET expires_ms = 1 WHERE name = 'old'")
    for made, code in ((old, "token_expired"), (revoked, "token_revoked")):
        reply = await shared.get(f"{API}/accounts", as_=None, headers=bearing(made.secret))
        assert reply.refusal == (401, code, None)
        assert reply.headers["WWW-Authenticate"] == "Bearer"
    used = execute(shared, "SELECT last_used_ms FROM tokens WHERE name IN ('old', 'revoked')")
    assert used == [(None,), (None,)]


async def test_a_repeated_request_of_a_token_has_one_effect(
    shared: Console, secrets: dict[TokenRole, str]
) -> None:
    """Also by its successor of the same name, since a shop may get a new token between two tries."""
    path = f"{API}/accounts/{shared.account_id(OTHER)}/credit"
    body, headers = {"amount": "5", "note": "order 17"}, bearing(secrets["accounts"])
    replies = await asyncio.gather(
        *(shared.post(path, body, as_=None, key="cs_17", headers=headers) for _ in range(5))
    )
    with shared.open_books() as books:
        books.tokens.revoke("accounts")
        secrets["accounts"] = keys.add_token(books, TokenTerms("accounts", "accounts")).secret
    headers = bearing(secrets["accounts"])
    replies.append(await shared.post(path, body, as_=None, key="cs_17", headers=headers))
    assert {reply.body for reply in replies} == {replies[0].body}
    assert sum("Idempotent-Replay" in reply.headers for reply in replies) == len(replies) - 1
    other = await shared.post(path, body, as_=OPERATOR, key="cs_17")
    assert "Idempotent-Replay" not in other.headers, "a person's keys are apart"
    event = "SELECT actor, account FROM events WHERE action = 'account.credit' AND actor LIKE ?"
    assert execute(shared, event, "token %") == [("token accounts", OTHER)]


async def test_wrong_tokens_are_counted_and_right_ones_let_in(tmp_path: Path) -> None:
    async with open_console(tmp_path) as console:
        wrong = bearing(f"gwt_{'A' * 43}")
        for _ in range(ADDRESS_TRIES):
            reply = await console.get(f"{API}/accounts", as_=None, headers=wrong)
            assert reply.refusal == (401, "token_invalid", None)
            assert reply.headers["WWW-Authenticate"] == "Bearer"
        reply = await console.get(f"{API}/accounts", as_=None, headers=wrong)
        assert reply.refusal == (429, "too_many_tries", None)
        assert int(reply.headers["Retry-After"]) > 0
        with console.open_books() as books:
            right = bearing(keys.add_token(books, TokenTerms("right", "read")).secret)
        assert (await console.get(f"{API}/accounts", as_=None, headers=right)).status == 200
        noted = "SELECT count(*) FROM events WHERE action = 'session.fail' AND detail = 'by token'"
        assert execute(console, noted) == [(50,)], "as many as one address may fill the log with"


async def test_a_token_makes_so_many_changes_an_hour(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.console.state.MAX_TOKEN_CHANGES", 2)
    async with open_console(tmp_path) as console:
        with console.open_books() as books:
            made = [keys.add_token(books, TokenTerms(name, "operator")) for name in "ab"]
        first, second = (bearing(one.secret) for one in made)
        path = f"{API}/codes/void-batch"
        for expected in (404, 404, 429):
            reply = await console.post(path, {"batch": "none"}, as_=None, headers=first)
            assert reply.status == expected
        assert (await console.get(f"{API}/codes", as_=None, headers=first)).status == 200
        assert (await console.post(path, {"batch": "x"}, as_=None, headers=second)).status == 404


# ---- a proxy's word ------------------------------------------------------------------------------


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def behind(shared: Console) -> AsyncIterator[Console]:
    """The same gateway, asked from the address of the proxy."""
    connector = aiohttp.TCPConnector(local_addr=(PROXY, 0))
    async with aiohttp.ClientSession(
        connector=connector, cookie_jar=aiohttp.DummyCookieJar()
    ) as client:
        yield replace(shared, web=client)


async def who(console: Console, as_: str | None = None, **headers: str) -> str | int:
    """Return the name of the account that the console takes the request for, or the status."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    reply = await console.get(f"{API}/session", as_=as_, headers=named)
    name: str | int = reply.json["account"]["name"] if reply.status == 200 else reply.status
    return name


async def test_the_header_counts_from_the_proxy_alone(shared: Console, behind: Console) -> None:
    """If X-Forwarded-For names the proxy, or the caller claims to be local, it does not."""
    assert await who(behind, Remote_User=HOLDER) == HOLDER
    assert await who(behind, remote_user=OPERATOR) == OPERATOR
    assert await who(behind, Remote_User=HOLDER, X_Forwarded_For="203.0.113.5") == HOLDER
    for claim in ({}, {"X_Forwarded_For": PROXY}, {"Forwarded": f"for={PROXY}"}):
        assert await who(shared, Remote_User=OPERATOR, **claim) == 401
        assert await who(shared, as_=HOLDER, Remote_User=OPERATOR, **claim) == HOLDER
    assert await who(behind, X_Remote_User=HOLDER) == 401
    assert await who(behind) == 401


async def test_the_header_decides_against_a_cookie(shared: Console, behind: Console) -> None:
    await shared.sign_in(OPERATOR)
    behind.cookies[OPERATOR] = shared.cookies[OPERATOR]
    assert await who(behind, as_=OPERATOR, Remote_User=HOLDER) == HOLDER
    asked = await behind.get(f"{API}/accounts", as_=OPERATOR, headers={HEADER: HOLDER})
    assert asked.refusal == (404, "not_found", None), "a holder's rights, not the cookie's"
    assert await who(behind, as_=OPERATOR) == OPERATOR, "without the header the cookie counts"
    assert await who(behind, as_=OPERATOR, Remote_User="") == OPERATOR


@each_row(
    ("names", "refusal"),
    [
        *((names, "identity_invalid") for names in (
            (HOLDER, HOLDER), (HOLDER, OPERATOR), ("", OPERATOR), (f"{HOLDER},{OPERATOR}",),
            (f"{HOLDER}, ",), ("x" * 101,), ("\udcff",), (f"a\tb{HOLDER}",),
        )),
        *(((name,), "identity_unknown") for name in (
            "nobody", HOLDER.upper(), f"{HOLDER}@example.com", "' OR 1=1 --", "token read",
        )),
    ],
)  # fmt: skip
async def test_a_name_must_be_one_account_s(
    behind: Console, names: tuple[str, ...], refusal: str
) -> None:
    lines = "".join(f"{HEADER}: {name}\r\n" for name in names)
    head = f"GET {API}/session HTTP/1.1\r\nHost: localhost:{behind.port}\r\nConnection: close\r\n{lines}\r\n"
    reader, writer = await asyncio.open_connection("127.0.0.1", behind.port, local_addr=(PROXY, 0))
    writer.write(head.encode("utf-8", "surrogateescape"))
    reply = await reader.read()
    writer.close()
    await writer.wait_closed()
    assert f'"code":"{refusal}"'.encode() in reply


@each_row("method", ["GET", "POST"])
async def test_a_page_of_another_name_has_no_use_for_the_header(
    behind: Console, method: str
) -> None:
    """Its name was made to lead here: Host and Origin are what no page can choose."""
    own = f"127.0.0.1:{behind.port}"
    body = None if method == "GET" else {"name": "Mallory", "operator": True}
    for host, origin, status in (
        ("evil.example", "http://evil.example", 403),
        ("evil.example", None, 403),
        (own, "http://evil.example", 403),
        ("evil.example", f"http://{own}", 403),
        (own, f"http://{own}", {"GET": 200, "POST": 201}[method]),
    ):
        sent = {HEADER: OPERATOR, "Host": host, "Sec-Fetch-Site": "same-origin"}
        if origin is not None:
            sent["Origin"] = origin
        reply = await behind.ask(method, f"{API}/accounts", body, key="once", headers=sent)
        assert reply.status == status
        if status == 403:
            assert reply.refusal == (403, "cross_site", None)


async def test_behind_the_public_address_no_other_name_is_ours(tmp_path: Path) -> None:
    async with open_console(tmp_path, server=f"{PUBLIC}\n{SETTINGS}") as console:
        connector = aiohttp.TCPConnector(local_addr=(PROXY, 0))
        async with aiohttp.ClientSession(connector=connector) as client:
            proxied = replace(console, web=client)
            for host, answer in (
                ("llm.example.com", OPERATOR),
                (f"127.0.0.1:{console.port}", 403),
                ("localhost", 403),
            ):
                assert await who(proxied, Host=host, Remote_User=OPERATOR) == answer


@every_route
async def test_roles_and_sites_are_judged_as_for_a_session(behind: Console, route: Route) -> None:
    named = {HEADER: HOLDER}
    reply = await call(behind, route, headers=named)
    match route.role:
        case "none":
            assert reply.refusal == (409, "signed_in_by_proxy", None)
        case "operator":
            assert reply.refusal == (404, "not_found", None)
        case "any":
            assert reply.status in {200, 201, 204, 400, 404, 409}
    if route.method != "GET":
        reply = await call(behind, route, headers={**named, "Sec-Fetch-Site": "cross-site"})
        assert reply.refusal == (403, "cross_site", None)


async def test_a_session_by_the_header_is_one_for_each_address(behind: Console) -> None:
    """It is noted once, needs no cookie, and comes back when it was ended, as the proxy knows its user."""
    seen = "SELECT count(*) FROM events WHERE detail = 'by identity header' AND account = ?"
    headers: dict[str, str] = {}
    for number, (address, count) in enumerate([("1", 1), ("1", 1), ("2", 2), ("2", 2), ("1", 2)]):
        agent = f"Browser{number}/1"
        headers = {HEADER: OTHER, "User-Agent": agent, "X-Forwarded-For": f"192.0.2.{address}"}
        asked = [behind.get(f"{API}/session", as_=None, headers=headers) for _ in range(5)]
        for reply in await asyncio.gather(*asked):
            assert (reply.status, reply.json["by_proxy"]) == (200, True)
            assert "Set-Cookie" not in reply.headers
        assert execute(behind, seen, OTHER) == [(count,)]
    listed = (await behind.get(f"{API}/sessions", as_=None, headers=headers)).json["sessions"]
    assert {one["address"] for one in listed if one["current"]} == {"192.0.2.1"}
    (own,) = (one["id"] for one in listed if one["current"])
    assert (await behind.delete(f"{API}/sessions/{own}", as_=None, headers=headers)).status == 204
    reply = await behind.get(f"{API}/session", as_=None, headers=headers)
    assert (reply.status, execute(behind, seen, OTHER)) == (200, [(3,)])


@each_row("name", [HOLDER, OPERATOR])
async def test_sessions_by_the_header_are_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Whoever has many addresses fills no table; those that are signed in stay so."""
    monkeypatch.setattr("gateway.console.state.MAX_CHANGES", 2)
    async with open_console(tmp_path, server=SETTINGS.replace(PROXY, "127.0.0.1")) as console:
        for number, answer in ((1, name), (2, name), (3, 429), (1, name)):
            forwarded = f"192.0.2.{number}"
            assert await who(console, Remote_User=name, X_Forwarded_For=forwarded) == answer
        assert execute(console, "SELECT count(*) FROM sessions") == [(2,)]


async def test_the_proxy_s_people_have_no_password_here(behind: Console) -> None:
    body = {"new_password": "x" * 20}
    path, named = f"{API}/settings/password", {HEADER: OTHER}
    reply = await behind.post(path, body, as_=None, headers=named)
    assert reply.refusal == (409, "signed_in_by_proxy", None)
    body = {"person": "dana"}
    reply = await behind.post(f"{API}/settings/signins", body, as_=None, headers=named)
    assert reply.refusal == (409, "signed_in_by_proxy", None), "they would come in without it"
    overview = (await behind.get(f"{API}/overview", as_=None, headers=named)).json
    assert "no_password" not in [one["code"] for one in overview["notices"]]


async def test_the_header_and_a_token_are_two_callers(
    shared: Console, behind: Console, secrets: dict[TokenRole, str]
) -> None:
    headers = bearing(secrets["read"], **{HEADER: HOLDER})
    reply = await behind.get(f"{API}/accounts", as_=None, headers=headers)
    assert reply.refusal == (400, "two_callers", None)
    reply = await shared.get(f"{API}/accounts", as_=None, headers=headers)
    assert reply.status == 200, "from elsewhere the header is as if it were not there"


async def test_without_the_setting_the_header_is_nothing(tmp_path: Path) -> None:
    async with open_console(tmp_path, server='trusted_proxies = ["127.0.0.0/8"]') as console:
        assert await who(console, Remote_User=OPERATOR) == 401
