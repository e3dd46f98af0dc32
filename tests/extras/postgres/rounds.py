"""Requests in PostgreSQL without a serving ledger: rounds of a node that the test makes."""

from __future__ import annotations

from collections.abc import Sequence

from gateway.base.times import unix_ms
from gateway.extras.postgres.messages import (
    RoundAnswer,
    read_answer,
    write_admissions,
    write_prices,
    write_raises,
    write_settlements,
)
from gateway.extras.postgres.nodes import Node, register
from gateway.extras.postgres.session import Session
from gateway.ledger.serving.queue import Item
from tests.extras.postgres.databases import stop_clock

ROUND = "SELECT run_round(?, ?, ?, ?, ?)"


def run_round(
    session: Session,
    node: Node,
    ended: Sequence[Item] = (),
    raised: Sequence[Item] = (),
    asked: Sequence[Item] = (),
    *,
    now_ms: int | None = None,
) -> RoundAnswer:
    """Settle, raise holds and admit in one round; `now_ms` stops the database's clock."""
    if now_ms is not None:
        stop_clock(session, now_ms)
    clock_ms = unix_ms() if now_ms is None else now_ms
    prices, _ = write_prices((*ended, *asked), ())
    session.execute("SELECT add_prices(?)", (prices.decode(),))
    values = (
        node.id,
        node.epoch,
        write_settlements(ended, clock_ms).decode(),
        write_raises(raised).decode(),
        write_admissions(asked, (), clock_ms).decode(),
    )
    row = session.execute(ROUND, values).fetchone()
    assert row is not None
    return read_answer(row[0])


def write_requests(session: Session, items: Sequence[Item], now_ms: int) -> None:
    """Admit and settle each request in rounds of its own, so that no hold is in another's way."""
    node = register(session)
    for item in items:
        request_id = item.hold.admission.request_id
        if item.insert:
            answer = run_round(session, node, asked=[item], now_ms=now_ms)
            assert answer.admitted == {request_id}, answer.declined
        if item.settlement is not None:
            answer = run_round(session, node, ended=[item], now_ms=now_ms)
            assert answer.settled == {request_id}, answer.others
