"""The person at the command line, as the log of events names them."""

from __future__ import annotations

import os
import pwd
from collections.abc import Mapping

from gateway.admin import accounts
from gateway.cli.command import find_actor
from tests.support.cli import Cli
from tests.support.rows import each_row

ME = pwd.getpwuid(os.getuid()).pw_name
NOBODYS_ID = 2**31 - 7


@each_row(
    ("environ", "name"),
    [
        ({}, f"cli ({ME})"),
        ({"SUDO_USER": ""}, f"cli ({ME})"),
        ({"SUDO_USER": "alice"}, "cli (alice via sudo)"),
        ({"SUDO_USER": "a\x1b[2J"}, f"cli ({ME})"),
        ({"SUDO_USER": "a" * 65}, f"cli ({ME})"),
        ({"USER": "alice", "LOGNAME": "alice"}, f"cli ({ME})"),
    ],
)
def test_the_user_is_the_process_owner_or_the_caller_of_sudo(
    environ: Mapping[str, str], name: str
) -> None:
    assert find_actor(environ).name == name


def test_a_user_without_a_name_has_a_number() -> None:
    assert find_actor({}, lambda: NOBODYS_ID).name == f"cli (user {NOBODYS_ID})"


def test_events_name_the_user(cli: Cli) -> None:
    environ = {"GATEWAY_CONFIG": str(cli.config), "SUDO_USER": "alice"}
    assert cli.run("account", "add", "bo", environ=environ).code == 0
    assert cli.run("key", "add", "bo").code == 0
    with accounts.open_books(cli.database) as books:
        events = books.events.read_page(None, None, 9)
    assert [(event.actor, event.action) for event in events] == [
        (f"cli ({ME})", "key.add"),
        ("cli (alice via sudo)", "account.add"),
    ]
