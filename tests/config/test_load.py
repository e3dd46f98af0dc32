"""Load gateway.toml: values and defaults."""

from __future__ import annotations

import dataclasses
import re
import tomllib
from decimal import Decimal
from ipaddress import ip_network
from pathlib import Path

import pytest

from gateway.config.load import load_config
from gateway.config.reader import REQUIRED
from gateway.config.records import Route, Server
from gateway.config.settings import SETTINGS
from gateway.money import Price
from gateway.prices import PriceList
from tests.documents import UNWRITTEN, read_meanings
from tests.support.rows import each_row
from tests.support.settings import CANARY, MODEL, OPENAI, SHIPPED, load, openai


def test_an_empty_file_is_a_configuration_of_defaults(tmp_path: Path) -> None:
    config = load(tmp_path, "")
    assert config.server.host == "127.0.0.1"
    assert config.server.port == 8080
    assert config.server.max_body_mb == 32
    assert config.server.max_in_flight == 1000
    assert dataclasses.astuple(config.server)[4:] == (
        *(30.0, 256, 75.0, 30.0),
        *(120.0, 15.0, 60.0, "human"),
        *(None, ()),
    )
    assert config.storage.path == tmp_path / "gateway.db"
    assert dataclasses.astuple(config.billing) == ("USD", 1024, 10, None, None, None, None)
    assert dataclasses.astuple(config.console) == (None,)
    assert dataclasses.astuple(config.limits) == (600, 0, 50)
    assert (dict(config.providers), dict(config.models)) == ({}, {})


def test_a_provider_needs_dialect_and_address_alone(tmp_path: Path) -> None:
    provider = openai(tmp_path, "").providers["openai"]
    assert (provider.name, provider.dialect) == ("openai", "chat")
    assert provider.base_url == "https://api.openai.com/v1"
    assert (provider.api_keys, provider.off) == ((), None)
    assert (provider.connect_timeout, provider.first_byte_timeout) == (5.0, 600.0)
    assert (provider.idle_timeout, provider.total_timeout) == (300.0, 3600.0)
    assert (provider.max_concurrency, provider.on_disconnect) == (0, "drain")
    assert provider.stream_usage is True
    assert dict(provider.headers) == {}


def test_a_model_needs_routes_and_price_alone(tmp_path: Path) -> None:
    text = OPENAI.replace("providers.openai", "providers.OpenAI") + MODEL.replace(
        "openai/m", "OpenAI/org/m"
    )
    model = load(tmp_path, text).models["m"]
    assert model.routes == (Route("OpenAI", "org/m"),)
    assert model.owned_by == "openai"
    assert model.reasoning is None
    assert (model.max_output_tokens, model.max_input_tokens, model.created) == (
        128_000,
        2_000_000,
        0,
    )
    assert (model.prices, model.free) == (
        PriceList(Price(10**9, 2 * 10**9, 10**9, 10**9, 0, 16 * 10**8)),
        False,
    )


def test_everything_that_is_set_is_read(tmp_path: Path) -> None:
    config = load(
        tmp_path,
        """
        [server]
        host = "::1"
        port = 0
        max_body_mb = 1
        max_in_flight = 2
        drain_seconds = 0
        body_idle_seconds = 0.5
        body_total_seconds = 3
        comment_seconds = 4
        stall_seconds = 5
        max_bodies_mb = 6
        header_seconds = 7
        log = "json"
        public_url = "https://llm.example.com/"
        trusted_proxies = ["127.0.0.1", "10.0.0.0/8"]
        [storage]
        path = "data/books.db"
        [billing]
        currency = "EUR"
        hold_output_tokens = 7
        full_hold_below = 3
        demo_credit = 5.00
        low_balance = 0.5
        top_up_text = "Write to billing@example.com."
        [billing.stripe]
        secret_key = "sk"
        webhook_secret = "wh"
        amounts = [20]
        minimum = 1
        maximum = 30
        base_url = "http://127.0.0.1:9"
        [console]
        identity_header = "Remote-User"
        [limits]
        requests_per_minute = 1
        tokens_per_minute = 2
        concurrency = 3
        [providers.p]
        dialect = "messages"
        base_url = "http://127.0.0.1:8000/v1/"
        api_key = "secret"
        connect_timeout = 1
        first_byte_timeout = 2
        idle_timeout = 3
        total_timeout = 4.5
        max_concurrency = 5
        on_disconnect = "drain"
        stream_usage = false
        embeddings_base64 = false
        max_tokens_field = "max_completion_tokens"
        takes = ["top_k", "reasoning_content"]
        history = "mistral"
        pass_headers = ["X-Title"]
        headers = { X-Team = "a b" }
        [models."x/y"]
        owned_by = "meta"
        aliases = ["llama", "llama-3"]
        routes = ["p/one", "p/two"]
        max_output_tokens = 8
        max_input_tokens = 9
        created = 1700000000
        reasoning = "budget"
        leave_out = ["temperature"]
        [models."x/y".price]
        input = 1.5
        cached_input = 0.15
        cache_write = 1.875
        output = 6
        request = 0.000000001
        """,
    )
    assert config.server == Server(
        host="::1",
        port=0,
        max_body_mb=1,
        max_in_flight=2,
        drain_seconds=0.0,
        max_bodies_mb=6,
        header_seconds=7.0,
        body_idle_seconds=0.5,
        body_total_seconds=3.0,
        comment_seconds=4.0,
        stall_seconds=5.0,
        log="json",
        public_url="https://llm.example.com",
        trusted_proxies=(ip_network("127.0.0.1"), ip_network("10.0.0.0/8")),
    )
    assert config.storage.path == tmp_path / "data/books.db"
    assert dataclasses.astuple(config.billing) == (
        "EUR",
        7,
        3,
        5 * 10**9,
        5 * 10**8,
        "Write to billing@example.com.",
        ("sk", "wh", (20 * 10**9,), 10**9, 30 * 10**9, "http://127.0.0.1:9"),
    )
    assert "sk" not in repr(config.billing)
    assert dataclasses.astuple(config.console) == ("Remote-User",)
    assert dataclasses.astuple(config.limits) == (1, 2, 3)
    provider = config.providers["p"]
    assert provider.base_url == "http://127.0.0.1:8000/v1"
    assert (provider.api_keys, provider.off) == (("secret",), None)
    assert (provider.connect_timeout, provider.first_byte_timeout) == (1.0, 2.0)
    assert (provider.idle_timeout, provider.total_timeout) == (3.0, 4.5)
    assert (provider.max_concurrency, provider.on_disconnect) == (5, "drain")
    assert provider.stream_usage is False
    assert provider.max_tokens_field == "max_completion_tokens"
    assert provider.embeddings_base64 is False
    assert sorted(provider.takes) == ["reasoning_content", "top_k"]
    assert provider.history == "mistral"
    assert provider.pass_headers == ("x-title",)
    assert dict(provider.headers) == {"X-Team": "a b"}
    model = config.models["x/y"]
    assert model.leave_out == {"temperature"}
    assert model.routes == (Route("p", "one"), Route("p", "two"))
    assert model.aliases == ("llama", "llama-3")
    assert (model.owned_by, model.created) == ("meta", 1_700_000_000)
    assert model.reasoning == "budget"
    assert (model.max_output_tokens, model.max_input_tokens) == (8, 9)
    assert model.prices.base == Price(
        1_500_000_000, 6_000_000_000, 150_000_000, 1_875_000_000, 1, 3_000_000_000
    )


@each_row(
    ("most", "own", "share"), [(1000, "", 500), (3, "", 1), (1, "", 1), (10, "0", 0), (10, "9", 9)]
)
def test_an_account_s_share_is_half_of_the_gateway_at_least_one(
    tmp_path: Path, most: int, own: str, share: int
) -> None:
    limits = f"[limits]\naccount_in_flight = {own}" if own else ""
    config = load(tmp_path, f"[server]\nmax_in_flight = {most}\n{limits}")
    assert dataclasses.astuple(config.account_limits) == (0, 0, share)


def test_the_configuration_cannot_be_changed(tmp_path: Path) -> None:
    config = load(tmp_path, OPENAI + MODEL)
    with pytest.raises(dataclasses.FrozenInstanceError):
        config.server.port = 1  # type: ignore[misc] # the point of the test
    for mapping in (config.providers, config.models, config.providers["openai"].headers):
        assert not hasattr(mapping, "__setitem__")


def test_the_shipped_file_serves_the_demo_with_no_variable_set() -> None:
    config = load_config(SHIPPED, {})
    assert list(config.active_models()) == [
        "demo/echo",
        "demo/embed",
        "demo/voice",
        "demo/ear",
        "demo/text",
        "demo/image",
        "demo/rerank",
    ]
    assert config.billing.demo_credit_nano == 5 * 10**9
    assert {name for name, provider in config.providers.items() if provider.off is None} == {"demo"}


@each_row(
    ("variable", "provider", "dialect"),
    [
        ("OPENAI_API_KEY", "openai", "responses"),
        ("ANTHROPIC_API_KEY", "anthropic", "messages"),
        ("DEEPSEEK_API_KEY", "deepseek", "chat"),
    ],
)
def test_a_variable_switches_a_shipped_provider_on(
    variable: str, provider: str, dialect: str
) -> None:
    config = load_config(SHIPPED, {variable: CANARY})
    assert config.providers[provider].off is None
    assert config.providers[provider].dialect == dialect
    assert config.providers[provider].api_keys == (CANARY,)
    owners = {model.owned_by for model in config.active_models().values()}
    assert owners == {"demo", provider}


def test_every_commented_server_of_the_shipped_file_works_uncommented(tmp_path: Path) -> None:
    text = SHIPPED.read_text(encoding="utf-8")
    uncommented = re.sub(r"^#(?=[\[a-z])", "", text, flags=re.MULTILINE)
    config = load(tmp_path, uncommented)
    assert {"vllm", "llamacpp", "ollama"} <= set(config.providers)
    assert {"qwen3-8b", "local", "llama3.2"} <= set(config.active_models())


EMBEDDER = '[models."e"]\nkind = "embedding"\n'


def test_a_model_that_embeds_has_no_output(tmp_path: Path) -> None:
    second = '[providers.second]\ndialect = "responses"\nbase_url = "http://x"\n'
    lines = 'routes = ["openai/e", "second/e"]\nprice = { input = 0.02 }'
    text = f"{OPENAI}{second}{EMBEDDER}{lines}"
    model = load(tmp_path, text).models["e"]
    assert (model.kind, model.max_output_tokens) == ("embedding", 0)
    assert (model.prices.base.input, model.prices.base.output) == (20_000_000, 0)
    assert load(tmp_path, OPENAI + MODEL).models["m"].kind == "chat"
    free = load(tmp_path, f'{OPENAI}{EMBEDDER}routes = ["openai/e"]\nprice = "free"')
    assert free.models["e"].free


def test_the_shipped_file_writes_the_defaults_that_it_writes() -> None:
    """Each value in the shipped sections is the default, so deleting a line changes nothing."""
    with SHIPPED.open("rb") as file:
        shipped = tomllib.load(file, parse_float=Decimal)
    for table in ("server", "storage", "billing", "limits"):
        for key, value in shipped[table].items():
            if key != "demo_credit":
                assert SETTINGS[table][key].default == value, f"[{table}] {key}"


def test_every_setting_has_a_meaning_and_a_readable_default() -> None:
    meanings = read_meanings()
    for table, settings in SETTINGS.items():
        for key, setting in settings.items():
            meaning = meanings[table, key]
            assert meaning != UNWRITTEN, f"{table}.{key}"
            assert setting.what in ("", meaning), f"{table}.{key}"
            if setting.default not in (None, REQUIRED):
                setting.read(setting.default)
