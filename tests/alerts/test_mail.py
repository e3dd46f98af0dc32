"""The recipe for e-mail in the documents, with an `msmtp` that keeps what it is given."""

from __future__ import annotations

import email
import json
import os
import re
import subprocess
import sys
from email.message import Message
from pathlib import Path
from typing import Final

import pytest

from gateway.alerts.delivery import Undelivered, run_command
from tests.support.rows import each_row

DOCUMENT: Final = Path(__file__).parents[2] / "gateway/docs/operation.md"
OPERATOR: Final = "ops@example.com"
MSMTP: Final = """#!/bin/sh
test "$*" = "--read-envelope-from --read-recipients" && exec cat > "$MAIL"
"""


def read_block(name: str) -> str:
    found = re.search(rf"<!-- {name} -->\n```\w+\n(.*?)```", DOCUMENT.read_text("utf-8"), re.DOTALL)
    assert found is not None
    return found[1]


def place(path: Path, text: str) -> None:
    path.write_text(text, "utf-8")
    path.chmod(0o755)


@pytest.fixture
def mail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return where `msmtp` keeps a mail; the programs stand beside it."""
    place(tmp_path / "msmtp", MSMTP)
    place(tmp_path / "gateway-mail", read_block("gateway-mail"))
    place(tmp_path / "mail-link", read_block("mail-link"))
    monkeypatch.setenv("PATH", f"{tmp_path}:{Path(sys.executable).parent}:{os.environ['PATH']}")
    monkeypatch.setenv("MAIL", str(tmp_path / "mail"))
    return tmp_path / "mail"


def read_mail(path: Path) -> Message:
    return email.message_from_bytes(path.read_bytes())


def alert_command(folder: Path) -> list[str]:
    addresses = folder / "addresses"
    addresses.write_text("alice alice@example.org\nbob smith bob@example.org\n", "utf-8")
    return [str(folder / "gateway-mail"), OPERATOR, str(addresses)]


@each_row(
    ("kind", "account", "to"),
    [
        ("low_balance", "alice", f"{OPERATOR}, alice@example.org"),
        ("low_balance", "bob smith", f"{OPERATOR}, bob@example.org"),
        ("budget", "smith", OPERATOR),
        ("password_changed", "alice", OPERATOR),
        ("old_backup", None, OPERATOR),
    ],
)
async def test_an_alert_is_mailed_to_whom_it_concerns(
    mail: Path, kind: str, account: str | None, to: str
) -> None:
    text = "The balance of account 'zoë' is 4.00 USD, below 5.00 USD."
    alert = {"kind": kind, "text": text} | ({} if account is None else {"account": account})
    await run_command(alert_command(mail.parent), json.dumps(alert).encode())
    sent = read_mail(mail)
    assert (sent["From"], sent["To"]) == (OPERATOR, to)
    assert sent["Subject"] == f"Gateway: {kind.replace('_', ' ')}"
    payload = sent.get_payload(decode=True)
    assert isinstance(payload, bytes)
    assert payload.decode().strip() == text


async def test_a_mail_that_fails_leaves_the_alert_to_be_sent_again(mail: Path) -> None:
    place(mail.parent / "msmtp", "#!/bin/sh\nexit 75\n")
    with pytest.raises(Undelivered, match="exited with 1"):
        await run_command(alert_command(mail.parent), b'{"kind": "test", "text": "a test"}')


@each_row("code", [0, 1])
def test_a_signin_link_is_mailed_once_it_is_made(mail: Path, code: int) -> None:
    link = "https://example.com/console/signin#token=t"
    script = (
        f'#!/bin/sh\ntest "$*" = "account signin-link alice" || exit 64\necho {link}\nexit {code}\n'
    )
    place(mail.parent / "gateway", script)
    mail.unlink(missing_ok=True)
    words = ["sh", str(mail.parent / "mail-link"), "alice", "alice@example.org"]
    assert subprocess.run(words, check=False).returncode == code
    if code:
        assert not mail.exists()
        return
    sent = read_mail(mail)
    assert (sent["To"], sent["Subject"]) == ("alice@example.org", "Your sign-in link")
    assert link in str(sent.get_payload())
