"""The verbs for tokens of scripts."""

from __future__ import annotations

from typing import get_args

from gateway.base.process import PROGRAM
from gateway.cli import arguments as read
from gateway.cli.command import Command
from gateway.cli.verbs import arg, choice, make_expiry, verb
from gateway.extras.script_tokens.book import TokenBook, add_token
from gateway.extras.script_tokens.records import TOKEN, TokenRole, TokenTerms


@verb(
    "token add",
    examples=(
        "token add shop --role accounts",
        "token add monitor --role read --expires 90d",
        f"TOKEN=$({PROGRAM} token add shop --role accounts)",
    ),
    arguments=(
        arg("name", "NAME", "a name that no other live token has"),
        choice(
            "--role",
            get_args(TokenRole),
            "operator: all but passwords, sign-in links, sessions, roles and tokens; accounts:"
            " accounts, their keys, credits and codes; read: look at everything, change nothing",
            required=True,
        ),
        make_expiry("when it expires: 30d"),
    ),
)
def token_add(command: Command, name: str, role: TokenRole, expires: read.Expiry | None) -> None:
    """Make a token for scripts that use the console's API, and print it. It is shown only once."""
    books = command.open_books()
    expires_ms = expires and expires(books.clock())
    made = add_token(books, TokenTerms(name, role, expires_ms))
    command.say(f"Token {name} ({made.token.id}), role {role}, shown this once:")
    described = TOKEN.describe(made.token)
    command.show({"secret": made.secret, **described}, made.secret)


@verb("token list", examples=("token list", "token list --json"))
def token_list(command: Command) -> None:
    """List tokens, without their secrets."""
    command.show_list(TokenBook(command.open_books()).read_all(), TOKEN)


@verb(
    "token revoke",
    examples=("token revoke shop", "token revoke ID"),
    arguments=(arg("token", "NAME|ID", "its name or id, as shown by `token list`"),),
)
def token_revoke(command: Command, token: str) -> None:
    """Revoke a token for good."""
    revoked = TokenBook(command.open_books()).revoke(token)
    command.show(TOKEN.describe(revoked))
    command.say(f"Token {revoked.terms.name} ({revoked.id}) is revoked.")
