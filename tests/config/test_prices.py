"""Prices in gateway.toml are exact or refused: rules, times, media, tools, the provider's bill and costs."""

from __future__ import annotations

from pathlib import Path

from gateway.cli.check import list_conflicts
from gateway.config.records import Model
from gateway.config.settings import MAX_PRICE
from gateway.money import FREE, NANO, Price, Tokens
from gateway.prices import FREE_OF_CHARGE, Terms
from tests.support.rows import each_row
from tests.support.settings import MODEL, OPENAI, load, refusal, with_price


@each_row(
    ("written", "nano"),
    [
        ("0.15", 150_000_000),
        ("0.1", 100_000_000),
        ("0.0028", 2_800_000),
        ("3", 3_000_000_000),
        ("3.00", 3_000_000_000),
        ("0.000000001", 1),
        ("1e-9", 1),
        ("1e3", 1_000_000_000_000),
        ("0.3000000000000000000000000000000000000000", 300_000_000),
        ("123456.123456789", 123_456_123_456_789),
        (str(MAX_PRICE), MAX_PRICE * 10**9),
    ],
)
def test_a_price_is_kept_exactly(tmp_path: Path, written: str, nano: int) -> None:
    price = with_price(tmp_path, f"{{ input = {written}, output = 1 }}").models["m"].prices.base
    assert (price.input, type(price.input)) == (nano, int)


@each_row(
    ("written", "problem"),
    [
        ("0.0000000001", "is finer than a nano-unit"),
        ("1.00000000000000000000000000000000001", "is finer than a nano-unit"),
        ("1e-999999999", "is finer than a nano-unit"),
        ("-1", "must be a decimal number from 0 to"),
        ("-0.000000001", "must be a decimal number from 0 to"),
        ("1000000000001", "must be a decimal number from 0 to"),
        ("1e999999999", "must be a decimal number from 0 to"),
        ("nan", "must be a decimal number from 0 to"),
        ("inf", "must be a decimal number from 0 to"),
        ("true", "must be a decimal number from 0 to 1000000000000, not true"),
        ('"0.15"', 'must be a decimal number from 0 to 1000000000000, not "0.15"'),
        ("2026-11-21", "must be a decimal number from 0 to 1000000000000, not a date or time"),
        (
            "0x" + "f" * 6000,
            "must be a decimal number from 0 to 1000000000000, not a number that long",
        ),
    ],
)
def test_a_price_that_is_none_is_refused(tmp_path: Path, written: str, problem: str) -> None:
    toml = (
        f'{OPENAI}[models."m"]\nroutes = ["openai/m"]\nprice = {{ input = {written}, output = 1 }}'
    )
    error = refusal(tmp_path, toml)
    assert error.startswith(f'gateway.toml: [models."m"] price.input: {problem}')


def test_free_is_said_on_purpose(tmp_path: Path) -> None:
    model = with_price(tmp_path, '"free"').models["m"]
    assert model.prices is FREE_OF_CHARGE
    assert model.free


@each_row(
    ("price", "problem"),
    [
        ("{ input = 0, output = 0.0 }", 'price: has only zeros; write price = "free" for a free'),
        ("{ output = 1 }", "price.input: is missing"),
        ("{ input = 1 }", "price.output: is missing"),
        ("{ input = 1, output = 1, ouput = 1 }", 'price.ouput: unknown key; did you mean "output"'),
        ("0.15", 'price: must be { input = 0.15, output = 0.60 } or "free", not 0.15'),
        ('"gratis"', 'price: must be { input = 0.15, output = 0.60 } or "free", not "gratis"'),
    ],
)
def test_nothing_is_free_by_accident(tmp_path: Path, price: str, problem: str) -> None:
    toml = f'{OPENAI}[models."m"]\nroutes = ["openai/m"]\nprice = {price}\n'
    assert refusal(tmp_path, toml).startswith(f'gateway.toml: [models."m"] {problem}')


def test_a_price_per_request_alone_is_a_price(tmp_path: Path) -> None:
    price = (
        with_price(tmp_path, "{ input = 0, output = 0, request = 0.01 }").models["m"].prices.base
    )
    assert price == Price(0, 0, 0, 0, 10_000_000)


def test_a_model_without_a_price_is_refused(tmp_path: Path) -> None:
    error = refusal(tmp_path, OPENAI + '[models."m"]\nroutes = ["openai/m"]')
    assert error == (
        'gateway.toml: [models."m"] price: is missing; '
        'it is a table of prices per million tokens, or "free"'
    )


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


@each_row(
    ("rule", "problem"),
    [
        ("price = { input = 1, output = 1 }", "price_when[0].price: needs a condition beside it"),
        ('speed = "fast"', "price_when[0].price: is missing"),
        ('sped = "fast"\nprice = { input = 1, output = 1 }', "price_when[0].sped: unknown key"),
        (
            'speed = "fast"\nprice = { input = 1 }',
            "price_when[0].price.output: is missing",
        ),
        (
            'service_tier = "auto"\nprice = { input = 1, output = 1 }',
            "price_when[0].service_tier: must be a tier that a reply can name",
        ),
        (
            "input_above = -1\nprice = { input = 1, output = 1 }",
            "price_when[0].input_above: must be a whole number",
        ),
    ],
)
def test_a_rule_that_cannot_be_is_refused(tmp_path: Path, rule: str, problem: str) -> None:
    toml = f"{OPENAI}{MODEL}\n[[models.m.price_when]]\n{rule}\n"
    assert refusal(tmp_path, toml).startswith(f'gateway.toml: [models."m"] {problem}')


def test_a_free_model_has_no_rules(tmp_path: Path) -> None:
    toml = f'{OPENAI}[models.m]\nroutes = ["openai/m"]\nprice = "free"\n{RULES}'
    assert "price_when: must be left out where the model is free" in refusal(tmp_path, toml)


def test_what_a_model_allows_is_known_by_name(tmp_path: Path) -> None:
    toml = f'{OPENAI}{MODEL}allow = ["web_search", "plugins"]\n'
    assert load(tmp_path, toml).models["m"].allow == {"web_search", "plugins"}
    unknown = f'{OPENAI}{MODEL}allow = ["plugin"]\n'
    assert 'allow: has "plugin"; did you mean "plugins"?' in refusal(tmp_path, unknown)


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


@each_row(
    ("rule", "problem"),
    [
        ('hours = "1:00-4:00"', 'price_when[0].hours: must be hours in UTC, such as "01:00-04:00"'),
        ('weekdays = "monday"', 'price_when[0].weekdays: must be days such as "sat" or "mon-fri"'),
        ('from = "2026-12-01"', "price_when[0].from: must be a date such as 2026-12-31, or one"),
        (
            "from = 2026-12-01\nuntil = 2026-12-01",
            "price_when[0].until: must be later than `from`",
        ),
        ("days = 3", "price_when[0].days: unknown key"),
    ],
)
def test_a_time_that_cannot_be_is_refused(tmp_path: Path, rule: str, problem: str) -> None:
    toml = f"{OPENAI}{MODEL}[[models.m.price_when]]\n{rule}\nprice = {PRICE}\n"
    assert refusal(tmp_path, toml).startswith(f'gateway.toml: [models."m"] {problem}')


@each_row(
    ("lines", "problem"),
    [
        ("tool_prices = 3", "tool_prices: must be a table, not 3"),
        ("tool_prices = { maps = -1 }", "tool_prices.maps: must be a decimal number from 0 to 10"),
        ("tool_prices = { maps = 1000001 }", "tool_prices.maps: must be a decimal number"),
        ("tool_prices = { maps = 1e-10 }", "tool_prices.maps: is finer than a nano-unit"),
        (
            "tool_prices = { web_search = 1 }",
            "tool_prices.web_search: is a part of `price`, per thousand searches",
        ),
        (
            'tool_prices = { "a b" = 1 }',
            'tool_prices."a b": must be a tool\'s name, such as file_search',
        ),
        ("tool_costs = { maps = 1 }", "tool_costs: needs a cost beside it"),
        (
            'cost = "free"\ntool_costs = { web_search = 1 }',
            "tool_costs.web_search: is a part of `cost`, per thousand searches",
        ),
    ],
)
def test_a_tools_price_that_cannot_be_is_refused(tmp_path: Path, lines: str, problem: str) -> None:
    error = refusal(tmp_path, f"{HEAD}price = {PRICE}\n{lines}\n")
    assert error.startswith(f'gateway.toml: [models."m"] {problem}')


@each_row(
    ("reported", "problem"),
    [
        ("0", "must be above 0"),
        ("-1", "must be a decimal number"),
        ("1001", "must be a decimal number"),
        ("1.0000001", "is finer than a millionth; use at most 6 decimals"),
        ('"1.2"', "must be a decimal number"),
        ("nan", "must be a decimal number"),
    ],
)
def test_a_factor_that_cannot_be_is_refused(tmp_path: Path, reported: str, problem: str) -> None:
    error = refusal(tmp_path, f"{HEAD}price = {{ input = 1, output = 2, reported = {reported} }}\n")
    assert error.startswith(f'gateway.toml: [models."m"] price.reported: {problem}')


def test_a_free_model_has_no_tools_with_prices(tmp_path: Path) -> None:
    error = refusal(tmp_path, f'{HEAD}price = "free"\ntool_prices = {{ maps = 1 }}\n')
    assert "tool_prices: must be left out where the model is free" in error


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


def find(model: Model, provider: str, tokens: Tokens, terms: Terms) -> int:
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
    assert f'gateway.toml: [models."m"] {problem}' in refusal(tmp_path, ROUTED + lines)
