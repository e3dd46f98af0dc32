"""Receipts as they are stored: `contract/test_receipts` has what they say."""

from __future__ import annotations

from pathlib import Path

from gateway.ledger.sql.rows import read_receipt
from gateway.ledger.sqlite.schema import connect


def test_an_unknown_request_has_none(tmp_path: Path) -> None:
    connection = connect(tmp_path / "gateway.db", create=True)
    assert read_receipt(connection, request_id="req_none") is None
    connection.close()
