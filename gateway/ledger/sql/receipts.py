"""The receipt of one request, read by the serving process and by the operator's books."""

from __future__ import annotations

from typing import Final, Literal

from gateway.ledger.receipts import Correction, Outcome, Receipt
from gateway.ledger.sql.connection import Connection
from gateway.money import Price, Tokens

_RECEIPT: Final = """
    SELECT id, key_id, state, outcome, model, provider, stream,
        input_price_nano, output_price_nano, cached_input_price_nano, cache_write_price_nano,
        request_price_nano, cache_write_1h_price_nano, web_search_price_nano, hold_nano, started_ms, attempts, status, input_tokens,
        cached_input_tokens, cache_write_tokens, output_tokens, cache_write_1h_tokens, cost_nano,
        estimated, first_byte_ms, ended_ms, web_searches, price_rule
    FROM requests WHERE id = :id
"""
_CORRECTIONS: Final = """
    SELECT amount_nano, note, created_ms
    FROM entries WHERE kind = 'correction' AND request_id = :id ORDER BY id
"""
_Prices = tuple[int, int, int, int, int, int, int]
_Tokens = tuple[int, int, int, int, int]
_ReceiptColumns = tuple[
    str, str, Literal["pending", "posted", "voided"], Outcome, str, str, int,
    *_Prices,
    int, int, int, int | None,
    *_Tokens,
    int, int, int | None, int | None, int, str,
]  # fmt: skip


def read_receipt(connection: Connection, *, request_id: str) -> Receipt | None:
    wanted = {"id": request_id}
    row = connection.execute(_RECEIPT, wanted).fetchone()
    if row is None:
        return None
    return _make_receipt(row, connection.execute(_CORRECTIONS, wanted).fetchall())


def _make_receipt(row: _ReceiptColumns, corrections: list[tuple[int, str, int]]) -> Receipt:
    request_id, key_id, state, outcome, model, provider, stream = row[:7]
    hold_nano, started_ms, attempts, status = row[14:18]
    cost_nano, estimated, first_byte_ms, ended_ms, web_searches, price_rule = row[23:]
    return Receipt(
        request_id=request_id,
        key_id=key_id,
        state=state,
        outcome=outcome,
        model=model,
        provider=provider,
        stream=bool(stream),
        price=Price(*row[7:14]),
        hold_nano=hold_nano,
        started_ms=started_ms,
        attempts=None if status is None else attempts,
        status=status,
        tokens=Tokens(*row[18:23]),
        web_searches=web_searches,
        price_rule=price_rule,
        cost_nano=cost_nano,
        estimated=bool(estimated),
        first_byte_ms=first_byte_ms,
        ended_ms=ended_ms,
        corrections=tuple(Correction(*one) for one in corrections),
    )
