"""How values and tables of gateway.toml are read, and what is refused."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from gateway import extension
from gateway.config.load import list_warnings, load_config
from gateway.config.reader import ConfigError
from gateway.config.records import Route
from gateway.config.values import RESERVED_HEADERS
from tests import ROOT
from tests.config.plain import read_file
from tests.support.rows import each_row, told_together
from tests.support.settings import CANARY, MODEL, OPENAI, load, refusal
from tests.support.stand_in import PASSWORD


def test_a_missing_file_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        load_config(tmp_path / "none.toml", {})
    assert "none.toml: there is no such file. Name yours with --config FILE" in str(caught.value)


def test_a_folder_is_no_configuration(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read: "):
        load_config(tmp_path, {})


@each_row("toml", ["", " \n", "# nothing\n"])
def test_an_empty_file_is_warned_of(tmp_path: Path, toml: str) -> None:
    """As a crash leaves it. The operators' verbs say nothing."""
    (warning,) = list_warnings(load(tmp_path, toml))
    assert "gateway.toml is empty, as a crash may leave it: no provider and no model" in warning
    assert load_config(tmp_path / "gateway.toml", {}, read_keys=False).doubts == ()


def test_what_is_too_large_for_toml_is_refused() -> None:
    for value, problem in (
        (b"9" * 5000, "a number is too long"),
        (b"[" * 10**5, "nested too deep"),
    ):
        with pytest.raises(ConfigError, match=f"is not valid TOML: {problem}"):
            read_file(b"x = " + value)


def test_the_database_is_found_from_another_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "gateway.toml").write_text("")
    monkeypatch.chdir(tmp_path)
    config = load_config(Path("here/gateway.toml"), {})
    assert config.storage.path == tmp_path / "here" / "gateway.db"


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


@pytest.fixture
def no_advice(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    extras = {name: replace(one, make_advice=None) for name, one in extension.find_extras().items()}
    monkeypatch.setattr(extension, "find_extras", lambda: extras)
    extension.find_advice.cache_clear()
    yield
    extension.find_advice.cache_clear()


@pytest.mark.usefixtures("no_advice")
@each_row(
    ("toml", "error"),
    [
        ("[servr]", "[servr]: unknown table; known here: server"),
        ("a = True", "is not valid TOML: Invalid value (at line 1, column 5)"),
        (OPENAI + 'on_disconnect = "abrt"', 'must be "abort" or "drain", not "abrt"'),
        (OPENAI + 'api_key = "Bearer a"', "api_key: is not one word of printable ASCII: write it"),
    ],
)
def test_without_advice_an_error_gives_the_rule_alone(
    tmp_path: Path, toml: str, error: str
) -> None:
    assert error in refusal(tmp_path, toml)


@pytest.mark.usefixtures("no_advice")
def test_without_advice_all_that_is_well_formed_is_read(tmp_path: Path) -> None:
    toml = (
        '[providers.p]\ndialect = "chat"\nbase_url = "http://h/v1/chat/completions"\n'
        'api_key = "your-api-key"\nheaders = { X-A = "${A}" }\n'
        '[models."a*"]\nroutes = ["p/b*"]\naliases = ["c*"]\n'
        "price = { input = 0.0000001, output = 1 }\ncost = { input = 1, output = 2 }\n"
    )
    config = load(tmp_path, toml)
    assert config.models["a*"].routes == (Route("p", "b*"),)
    assert config.providers["p"].api_keys == ("your-api-key",)
    assert [*list_warnings(config)] == []


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


def read_texts(*paths: Path) -> Iterator[tuple[str, list[str]]]:
    """Return each text, and the lines that are said of it."""
    for path in paths:
        first: list[str] = []
        lines: list[str] = []
        said: list[str] = []
        for line in [*path.read_text(encoding="utf-8").splitlines(), "=="]:
            toml, mark, one = f" {line}".partition(" ! ")
            if said and not (mark and not toml):
                text = "".join(f"{each}\n" for each in (*first, *lines))
                yield text.replace("OPENAI\n", OPENAI).replace("MODEL\n", MODEL), said
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
    cases = [*read_texts(*REFUSED)]
    assert len(cases) > 100
    with told_together() as row:
        for toml, told in cases:
            with row(toml):
                said = refusal(tmp_path, toml, ENVIRON).replace("gateway.toml: ", "")
                assert not [one for one in (CANARY, PASSWORD) if one in said]
                check_said(said.splitlines(), told)


def check_said(said: Sequence[str], told: Sequence[str]) -> None:
    for line, wanted in zip(said, told, strict=True):
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
