"""The verbs for tokens: what they print, and on which stream."""

from __future__ import annotations

import re

import pytest

from gateway.admin.views import describe_token_state
from gateway.ledger.signin_records import TokenTerms, TokenView
from tests.support.cli import Cli
from tests.support.rows import each_row


@pytest.fixture(autouse=True)
def alice(cli: Cli) -> None:
    cli.done("account", "add", "alice")


def test_a_token_is_alone_on_stdout_and_shown_once(cli: Cli) -> None:
    answer = cli.done("token", "add", "shop", "--role", "accounts")
    secret = answer.out.removesuffix("\n")
    assert re.fullmatch(r"gwt_[\w-]{43}", secret)
    assert re.fullmatch(r"Token shop \(tok_\w+\), role accounts, shown this once:\n", answer.err)
    for words in (("token", "list"), ("token", "list", "--json")):
        assert secret not in cli.done(*words).out
    assert secret.encode() not in cli.database.read_bytes()
    again = cli.run("token", "add", "shop", "--role", "read")
    assert (again.code, again.out) == (1, "")
    assert "there is a token 'shop' already" in again.err
    assert cli.run("token", "add", "other").code == 2, "a role must be chosen"


def test_tokens_in_json(cli: Cli) -> None:
    words = ("token", "add", "monitor", "--role", "read", "--expires", "2999-12-31", "--json")
    made = cli.done(*words).json
    secret = made.pop("secret")
    assert made == {
        "id": made["id"],
        "name": "monitor",
        "role": "read",
        "display": f"gwt_…{secret[-4:]}",
        "status": "active",
        "created": made["created"],
        "created_by": made["created_by"],
        "expires": "2999-12-31T00:00:00.000Z",
        "revoked": None,
        "last_used": None,
    }
    assert cli.done("token", "list", "--json").json == [made]
    revoked = cli.done("token", "revoke", "monitor", "--json").json
    assert revoked == {**made, "status": "revoked", "revoked": revoked["revoked"]}


def test_tokens_are_listed_for_people(cli: Cli) -> None:
    secret = cli.done("token", "add", "shop", "--role", "accounts").out.strip()
    shown = cli.done("token", "list").out
    ((token_id, made_by),) = (
        (one["id"], one["created_by"]) for one in cli.done("token", "list", "--json").json
    )
    assert made_by.startswith("cli (")
    assert [re.sub(r" +", " ", line) for line in shown.splitlines()] == [
        "ID NAME ROLE TOKEN STATE LAST USED UTC BY",
        f"{token_id} shop accounts gwt_…{secret[-4:]} active - {made_by}",
    ]
    answer = cli.done("token", "revoke", token_id)
    assert answer.err == f"Token shop ({token_id}) is revoked.\n"
    assert cli.run("token", "revoke", "shop").code == 5


YEAR_9999_MS = 253_402_300_799_000


@each_row(
    ("expires_ms", "revoked_ms", "state"),
    [
        (None, None, "active"),
        (YEAR_9999_MS, None, "until 9999-12-31 23:59"),
        (0, None, "expired 1970-01-01 00:00"),
        (0, 60_000, "revoked 1970-01-01 00:01"),
    ],
)
def test_the_state_of_a_token(expires_ms: int | None, revoked_ms: int | None, state: str) -> None:
    terms = TokenTerms("shop", "read", expires_ms)
    assert (
        describe_token_state(TokenView("tok_1", terms, "a1b2", "cli", 0, revoked_ms, None)) == state
    )
