"""The table [alerts] of gateway.toml, beside `read.txt` and `refused.txt`; and the document."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final, get_args

import pytest

from gateway.config.load import load_config
from gateway.extras.alerts.records import AlertKind
from gateway.extras.alerts.settings import Alerts
from tests.documents import EXTRAS
from tests.support.extras import need_extra
from tests.support.settings import load, refusal
from tests.support.stand_in import URL, stand_in

HOOK: Final = 'webhook = "https://h.test'
LITERALS: Final = {
    f'{HOOK}/a?b=c"\nwebhook_secret = "env:S"': ("[alerts] webhook",),
    f'{HOOK}/T0AAAAA0000BBBB11"\nwebhook_secret = "env:S"': ("[alerts] webhook",),
    'webhook = "env:W"\nwebhook_secret = "word"': ("[alerts] webhook_secret",),
    'command = ["/bin/page", "--token=T0AAAAA0000BBBB11"]': ("[alerts] command",),
    f'{HOOK}/gateway"\nwebhook_secret = "env:S"': (),
    'command = ["/usr/local/bin/page", "--urgent"]': (),
}


@need_extra("advice")
@pytest.mark.parametrize("toml", LITERALS)
def test_a_secret_that_is_written_out_is_named(tmp_path: Path, toml: str) -> None:
    config = load(tmp_path, f"[alerts]\n{toml}", {"S": "s", "W": "https://h.test/gateway"})
    assert config.literals == LITERALS[toml]


def test_a_verb_that_does_without_secrets_knows_that_there_is_a_webhook(tmp_path: Path) -> None:
    text = '[alerts]\nwebhook = "env:HOOK"\nwebhook_secret = "env:SECRET"\n'
    assert "webhook: cannot be used: the environment variable HOOK" in refusal(tmp_path, text)
    config = load_config(tmp_path / "gateway.toml", {}, read_keys=False)
    assert config.find(Alerts).channels == ("webhook",)


def test_backups_are_watched_where_the_gateway_makes_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in(monkeypatch, tmp_path / "behind.db")
    days = "[alerts]\nbackup_days = 2\n"
    told = refusal(tmp_path, f'[storage]\nurl = "{URL}"\n{days}')
    assert told.startswith("gateway.toml: [alerts] backup_days: needs a database in a file")
    # An error of [storage] is told by itself.
    assert "backup_days" not in refusal(tmp_path, f"[storage]\nurl = 7\n{days}")


def test_every_kind_of_alert_is_documented() -> None:
    text = (EXTRAS / "alerts/alerts.md").read_text(encoding="utf-8")
    table = text.partition("| `kind` |")[2].partition("\n\n")[0]
    assert re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE) == [*get_args(AlertKind)]
