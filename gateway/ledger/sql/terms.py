"""The columns of accounts' and keys' terms, and the records made of them."""

from __future__ import annotations

from dataclasses import asdict, fields
from functools import lru_cache
from typing import Final

import orjson

from gateway.ledger.key_records import KeyTerms, Terms

TermsColumns = tuple[str | None, int | None, int | None, int | None]
"""A row of `TERMS`: the fields of `Terms`, with the models as a JSON array."""
KeyTermsColumns = tuple[*TermsColumns, str, int | None, int | None, int | None]
"""A row of `KEY_TERMS`: the fields of `KeyTerms`."""
TERMS: Final = ", ".join(f"accounts.{field.name}" for field in fields(Terms))
KEY_TERMS: Final = ", ".join(f"keys.{field.name}" for field in fields(KeyTerms))
SET_TERMS: Final = ", ".join(f"{field.name} = :{field.name}" for field in fields(Terms))
"""The assignments of an UPDATE, for the columns of `write_terms`."""
SET_KEY_TERMS: Final = ", ".join(f"{field.name} = :{field.name}" for field in fields(KeyTerms))
KEY_LIVES: Final = "keys.revoked_ms IS NULL AND (keys.expires_ms IS NULL OR keys.expires_ms > :now)"
"""The condition under which `KeyView.status` is neither revoked nor expired."""


def read_terms(columns: TermsColumns) -> Terms:
    return _make_terms(*columns)


def read_key_terms(columns: KeyTermsColumns) -> KeyTerms:
    models, requests, tokens, concurrency, name, cap_nano, expires_ms, budget_id = columns
    limits = (requests, tokens, concurrency)
    return KeyTerms(_read_models(models), *limits, name, cap_nano, expires_ms, budget_id)


def write_terms(terms: Terms) -> dict[str, int | str | None]:
    """Return the columns of terms by name."""
    columns = asdict(terms)
    if terms.models is not None:
        columns["models"] = orjson.dumps(terms.models).decode()
    return columns


@lru_cache(maxsize=256)
def _make_terms(models: str | None, *limits: int | None) -> Terms:
    """Return the same object for the same terms: most accounts have no others."""
    return Terms(_read_models(models), *limits)


@lru_cache(maxsize=256)
def _read_models(column: str | None) -> tuple[str, ...] | None:
    return None if column is None else tuple(orjson.loads(column))
