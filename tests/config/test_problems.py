"""All errors of a configuration are told at once, in the order of the file."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.config.reader import MAX_TOLD, ConfigError, Problems
from tests.support.rows import each_row
from tests.support.settings import MODEL, OPENAI, refusal


def tell(folder: Path, toml: str) -> list[str]:
    return [one.removeprefix("gateway.toml: ") for one in refusal(folder, toml).split("\n")]


def test_every_error_is_told_in_the_order_of_the_file(tmp_path: Path) -> None:
    told = tell(
        tmp_path,
        """
        [models."b"]
        price = { input = -1, output = "x" }
        kind = "chat"
        zzz = 1
        routes = ["nobody/m", "p/m"]
        [models."a"]
        routes = ["p/m"]
        price = { input = 1, output = 1 }
        [providers.p]
        connect_timeout = 0
        proxy = "ftp://x"
        dialect = "chat"
        [server]
        prot = 1
        port = "x"
        """,
    )
    assert [one.partition(": ")[0] for one in told] == [
        '[models."b"] zzz',
        '[models."b"] routes',
        '[models."b"] price.input',
        '[models."b"] price.output',
        "[providers.p] connect_timeout",
        "[providers.p] base_url",
        "[providers.p] proxy",
        "[server] prot",
        "[server] port",
    ]


@each_row(
    ("toml", "problems"),
    [
        (OPENAI + "x = 1\n" + MODEL, ["[providers.openai] x: unknown key"]),
        (OPENAI.replace("providers", "provider") + MODEL, ["[provider]: unknown table"]),
        (OPENAI + MODEL + 'kind = "embed"', ['[models."m"] kind: must be']),
        (OPENAI.replace('"chat"', '"x"') + MODEL, ["[providers.openai] dialect: must be"]),
        ("server = 5", ["server: must be a table"]),
        ("providers = 5\n" + MODEL, ["providers: must be a table"]),
    ],
)
def test_what_follows_from_an_error_is_no_error(
    tmp_path: Path, toml: str, problems: list[str]
) -> None:
    told = tell(tmp_path, toml)
    assert len(told) == len(problems)
    assert all(map(str.startswith, told, problems)), told


def test_the_rules_of_a_price_are_each_told(tmp_path: Path) -> None:
    rules = "price_when = [{ input_above = -1, price = {} }, { price = { input = 1, output = 1 } }]"
    told = tell(tmp_path, OPENAI + MODEL + rules)
    assert [one.partition(": ")[0] for one in told] == [
        '[models."m"] price_when[0].input_above',
        '[models."m"] price_when[1].price',
    ]


@each_row(("count", "last"), [(1, "k0: no"), (MAX_TOLD, "k9: no"), (13, "and 3 more")])
def test_at_most_ten_are_told(count: int, last: str) -> None:
    problems = Problems()
    for number in range(count):
        with problems.collect():
            raise ConfigError(f"k{number}: no")
    with pytest.raises(ConfigError) as caught:
        problems.raise_all()
    lines = str(caught.value).split("\n")
    assert (lines[-1], len(lines)) == (last, min(count, MAX_TOLD + 1))
    assert len(caught.value.problems) == count


def test_other_errors_are_not_collected() -> None:
    problems = Problems()
    with pytest.raises(KeyError), problems.collect():
        raise KeyError
    problems.raise_all()
