"""No error of gateway.toml repeats what may be a secret, wherever it stands and whatever its type."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from gateway.config import SETTINGS, ConfigError, load_config
from gateway.config.reader import HIDDEN, looks_secret
from tests.support.cli import Cli, make_cli

SECRETS: Final = {
    "prefix": "sk-live-abcdef",
    "letters and digits": "Zm9vYmFyYmF6cXV4MTIz",
    "hexadecimal": "0123456789abcdef0123456789abcdef",
    "segments": "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
    "digits": "31415926535897932384",
}
SHAPES: Final = (
    '"{}"',
    "'''{}\n'''",
    '"https://{}"',
    '"http://:{}@x"',
    '["{}"]',
    '[["{}"], 1, "{}/{}"]',
    '{{ "{}" = 1 }}',
    '{{ input = "{}", output = true, x = 2020-01-01 }}',
    '{{ X-A = ["{}"], "a b" = "{}" }}',
    '[{{ price = "{}", "{}" = "{}" }}]',
    '"{}',  # not even TOML
)
TABLES: Final = {
    "server": "[server]\n{}",
    "storage": "[storage]\n{}",
    "billing": "[billing]\n{}",
    "limits": "[limits]\n{}",
    "providers.NAME": "[providers.vendor]\n{}",
    "models.ID": '[models."m"]\n{}',
    "models.ID.price": '[models."m"]\nroutes = ["a/b"]\n[models."m".price]\n{}',
    "models.ID.price_when": '[models."m"]\nroutes = ["a/b"]\n[[models."m".price_when]]\n{}',
}


def make_cases(secret: str) -> Iterator[str]:
    """Write each setting in each shape, then settings and tables that do not exist."""
    shapes = [shape.replace("{}", secret).replace("{{", "{").replace("}}", "}") for shape in SHAPES]
    shapes += [secret] if secret.isdecimal() else []
    for table, heading in TABLES.items():
        keys = [*SETTINGS[table], f'"{secret}"']
        for key, shape in itertools.product(keys, shapes):
            yield heading.replace("{}", f"{key} = {shape}\n")
    yield f'["{secret}"]\nx = 1\n'
    yield f'"{secret}" = 1\n'
    yield f'["{secret}"]\n["{secret}"]\n'
    yield f'[models."m"."{secret}"]\nx = 1\n'


@pytest.fixture
def cli(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Cli:
    return make_cli(tmp_path, capsys)


@pytest.mark.parametrize("name", SECRETS)
def test_no_error_repeats_a_secret(tmp_path: Path, name: str) -> None:
    secret, path = SECRETS[name], tmp_path / "gateway.toml"
    errors = []
    for text in make_cases(secret):
        path.write_text(text, encoding="utf-8")
        try:
            load_config(path, {})
        except ConfigError as error:
            errors.append(str(error))
    assert [one for one in errors if secret[:12] in one or secret[-6:] in one] == []
    assert len(errors) > 500


@pytest.mark.parametrize(
    "text",
    [
        *("openai/gpt-4o-mini", "anthropic/claude-sonnet-4-5-20250929", "OPENAI_API_KEY"),
        *("meta-llama/Llama-3.3-70B-Instruct-Turbo", "maxOutputTokens", "max_input_tokens"),
        *("https://api.example.com/v1", "127.0.0.1:8080", "unauthorized", "/var/lib/gateway"),
    ],
)
def test_what_people_write_is_shown(text: str) -> None:
    assert not looks_secret(text)


def test_a_hidden_value_is_called_so(cli: Cli) -> None:
    cli.config.write_text('[server]\nport = "sk-live-abcdef"\n', encoding="utf-8")
    assert cli.run("check").err.endswith(f"must be a whole number from 0 to 65535, not {HIDDEN}\n")
