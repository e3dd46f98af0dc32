"""The transaction that moves money: the columns it writes, and each request settled once."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from gateway.ledger.base import Settlement
from gateway.ledger.serving.store import Item
from gateway.ledger.sqlite.batch import NotPendingError, commit_requests
from gateway.ledger.sqlite.schema import connect
from gateway.ledger.sqlite.serving.ledger import open_sqlite
from tests.ledger.kit import (
    TOKENS,
    admission,
    assert_sound,
    find_key,
    make_place,
    query,
    settlement,
    void,
)
from tests.support.rows import each_row


async def test_request_row_has_all_that_a_receipt_tells(tmp_path: Path) -> None:
    """The same columns, whether row and charge are one commit or two."""
    place = make_place(tmp_path)
    async with open_sqlite(place.path) as ledger:
        key = find_key(ledger, place)
        first = ledger.hold(key, admission(1000, id_="chatcmpl-1"))
        await ledger.settle(first, settlement(77))
        second = ledger.hold(key, admission(1000, id_="chatcmpl-2"))
        await ledger.wait_admitted(second)
        await ledger.settle(second, settlement(77))
    rows = query(
        place.path,
        "SELECT account_id, key_id, model, provider, stream, hold_nano, state, input_tokens,"
        " cached_input_tokens, cache_write_tokens, output_tokens, price, extras, cost_nano,"
        " estimated, outcome, status, attempts, started_ms, first_byte_ms, ended_ms"
        " FROM requests JOIN prices ON prices.id = price_id ORDER BY requests.id",
    )
    expected = (
        *(1, place.key_id, "demo/echo", "other", 0, 1000, "posted"),
        *(TOKENS.input, TOKENS.cached_input, TOKENS.cache_write, TOKENS.output),
        *(settlement(77).price.text, None),
        *(77, 0, "complete", 200, 2, 1_700_000_000_000, 12, 1_700_000_001_000),
    )
    assert rows == [expected, expected]


@each_row("first", [settlement(100), void()])
@each_row("second", [settlement(900), void()])
async def test_a_request_is_settled_once_in_the_books(
    tmp_path: Path, first: Settlement, second: Settlement
) -> None:
    """A posted request cannot be voided, nor the other way round; the row stays as it is."""
    place = make_place(tmp_path, credit_nano=5000)
    async with open_sqlite(place.path) as ledger:
        hold = ledger.hold(find_key(ledger, place), admission())
        await ledger.settle(hold, first)
    rows = "SELECT state, cost_nano FROM requests"
    before = query(place.path, rows)
    with closing(connect(place.path)) as connection, pytest.raises(NotPendingError):
        commit_requests(connection, [Item(hold, insert=False, settlement=second)], 1, set())
    assert query(place.path, rows) == before
    assert_sound(place.path)
