"""Addresses of databases: read, and shown without the password."""

from __future__ import annotations

import re
from typing import Final

from gateway.ledger.records import DatabaseUrl

_ESCAPE: Final = "%(?!00)[0-9A-Fa-f]{2}"
"""A valid escape. PostgreSQL's driver would repeat an invalid one in its error, even one of the password."""
_WORD: Final = rf"(?:[^\s:@/?#%\[\]]|{_ESCAPE})*"
"""A user, a password or a name."""
_HOST: Final = rf"(?:\[[0-9A-Fa-f:.]+\]|(?:[^\s:,@/?#%\[\]]|{_ESCAPE})*)(?::[0-9]{{1,5}})?"
"""An empty host, or a path such as %2Frun%2Fpostgresql, is the folder of a socket."""
_URL: Final = re.compile(
    rf"postgres(?:ql)?://(?:(?P<user>{_WORD})(?::{_WORD})?@)?"
    rf"(?P<place>{_HOST}(?:,{_HOST})*(?:/{_WORD})?)"
    rf"(?:\?(?:[A-Za-z_]+=(?:[^\s&=%]|{_ESCAPE})*(?:&|$))*)?"
)
_SCHEMES: Final = ("postgresql://", "postgres://")
_EXAMPLE: Final = '"postgresql://gateway@db.example.com:5432/gateway"'


def read_url(text: str) -> DatabaseUrl:
    """Read an address. Raises ValueError with the rule; the message never repeats the address."""
    if not text.startswith(_SCHEMES):
        raise ValueError(f"must begin with postgresql://, such as {_EXAMPLE}")
    if _URL.fullmatch(text) is None:
        raise ValueError(
            f"must be an address such as {_EXAMPLE}; write other characters than letters, digits and"
            " - . _ ~ in its user, password and name as %XX, such as %40 for @"
        )
    return DatabaseUrl(text, show_url(text))


def show_url(text: str) -> str:
    """Return the address without password and parameters, which may contain a password, too."""
    found = _URL.fullmatch(text)
    if found is None:
        return "postgresql://"
    user = "" if found["user"] is None else f"{found['user']}@"
    return f"postgresql://{user}{found['place']}"
