"""Providers with several keys; test_values.py has the rules of a single value."""

from __future__ import annotations

from pathlib import Path

from tests.support.settings import CANARY, openai


def test_several_keys_share_the_requests(tmp_path: Path) -> None:
    """Those that are missing are named, and the provider is off only without any."""
    toml = 'api_key = ["env:FIRST", "env:SECOND", "sk-third-0123456789"]'
    provider = openai(tmp_path, toml, {"SECOND": CANARY}).providers["openai"]
    assert provider.api_keys == (CANARY, "sk-third-0123456789")
    assert provider.lacking == ("the environment variable FIRST is not set",)
    assert provider.off is None
    none = openai(tmp_path, 'api_key = ["env:FIRST", "env:SECOND"]', {}).providers["openai"]
    assert (none.api_keys, none.lacking) == ((), ())
    assert none.off == "the environment variable FIRST is not set"
