"""Functions of the command line and the configuration as functions of plain values, for `examples.txt`."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

from gateway.admin.views import describe_key_state
from gateway.cli import arguments, output
from gateway.cli.command import find_actor
from gateway.ledger.key_records import KeyTerms, KeyView
from tests.support.settings import load, with_price

NOW_MS = 1_700_000_000_000
"""2023-11-14 22:13:20."""
KEY = KeyView("key_1", "a", "sk-ru-…a1b2", KeyTerms(), 5, 0, None, None, None)


def start(text: str) -> int:
    return arguments.start(text, lambda: NOW_MS)


def end(text: str) -> int:
    return arguments.end(text, lambda: NOW_MS)


def expiry(text: str) -> int:
    return arguments.expiry(text, lambda: NOW_MS)(NOW_MS)


def render_table(headings: list[str], rows: list[list[str]]) -> list[str]:
    return output.render_table(headings, rows).split("\n")


def find_user(environ: dict[str, str]) -> str:
    return find_actor(environ, lambda: 2**31 - 7).name


def describe_key(cap_nano: int | None, expires_ms: int | None, revoked_ms: int | None) -> str:
    """Describe a key of which 5 nano-units are spent."""
    terms = KeyTerms(cap_nano=cap_nano, expires_ms=expires_ms)
    return describe_key_state(replace(KEY, terms=terms, revoked_ms=revoked_ms))


def read_price(written: str) -> int:
    with tempfile.TemporaryDirectory() as folder:
        config = with_price(Path(folder), f"{{ input = {written}, output = 1, sure = true }}")
    price = config.models["m"].prices.base.input
    assert type(price) is int
    return price


def read_public_url(url: str) -> str | None:
    with tempfile.TemporaryDirectory() as folder:
        return load(Path(folder), f'[server]\npublic_url = "{url}"').server.public_url


def read_base_url(url: str) -> str:
    with tempfile.TemporaryDirectory() as folder:
        config = load(Path(folder), f'[providers.p]\ndialect = "chat"\nbase_url = "{url}"')
    return config.providers["p"].base_url
