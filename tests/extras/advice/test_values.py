"""What is said of mistakes in gateway.toml, and of values that may not be meant; `refused.txt` has most of it."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from gateway.config.doubts import list_warnings
from gateway.config.load import load_config
from gateway.config.reader import ConfigError
from tests.support.rows import each_row
from tests.support.settings import CANARY, OPENAI, load


@each_row(
    ("content", "problem"),
    [
        ("[server]".encode("utf-16"), "must be UTF-8 text; this is UTF-16"),
        (b"a = True", "is not valid TOML: write true (at line 1, column 5)"),
        (b"a = [1, no]", "is not valid TOML: write false (at line 1"),
        (b"a = None", "is not valid TOML: there is no such value; leave the key out (at line 1"),
        ("a = “b”".encode(), "is not valid TOML: it has curly quotation marks; write straight"),
        (b"server:\n  port: 80", "is not valid TOML: it looks like YAML; write key = value"),
        (b'{"server": {}}', "is not valid TOML: it looks like JSON; write key = value"),
        (b"// a", "is not valid TOML: a remark begins with # (at line 1"),
        (b"a = { b = 1, }", "is not valid TOML: write no comma before } (at line 1"),
        (b"a = { b = 1,\n}", "is not valid TOML: what stands between { and } has to be on one"),
        (b"a = { b = 0,15 }", "is not valid TOML: write a point before decimals, as in 0.15"),
        (b"a = 1,000", "is not valid TOML: write 1_000 or 1000 for a thousand (at line 1"),
        (b"a = .5", "is not valid TOML: write digits on both sides of the point"),
        (b"a = $5", "is not valid TOML: write amounts without a sign of a currency"),
        (b"a = 5s", "is not valid TOML: a number has no unit; a text needs quotation marks"),
        (b"a = localhost", "is not valid TOML: a text needs quotation marks (at line 1"),
        (b"a = 80;", "is not valid TOML: write no ; or , behind a value (at line 1"),
        (b"a = [1],", "is not valid TOML: write no ; or , behind a value (at line 1"),
        *(
            (
                f"[models.{name}]".encode(),
                f'is not valid TOML: put the name in quotation marks: [models."{shown}"] (at',
            )
            for name, shown in (
                *((one, one) for one in ("openai/gpt-4o", "gpt 4", "@cf/x", "llama:latest")),
                (CANARY + "/a", "..."),
            )
        ),
        (b"a := 1", "is not valid TOML: write key = value (at line 1"),
        (b"export A=b", "is not valid TOML: write key = value, without export (at line 1"),
        (b'a = "C:\\keys"', "is not valid TOML: write a text with \\ in single quotation marks"),
        (b"port 80", "is not valid TOML: an = is missing between key and value (at line 1"),
    ],
)
def test_what_is_no_toml_is_explained(tmp_path: Path, content: bytes, problem: str) -> None:
    path = tmp_path / "gateway.toml"
    path.write_bytes(content)
    with pytest.raises(ConfigError) as caught:
        load_config(path, {})
    assert str(caught.value).startswith(f"{path}: {problem}")


def provide(address: str) -> str:
    return f'[providers.p]\ndialect = "chat"\nbase_url = "{address}"\n'


# Keys that local servers take, and those of vendors; prices of embeddings, audio, and the dearest
# model; currencies of which a dollar is many.
USUAL: Final = (
    *(f'{provide("http://h/v1")}api_key = "{key}"\n' for key in (
        "EMPTY", "ollama", "sk-1234", "sk-no-key-required", "sk-proj-Ab_c-xxxx_y", "gsk_aB", "abcd==", "0a.bC", "sk_live_key", "none",
        "sk-abc'", "/aB3dE5fG7hI9+k/Lm=", "/aB3dE5fG7hI9k/LmNo3pQ5rS7tU9vW1", "3f2a8b10-5c1d-4e2f-9a7b-0c1d2e3f4a5b:0123456789abcdef0123456789abcdef",
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abc-DEF_123", "AIzaSyA-1234567890abcdefghijklmnopqrstu", "user:pass", "ABCD-1234-EFGH", "p$s#{", "r8_a{b}c",
    )),
    *(f'{provide("http://h/v1")}headers = {{ X-A = "{value}" }}\n' for value in ("$5", "{a}, {b}", "https://a/{id}")),
    *(provide(address) for address in ("https://api.deepseek.com", "https://api.openai.com/eu/v1")),
    *(provide(f"https://h/{path}") for path in (
        "models", "publishers/anthropic/models", "v1/messages-api", "openai/deployments/m",
    )),
    *(f'[providers.p]\ndialect = "chat"\nbase_url = "http://h/v1"\n[models."a:b@c [d]"]\nroutes = ["p/m"]\n{price}\n' for price in (
        'price = "free"', "price = { input = 0.01, output = 0.01 }", "price = { input = 150, output = 600 }",
        "price = { input = 0.14, cached_input = 0.0028, output = 0.28, web_search = 5, request = 0.0001 }",
        "price = { input = 0, output = 0.001 }", "price = { input = 0.0000001, output = 1, sure = true }",
        "price = { input = 9_000_000, output = 1, sure = true }", "price = { input = 5, output = 0, sure = true }",
        'price = { input = 40_000, output = 160_000 }\n[billing]\ncurrency = "IDR"',
        'price = { input = 22_500, output = 90_000 }\n[billing]\ncurrency = "JPY"',
        'price = { input = 2_500_000, output = 2_500_000 }\n[billing]\ncurrency = "credits"',
    )),
)  # fmt: skip


@each_row("toml", USUAL)
def test_nothing_is_said_of_what_is_usual(tmp_path: Path, toml: str) -> None:
    assert [*list_warnings(load(tmp_path, f"\ufeff{toml}"))] == []


@each_row(
    ("price", "said"),
    [
        ("input = 0.00015, output = 0.0006", ("input 0.00015, output 0.0006: far below what any vendor asks for a million tokens; if that is per token,"
         " write { input = 150.00, output = 600.00 }; if that is per thousand tokens, write { input = 0.15, output = 0.60 }; if meant, add sure")),
        ("input = 2500, output = 10000", "input 2500.00, output 10000.00: far above"),
        ("input = 3, output = 0.15", "output is less than a tenth of input, which no vendor asks; if meant, add sure"),
        ("input = 3, output = 0", "output is less than a tenth of input"),
        ("input = 3, output = 15, web_search = 0.01", "web_search 0.01: far below what any vendor asks; if that is per search, write { web_search = 10.00 }"),
        ("input = 3, output = 15, request = 50", "request 50.00: far above what any vendor asks; if that is per thousand, write { request = 0.05 }"),
    ],
)  # fmt: skip
def test_a_doubtful_price_is_warned_of(tmp_path: Path, price: str, said: str) -> None:
    toml = f'{OPENAI}[models."m"]\nroutes = ["openai/m"]\nprice = {{ {price} }}\n'
    (warning,) = list_warnings(load(tmp_path, toml))
    assert warning.startswith(f'[models."m"] price: {said}')


@each_row(
    ("address", "meant"),
    [
        ("https://api.openai.com", "https://api.openai.com/v1"),
        ("https://api.groq.com/v1", "https://api.groq.com/openai/v1"),
        ("http://localhost:11434", "http://localhost:11434/v1"),
        ("https://x.openai.azure.com/openai/deployments/m", "https://x.openai.azure.com/openai/v1"),
    ],
)
def test_an_address_without_its_path_is_warned_of(tmp_path: Path, address: str, meant: str) -> None:
    (warning,) = list_warnings(load(tmp_path, provide(address)))
    assert warning.startswith("[providers.p] base_url: every call will get a 404")
    assert warning.endswith(f'"{meant}"')
    assert [*list_warnings(load(tmp_path, provide(meant)))] == []


HEAD = f'{OPENAI}[models.m]\nroutes = ["openai/m"]\n'
PRICE = "{ input = 1, output = 2 }"


def test_check_warns_of_rules_whose_order_alone_decides(tmp_path: Path) -> None:
    rules = [f"{{ {when}, price = {PRICE} }}" for when in ('speed = "fast"', "input_above = 5")]
    config = load(tmp_path, f"{HEAD}price = {PRICE}\nprice_when = [{', '.join(rules)}]\n")
    (warning,) = list_warnings(config)
    assert warning == (
        "[models.\"m\"] price_when: the rules 'speed fast' and 'input_above 5' may both"
        " hold for a request; the first one applies. If that is not meant, add a rule with the"
        " conditions of both before them."
    )
    both = f'{{ speed = "fast", input_above = 5, price = {PRICE} }}'
    settled = f"{HEAD}price = {PRICE}\nprice_when = [{both}, {', '.join(rules)}]\n"
    assert list(list_warnings(load(tmp_path, settled))) == []
