"""`check`: the summary of the configuration."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.cli.check import mask_key
from tests import ROOT
from tests.support.cli import Cli, make_cli

CANARY = "sk-canary-0123456789-tail"
CONFIG = f"""
[server]
host = "::1"
port = 9000
[providers.demo]
dialect = "demo"
[providers.vendor]
dialect = "chat"
base_url = "https://api.example.com/v1"
api_key = "env:VENDOR_KEY"
[providers.second]
dialect = "messages"
base_url = "https://api.example.org/v1"
api_key = "{CANARY}"
headers = {{ X-Secret = "{CANARY}" }}
[models."demo/echo"]
routes = ["demo/echo"]
price = "free"
[models."big"]
routes = ["vendor/big", "second/large"]
max_output_tokens = 64_000
price = {{ input = 3, cached_input = 0.3, cache_write = 3.75, output = 15, request = 0.01 }}
[[models.big.price_when]]
input_above = 200_000
price = {{ input = 6, output = 20 }}
[models."small"]
routes = ["vendor/small"]
price = {{ input = 0.000000001, output = 1 }}
"""


@pytest.fixture
def cli(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Cli:
    cli = make_cli(tmp_path, capsys)
    cli.config.write_text(CONFIG, encoding="utf-8")
    return cli


def test_the_summary_for_people(cli: Cli) -> None:
    answer = cli.done("check")
    assert (
        answer.out.replace(str(cli.folder), "DIR")
        == """\
config    DIR/gateway.toml
listen    [::1]:9000
database  DIR/gateway.db
currency  USD
keys      by default 600 requests/min, unlimited tokens/min, 50 at once
accounts  by default unlimited requests/min, unlimited tokens/min, 500 at once

PROVIDER  DIALECT   KEY    STATE
demo      demo      -      on
vendor    chat      -      off: the environment variable VENDOR_KEY is not set
second    messages  …tail  on

Prices in USD per million tokens, per request, and per thousand searches
MODEL      KIND  STATE        INPUT       CACHED  CACHE WRITE      FOR 1 H  OUTPUT  REQUEST  SEARCHES  ROUTES
demo/echo  chat  on            free            -            -            -       -        -         -  demo/echo
big        chat  on            3.00         0.30         3.75         6.00   15.00     0.01      0.00  vendor/big, second/large
                               6.00         6.00         6.00         9.60   20.00     0.01      0.00  when input_above 200000
small      chat  off    0.000000001  0.000000001  0.000000001  0.000000002    1.00     0.00      0.00  vendor/small
"""
    )
    assert answer.err == ""


def test_the_summary_for_tools(cli: Cli) -> None:
    summary = cli.done("check", "--json").json
    assert summary["config"] == str(cli.config)
    assert summary["listen"] == "[::1]:9000"
    assert summary["database"] == str(cli.database)
    assert summary["providers"][1:] == [
        {
            "name": "vendor",
            "dialect": "chat",
            "base_url": "https://api.example.com/v1",
            "key": None,
            "on": False,
            "off_because": "the environment variable VENDOR_KEY is not set",
        },
        {
            "name": "second",
            "dialect": "messages",
            "base_url": "https://api.example.org/v1",
            "key": "…tail",
            "on": True,
            "off_because": None,
        },
    ]
    assert [(model["id"], model["on"]) for model in summary["models"]] == [
        ("demo/echo", True),
        ("big", True),
        ("small", False),
    ]
    big = summary["models"][1]
    assert big["routes"] == ["vendor/big", "second/large"]
    assert (big["price"]["cache_write"], big["price"]["cache_write_nano"]) == (
        "3.75",
        3_750_000_000,
    )


def test_no_more_than_the_end_of_a_key_is_shown(cli: Cli) -> None:
    for words in (("check",), ("check", "--json")):
        answer = cli.done(*words)
        assert CANARY not in answer.out + answer.err
        assert CANARY[:-4] not in answer.out + answer.err
    assert [mask_key(key) for key in ("", "short", "x" * 15, "0123456789abcdef")] == [
        "",
        "…",
        "…",
        "…cdef",
    ]


def test_the_shipped_configuration_is_in_order(cli: Cli) -> None:
    shipped = ROOT / "gateway.toml"
    answer = cli.done("check", "--config", str(shipped))
    assert "off: the environment variable OPENAI_API_KEY is not set" in answer.out
    assert answer.err == ""


def test_a_configuration_without_models_is_remarked_upon(cli: Cli) -> None:
    cli.config.write_text("")
    assert cli.done("check").err.startswith("No model is on")


def test_a_bad_configuration_exits_78(cli: Cli) -> None:
    cli.config.write_text('[providers.openai]\ndialect = "chat"\nconnect_timeout = "5s"\n')
    answer = cli.run("check")
    assert (answer.code, answer.out) == (78, "")
    assert answer.err == (
        f"python -m gateway: {cli.config}: [providers.openai] connect_timeout: "
        'must be a number of seconds above 0, not "5s"\n'
    )


@pytest.mark.parametrize(
    ("server", "is_warned"),
    [
        ('host = "0.0.0.0"', True),
        ('host = "::"\npublic_url = "http://llm.example.com"', True),
        ('host = "::"\npublic_url = "https://llm.example.com"', False),
        ('host = "127.0.0.1"', False),
    ],
)
def test_an_exposed_gateway_is_warned_of(cli: Cli, server: str, is_warned: bool) -> None:
    cli.config.write_text(f"[server]\n{server}\n", encoding="utf-8")
    assert ("TLS proxy" in cli.done("check").err) == is_warned
