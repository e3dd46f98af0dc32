"""Prices of today's lists in gateway.toml: times, media, tools, and the provider's own bill."""

from __future__ import annotations

from pathlib import Path

from gateway.cli.check import list_conflicts
from gateway.config.records import Model
from gateway.money import NANO
from tests.support.rows import each_row
from tests.support.settings import MODEL, OPENAI, load, refusal

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
