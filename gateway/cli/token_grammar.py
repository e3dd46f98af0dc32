"""The grammar of the verbs for tokens."""

from __future__ import annotations

from typing import Final, get_args

from gateway.cli import arguments as read
from gateway.cli import tokens
from gateway.cli.account_grammar import JSON
from gateway.cli.parser import Verb, arg, choice
from gateway.ledger import TokenRole

TOKEN_VERBS: Final[tuple[Verb, ...]] = (
    Verb(
        "token add",
        "Make a token for scripts that use the console's API, and print it. It is shown only once.",
        tokens.token_add,
        (
            "token add shop --role accounts",
            "token add monitor --role read --expires 90d",
            "TOKEN=$(python -m gateway token add shop --role accounts)",
        ),
        (
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
    ),
    Verb(
        "token list",
        "List tokens, without their secrets.",
        tokens.token_list,
        ("token list", "token list --json"),
        (JSON,),
    ),
    Verb(
        "token revoke",
        "Revoke a token for good.",
        tokens.token_revoke,
        ("token revoke shop", "token revoke ID"),
        (arg("token", "NAME|ID", read.word, "its name or id, as shown by `token list`"), JSON),
    ),
)
