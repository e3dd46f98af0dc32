"""`check` warns of prices below what a provider bills."""

from __future__ import annotations

from pathlib import Path

from gateway.cli.check import list_losses
from tests.price_lists.kit import PROVIDERS, load, model
from tests.support.cli import Cli
from tests.support.rows import each_row

COST = "cost = { input = 1, cached_input = 0.5, output = 2 }"
LONG = "{ input_above = 5, cost = { input = 10, cached_input = 1, cache_write = 1, output = 9 } }"
FAST = '{ speed = "fast", %s = { input = %s, output = 9 } }'


@each_row(
    ("lines", "warnings"),
    [
        ("price = { input = 1, output = 2 }", []),
        (f"price = {{ input = 1, cached_input = 0.5, output = 2 }}\n{COST}", []),
        (f"price = {{ input = 1, output = 1.5 }}\n{COST}", ["at openai: output 1.50 < 2.00."]),
        (
            f"price = {{ input = 1, cached_input = 0.4, output = 1 }}\n{COST}",
            ["at openai: cached_input 0.40 < 0.50, output 1.00 < 2.00."],
        ),
        (
            f"price = {{ input = 1, output = 2 }}\n{COST}\ncost_when = [{FAST % ('cost', 3)}]",
            ["at openai when speed fast: input 1.00 < 3.00, cached_input 1.00 < 3.00, cache_write 1.00 < 3.00, cache_write_1h 1.60 < 4.80, output 2.00 < 9.00."],
        ),
        (
            f"price = {{ input = 1, output = 2 }}\nprice_when = [{FAST % ('price', '0.9')}]\n{COST}",
            ["at openai when speed fast: input 0.90 < 1.00, cache_write 0.90 < 1.00, cache_write_1h 1.44 < 1.60."],
        ),
        (
            f"price = {{ input = 9, output = 9 }}\n{COST}\ncost_when = [{LONG}]",
            ["at openai when input_above 5: input 9.00 < 10.00."],
        ),
        (
            "price = { input = 1, output = 2, image_input = 3 }\ncost = { input = 1, output = 2, audio_input = 7, image_input = 4 }",
            ["at openai: audio_input 1.00 < 7.00, image_input 3.00 < 4.00."],
        ),
        (
            "price = { input = 1, output = 2, reported = 0.9 }\ncost = { input = 1, output = 2 }",
            ["at openai: reported 0.9 < 1."],
        ),
        ("price = { input = 1, output = 2, reported = 1 }\ncost = { input = 1, output = 2 }", []),
        (f'price = "free"\n{COST}', ["at openai: input 0.00 < 1.00, cached_input 0.00 < 0.50, cache_write 0.00 < 1.00, cache_write_1h 0.00 < 1.60, output 0.00 < 2.00."]),
    ],
)  # fmt: skip
def test_each_class_and_each_rule_is_compared(
    tmp_path: Path, lines: str, warnings: list[str]
) -> None:
    told = list(list_losses(load(tmp_path, model(lines))))
    head = 'Warning: [models."m"]: its price is below its cost '
    assert told == [head + warning for warning in warnings]


def test_each_provider_is_compared(tmp_path: Path) -> None:
    lines = f"""price = {{ input = 1, output = 2 }}
{COST}
cost_when = [{{ provider = "azure", cost = {{ input = 1, output = 3 }} }}]"""
    toml = model(lines).replace('"openai/m"', '"openai/m", "azure/m"')
    (warning,) = list_losses(load(tmp_path, toml))
    assert warning.endswith("at azure: output 2.00 < 3.00.")


def test_check_tells_it_and_succeeds(cli: Cli) -> None:
    lines = f"price = {{ input = 1, output = 1 }}\n{COST}"
    cli.config.write_text(PROVIDERS + model(lines), encoding="utf-8")
    assert "its price is below its cost at openai: output 1.00 < 2.00." in cli.done("check").err
