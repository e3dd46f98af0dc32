"""Messages about problems and changes of gateway.toml; its table of alerts."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.config.load import load_config, load_table
from gateway.config.reader import MAX_TOLD, ConfigError, Problems
from gateway.ledger.records import DatabaseUrl
from tests.support.rows import each_row
from tests.support.settings import SHIPPED, load
from tests.support.stand_in import URL


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


@each_row("read_keys", [True, False])
def test_commands_that_do_without_keys_know_the_database(
    tmp_path: Path, *, read_keys: bool
) -> None:
    path, environ = tmp_path / "gateway.toml", {"DATABASE_URL": URL}
    path.write_text('[storage]\nurl = "env:DATABASE_URL"\n[models.x')
    assert load_table(path, environ, "storage").storage.url == DatabaseUrl(URL)
    path.write_text('[storage]\nurl = "env:DATABASE_URL"\n')
    assert load_config(path, environ, read_keys=read_keys).storage.url == DatabaseUrl(URL)


def test_the_shipped_file_goes_on_to_name_a_file(tmp_path: Path) -> None:
    """Its commented line works once it stands instead of `path`."""
    shipped = SHIPPED.read_text(encoding="utf-8")
    assert load(tmp_path, shipped).storage.url is None
    path = next(line for line in shipped.splitlines() if line.startswith("path = "))
    text = shipped.replace(path, "").replace("# url = ", "url = ")
    assert load(tmp_path, text, {"DATABASE_URL": URL}).storage.url == DatabaseUrl(URL)
