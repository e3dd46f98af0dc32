"""The verbs for tokens."""

from __future__ import annotations

from functools import partial

from gateway.admin import tokens, views
from gateway.cli.command import Command
from gateway.cli.tables import TOKENS
from gateway.ledger import TokenTerms
from gateway.times import unix_ms


def token_add(command: Command) -> None:
    """Make a token and print only it to stdout."""
    options = vars(command.options)
    terms = TokenTerms(options["name"], options["role"], options["expires"])
    with command.open_books() as books:
        made = tokens.add_token(books, terms)
    command.say(f"Token {terms.name} ({made.token.id}), role {terms.role}, shown this once:")
    described = views.describe_token(made.token, unix_ms())
    command.show({"secret": made.secret, **described}, made.secret)


def token_list(command: Command) -> None:
    with command.open_books() as books:
        found = books.tokens.read_all()
    command.show_list(found, partial(views.describe_token, now_ms=unix_ms()), TOKENS)


def token_revoke(command: Command) -> None:
    with command.open_books() as books:
        token = books.tokens.revoke(command.options.token)
    command.show(views.describe_token(token, unix_ms()))
    command.say(f"Token {token.terms.name} ({token.id}) is revoked.")
