"""The summary of the configuration."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from gateway.base.money import NANO
from gateway.extras.summary.pages import (
    MOST_IMAGES,
    MOST_UNITS,
    describe_config,
    find_worst_factor,
    find_worst_overdraft_nano,
    page_config,
)
from tests import ROOT
from tests.cli.test_check import CONFIG
from tests.support.cli import Cli
from tests.support.settings import MODEL, openai
from tests.support.stand_in import PASSWORD, SHOWN, URL, stand_in


def test_a_provider_of_the_shipped_configuration_is_off(cli: Cli) -> None:
    shipped = (ROOT / "gateway.toml").read_text(encoding="utf-8")
    cli.config.write_text(shipped.replace("port = 8080", "port = 0"), encoding="utf-8")
    assert "off: the environment variable ANTHROPIC_API_KEY is not set" in cli.done("check").out


def test_the_overdraft_counts_all_that_a_request_may_have(tmp_path: Path) -> None:
    images = pytest.importorskip("gateway.extras.images.dialect")
    rerank = pytest.importorskip("gateway.extras.rerank.dialect")
    assert images.MAX_N == MOST_IMAGES
    assert rerank.MAX_DOCUMENTS == MOST_UNITS * rerank.UNIT_DOCUMENTS
    priced = {
        "image": 'price_image = [{ price = 0.04 }, { quality = "hd", price = 0.08 }]',
        "rerank": "price = { search_unit = 0.002 }",
        # Read from a cache, its input is dearest.
        "chat": (
            "price = { input = 1, cached_input = 5, output = 2 }\n"
            "max_input_tokens = 1000000\nmax_output_tokens = 1000"
        ),
    }
    tables = (
        f'[models."{kind}"]\nkind = "{kind}"\nroutes = ["openai/m"]\n{price}\n'
        for kind, price in priced.items()
    )
    config = openai(tmp_path, "".join(tables))
    worst = {
        one.id: (find_worst_overdraft_nano(config, one), find_worst_factor(config, one))
        for one in config.models.values()
    }
    assert worst == {
        "image": (8 * NANO // 10, 1),
        "rerank": (2 * NANO // 10, 1),
        "chat": (5 * NANO + 2 * NANO // 1000, 527),
    }


def test_many_models_are_summarized_in_time(tmp_path: Path) -> None:
    """A reseller has hundreds; `check` looked at all of them for each one."""

    def take_seconds(count: int) -> float:
        models = (MODEL.replace('"m"', f'"m{number}"', 1) for number in range(count))
        config = openai(tmp_path, "".join(models))
        begun = time.process_time()
        summary = describe_config(config)
        assert len(page_config(config, summary).splitlines()) > count
        return time.process_time() - begun

    few, many = take_seconds(50), take_seconds(400)
    assert many < 24 * few


def test_a_database_elsewhere_is_shown_without_its_password(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is opened as `serve` would."""
    opened = stand_in(monkeypatch, cli.folder / "behind.db")
    cli.config.write_text(f'{CONFIG}[storage]\nurl = "{URL}"\n')
    answer = cli.done("check")
    assert f"\ndatabase  {SHOWN}\n" in answer.out
    assert opened == [URL]
    assert cli.done("check", "--json").json["database"] == SHOWN
    assert PASSWORD not in cli.run("check", "--json").out + answer.out + answer.err
