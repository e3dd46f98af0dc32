"""Secrets that are written out in gateway.toml, and the warning of those who may read them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import pytest

from gateway.extras.advice.literals import MAX_NAMED, warn_of_literals
from tests.support.settings import OPENAI, load

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
