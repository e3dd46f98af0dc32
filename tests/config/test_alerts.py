"""The table [alerts]."""

from __future__ import annotations

from pathlib import Path

from gateway.config.load import load_config
from tests.support.rows import each_row
from tests.support.settings import CANARY, load, refusal
from tests.support.stand_in import URL

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


@each_row(
    ("lines", "problem"),
    [
        (HOOK, "[alerts] webhook_secret: is missing"),
        (
            'webhook = "ftp://a.example/"\nwebhook_secret = "s"',
            "[alerts] webhook: must be an address",
        ),
        (
            f'webhook = "https://u:{CANARY}@a.example/"\nwebhook_secret = "s"',
            "[alerts] webhook: must",
        ),
        ("command = 5", "[alerts] command: must be an array"),
        ('command = "page ops"', "[alerts] command: must be an array"),
        ('holder_webhooks = "all"', "[alerts] holder_webhooks: must be"),
        ("backup_days = -1", "[alerts] backup_days: must be"),
    ],
)
def test_errors_name_the_key_and_no_secret(tmp_path: Path, lines: str, problem: str) -> None:
    said = refusal(tmp_path, f"[alerts]\n{lines}\n")
    assert problem in said
    assert CANARY not in said


def test_backups_are_watched_where_the_gateway_makes_them(tmp_path: Path) -> None:
    days = "[alerts]\nbackup_days = 2\n"
    assert load(tmp_path, days).alerts.backup_days == 2
    told = refusal(tmp_path, f'[storage]\nurl = "{URL}"\n{days}')
    assert told.startswith("gateway.toml: [alerts] backup_days: needs a database in a file")
    # An error of [storage] is told by itself.
    assert "backup_days" not in refusal(tmp_path, f"[storage]\nurl = 7\n{days}")
