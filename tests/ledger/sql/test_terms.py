"""The columns of terms: each field has its own, and models are one JSON array."""

from __future__ import annotations

from gateway.ledger.key_records import KeyTerms, Terms
from gateway.ledger.sql.rows import read_key_terms, read_terms, write_terms


def test_terms_are_read_in_the_order_of_their_fields() -> None:
    assert read_terms(('["m"]', 1, 2, 3)) == Terms(("m",), 1, 2, 3)
    read = read_key_terms(('["m"]', 1, 2, 3, "n", 4, 5, 6))
    assert read == KeyTerms(("m",), 1, 2, 3, "n", 4, 5, 6)
    assert read_key_terms((None, None, None, None, "", None, None, None)) == KeyTerms()
    assert write_terms(read)["models"] == '["m"]'
    assert write_terms(Terms())["models"] is None
