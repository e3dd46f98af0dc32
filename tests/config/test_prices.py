"""Prices in gateway.toml are exact or refused: rules, times, media, tools, the provider's bill and costs."""

from __future__ import annotations

from pathlib import Path

from gateway.cli.check import list_conflicts
from gateway.config.prices import find_minute_nano
from gateway.config.records import Model
from gateway.money import FREE, NANO, Price, Tokens, compute_cost_nano, format_amount
from gateway.prices import FREE_OF_CHARGE, BillTerms
from tests.support.rows import each_row
from tests.support.settings import MODEL, OPENAI, load, with_price


@each_row("nano", [6_000_000, 6_700_000, 1_850_000, 1, 59, 61, 12_345_678_901])
def test_a_second_costs_a_sixtieth_of_a_minute_exactly(tmp_path: Path, nano: int) -> None:
    table = f'kind = "audio"\nroutes = ["openai/e"]\nprice = {{ minute = {format_amount(nano)} }}'
    model = load(tmp_path, f'{OPENAI}[models."ear"]\n{table}\n').models["ear"]
    price = model.prices.base
    assert (model.unit, find_minute_nano(price)) == ("second", nano)
    for seconds in (1, 7, 59, 60, 61, 599, 3601, 14_399):
        assert compute_cost_nano(Tokens(seconds), price) == -(-nano * seconds // 60)


def test_free_is_said_on_purpose(tmp_path: Path) -> None:
    model = with_price(tmp_path, '"free"').models["m"]
    assert model.prices is FREE_OF_CHARGE
    assert model.free


def test_a_price_per_request_alone_is_a_price(tmp_path: Path) -> None:
    price = (
        with_price(tmp_path, "{ input = 0, output = 0, request = 0.01 }").models["m"].prices.base
    )
    assert price == Price(0, 0, 0, 0, 10_000_000)


RULES = """
[[models.m.price_when]]
service_tier = "fast"
price = { input = 2, output = 5 }

[[models.m.price_when]]
input_above = 272_000
price = { input = 3, output = 4, cached_input = 0.3, web_search = 20 }
"""


def test_rules_are_read_in_their_order(tmp_path: Path) -> None:
    price = "{ input = 1, output = 2, request = 0.5, web_search = 10 }"
    model = load(
        tmp_path, f'{OPENAI}[models.m]\nroutes = ["openai/m"]\nprice = {price}\n{RULES}'
    ).models["m"]
    first, second = model.prices.rules
    assert (first.why, second.why) == ("service_tier priority", "input_above 272000")
    # Fees that a rule does not name are the model's own; all else is the rule's.
    assert first.price == Price(
        2 * NANO, 5 * NANO, 2 * NANO, 2 * NANO, NANO // 2, 32 * NANO // 10, 10 * NANO
    )
    assert second.price.web_search == 20 * NANO
    assert second.price.cached_input == 3 * NANO // 10


def test_an_hour_in_the_cache_costs_1_6_times_five_minutes(tmp_path: Path) -> None:
    price = with_price(tmp_path, "{ input = 5, output = 1, cache_write = 6.25 }")
    assert price.models["m"].prices.base.cache_write_1h == 10 * NANO
    own = "{ input = 5, output = 1, cache_write_1h = 9 }"
    assert with_price(tmp_path, own).models["m"].prices.base.cache_write_1h == 9 * NANO


HEAD = f'{OPENAI}[models.m]\nroutes = ["openai/m"]\n'
PRICE = "{ input = 1, output = 2 }"


def read(folder: Path, lines: str) -> Model:
    return load(folder, HEAD + lines).models["m"]


def test_each_condition_of_time_is_read_and_told(tmp_path: Path) -> None:
    model = read(
        tmp_path,
        f"""price = {PRICE}
[[models.m.price_when]]
hours = ["01:00-04:00", "06:00-10:00"]
weekdays = "mon-fri"
price = {PRICE}
[[models.m.price_when]]
from = 2026-12-01
until = 2026-12-31T12:00:00Z
input_above = 5
speed = "fast"
price = {PRICE}
""",
    )
    assert [rule.why for rule in model.prices.rules] == [
        "hours 01:00-04:00 06:00-10:00, weekdays mon tue wed thu fri",
        "input_above 5, speed fast, from 2026-12-01 00:00, until 2026-12-31 12:00",
    ]


def test_a_rule_says_only_what_differs_but_for_text(tmp_path: Path) -> None:
    """Otherwise a rule about long inputs would charge audio as text and tools as nothing."""
    model = read(
        tmp_path,
        """price = { input = 1, output = 2, request = 3, audio_input = 4, image_output = 5, reported = 1.5 }
tool_prices = { maps = 0.5 }
[[models.m.price_when]]
input_above = 5
price = { input = 10, output = 20, audio_input = 40, reported = 2 }
""",
    )
    base, rule = model.prices.base, model.prices.rules[0].price
    assert (base.audio_input, base.image_input, base.image_output) == (4 * NANO, None, 5 * NANO)
    assert (base.reported, dict(base.tools)) == (1_500_000, {"maps": NANO // 2})
    assert (rule.input, rule.cached_input, rule.request) == (10 * NANO, 10 * NANO, 3 * NANO)
    assert (rule.audio_input, rule.image_output, rule.reported) == (40 * NANO, 5 * NANO, 2_000_000)
    assert dict(rule.tools) == {"maps": NANO // 2}


def test_costs_have_all_that_prices_have(tmp_path: Path) -> None:
    model = read(
        tmp_path,
        f"""price = {PRICE}
cost = {{ input = 1, output = 2, audio_input = 3, reported = 1 }}
tool_costs = {{ maps = 0.25 }}
cost_when = [{{ provider = "openai", hours = "00:00-06:00", cost = {PRICE} }}]
""",
    )
    costs = model.costs["openai"]
    for price in (costs.base, costs.rules[0].price):
        assert (price.audio_input, price.reported) == (3 * NANO, 1_000_000)
        assert dict(price.tools) == {"maps": NANO // 4}
    assert dict(read(tmp_path, f"price = {PRICE}\ncost = 'free'\ntool_costs = {{ maps = 1 }}").costs[
        "openai"
    ].base.tools) == {"maps": NANO}  # fmt: skip


def test_check_warns_of_rules_whose_order_alone_decides(tmp_path: Path) -> None:
    rules = [f"{{ {when}, price = {PRICE} }}" for when in ('speed = "fast"', "input_above = 5")]
    config = load(tmp_path, f"{HEAD}price = {PRICE}\nprice_when = [{', '.join(rules)}]\n")
    (warning,) = list_conflicts(config)
    assert warning == (
        "Warning: [models.\"m\"] price_when: the rules 'speed fast' and 'input_above 5' may both"
        " hold for a request; the first one applies. If that is not meant, add a rule with the"
        " conditions of both before them."
    )
    both = f'{{ speed = "fast", input_above = 5, price = {PRICE} }}'
    settled = f"{HEAD}price = {PRICE}\nprice_when = [{both}, {', '.join(rules)}]\n"
    assert list(list_conflicts(load(tmp_path, settled))) == []


SECOND = '[providers.second]\ndialect = "chat"\nbase_url = "http://x/v1"\n'
ROUTED = f"""{OPENAI}{SECOND}[models."m"]
routes = ["openai/m", "second/m", "openai/n"]
price = {{ input = 5, output = 9 }}
"""


def read_routed(folder: Path, lines: str) -> Model:
    return load(folder, ROUTED + lines).models["m"]


def find(model: Model, provider: str, tokens: Tokens, terms: BillTerms) -> int:
    return model.costs[provider].find(tokens, terms, 0).price.input // NANO


def test_costs_are_unknown_unless_they_are_set(tmp_path: Path) -> None:
    assert dict(read_routed(tmp_path, "").costs) == {}


def test_a_cost_is_that_of_all_routes(tmp_path: Path) -> None:
    costs = read_routed(tmp_path, "cost = { input = 1, output = 2 }").costs
    assert set(costs) == {"openai", "second"}
    for prices in costs.values():
        assert (prices.base.input, prices.base.cached_input) == (NANO, NANO)
        assert prices.rules == ()
    assert read_routed(tmp_path, 'cost = "free"').costs["second"].base == FREE


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


def test_what_a_model_allows_is_known_by_name(tmp_path: Path) -> None:
    toml = f'{OPENAI}{MODEL}allow = ["web_search", "plugins"]\n'
    assert load(tmp_path, toml).models["m"].allow == {"web_search", "plugins"}
