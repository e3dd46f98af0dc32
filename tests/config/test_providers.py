"""Providers with several keys; test_values.py has the rules of a single value."""

from __future__ import annotations

from pathlib import Path

from tests.support.rows import each_row
from tests.support.settings import CANARY, OPENAI, load, openai, refusal


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


def test_openais_address_takes_other_defaults(tmp_path: Path) -> None:
    """Its models refuse `max_tokens`, and other vendors' ids."""
    there = openai(tmp_path, "").providers["openai"]
    assert (there.max_tokens_field, there.history) == ("max_completion_tokens", "openai")
    lines = 'max_tokens_field = "max_tokens"\nhistory = "any"'
    told = openai(tmp_path, lines).providers["openai"]
    assert (told.max_tokens_field, told.history) == ("max_tokens", "any")
    elsewhere = load(tmp_path, '[providers.a]\ndialect = "chat"\nbase_url = "http://localhost/v1"')
    provider = elsewhere.providers["a"]
    assert (provider.max_tokens_field, provider.history) == ("max_tokens", "any")


@each_row(
    ("line", "problem"),
    [
        ('takes = ["reasoning"]', 'did you mean "reasoning_content"'),
        ('takes = "top_k"', "must be an array such as"),
        ('pass_headers = ["authorization"]', "the gateway sets it"),
        ('pass_headers = "x-title"', "must be an array such as"),
    ],
)
def test_what_a_provider_cannot_take(tmp_path: Path, line: str, problem: str) -> None:
    assert problem in refusal(tmp_path, OPENAI + line)
