"""The ways of alerts: webhook, command and mail."""

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

from gateway.extras.alerts.channels import Undelivered, post, run_command
from gateway.extras.alerts.delivery import send
from gateway.extras.alerts.records import Due
from gateway.extras.alerts.settings import Alerts
from tests.documents import EXTRAS
from tests.extras.alerts.receiver import HANG, SECRET, listen
from tests.support.loops import LOOPS, run_on
from tests.support.rows import each_row
from tests.support.tls import ROOT, serve_tls

BODY = b'{"id":"alert_1","kind":"test"}'


async def fail(url: str, *, public: bool = False, limit_seconds: float = 10) -> str:
    with pytest.raises(Undelivered) as caught:
        await post(
            url, SECRET, BODY, at_seconds=5, public=public, limit_seconds=limit_seconds
        )  # fmt: skip
    return str(caught.value)


async def test_a_private_authority_is_trusted_where_it_is_named() -> None:
    async with serve_tls() as url:
        assert await fail(url) == "TLS failed: self-signed certificate in certificate chain"
        await post(url, SECRET, BODY, at_seconds=5, public=False, authorities=ROOT)


async def test_a_receiver_that_hangs_is_left() -> None:
    with listen(HANG) as receiver:
        assert await fail(receiver.url, limit_seconds=0.2) == "no answer within 0.2 s"


async def test_a_failure_names_neither_address_nor_secret() -> None:
    with listen() as receiver:
        closed = receiver.url
    assert await fail(closed) == "no connection"
    assert await fail("http://secret-name.invalid/secret") == "the host is unknown"
    with listen() as receiver:
        said = await fail(receiver.url.replace("http:", "https:"))
    assert said == "TLS failed: it speaks plain http, not TLS (wrong version number)"


@each_row("host", ["127.0.0.1", "localhost", "2130706433", "0x7f.1", "[::1]", "0"])
async def test_a_holders_webhook_reaches_no_private_address(host: str) -> None:
    """Whatever way it is written, and whatever a name resolves to: nothing is sent."""
    with listen() as receiver:
        url = receiver.url.replace("127.0.0.1", host)
        reason = await fail(url, public=True)
        assert reason == "the address is not public" or "InvalidUrl" in reason
        assert receiver.bodies == []


KEEP = "import os, sys; open(sys.argv[1], 'w').write(sys.stdin.read() + os.getenv('TOLD', ''))"


async def test_a_command_gets_the_alert_and_no_shell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "$(echo a); b"
    command = (sys.executable, "-c", KEEP, str(path))
    await run_command(command, BODY)
    assert json.loads(path.read_bytes()) == json.loads(BODY)
    monkeypatch.setenv("TOLD", "too")
    for variables, told in (((), b""), (("TOLD",), b"too")):
        alerts = Alerts("", "", command, "off", 0, command_env=variables)
        await send(Due("a", "command", None, BODY.decode(), 0, 0, None), alerts)
        assert path.read_bytes() == BODY + b"\n" + told


@each_row("loop", LOOPS)
def test_a_command_that_ends_without_reading_says_how_it_ended(loop: str) -> None:
    async def run_many() -> set[str]:
        found = set()
        for _ in range(40):
            with pytest.raises(Undelivered) as caught:
                await run_command(["false"], BODY)
            found.add(str(caught.value))
        return found

    assert run_on(loop, run_many()) == {"the command exited with 1"}


DOCUMENT: Final = EXTRAS / "alerts/alerts.md"
OPERATOR: Final = "ops@example.com"
MSMTP: Final = """#!/bin/sh
test "$*" = "--read-envelope-from --read-recipients" && exec cat > "${0%/*}/mail"
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
