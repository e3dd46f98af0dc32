"""How values and tables of gateway.toml are read, and what is refused."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from gateway.config.doubts import list_warnings
from gateway.config.load import load_config, load_storage
from gateway.config.reader import ConfigError
from gateway.config.records import Route
from gateway.config.values import RESERVED_HEADERS
from tests import ROOT
from tests.support.rows import each_row, told_together
from tests.support.settings import CANARY, MODEL, OPENAI, load, refusal
from tests.support.stand_in import PASSWORD


def test_a_missing_file_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        load_config(tmp_path / "none.toml", {})
    assert "none.toml: there is no such file. Name yours with --config FILE" in str(caught.value)


def test_a_folder_is_no_configuration(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read: it is a folder; name a file"):
        load_config(tmp_path, {})


@each_row(
    ("content", "problem"),
    [
        (b"[server]\nport = \n", "is not valid TOML: Invalid value (at line 2, column 8)"),
        (b"[server]\n[server]\n", "is not valid TOML: Cannot declare ('server',) twice (at line 2"),
        (b"x = " + b"9" * 5000, "is not valid TOML: a number is too long"),
        (b"x = 1e" + b"9" * 30, "is not valid TOML: a number is too long"),
        (b"x = " + b"[" * 100_000, "is not valid TOML: nested too deeply"),
        (b"[server]\nhost = '\xff'\n", "must be UTF-8 text; the byte at 17 is not"),
        ("[server]".encode("utf-16"), "must be UTF-8 text; this is UTF-16"),
        (b"\0\0\0\n", "has zero bytes, so it is empty, as a crash leaves it: restore it"),
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
def test_what_is_no_toml_is_refused_with_its_line(
    tmp_path: Path, content: bytes, problem: str
) -> None:
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


@each_row("toml", ["", " \n", "# nothing\n"])
def test_an_empty_file_is_warned_of(tmp_path: Path, toml: str) -> None:
    """As a crash leaves it. The operators' verbs say nothing."""
    (warning,) = list_warnings(load(tmp_path, toml))
    assert "gateway.toml is empty, as a crash may leave it: no provider and no model" in warning
    assert load_config(tmp_path / "gateway.toml", {}, read_keys=False).doubts == ()


def test_the_database_is_found_from_another_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "gateway.toml").write_text("")
    monkeypatch.chdir(tmp_path)
    config = load_config(Path("here/gateway.toml"), {})
    assert config.storage.path == tmp_path / "here" / "gateway.db"


@each_row(
    ("toml", "database"),
    [
        ("", "gateway.db"),
        ('[storage]\npath = "a.db"\n[models.x', "a.db"),
        ('[server]\nport = "x\n\n [ storage ] # here\n# why\npath = "a.db"', "a.db"),
        ('[server]\nport = x\n[storage]\n[billing]\npath = "b.db"', "gateway.db"),
        ("[server]\nport = x", "gateway.db"),
        ("[servr]\nport = 1", "gateway.db"),
    ],
)
def test_the_database_is_found_in_a_file_that_is_broken_elsewhere(
    tmp_path: Path, toml: str, database: str
) -> None:
    path = tmp_path / "gateway.toml"
    path.write_text(toml)
    assert load_storage(path, {}).storage.path == tmp_path / database


@each_row(
    ("toml", "error"),
    [
        ("[storage]\npath = 7", "[storage] path: must be one line of text"),
        ("[storage]\npth = 'x'", '[storage] pth: unknown key; did you mean "path"?'),
        ("storage = 7", "storage: must be a table, not 7"),
        ("[storage]\npath = 'x\n[server]\nport = 1", "is not valid TOML"),
    ],
)
def test_an_error_about_the_database_is_told(tmp_path: Path, toml: str, error: str) -> None:
    path = tmp_path / "gateway.toml"
    path.write_text(toml)
    with pytest.raises(ConfigError) as caught:
        load_storage(path, {})
    assert error in str(caught.value)


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


def test_operators_verbs_need_no_provider_key(tmp_path: Path) -> None:
    path = tmp_path / "gateway.toml"
    path.write_text(OPENAI + 'api_key = "file:$CREDENTIALS_DIRECTORY/key"')
    config = load_config(path, {}, read_keys=False)
    assert config.providers["openai"].off == "its key was not looked up"


REFUSED: Final = (Path(__file__).with_name("refused.txt"), *ROOT.glob("tests/extras/*/refused.txt"))
"""Texts that are refused, and what is said of each; those of extras are beside their tests.

What is said stands behind ` ! `, or on lines that begin with it; `…` stands for any text. The texts below `== A | B`
begin with the lines A and B. `OPENAI` and `MODEL` stand for a provider and a model that are in order.
"""
ENVIRON: Final = {
    "EMPTY": " ",
    "OTHER": f"https://{PASSWORD}",
    "TWO": f"postgresql://a b:{PASSWORD}",
}
FILES: Final = {
    "empty.key": b"\n",
    "binary.key": b"\xff\xfe" + CANARY.encode(),
    "der.pem": b"\x30\x82\x01\x0a",
    "damaged.pem": b"-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n",
}


def read_refused() -> Iterator[tuple[str, list[str]]]:
    """Return each text, and the lines that are said of it."""
    for path in REFUSED:
        first: list[str] = []
        lines: list[str] = []
        said: list[str] = []
        for line in [*path.read_text(encoding="utf-8").splitlines(), "=="]:
            toml, mark, one = f" {line}".partition(" ! ")
            if said and not (mark and not toml):
                yield "".join(f"{each}\n" for each in (*first, *lines)), said
                lines, said = [], []
            if line.startswith("=="):
                first = [each for each in line[3:].split(" | ") if each]
            elif toml.strip() and not line.startswith("#"):
                lines.append(toml[1:])
            said += [one] * bool(mark)
        assert not lines, path


def test_what_is_refused_is_named_by_its_place_without_secrets(tmp_path: Path) -> None:
    for name, content in FILES.items():
        (tmp_path / name).write_bytes(content)
    cases = [*read_refused()]
    assert len(cases) > 200
    with told_together() as row:
        for text, told in cases:
            toml = text.replace("OPENAI\n", OPENAI).replace("MODEL\n", MODEL)
            with row(toml):
                said = refusal(tmp_path, toml, ENVIRON).replace("gateway.toml: ", "")
                assert not [one for one in (CANARY, PASSWORD) if one in said]
                for line, wanted in zip(said.splitlines(), told, strict=True):
                    first, cut, last = wanted.partition("…")
                    assert line.startswith(first) if cut else line == wanted
                    assert line.endswith(last)


@each_row("name", sorted(RESERVED_HEADERS | {"Authorization", "X-API-Key", "HOST"}))
def test_headers_of_the_gateway_cannot_be_set(tmp_path: Path, name: str) -> None:
    error = refusal(tmp_path, f'{OPENAI}headers = {{ {name} = "{CANARY}" }}')
    assert f'headers: must not have "{name}": the gateway sets it' in error
    assert CANARY not in error


@each_row(
    ("toml", "most"),
    [
        ("[server]\nmax_in_flight = ", 10**6),
        ("[limits]\nconcurrency = ", 10**9),
        ("[billing]\ndemo_credit = ", 10**9),
        (OPENAI + MODEL + "max_input_tokens = ", 10**8),
        (OPENAI + MODEL + "max_output_tokens = ", 10**8),
    ],
)
def test_the_largest_number_is_accepted_and_one_more_refused(
    tmp_path: Path, toml: str, most: int
) -> None:
    load(tmp_path, f"{toml}{most}")
    assert "must be a" in refusal(tmp_path, f"{toml}{most + 1}")


def test_a_number_of_thousands_of_digits_is_not_repeated(tmp_path: Path) -> None:
    said = refusal(tmp_path, f"{OPENAI}connect_timeout = 0x{'f' * 6000}")
    assert said.endswith("not a number that long")
