"""`price check` and `price propose`: their exit codes, and that they change nothing."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from tests.price_lists.kit import PROVIDERS, genai, litellm, model, write
from tests.support.cli import Cli, make_cli
from tests.support.rows import each_row

CONFIG = (
    PROVIDERS
    + model("price = { input = 3, output = 15 }")
    + model("price = { input = 1, output = 2 }", "other", "openai/other")
)
SAME = {"input_mtok": 3, "output_mtok": 15}
DEARER = {"input_cost_per_token": 4e-06, "output_cost_per_token": 1.5e-05}


@pytest.fixture
def cli(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Cli:
    cli = make_cli(tmp_path, capsys)
    cli.config.write_text(CONFIG, encoding="utf-8")
    return cli


def test_a_list_that_agrees(cli: Cli) -> None:
    answer = cli.done("price", "check", str(write(cli.folder, genai({"m": SAME}))))
    assert answer.out == (
        "MODEL  KEY    ROUTE         IN THE LIST\n"
        "m      price  openai/m      agrees\n"
        "other  price  openai/other  not in the list\n"
    )
    assert answer.err == "Compared: 1 of 2. Drifting: 0.\n"


def test_a_drift_is_told_and_fails(cli: Cli) -> None:
    answer = cli.run("price", "check", str(write(cli.folder, litellm({"m": DEARER}))))
    assert answer.code == 1
    assert "m      price  openai/m      input: 3.00 -> 4.00, × 1.33\n" in answer.out
    assert answer.err.startswith("Compared: 1 of 2. Drifting: 1. `price propose FILE` prints")
    told = cli.run("price", "check", str(cli.folder / "list.json"), "--json").json
    assert told[0] == {
        "model": "m",
        "key": "price",
        "route": "openai/m",
        "state": "drifts",
        "listed": "m",
        "differences": [
            {
                "name": "input",
                "old": "3.00",
                "old_nano": 3 * 10**9,
                "new": "4.00",
                "new_nano": 4 * 10**9,
            }
        ],
        "notes": [],
    }
    assert (told[1]["state"], told[1]["listed"]) == ("not in the list", None)


def test_a_proposal_is_toml_and_changes_nothing(cli: Cli) -> None:
    path = str(write(cli.folder, litellm({"m": DEARER})))
    answer = cli.done("price", "propose", path)
    assert tomllib.loads(answer.out) == {"models": {"m": {"price": {"input": 4.0, "output": 15.0}}}}
    assert answer.err == "Nothing was changed. Read each line before you paste it.\n"
    told = cli.done("price", "propose", path, "--json").json
    assert told["toml"] + "\n" == answer.out
    assert [one["state"] for one in told["models"]] == ["drifts", "not in the list"]
    assert cli.config.read_text(encoding="utf-8") == CONFIG


@each_row("verb", ["check", "propose"])
def test_a_list_that_cannot_be_read(cli: Cli, verb: str) -> None:
    missing = cli.folder / "missing.json"
    answer = cli.run("price", verb, str(missing))
    assert (answer.code, answer.out) == (5, "")
    assert f"{missing}: there is no such file" in answer.err
    bad = write(cli.folder, '[\n{"models": [}')
    answer = cli.run("price", verb, str(bad))
    assert (answer.code, answer.out) == (78, "")
    assert f"{bad}: is not valid JSON at line 2, column 13" in answer.err


def test_another_currency_is_warned_of(cli: Cli) -> None:
    cli.config.write_text('[billing]\ncurrency = "EUR"\n' + CONFIG, encoding="utf-8")
    answer = cli.done("price", "check", str(write(cli.folder, genai({"m": SAME}))))
    assert answer.err.startswith("Warning: the list is in USD, gateway.toml in EUR;")
