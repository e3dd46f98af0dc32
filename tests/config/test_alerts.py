"""Alerts, storage and providers in gateway.toml."""

from __future__ import annotations

from pathlib import Path

from gateway.config.load import load_config, load_storage
from gateway.ledger.records import DatabaseUrl
from tests.support.rows import each_row
from tests.support.settings import CANARY, SHIPPED, load, openai, refusal
from tests.support.stand_in import PASSWORD, SHOWN, URL

HOOK = 'webhook = "https://hooks.example.com/a?token=b"\n'


def test_it_is_off_unless_a_way_is_set(tmp_path: Path) -> None:
    off = load(tmp_path, "").alerts
    assert (off.channels, off.takes_holders, off.backup_days) == ((), False, 0)
    both = load(
        tmp_path, f'[alerts]\n{HOOK}webhook_secret = "{CANARY}"\ncommand = ["page"]\n'
    ).alerts
    assert both.channels == ("webhook", "command")
    assert both.takes_holders
    assert CANARY not in repr(both)
    assert "token" not in repr(both)


def test_secrets_are_looked_up(tmp_path: Path) -> None:
    text = '[alerts]\nwebhook = "env:HOOK"\nwebhook_secret = "env:SECRET"\n'
    found = load(tmp_path, text, {"HOOK": "https://a.example/b", "SECRET": CANARY}).alerts
    assert (found.webhook, found.webhook_secret) == ("https://a.example/b", CANARY)
    assert "webhook: cannot be used: the environment variable HOOK" in refusal(tmp_path, text)
    # A verb that does without secrets knows that there is a webhook.
    assert load_config(tmp_path / "gateway.toml", {}, read_keys=False).alerts.channels == (
        "webhook",
    )


def test_backups_are_watched_where_the_gateway_makes_them(tmp_path: Path) -> None:
    days = "[alerts]\nbackup_days = 2\n"
    assert load(tmp_path, days).alerts.backup_days == 2
    told = refusal(tmp_path, f'[storage]\nurl = "{URL}"\n{days}')
    assert told.startswith("gateway.toml: [alerts] backup_days: needs a database in a file")
    # An error of [storage] is told by itself.
    assert "backup_days" not in refusal(tmp_path, f"[storage]\nurl = 7\n{days}")


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


def test_the_shipped_file_goes_on_to_name_a_file(tmp_path: Path) -> None:
    """Its commented line works once it stands instead of `path`."""
    shipped = SHIPPED.read_text(encoding="utf-8")
    assert load(tmp_path, shipped).storage.url is None
    path = next(line for line in shipped.splitlines() if line.startswith("path = "))
    text = shipped.replace(path, "").replace("# url = ", "url = ")
    assert load(tmp_path, text, {"DATABASE_URL": URL}).storage.url == DatabaseUrl(URL)


def test_several_keys_share_the_requests(tmp_path: Path) -> None:
    """Those that are missing are named, and the provider is off only without any."""
    toml = 'api_key = ["env:FIRST", "env:SECOND", "sk-third-0123456789"]'
    provider = openai(tmp_path, toml, {"SECOND": CANARY}).providers["openai"]
    assert provider.api_keys == (CANARY, "sk-third-0123456789")
    assert provider.lacking == ("the environment variable FIRST is not set",)
    assert provider.off is None
    none = openai(tmp_path, 'api_key = ["env:FIRST", "env:SECOND"]', {}).providers["openai"]
    assert (none.api_keys, none.lacking) == ((), ())
    assert none.off == "the environment variable FIRST is not set"


def test_openais_address_takes_other_defaults(tmp_path: Path) -> None:
    """Its models refuse `max_tokens`, and other vendors' ids."""
    there = openai(tmp_path, "").providers["openai"]
    assert (there.max_tokens_field, there.history) == ("max_completion_tokens", "openai")
    lines = 'max_tokens_field = "max_tokens"\nhistory = "any"'
    told = openai(tmp_path, lines).providers["openai"]
    assert (told.max_tokens_field, told.history) == ("max_tokens", "any")
    elsewhere = load(tmp_path, '[providers.a]\ndialect = "chat"\nbase_url = "http://localhost/v1"')
    provider = elsewhere.providers["a"]
    assert (provider.max_tokens_field, provider.history) == ("max_tokens", "any")
