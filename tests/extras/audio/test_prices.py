"""A price by the minute is exact."""

from __future__ import annotations

from pathlib import Path

from gateway.base.money import Tokens, compute_cost_nano, format_amount
from gateway.config.prices import find_minute_nano
from tests.support.rows import each_row
from tests.support.settings import OPENAI, load


@each_row("nano", [6_000_000, 6_700_000, 1_850_000, 1, 59, 61, 12_345_678_901])
def test_a_second_costs_a_sixtieth_of_a_minute_exactly(tmp_path: Path, nano: int) -> None:
    table = f'kind = "audio"\nroutes = ["openai/e"]\nprice = {{ minute = {format_amount(nano)} }}'
    model = load(tmp_path, f'{OPENAI}[models."ear"]\n{table}\n').models["ear"]
    price = model.prices.base
    assert (model.unit, find_minute_nano(price)) == ("second", nano)
    for seconds in (1, 7, 59, 60, 61, 599, 3601, 14_399):
        assert compute_cost_nano(Tokens(seconds), price) == -(-nano * seconds // 60)
