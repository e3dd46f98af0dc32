"""No error of gateway.toml repeats what may be a secret, wherever it stands and whatever its type."""

from __future__ import annotations

import itertools
import os
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from gateway.config.doubts import MAX_NAMED, warn_of_literals
from gateway.config.load import load_config
from gateway.config.reader import HIDDEN, ConfigError, Setting
from gateway.config.records import find_settings
from gateway.config.settings import SETTINGS
from gateway.extension import find_tables
from tests.support.cli import Cli, make_cli
from tests.support.settings import OPENAI, load

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
        extras[one.of or name] |= find_settings(one.find())
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


LITERALS: Final = {
    '[storage]\nurl = "postgresql://me:word@db/books"': "[storage] url",
    '[storage]\nurl = "postgresql://db/books?user=me&password=word"': "[storage] url",
    f'{OPENAI}api_key = "word"': "[providers.openai] api_key",
    f'{OPENAI}api_key = ["env:A", "word"]': "[providers.openai] api_key",
    f'{OPENAI}proxy = "http://me:word@p.test:1"': "[providers.openai] proxy",
    f'{OPENAI}headers = {{ Api-Token = "word" }}': "[providers.openai] headers",
    f'{OPENAI}headers = {{ X-A = "T0AAAAA0000BBBB11" }}': "[providers.openai] headers",
}
PLAIN: Final = (
    '[storage]\nurl = "postgresql:///books"',
    f'{OPENAI}api_key = ["env:A", "env:B"]\nproxy = "http://p.test:1"\nheaders = {{ X-Team = "a" }}',
)
ENVIRON: Final = {"A": "a", "B": "b"}


@pytest.mark.parametrize("toml", [*LITERALS, *PLAIN])
def test_a_secret_that_is_written_out_is_named(tmp_path: Path, toml: str) -> None:
    config = load(tmp_path, toml, ENVIRON)
    assert config.literals == ((LITERALS[toml],) if toml in LITERALS else ())


@pytest.mark.parametrize(
    ("mode", "owner", "user", "who"),
    [
        (0o644, 1, 2, "everybody on this machine"),
        (0o604, 1, 1, "everybody on this machine"),
        (0o640, 1, 1, "the group #4000000"),
        (0o640, 1, 2, None),
        (0o640, 0, 0, None),
        (0o600, 1, 1, None),
    ],
)
def test_others_are_who_need_not_read_the_file(
    monkeypatch: pytest.MonkeyPatch, mode: int, owner: int, user: int, who: str | None
) -> None:
    """The group of a file is how the service reads one that is another user's."""
    found = os.stat_result((mode, 0, 0, 1, owner, 4_000_000, 0, 0, 0, 0))
    monkeypatch.setattr(Path, "stat", lambda _: found)
    monkeypatch.setattr(os, "geteuid", lambda: user)
    told = warn_of_literals(Path("gateway.toml"), ("[a] b",))
    assert (told is None) if who is None else (told is not None and f"read by {who}, " in told)
    assert warn_of_literals(Path("gateway.toml"), ()) is None


def test_a_file_that_is_gone_is_read_by_nobody(tmp_path: Path) -> None:
    assert warn_of_literals(tmp_path / "gateway.toml", ("[a] b",)) is None


def test_of_many_secrets_that_others_can_read_a_few_are_named(tmp_path: Path) -> None:
    path = tmp_path / "gateway.toml"
    path.touch(0o644)
    told = warn_of_literals(path, [f"[p{n}] api_key" for n in range(MAX_NAMED + 2)])
    assert "[p0] api_key, [p1] api_key" in str(told)
    assert "[p4] api_key, 2 more. Type" in str(told)
