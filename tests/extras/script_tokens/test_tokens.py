"""Tokens of scripts: what is kept of them, and what is refused."""

from __future__ import annotations

import re
from pathlib import Path

from gateway.extras.script_tokens.book import add_token, find_token
from gateway.extras.script_tokens.records import TokenTerms
from gateway.ledger.sql.books import Books
from tests.admin.visits import read_kept


def test_a_token_is_kept_as_its_hash(books: Books, path: Path) -> None:
    made = add_token(books, TokenTerms("shop", "accounts"))
    assert re.fullmatch(r"gwt_[\w-]{43}", made.secret)
    assert made.token.display == f"gwt_…{made.secret[-4:]}"
    assert made.secret not in repr(made)
    assert made.secret.encode() not in read_kept(path)
    found = find_token(books, made.secret)
    assert found is not None
    assert found.id == made.token.id
