"""No error of gateway.toml repeats what may be a secret, wherever it stands and whatever its type."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from gateway.config.load import load_config
from gateway.config.reader import HIDDEN, ConfigError, Setting
from gateway.config.records import find_settings
from gateway.config.settings import SETTINGS
from gateway.extension import find_tables
from tests.support.cli import Cli, make_cli

DIGITS: Final = "31415926535897932384"
SECRETS: Final = (
    "sk-live-abcdef", "Zm9vYmFyYmF6cXV4MTIz", "0123456789abcdef0123456789abcdef",
    "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", DIGITS,
)  # fmt: skip
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


def make_cases() -> Iterator[tuple[str, str]]:
    """Give secrets, and files with them: each setting in each shape, then settings and tables that do not exist.

    The secrets take turns, so each stands in each shape.
    """
    turns = itertools.cycle(SECRETS)
    extras: dict[str, dict[str, Setting]] = defaultdict(dict)
    for name, one in find_tables().items():
        extras[one.in_table or name] |= find_settings(one.find_record())
    headings = TABLES | {name: f"[{name}]\n{{}}" for name in extras}
    for table, heading in headings.items():
        for key in (*{**SETTINGS, **extras}[table], '"{}"'):
            for shape in SHAPES:
                secret = next(turns)
                line = f"{key} = {shape}\n".replace("{}", secret)
                yield secret, heading.replace("{}", line.replace("{{", "{").replace("}}", "}"))
            yield DIGITS, heading.replace("{}", f"{key} = {DIGITS}\n".replace("{}", DIGITS))
    for secret in SECRETS:
        yield secret, f'["{secret}"]\nx = 1\n'
        yield secret, f'"{secret}" = 1\n'
        yield secret, f'["{secret}"]\n["{secret}"]\n'
        yield secret, f'[models."m"."{secret}"]\nx = 1\n'


@pytest.fixture
def cli(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Cli:
    return make_cli(tmp_path, capsys)


@pytest.mark.parametrize(
    "step", [7, pytest.param(1, marks=[pytest.mark.daily, pytest.mark.no_cover])]
)
def test_no_error_repeats_a_secret(tmp_path: Path, step: int) -> None:
    path, errors = tmp_path / "gateway.toml", []
    for secret, text in itertools.islice(make_cases(), 0, None, step):
        path.write_text(text, encoding="utf-8")
        try:
            load_config(path, {})
        except ConfigError as error:
            errors.append((secret, str(error)))
    assert [one for one in errors if one[0][:12] in one[1] or one[0][-6:] in one[1]] == []
    assert len(errors) > 1000 // step


def test_a_hidden_value_is_called_so(cli: Cli) -> None:
    cli.config.write_text('[server]\nport = "sk-live-abcdef"\n', encoding="utf-8")
    assert cli.run("check").err.endswith(f"must be a whole number from 0 to 65535, not {HIDDEN}\n")
