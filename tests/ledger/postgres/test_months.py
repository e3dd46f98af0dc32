"""Months are partitions, and one that cannot be made is no reason to stop."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

pytest.importorskip("psycopg", reason="the extra `postgres` is not installed")

from psycopg import errors

from gateway.ledger.postgres.schema import open_session
from gateway.ledger.postgres.session import Session
from tests.ledger.contract.kit import NOW_MS

ENTRY = (
    "INSERT INTO entries (account_id, kind, amount_nano, balance_after_nano, request_id, created_ms)"
    " VALUES (1, 'charge', 0, 0, 'r', ?)"
)
MADE = "SELECT to_regclass('entries_' || ?) IS NOT NULL"


@pytest.fixture
def session(postgres_url: str) -> Iterator[Session]:
    with closing(open_session(postgres_url, create=True)) as session:
        yield session


def make_months(session: Session) -> int:
    """Make November and December of 2023."""
    (made,) = session.execute(
        "SELECT make_months(to_timestamp(?), 1)", (NOW_MS // 1000,)
    ).fetchone() or (0,)
    return int(made)


def test_a_month_is_made_once_with_the_next(session: Session) -> None:
    assert (make_months(session), make_months(session)) == (2, 0)
    for month in ("2023_11", "2023_12"):
        assert session.execute(MADE, (month,)).fetchone() == (True,)


def test_rows_that_came_before_their_month_stay_and_the_next_month_is_made(
    session: Session,
) -> None:
    """As when no gateway has served for months, and the operator posts a credit."""
    session.execute(ENTRY, (NOW_MS,))
    assert make_months(session) == 1
    assert session.execute(MADE, ("2023_11",)).fetchone() == (False,)
    assert session.execute(MADE, ("2023_12",)).fetchone() == (True,)


@pytest.mark.parametrize("has_month", [True, False])
def test_a_request_is_charged_once_in_each_month(session: Session, *, has_month: bool) -> None:
    if has_month:
        make_months(session)
    session.execute(ENTRY, (NOW_MS,))
    with pytest.raises(errors.UniqueViolation):
        session.execute(ENTRY, (NOW_MS + 1,))
