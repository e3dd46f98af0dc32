"""Translate the SQL of the books into PostgreSQL's, and values into its types."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, Final

import psycopg
from psycopg import sql as composed
from psycopg.adapt import AdaptersMap, Dumper
from psycopg.types.numeric import IntLoader
from psycopg.types.string import StrDumperUnknown, TextLoader

_WORDS: Final = (
    (re.compile(r"%"), "%%"),  # before placeholders are made of it
    (
        re.compile(r"json_each\((:\w+)\)"),
        r"json_array_elements_text(CAST(\1 AS json)) AS each (value)",
    ),
    (re.compile(r"\bjson_group_array\("), "json_agg("),
    (re.compile(r"\bjson_array\("), "json_build_array("),
    (  # tables that stand for indexes
        re.compile(r"\bcalls_by_\w+ AS called CROSS JOIN requests ON requests\.id = called\.id"),
        "requests",
    ),
    (re.compile(r"\bcalled\."), "requests."),
    (
        re.compile(r"\bentries_by_account AS filed CROSS JOIN entries ON entries\.id = filed\.id"),
        "entries",
    ),
    (re.compile(r"\bfiled\."), "entries."),
    (re.compile(r"\bINDEXED BY \w+"), ""),  # hints to SQLite's planner, as is the next
    (re.compile(r"\bCROSS JOIN (\w+) ON\b"), r"JOIN \1 ON"),
    (re.compile(r"\bLIKE\b"), "ILIKE"),
    # Values are in the text, so the planner leaves out a condition that is always true. It would take
    # `x = coalesce(NULL, x)` for a condition that few rows meet.
    (re.compile(r"([\w.]+) = coalesce\(:(\w+), \1\)"), r"(:\2 IS NULL OR \1 = :\2)"),
    (re.compile(r"\?"), "%s"),
    (re.compile(r"(?<!:):([a-z_]\w*)"), r"%(\1)s"),
)


class _TruthDumper(Dumper):
    """Booleans are 0 or 1 in every column, as in SQLite."""

    def dump(self, obj: bool) -> bytes:
        return b"1" if obj else b"0"

    def quote(self, obj: bool) -> bytes:
        return self.dump(obj)


class _TextDumper(StrDumperUnknown):
    """Replaces NUL, which PostgreSQL's text cannot have; no stored text is equal to the result."""

    def dump(self, obj: str) -> Any:
        return super().dump(obj.replace("\0", "\N{REPLACEMENT CHARACTER}"))


def _make_adapters() -> AdaptersMap:
    adapters = AdaptersMap(psycopg.adapters)
    adapters.register_dumper(bool, _TruthDumper)
    adapters.register_dumper(str, _TextDumper)
    adapters.register_loader("numeric", IntLoader)  # sums of bigints
    adapters.register_loader("json", TextLoader)  # orjson reads them
    return adapters


ADAPTERS: Final = _make_adapters()


@lru_cache(maxsize=1024)
def translate(sql: str) -> str:
    """Return the statement with psycopg's placeholders and PostgreSQL's words."""
    for pattern, words in _WORDS:
        sql = pattern.sub(words, sql)
    return sql


def compose(sql: str) -> composed.SQL:
    return composed.SQL(translate(sql))
