"""The verbs for tokens."""

from __future__ import annotations

from functools import partial
from typing import Final, get_args

from gateway.admin import tokens, views
from gateway.cli import arguments as read
from gateway.cli.command import Command
from gateway.cli.output import Columns
from gateway.cli.verbs import JSON, arg, choice, verb
from gateway.ledger import TokenRole, TokenTerms, TokenView
from gateway.times import format_moment, unix_ms


def state_of_token(token: TokenView) -> str:
    """Describe whether a token works, and since or until when."""
    expires_ms = token.terms.expires_ms
    match token.status(unix_ms()):
        case "revoked":
            return f"revoked {format_moment(token.revoked_ms or 0)}"
        case "expired":
            return f"expired {format_moment(expires_ms or 0)}"
        case "active":
            return "active" if expires_ms is None else f"until {format_moment(expires_ms)}"


TOKENS: Final[Columns[TokenView]] = (
    ("ID", lambda token: token.id),
    ("NAME", lambda token: token.terms.name),
    ("ROLE", lambda token: token.terms.role),
    ("TOKEN", lambda token: token.display),
    ("STATE", state_of_token),
    (
        "LAST USED UTC",
        lambda token: format_moment(token.last_used_ms) if token.last_used_ms else "-",
    ),
    ("BY", lambda token: token.created_by),
)


@verb(
    "token add",
    "token add shop --role accounts",
    "token add monitor --role read --expires 90d",
    "TOKEN=$(python -m gateway token add shop --role accounts)",
    arguments=(
        arg("name", "NAME", read.word, "a name that no other live token has"),
        choice(
            "--role",
            get_args(TokenRole),
            "operator: all but passwords, sign-in links, sessions, roles and tokens; accounts:"
            " accounts, their keys, credits and codes; read: look at everything, change nothing",
            required=True,
        ),
        arg(
            "--expires",
            "TIME",
            read.expiry,
            "when it expires: 30d, 2026-12-31 or 2026-12-31T18:00 in UTC (default: never)",
        ),
        JSON,
    ),
)
def token_add(command: Command, name: str, role: TokenRole, expires: read.Expiry | None) -> None:
    """Make a token for scripts that use the console's API, and print it. It is shown only once."""
    with command.open_books() as books:
        expires_ms = read.resolve_expiry(expires, books.clock())
        made = tokens.add_token(books, TokenTerms(name, role, expires_ms))
    command.say(f"Token {name} ({made.token.id}), role {role}, shown this once:")
    described = views.describe_token(made.token, unix_ms())
    command.show({"secret": made.secret, **described}, made.secret)


@verb("token list", "token list", "token list --json", arguments=(JSON,))
def token_list(command: Command) -> None:
    """List tokens, without their secrets."""
    with command.open_books() as books:
        found = books.tokens.read_all()
    command.show_list(found, partial(views.describe_token, now_ms=unix_ms()), TOKENS)


@verb(
    "token revoke",
    "token revoke shop",
    "token revoke ID",
    arguments=(
        arg("token", "NAME|ID", read.word, "its name or id, as shown by `token list`"),
        JSON,
    ),
)
def token_revoke(command: Command, token: str) -> None:
    """Revoke a token for good."""
    with command.open_books() as books:
        revoked = books.tokens.revoke(token)
    command.show(views.describe_token(revoked, unix_ms()))
    command.say(f"Token {revoked.terms.name} ({revoked.id}) is revoked.")
