"""Tokens: what is kept of them, and which names and times they may have."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.admin import accounts, keys
from gateway.ledger.records import Refused
from gateway.ledger.signin_records import TokenTerms
from gateway.ledger.sql.books.books import Books
from tests.support.rows import each_row


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "gateway.db"


@pytest.fixture
def books(path: Path) -> Iterator[Books]:
    with accounts.open_books(path, create=True) as books:
        yield books


def test_a_token_is_kept_as_its_hash(books: Books, path: Path) -> None:
    made = keys.add_token(books, TokenTerms("shop", "accounts"))
    assert re.fullmatch(r"gwt_[\w-]{43}", made.secret)
    assert made.token.display == f"gwt_…{made.secret[-4:]}"
    assert made.secret not in repr(made)
    for file in path.parent.iterdir():
        assert made.secret.encode() not in file.read_bytes()
    found = keys.find_token(books, made.secret)
    assert found is not None
    assert found.id == made.token.id


@each_row("secret", ["", "gwt_", f"gwt_{'A' * 43}", f"gws_{'A' * 43}", "\udc80", "'--"])
def test_what_is_no_token_is_none(books: Books, secret: str) -> None:
    assert keys.find_token(books, secret) is None


@each_row(
    ("terms", "field"),
    [
        (TokenTerms("", "read"), "name"),
        (TokenTerms(" x", "read"), "name"),
        (TokenTerms("x\n", "read"), "name"),
        (TokenTerms("x" * 101, "read"), "name"),
        (TokenTerms("x", "read", 1), "expires"),
    ],
)
def test_names_are_printed_and_times_to_come(books: Books, terms: TokenTerms, field: str) -> None:
    with pytest.raises(Refused) as caught:
        keys.add_token(books, terms)
    assert caught.value.field == field
    assert books.tokens.read_all() == []


def test_no_account_is_called_like_a_token(books: Books) -> None:
    """Events name who acted, and nobody may pass for a token there."""
    with pytest.raises(Refused, match="must not begin with 'token '"):
        accounts.add_account(books, "token shop")
    accounts.add_account(books, "tokens")
