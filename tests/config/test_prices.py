"""Prices in gateway.toml are exact or refused: rules, times, media, tools, the provider's bill and costs."""

from __future__ import annotations

from pathlib import Path

from gateway.base.money import NANO, Tokens
from gateway.base.prices import BillTerms
from gateway.config.records import Model
from tests.support.settings import OPENAI, load

SECOND = '[providers.second]\ndialect = "chat"\nbase_url = "http://x/v1"\n'
ROUTED = f"""{OPENAI}{SECOND}[models."m"]
routes = ["openai/m", "second/m", "openai/n"]
price = {{ input = 5, output = 9 }}
"""


def read_routed(folder: Path, lines: str) -> Model:
    return load(folder, ROUTED + lines).models["m"]


def find(model: Model, provider: str, tokens: Tokens, terms: BillTerms) -> int:
    return model.costs[provider].find(tokens, terms, 0).price.input // NANO


def test_the_first_rule_that_holds_is_the_cost(tmp_path: Path) -> None:
    """A rule that names a provider alone is that provider's cost, for all that no earlier rule is about."""
    model = read_routed(
        tmp_path,
        """cost = { input = 1, output = 2 }
cost_when = [
    { provider = "second", speed = "fast", cost = { input = 3, output = 2 } },
    { input_above = 10, cost = { input = 4, output = 2 } },
    { provider = "second", cost = { input = 2, output = 2 } },
    { service_tier = "flex", cost = { input = 6, output = 2 } },
]
""",
    )
    short, long = Tokens(input=1), Tokens(input=11)
    plain, fast, flex = BillTerms(), BillTerms(speed="fast"), BillTerms(service_tier="flex")
    found = {
        provider: [find(model, provider, tokens, terms) for tokens, terms in (
            (short, plain), (long, plain), (short, fast), (long, fast), (short, flex),
        )]
        for provider in ("openai", "second")
    }  # fmt: skip
    assert found == {"openai": [1, 4, 1, 4, 6], "second": [2, 4, 3, 3, 2]}
