"""The cost of a model as its providers bill it: one cost for all routes, and rules that may name a provider."""

from __future__ import annotations

from pathlib import Path

from gateway.config.records import Model
from gateway.money import FREE, NANO, Tokens
from gateway.prices import Terms
from tests.support.rows import each_row
from tests.support.settings import OPENAI, load, refusal

SECOND = '[providers.second]\ndialect = "chat"\nbase_url = "http://x/v1"\n'
HEAD = f"""{OPENAI}{SECOND}[models."m"]
routes = ["openai/m", "second/m", "openai/n"]
price = {{ input = 5, output = 9 }}
"""


def read(folder: Path, lines: str) -> Model:
    return load(folder, HEAD + lines).models["m"]


def find(model: Model, provider: str, tokens: Tokens, terms: Terms) -> int:
    return model.costs[provider].find(tokens, terms, 0).price.input // NANO


def test_costs_are_unknown_unless_they_are_set(tmp_path: Path) -> None:
    assert dict(read(tmp_path, "").costs) == {}


def test_a_cost_is_that_of_all_routes(tmp_path: Path) -> None:
    costs = read(tmp_path, "cost = { input = 1, output = 2 }").costs
    assert set(costs) == {"openai", "second"}
    for prices in costs.values():
        assert (prices.base.input, prices.base.cached_input) == (NANO, NANO)
        assert prices.rules == ()
    assert read(tmp_path, 'cost = "free"').costs["second"].base == FREE


def test_the_first_rule_that_holds_is_the_cost(tmp_path: Path) -> None:
    """A rule that names a provider alone is that provider's cost, for all that no earlier rule is about."""
    model = read(
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
    plain, fast, flex = Terms(), Terms(speed="fast"), Terms(service_tier="flex")
    found = {
        provider: [find(model, provider, tokens, terms) for tokens, terms in (
            (short, plain), (long, plain), (short, fast), (long, fast), (short, flex),
        )]
        for provider in ("openai", "second")
    }  # fmt: skip
    assert found == {"openai": [1, 4, 1, 4, 6], "second": [2, 4, 3, 3, 2]}


@each_row(
    ("lines", "problem"),
    [
        ("cost = 3", 'cost: must be { input = 0.15, output = 0.60 } or "free", not 3'),
        ("cost = { input = 1 }", "cost.output: is missing"),
        ("cost = { input = 0, output = 0 }", 'cost: has only zeros; write cost = "free"'),
        ("cost_when = [{ input_above = 1, cost = { input = 1 } }]", "cost_when: needs a cost"),
        ('cost = "free"\ncost_when = 3', "cost_when: must be an array of tables"),
        (
            'cost = "free"\ncost_when = [{ cost = { input = 1, output = 1 } }]',
            "cost_when[0].cost: needs a condition beside it: provider, input_above",
        ),
        (
            'cost = "free"\ncost_when = [{ provider = "secnd", cost = { input = 1, output = 1 } }]',
            'cost_when[0].provider: is no provider of the model\'s routes; did you mean "second"?',
        ),
    ],
)
def test_a_cost_that_is_none_is_refused(tmp_path: Path, lines: str, problem: str) -> None:
    assert f'gateway.toml: [models."m"] {problem}' in refusal(tmp_path, HEAD + lines)
