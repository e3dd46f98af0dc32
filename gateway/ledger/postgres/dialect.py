"""Translate statements of `ledger.sql` for PostgreSQL.

They are written for SQLite's parser where the two differ in words alone; see `sql.connection`.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

_WORDS: Final = (
    (re.compile(r"%"), "%%"),  # before placeholders are made of it
    (
        re.compile(r"json_each\((:\w+)\)"),
        r"json_array_elements_text(CAST(\1 AS json)) AS each (value)",
    ),
    (re.compile(r"\bjson_group_array\("), "json_agg("),
    (re.compile(r"\bjson_array\("), "json_build_array("),
    (re.compile(r"\bINDEXED BY \w+"), ""),  # hints to SQLite's planner, as is the next
    (re.compile(r"\bCROSS JOIN (\w+) ON\b"), r"JOIN \1 ON"),
    (re.compile(r"\bLIKE\b"), "ILIKE"),
    # Values are in the text, so a condition that is none is left out by the planner, which would take
    # `x = coalesce(NULL, x)` for one that few rows meet.
    (re.compile(r"([\w.]+) = coalesce\(:(\w+), \1\)"), r"(:\2 IS NULL OR \1 = :\2)"),
    (re.compile(r"\?"), "%s"),
    (re.compile(r"(?<!:):([a-z_]\w*)"), r"%(\1)s"),
)


@lru_cache(maxsize=1024)
def translate(sql: str) -> str:
    """Return the statement with psycopg's placeholders and PostgreSQL's words."""
    for pattern, words in _WORDS:
        sql = pattern.sub(words, sql)
    return sql
