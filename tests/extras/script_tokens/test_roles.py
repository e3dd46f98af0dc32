"""A token's rights by its role, its limits, and its end without the extra."""

from __future__ import annotations

from pathlib import Path
from typing import Final, get_args

import pytest

from gateway.extras.console.routes import Route
from gateway.extras.script_tokens.book import add_token
from gateway.extras.script_tokens.records import TokenRole, TokenTerms
from tests.extras.console.kit import API, Console, open_console
from tests.extras.console.test_dispatch import call, every_route, shared
from tests.support.rows import each_row

__all__ = ["shared"]
pytestmark = pytest.mark.asyncio(loop_scope="module")

ROLES: Final[tuple[TokenRole, ...]] = get_args(TokenRole)


@pytest.fixture(scope="module")
def secrets(shared: Console) -> dict[TokenRole, str]:
    with shared.open_books() as books:
        return {role: add_token(books, TokenTerms(role, role)).secret for role in ROLES}


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


async def test_two_tokens_are_two_callers(shared: Console, secrets: dict[TokenRole, str]) -> None:
    two = [("Authorization", f"Bearer {secrets[role]}") for role in ("read", "accounts")]
    async with shared.web.get(f"{shared.root_url}{API}/accounts", headers=two) as response:
        assert (response.status, (await response.json())["error"]["code"]) == (400, "two_callers")


async def test_a_token_makes_so_many_changes_an_hour(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.extras.console.state.MAX_TOKEN_CHANGES", 2)
    async with open_console(tmp_path) as console:
        with console.open_books() as books:
            made = [add_token(books, TokenTerms(name, "operator")) for name in "ab"]
        first, second = (bearing(one.secret) for one in made)
        path = f"{API}/accounts/99/resume"
        for expected in (404, 404, 429):
            reply = await console.post(path, {}, as_=None, headers=first)
            assert reply.status == expected
        assert (await console.get(f"{API}/accounts", as_=None, headers=first)).status == 200
        assert (await console.post(path, {}, as_=None, headers=second)).status == 404


async def test_without_the_extra_it_is_no_credential(
    shared: Console, secrets: dict[TokenRole, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As any bearer credential that a proxy may add."""
    monkeypatch.setattr("gateway.extras.console.callers.find_credentials", lambda: ())
    reply = await shared.get(f"{API}/accounts", as_=None, headers=bearing(secrets["operator"]))
    assert reply.refusal == (401, "not_signed_in", None)
