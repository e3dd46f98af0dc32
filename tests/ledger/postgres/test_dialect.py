"""Each word that the two databases say differently."""

from __future__ import annotations

from gateway.ledger.postgres.statements import translate
from tests.support.rows import each_row


@each_row(
    ("written", "said"),
    [
        ("a = ? AND b = ?", "a = %s AND b = %s"),
        ("a = :name", "a = %(name)s"),
        ("CAST(a AS text), a::text", "CAST(a AS text), a::text"),
        ("a % 7 = ?", "a %% 7 = %s"),
        ("name LIKE :x ESCAPE '!'", "name ILIKE %(x)s ESCAPE '!'"),
        ("dislikes, likely", "dislikes, likely"),
        ("json_group_array(id)", "json_agg(id)"),
        ("json_array(a, b)", "json_build_array(a, b)"),
        (
            "SELECT value FROM json_each(:ids)",
            "SELECT value FROM json_array_elements_text(CAST(%(ids)s AS json)) AS each (value)",
        ),
        ("FROM requests INDEXED BY by_account WHERE", "FROM requests  WHERE"),
        ("a CROSS JOIN b ON a.id = b.id", "a JOIN b ON a.id = b.id"),
        ("a CROSS JOIN b", "a CROSS JOIN b"),
        (
            "requests.a = coalesce(:a, requests.a)",
            "(%(a)s IS NULL OR requests.a = %(a)s)",
        ),
        ("a = coalesce(:a, b)", "a = coalesce(%(a)s, b)"),
        ("a CROSS JOIN LATERAL b ON TRUE", "a CROSS JOIN LATERAL b ON TRUE"),
    ],
)
def test_a_statement_is_said_in_words_of_postgresql(written: str, said: str) -> None:
    assert translate(written) == said
