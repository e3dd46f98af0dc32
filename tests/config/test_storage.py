"""The table [storage]: a file or a database, never both, and no word of a password."""

from __future__ import annotations

from pathlib import Path

from gateway.config.load import load_config, load_storage
from gateway.ledger.locations import DatabaseUrl
from tests.support.rows import each_row
from tests.support.settings import SHIPPED, load, refusal
from tests.support.stand_in import PASSWORD, SHOWN, URL


def test_a_file_is_the_default(tmp_path: Path) -> None:
    storage = load(tmp_path, "").storage
    assert (storage.url, storage.retention_months) == (None, 0)
    assert storage.location == storage.path == tmp_path / "gateway.db"


@each_row("written", [URL, "env:DATABASE_URL", "file:secret", "file:$FOLDER/secret"])
def test_an_address_is_looked_up_as_other_secrets_are(tmp_path: Path, written: str) -> None:
    (tmp_path / "secret").write_text(f"{URL}\n")
    environ = {"DATABASE_URL": f"{URL}\n", "FOLDER": str(tmp_path)}
    config = load(tmp_path, f'[storage]\nurl = "{written}"\nretention_months = 2\n', environ)
    assert config.storage.location == DatabaseUrl(URL)
    assert str(config.storage.location) == SHOWN
    assert config.storage.retention_months == 2
    assert config.storage.path == tmp_path / "gateway.db", "the key file's place"
    assert PASSWORD not in repr(config)


@each_row("read_keys", [True, False])
def test_commands_that_do_without_keys_know_the_database(
    tmp_path: Path, *, read_keys: bool
) -> None:
    path, environ = tmp_path / "gateway.toml", {"DATABASE_URL": URL}
    path.write_text('[storage]\nurl = "env:DATABASE_URL"\n[models.x')
    assert load_storage(path, environ).storage.url == DatabaseUrl(URL)
    path.write_text('[storage]\nurl = "env:DATABASE_URL"\n')
    assert load_config(path, environ, read_keys=read_keys).storage.url == DatabaseUrl(URL)


@each_row(
    ("lines", "problem"),
    [
        ('url = "env:DATABASE_URL"', "url: the environment variable DATABASE_URL is not set"),
        ('url = "env:EMPTY"', "url: the environment variable EMPTY is not set, or is empty; `serve`"),
        ('url = "env:"', 'url: must name an environment variable: "env:NAME"'),
        ('url = "env:OTHER"', "url: must begin with postgresql://, such as"),
        ('url = "env:TWO"', "url: must be one word of printable ASCII"),
        ('url = "file:missing"', "url: cannot be read from"),
        (f'url = "mysql://a:{PASSWORD}@h/b"', "url: must begin with postgresql://, such as"),
        (f'url = "postgresql://a:{PASSWORD}/@h/b"', "url: must be an address such as"),
        ('url = ""', "url: must not be empty"),
        ("url = 7", "url: must be a text"),
        (f'url = ["{URL}"]', "url: must be a text"),
        (f'url = "{URL}"\npath = "gateway.db"', "path: names a file, but url a database"),
        ("retention_months = 12", "retention_months: needs url: a database in a file keeps all"),
        (f'url = "{URL}"\nretention_months = 1', "retention_months: must be 0, which keeps all, or"),
        (f'url = "{URL}"\nretention_months = -1', "retention_months: must be a whole number from 0"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_without_the_password(
    tmp_path: Path, lines: str, problem: str
) -> None:
    environ = {"EMPTY": " ", "OTHER": f"https://{PASSWORD}", "TWO": f"postgresql://a b:{PASSWORD}"}
    told = refusal(tmp_path, f"[storage]\n{lines}\n", environ)
    assert told.startswith(f"gateway.toml: [storage] {problem}")
    assert PASSWORD not in told


def test_the_shipped_file_goes_on_to_name_a_file(tmp_path: Path) -> None:
    """Its commented line works once it stands instead of `path`."""
    shipped = SHIPPED.read_text(encoding="utf-8")
    assert load(tmp_path, shipped).storage.url is None
    path = next(line for line in shipped.splitlines() if line.startswith("path = "))
    text = shipped.replace(path, "").replace("# url = ", "url = ")
    assert load(tmp_path, text, {"DATABASE_URL": URL}).storage.url == DatabaseUrl(URL)
