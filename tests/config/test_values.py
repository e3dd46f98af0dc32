"""Keys, addresses and headers of providers; no error repeats them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from gateway.config.cards import find_minor_nano, find_step_nano
from gateway.config.load import load_config
from gateway.config.records import KeySource, Route
from tests.support.rows import each_row
from tests.support.settings import CANARY, OPENAI, load, openai


@each_row("environ", [{}, {"OPENAI_API_KEY": ""}, {"OPENAI_API_KEY": " \n"}])
def test_a_variable_that_is_not_set_turns_the_provider_off(
    tmp_path: Path, environ: Mapping[str, str]
) -> None:
    provider = openai(tmp_path, 'api_key = "env:OPENAI_API_KEY"', environ).providers["openai"]
    assert provider.off == "the environment variable OPENAI_API_KEY is not set"
    assert provider.api_keys == ()


def test_models_whose_providers_are_all_off_are_not_active(tmp_path: Path) -> None:
    toml = (
        '[providers.a]\ndialect = "chat"\nbase_url = "http://a"\napi_key = "env:A"\n'
        '[providers.b]\ndialect = "chat"\nbase_url = "http://b"\n'
        '[models."both"]\nroutes = ["a/m", "b/m"]\nprice = "free"\n'
        '[models."gone"]\nroutes = ["a/m"]\nprice = "free"\n'
    )
    off = load(tmp_path, toml)
    assert set(off.models) == {"both", "gone"}
    assert {m.id: m.routes for m in off.active_models().values()} == {"both": (Route("b", "m"),)}
    on = load(tmp_path, toml, {"A": "key"})
    assert on.active_models() == dict(on.models)


def test_a_key_is_read_from_a_file_beside_the_configuration(tmp_path: Path) -> None:
    (tmp_path / "openai.key").write_text(f"{CANARY}\n")
    provider = openai(tmp_path, 'api_key = "file:openai.key"').providers["openai"]
    assert (provider.api_keys, provider.off) == ((CANARY,), None)


@each_row("written", ["$CREDENTIALS_DIRECTORY/key", "${CREDENTIALS_DIRECTORY}/key"])
def test_a_file_may_be_named_by_a_variable(tmp_path: Path, written: str) -> None:
    folder = tmp_path / "credentials"
    folder.mkdir()
    (folder / "key").write_text(CANARY)
    environ = {"CREDENTIALS_DIRECTORY": str(folder)}
    provider = openai(tmp_path, f'api_key = "file:{written}"', environ).providers["openai"]
    assert provider.api_keys == (CANARY,)


def test_a_key_that_changes_tells_where_it_comes_from(tmp_path: Path) -> None:
    """A command is not run while the file is read; one that is not looked up turns nothing on."""
    (tmp_path / "key").write_text(CANARY)
    toml = 'api_key = ["a", "file:key", "command:az --query \'a b\'"]\napi_key_refresh = "15m"'
    provider = openai(tmp_path, toml).providers["openai"]
    assert provider.api_keys == ("a", CANARY, "")
    assert provider.sources == (
        None,
        KeySource("file:key", (), tmp_path, 900),
        KeySource("command:az --query 'a b'", ("az", "--query", "a b"), tmp_path, 900),
    )
    path = tmp_path / "gateway.toml"
    assert load_config(path, {}, read_keys=False).providers["openai"].off is not None


def test_no_secret_is_in_the_representation(tmp_path: Path) -> None:
    config = openai(tmp_path, f'api_key = "{CANARY}"\nheaders = {{ api-key = "{CANARY}" }}')
    assert config.providers["openai"].headers["api-key"] == CANARY
    assert CANARY not in repr(config)


@each_row("written", ["env:PROXY", "file:proxy", "itself"])
def test_a_proxy_is_an_address_that_may_be_secret(tmp_path: Path, written: str) -> None:
    address = f"http://user:{CANARY}@proxy.example.com:3128"
    (tmp_path / "proxy").write_text(address + "\n")
    written = address if written == "itself" else written
    config = openai(tmp_path, f'proxy = "{written}"', {"PROXY": address})
    assert (config.providers["openai"].proxy, config.providers["openai"].off) == (address, None)
    assert CANARY not in repr(config)


def test_a_provider_whose_proxy_is_not_set_is_off(tmp_path: Path) -> None:
    """A connection around the proxy is not what the operator wants."""
    provider = openai(tmp_path, 'proxy = "env:PROXY"').providers["openai"]
    assert provider.off == "the environment variable PROXY is not set"


def test_operators_verbs_need_no_provider_key(tmp_path: Path) -> None:
    path = tmp_path / "gateway.toml"
    path.write_text(OPENAI + 'api_key = "file:$CREDENTIALS_DIRECTORY/key"')
    config = load_config(path, {}, read_keys=False)
    assert config.providers["openai"].off == "its key was not looked up"


@each_row(
    "url",
    [
        "https://api.example.com/v1",
        "http://127.0.0.1:8000",
        "http://[::1]:8000/v1",
        "https://gateway.example.com/openai/deployments/a/v1",
    ],
)
def test_an_address_is_taken_without_its_slash(tmp_path: Path, url: str) -> None:
    for written in (url, url + "/"):
        toml = f'[providers.p]\ndialect = "chat"\nbase_url = "{written}"'
        assert load(tmp_path, toml).providers["p"].base_url == url


@each_row(
    ("written", "origin"),
    [
        ("https://llm.example.com", "https://llm.example.com"),
        ("https://LLM.example.com:443/", "https://llm.example.com"),
        ("http://127.0.0.1:80", "http://127.0.0.1"),
        ("http://[::1]:8080", "http://[::1]:8080"),
    ],
)
def test_a_public_address_is_kept_as_browsers_write_it(
    tmp_path: Path, written: str, origin: str
) -> None:
    assert load(tmp_path, f'[server]\npublic_url = "{written}"').server.public_url == origin


def test_a_header_may_name_accounts(tmp_path: Path) -> None:
    text = '[server]\ntrusted_proxies = ["10.0.0.1"]\n[console]\nidentity_header = "Remote-User"'
    assert load(tmp_path, text).console.identity_header == "Remote-User"


@each_row(
    ("currency", "minor", "step"),
    [
        ("USD", 10**7, 10**7),
        ("eur", 10**7, 10**7),
        ("JPY", 10**9, 10**9),
        ("krw", 10**9, 10**9),
        ("KWD", 10**6, 10**7),
        ("ISK", 10**7, 10**9),
        ("UGX", 10**7, 10**9),
    ],
)
def test_amounts_are_counted_as_stripe_does(currency: str, minor: int, step: int) -> None:
    """See "Special cases" at docs.stripe.com/currencies."""
    assert (find_minor_nano(currency), find_step_nano(currency)) == (minor, step)
