"""The receipt of one request, read by the serving process and by the operator's books."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

import orjson

from gateway.ledger.call_records import Correction, Outcome, Receipt
from gateway.ledger.sql.connection import Connection
from gateway.money import NONE, Tokens
from gateway.prices import read_price

_RECEIPT: Final = """
    SELECT requests.id, key_id, state, outcome, model, provider, stream, price, hold_nano,
        started_ms, attempts, status, cost_nano, estimated, first_byte_ms, ended_ms,
        input_tokens, cached_input_tokens, cache_write_tokens, output_tokens,
        cache_write_1h_tokens, extras
    FROM requests JOIN prices ON prices.id = price_id WHERE requests.id = :id
"""
_CORRECTIONS: Final = """
    SELECT amount_nano, note, created_ms
    FROM entries WHERE kind = 'correction' AND request_id = :id ORDER BY id
"""
_ReceiptColumns = tuple[
    str, str, Literal["pending", "posted", "voided"], Outcome, str, str, int, str, int,
    int, int, int | None, int, int, int | None, int | None, int, int, int, int, int, str | None,
]  # fmt: skip


def read_receipt(connection: Connection, *, request_id: str) -> Receipt | None:
    wanted = {"id": request_id}
    row = connection.execute(_RECEIPT, wanted).fetchone()
    if row is None:
        return None
    return _make_receipt(row, connection.execute(_CORRECTIONS, wanted).fetchall())


def _make_receipt(row: _ReceiptColumns, corrections: list[tuple[int, str, int]]) -> Receipt:
    request_id, key_id, state, outcome, model, provider, stream, price, hold_nano = row[:9]
    started_ms, attempts, status, cost_nano, estimated, first_byte_ms, ended_ms = row[9:16]
    tokens, tool_calls = read_used(row[16:])
    return Receipt(
        request_id=request_id,
        key_id=key_id,
        state=state,
        outcome=outcome,
        model=model,
        provider=provider,
        stream=bool(stream),
        price=read_price(price),
        hold_nano=hold_nano,
        started_ms=started_ms,
        attempts=None if status is None else attempts,
        status=status,
        tokens=tokens,
        tool_calls=tool_calls,
        cost_nano=cost_nano,
        estimated=bool(estimated),
        first_byte_ms=first_byte_ms,
        ended_ms=ended_ms,
        corrections=tuple(Correction(*one) for one in corrections),
    )


def write_extras(tokens: Tokens, tool_calls: Mapping[str, int]) -> str | None:
    """Write the column `extras`: tokens of other media, and calls of tools."""
    if not tokens.media and not tool_calls:
        return None
    told = {"media": dict(tokens.media), "tools": dict(tool_calls)}
    return orjson.dumps({name: counts for name, counts in told.items() if counts}).decode()


def read_used(row: tuple[int, int, int, int, int, str | None]) -> tuple[Tokens, Mapping[str, int]]:
    """Read the columns of tokens and `extras`."""
    given, cached, written, made, written_1h, extras = row
    if extras is None:
        return Tokens(given, cached, written, made, written_1h), NONE
    told: dict[str, dict[str, int]] = orjson.loads(extras)
    tokens = Tokens(given, cached, written, made, written_1h, told.get("media", NONE))
    return tokens, told.get("tools", NONE)
