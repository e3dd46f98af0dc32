"""`check` and the verbs for prices: the summary of the configuration, and what is wrong with it."""

from __future__ import annotations

import os
import socket
import sqlite3
import threading
import tomllib
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from gateway.cli.check import list_losses, listen_address, mask_keys
from gateway.ledger.records import LedgerError
from gateway.ledger.sqlite.files import take_lock
from tests import ROOT
from tests.price_lists.kit import PROVIDERS, genai, litellm, model, write
from tests.price_lists.kit import load as load_prices
from tests.support.cli import Cli, make_cli
from tests.support.process import free_port
from tests.support.rows import each_row
from tests.support.settings import load
from tests.support.stand_in import PASSWORD, SHOWN, URL, replace_modules, stand_in

CANARY = "sk-canary-0123456789-tail"
CONFIG = f"""
[server]
host = "127.0.0.1"
port = 0
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
    cli.config.chmod(0o600)
    return cli


def test_the_summary_for_people(cli: Cli) -> None:
    answer = cli.done("check")
    assert (
        answer.out.replace(str(cli.folder), "DIR")
        == """\
config    DIR/gateway.toml
listen    127.0.0.1:0
database  DIR/gateway.db
currency  USD
keys      by default 600 requests/min, unlimited tokens/min, 50 at once
accounts  by default unlimited requests/min, unlimited tokens/min, 500 at once

PROVIDER  DIALECT   KEY    STATE
demo      demo      -      on
vendor    chat      -      off: the environment variable VENDOR_KEY is not set
second    messages  …tail  on

Prices in USD per million tokens, per request, and per thousand searches
Overdraft: what the requests of an account may cost beyond its balance, all at once
MODEL      KIND  STATE        INPUT       CACHED  CACHE WRITE      FOR 1 H  OUTPUT  REQUEST  SEARCHES     OVERDRAFT  ROUTES
demo/echo  chat  on            free            -            -            -       -        -         -             -  demo/echo
big        chat  on     3.00         0.30         3.75         6.00          15.00     0.01      0.00  20.49         vendor/big, second/large
                        6.00         6.00         6.00         9.60          20.00     0.01      0.00                when input_above 200000
small      chat  off    0.000000001  0.000000001  0.000000001  0.000000002    1.00     0.00      0.00   0.128000004  vendor/small
"""
    )
    assert answer.err == ""


def test_the_summary_for_tools(cli: Cli) -> None:
    summary = cli.done("check", "--json").json
    assert summary["config"] == str(cli.config)
    assert summary["listen"] == "127.0.0.1:0"
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
    echo, big, _ = summary["models"]
    assert (echo["worst_overdraft"], echo["worst_overdraft_nano"]) == ("0.00", 0)
    # 2,000,000 tokens of input, written for an hour, and 64,000 of output, at the dearer price.
    worst = 19_200_000_000 + 1_280_000_000 + 10_000_000
    assert big["worst_overdraft_nano"] == worst
    cli.config.write_text(f"[billing]\nfull_hold_below = 0\n{CONFIG}", encoding="utf-8")
    _, big, _ = cli.done("check", "--json").json["models"]
    # 499 others, each with 62,976 tokens of output beyond its hold.
    assert big["worst_overdraft_nano"] == worst + 499 * 1_259_520_000


def test_no_more_than_the_end_of_a_key_is_shown(cli: Cli) -> None:
    for words in (("check",), ("check", "--json")):
        answer = cli.done(*words)
        assert CANARY not in answer.out + answer.err
        assert CANARY[:-4] not in answer.out + answer.err
    assert [mask_keys(keys) for keys in ((), ("short",), ("x" * 15, "0123456789abcdef"))] == [
        "",
        "…",
        "…, …cdef",
    ]


def test_the_shipped_configuration_is_in_order(cli: Cli) -> None:
    shipped = (ROOT / "gateway.toml").read_text(encoding="utf-8")
    cli.config.write_text(shipped.replace("port = 8080", "port = 0"), encoding="utf-8")
    answer = cli.done("check")
    assert "off: the environment variable OPENAI_API_KEY is not set" in answer.out
    assert answer.err == ""


def test_a_configuration_without_models_is_remarked_upon(cli: Cli) -> None:
    cli.config.write_text("[server]\nport = 0\n")
    assert cli.done("check").err.startswith("No model is on")


def test_a_bad_configuration_exits_78(cli: Cli) -> None:
    provider = '[providers.openai]\ndialect = "chat"\nbase_url = "http://h"\n'
    cli.config.write_text(f'{provider}connect_timeout = "5s"\nx = 1\n')
    answer = cli.run("check")
    assert (answer.code, answer.out) == (78, "")
    assert (
        answer.err
        == (
            f"python -m gateway: {cli.config}: [providers.openai] connect_timeout: "
            'must be a number of seconds above 0, not "5s"\n'
            f"python -m gateway: {cli.config}: [providers.openai] x: unknown key; known here: "
        )
        + answer.err.rpartition("known here: ")[2]
    )


@each_row(
    ("server", "is_warned"),
    [
        ('host = "0.0.0.0"', True),
        ('host = "::"\npublic_url = "http://llm.example.com"', True),
        ('host = "::"\npublic_url = "https://llm.example.com"', False),
        ('host = "127.0.0.1"', False),
    ],
)
def test_an_exposed_gateway_is_warned_of(cli: Cli, server: str, is_warned: bool) -> None:
    cli.config.write_text(f"[server]\nport = 0\n{server}\n", encoding="utf-8")
    assert ("TLS proxy" in cli.run("check").err) == is_warned  # there may be no IPv6 here


def test_listening_addresses_are_written_as_in_urls(tmp_path: Path) -> None:
    assert listen_address(load(tmp_path, '[server]\nhost = "::1"')) == "[::1]:8080"
    assert listen_address(load(tmp_path, "")) == "127.0.0.1:8080"


def make_folder(path: Path) -> None:
    path.mkdir()


def make_text(path: Path) -> None:
    path.write_text("no database " * 100, encoding="utf-8")


def make_foreign(path: Path) -> None:
    with closing(sqlite3.connect(path)) as database:
        database.execute("CREATE TABLE cookies (x)")
        database.execute("PRAGMA user_version = 4")


def lose(path: Path) -> None:
    path.with_name(f"{path.name}-wal").touch()


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (make_folder, "it is a folder; name a file in it"),
        (make_text, "it is no ledger, or its first page is damaged; restore a backup"),
        (make_foreign, "not a ledger, but another program's database; name another file as"),
        (lose, "there is no database, but gateway.db-wal shows that there was one. Put it back"),
    ],
)
def test_a_database_that_would_not_open_is_told(
    cli: Cli, make: Callable[[Path], None], problem: str
) -> None:
    """And `serve` says the same."""
    make(cli.database)
    answer = cli.run("check")
    assert answer.code == 69
    assert answer.out.startswith("config ")
    assert answer.err.startswith(f"`serve` cannot start: {cli.database}: {problem}")
    told = cli.run("account", "add", "alice")
    assert (told.code, problem in told.err) == (69, True)


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


def test_a_database_elsewhere_that_would_not_open_is_told(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: str) -> bool:
        raise LedgerError(f"{SHOWN}: it does not answer")

    replace_modules(monkeypatch, {"schema": {"check_database": refuse}})
    cli.config.write_text(f'{CONFIG}[storage]\nurl = "{URL}"\n')
    answer = cli.run("check")
    assert answer.code == 69
    assert answer.err.endswith(f"`serve` cannot start: {SHOWN}: it does not answer\n")


def test_a_missing_folder_of_the_database_is_told(cli: Cli) -> None:
    cli.config.write_text('[server]\nport = 0\n[storage]\npath = "no/where/gateway.db"\n')
    folder = cli.folder / "no" / "where"
    told = f"the folder {cli.folder}/no does not exist; type `mkdir -p {folder}`\n"
    assert cli.run("check").err.endswith(f"{folder}/gateway.db: {told}")
    for words in (("account", "list"), ("account", "add", "alice")):
        answer = cli.run(*words)
        assert (answer.code, answer.err.endswith(told)) == (69, True)


def test_looking_changes_nothing(cli: Cli) -> None:
    cli.done("check")
    assert [path.name for path in cli.folder.iterdir()] == ["gateway.toml"]
    cli.done("account", "add", "alice")
    before = cli.database.read_bytes()
    cli.done("check")
    assert cli.database.read_bytes() == before


def test_an_address_in_use_is_told_unless_by_a_gateway_of_this_database(cli: Cli) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        cli.config.write_text(f"[server]\nport = {port}\n", encoding="utf-8")
        answer = cli.run("check")
        assert answer.code == 69
        assert f"`serve` cannot start: cannot listen on 127.0.0.1:{port}: another" in answer.err
        cli.done("account", "add", "alice")
        lock = take_lock(cli.database)
        assert cli.run("check").code == 0
        os.close(lock)


@pytest.mark.parametrize(("mode", "is_told"), [(0o604, True), (0o644, True), (0o600, False)])
def test_secrets_that_others_can_read_are_told(cli: Cli, mode: int, *, is_told: bool) -> None:
    cli.config.chmod(mode)
    told = cli.done("check").err
    assert (f"Warning: {cli.config} can be read by everybody on this machine" in told) is is_told
    assert (
        "written out: [providers.second] api_key, [providers.second] headers. " in told
    ) is is_told
    assert CANARY not in told


# ---- check --live --------------------------------------------------------------------------------

LIVE = """
[providers.demo]
dialect = "demo"
[providers.good]
dialect = "chat"
base_url = "http://127.0.0.1:{good}/v1"
api_key = "sk-canary-0123456789-tail"
[providers.bad]
dialect = "chat"
base_url = "http://127.0.0.1:{bad}/v1"
[providers.unset]
dialect = "chat"
base_url = "http://127.0.0.1:{bad}/v1"
api_key = "env:NO_SUCH_KEY"
[models.small]
routes = ["good/small", "bad/small"]
price = "free"
[models.odd]
routes = ["good/odd"]
price = "free"
"""


class Lister(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        assert self.path == "/v1/models"
        body = b'{"data": [{"id": "small"}]}'
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@contextmanager
def serve_list() -> Iterator[int]:
    with HTTPServer(("127.0.0.1", 0), Lister) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()


def test_providers_are_asked_only_when_told(cli: Cli) -> None:
    with serve_list() as port:
        cli.config.write_text(LIVE.format(good=port, bad=free_port()), encoding="utf-8")
        assert "live" not in cli.done("check", "--json").json
        answer = cli.run("check", "--live")
        live = cli.run("check", "--live", "--json").json["live"]
    assert answer.code == 1
    assert "reachable, 1 model; not among them: odd" in answer.out
    assert "cannot be reached: Connection refused" in answer.out
    assert "Not usable as they are set: bad." in answer.err
    assert "canary" not in answer.out + answer.err
    assert [(one["provider"], one["verdict"], one["usable"]) for one in live] == [
        ("good", "unknown_models", True),
        ("bad", "failed", False),
    ]
    assert live[0]["unknown"] == ["odd"]


def test_with_nobody_to_ask_all_is_well(cli: Cli) -> None:
    cli.config.write_text('[providers.demo]\ndialect = "demo"\n', encoding="utf-8")
    assert "No provider is on that could be asked." in cli.done("check", "--live").out


# ---- prices below what a provider bills ----------------------------------------------------------

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
    told = list(list_losses(load_prices(tmp_path, model(lines))))
    head = 'Warning: [models."m"]: its price is below its cost '
    assert told == [head + warning for warning in warnings]


def test_each_provider_is_compared(tmp_path: Path) -> None:
    lines = f"""price = {{ input = 1, output = 2 }}
{COST}
cost_when = [{{ provider = "azure", cost = {{ input = 1, output = 3 }} }}]"""
    toml = model(lines).replace('"openai/m"', '"openai/m", "azure/m"')
    (warning,) = list_losses(load_prices(tmp_path, toml))
    assert warning.endswith("at azure: output 2.00 < 3.00.")


def test_check_tells_it_and_succeeds(cli: Cli) -> None:
    lines = f"price = {{ input = 1, output = 1 }}\n{COST}"
    cli.config.write_text(PROVIDERS + model(lines), encoding="utf-8")
    assert "its price is below its cost at openai: output 1.00 < 2.00." in cli.done("check").err


# ---- price lists ---------------------------------------------------------------------------------

PRICED = (
    PROVIDERS
    + model("price = { input = 3, output = 15 }")
    + model("price = { input = 1, output = 2 }", "other", "openai/other")
)


@pytest.fixture
def priced(cli: Cli) -> Cli:
    cli.config.write_text(PRICED, encoding="utf-8")
    return cli


SAME = {"input_mtok": 3, "output_mtok": 15}
DEARER = {"input_cost_per_token": 4e-06, "output_cost_per_token": 1.5e-05}


def test_a_list_that_agrees(priced: Cli) -> None:
    answer = priced.done("price", "check", str(write(priced.folder, genai({"m": SAME}))))
    assert answer.out == (
        "MODEL  KEY    ROUTE         IN THE LIST\n"
        "m      price  openai/m      agrees\n"
        "other  price  openai/other  not in the list\n"
    )
    assert answer.err == "Compared: 1 of 2. Drifting: 0.\n"


def test_a_drift_is_told_and_fails(priced: Cli) -> None:
    answer = priced.run("price", "check", str(write(priced.folder, litellm({"m": DEARER}))))
    assert answer.code == 1
    assert "m      price  openai/m      input: 3.00 -> 4.00, × 1.33\n" in answer.out
    assert answer.err.startswith("Compared: 1 of 2. Drifting: 1. `price propose FILE` prints")
    told = priced.run("price", "check", str(priced.folder / "list.json"), "--json").json
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


def test_a_proposal_is_toml_and_changes_nothing(priced: Cli) -> None:
    path = str(write(priced.folder, litellm({"m": DEARER})))
    answer = priced.done("price", "propose", path)
    assert tomllib.loads(answer.out) == {"models": {"m": {"price": {"input": 4.0, "output": 15.0}}}}
    assert answer.err == "Nothing was changed. Read each line before you paste it.\n"
    told = priced.done("price", "propose", path, "--json").json
    assert told["toml"] + "\n" == answer.out
    assert [one["state"] for one in told["models"]] == ["drifts", "not in the list"]
    assert priced.config.read_text(encoding="utf-8") == PRICED


@each_row("verb", ["check", "propose"])
def test_a_list_that_cannot_be_read(priced: Cli, verb: str) -> None:
    missing = priced.folder / "missing.json"
    answer = priced.run("price", verb, str(missing))
    assert (answer.code, answer.out) == (5, "")
    assert f"{missing}: there is no such file" in answer.err
    bad = write(priced.folder, '[\n{"models": [}')
    answer = priced.run("price", verb, str(bad))
    assert (answer.code, answer.out) == (78, "")
    assert f"{bad}: is not valid JSON at line 2, column 13" in answer.err


def test_another_currency_is_warned_of(priced: Cli) -> None:
    priced.config.write_text('[billing]\ncurrency = "EUR"\n' + PRICED, encoding="utf-8")
    answer = priced.done("price", "check", str(write(priced.folder, genai({"m": SAME}))))
    assert answer.err.startswith("Warning: the list is in USD, gateway.toml in EUR;")
