"""`account passwd` and `account signin-link`: let people sign in to the console."""

from __future__ import annotations

import os
import sys
from getpass import getpass

from gateway.addresses import make_tunnel_command
from gateway.admin import signin
from gateway.cli.command import Command
from gateway.ledger import Refused
from gateway.times import format_moment

_MAX_LINE_BYTES = 2 * signin.MAX_PASSWORD_BYTES
"""How much of the line is read: a longer one is refused anyway."""


def account_passwd(command: Command) -> None:
    name = command.options.name
    with command.open_books() as books:
        books.accounts.read(name)
        ended = signin.set_password(books, name, _read_password())
    note = f" Sessions ended: {ended}." if ended else ""
    command.say(f"The password of account {name} is set.{note}")


def account_signin_link(command: Command) -> None:
    """Make a sign-in link and print only its URL to stdout."""
    server = command.config.server
    base_url = signin.find_base_url(server)
    tunnel = make_tunnel_command(server.host, server.port, os.environ)
    with command.open_books() as books:
        link = signin.make_signin_link(books, command.options.name)
    command.say(
        f"This link signs in as {command.options.name} once, until"
        f" {format_moment(link.expires_ms)} UTC. Earlier links no longer work."
    )
    if tunnel is not None and server.public_url is None:
        command.say(f"To open it on another machine, type there: {tunnel}")
    command.output.print(link.url(base_url))


def _read_password() -> str:
    """Read the password: twice from a terminal, else one line of stdin.

    It is never an argument, as other users can see those.
    """
    if sys.stdin is None:
        raise Refused("stdin is closed; type the password on a terminal or pipe it in")
    if sys.stdin.isatty():
        password = getpass("New password: ")
        if getpass("Repeat it: ") != password:
            raise Refused("the two passwords differ; nothing was changed, try again")
        return password
    line = sys.stdin.buffer.readline(_MAX_LINE_BYTES).removesuffix(b"\n").removesuffix(b"\r")
    try:
        return line.decode()
    except UnicodeDecodeError as error:
        raise Refused("the password on stdin is not valid UTF-8") from error
