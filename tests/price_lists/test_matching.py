"""Providers are found by host, models by name and date."""

from __future__ import annotations

import pytest

from gateway.price_lists.matching import HOSTS, find_name, find_names


@pytest.mark.parametrize(
    ("base_url", "genai", "litellm"),
    [
        ("https://api.openai.com/v1", "openai", "openai"),
        ("https://API.OPENAI.COM:443/v1", "openai", "openai"),
        ("https://api.x.ai/v1", "x_ai", "xai"),
        ("https://mine.openai.azure.com/openai/v1", "azure", "azure"),
        ("https://eu.api.openai.com/v1", "openai", "openai"),
    ],
)
def test_a_provider_is_known_by_its_host(base_url: str, genai: str, litellm: str) -> None:
    names = find_names(base_url)
    assert names is not None
    assert (names.pick("genai-prices"), names.pick("LiteLLM")) == (genai, litellm)


@pytest.mark.parametrize(
    "base_url", ["", "http://127.0.0.1:8000/v1", "https://api.openai.com.example.org/v1"]
)
def test_a_server_of_ones_own_is_in_no_list(base_url: str) -> None:
    assert find_names(base_url) is None


def test_hosts_are_hosts() -> None:
    assert all(find_names(f"https://{host}/v1") == names for host, names in HOSTS.items())


@pytest.mark.parametrize(
    ("names", "model", "found"),
    [
        (["a", "a-2026-01-01"], "a", "a"),
        (["a", "a-2026-01-01"], "a-2026-01-01", "a-2026-01-01"),
        (["a"], "a-2026-01-01", "a"),
        (["a"], "a-20260101", "a"),
        (["a"], "a@20260101", "a"),
        (["a-20250101", "a-20260101"], "a", "a-20260101"),
        (["a-20250101"], "a-20260101", None),
        (["a-mini", "ab"], "a", None),
        (["a"], "a-1234", None),
        ([], "a", None),
    ],
)
def test_a_model_is_found_by_its_name_then_without_its_date(
    names: list[str], model: str, found: str | None
) -> None:
    assert find_name(names, model) == found
