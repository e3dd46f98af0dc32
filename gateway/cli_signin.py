"""`account passwd` and `account signin-link`: how people get into the console."""

from __future__ import annotations

import sys
from getpass import getpass

from gateway import signin
from gateway.accounts import Refused
from gateway.cli_verbs import OK, Call
from gateway.times import format_moment

_MAX_LINE_BYTES = 2 * signin.MAX_PASSWORD_BYTES
"""A longer line is refused for its length, whatever follows."""


def account_passwd(call: Call) -> int:
    name = call.options.name
    with call.open_books() as books:
        books.account(name)
        ended = signin.set_password(books, name, _read_password())
    note = f" Sessions ended: {ended}." if ended else ""
    call.console.say(f"The password of account {name} is set.{note}")
    return OK


def account_signin_link(call: Call) -> int:
    """The URL alone on stdout."""
    base_url = signin.find_base_url(call.config.server)
    with call.open_books() as books:
        link = signin.make_signin_link(books, call.options.name)
    call.console.say(
        f"Signs in as {call.options.name}, once, until {format_moment(link.expires_ms)} UTC;"
        " an earlier link has ended:"
    )
    call.console.print(link.url(base_url))
    return OK


def _read_password() -> str:
    """Typed twice on a terminal, else one line of stdin; never an argument, which anybody sees."""
    if sys.stdin is None:
        raise Refused("there is no stdin to read the password from")
    if sys.stdin.isatty():
        password = getpass("New password: ")
        if getpass("Once more: ") != password:
            raise Refused("the two passwords differ; nothing was changed")
        return password
    line = sys.stdin.buffer.readline(_MAX_LINE_BYTES).removesuffix(b"\n").removesuffix(b"\r")
    try:
        return line.decode()
    except UnicodeDecodeError as error:
        raise Refused("the password on stdin is not valid UTF-8") from error
