"""The verbs of signing in to the console: passwords, links, one-time codes, sessions."""

from __future__ import annotations

import os
import sys
from getpass import getpass
from typing import Final

from gateway.base.times import format_iso, format_moment
from gateway.cli.command import Command
from gateway.cli.verbs import arg, verb
from gateway.extras.signins import signin
from gateway.extras.signins.people import PeopleBook
from gateway.extras.signins.sessions import SignInBook
from gateway.extras.signins.totp import TotpBook
from gateway.extras.signins.tunnel import make_tunnel_command
from gateway.ledger.records import Refused

_MAX_LINE_BYTES: Final = 2 * signin.MAX_PASSWORD_BYTES
"""Bytes of the line that are read: a longer one is refused anyway."""

_NAME: Final = arg("name", "NAME", "the account's name")
_PERSON: Final = arg(
    "--for", "PERSON", "a person with a sign-in of their own in the account", dest="person"
)


def _ask_password() -> str:
    """Read a new password: twice from a terminal, else one line of stdin.

    It is never an argument, as other users can see those.
    """
    if sys.stdin is None:
        raise Refused("stdin is closed; type the password on a terminal or pipe it in")
    if sys.stdin.isatty():
        try:
            password, again = getpass("New password: "), getpass("Repeat it: ")
        except EOFError as error:  # Ctrl-D
            raise Refused("no password was typed; nothing was changed") from error
        except UnicodeDecodeError:  # its text would quote a part of the password
            raise Refused("what was typed is not in the terminal's encoding") from None
        if again != password:
            raise Refused("the two passwords differ; nothing was changed, try again")
        return password
    # Bytes, as the locale of a script may not be UTF-8.
    line = sys.stdin.buffer.readline(_MAX_LINE_BYTES).removesuffix(b"\n").removesuffix(b"\r")
    try:
        return line.decode()
    except UnicodeDecodeError as error:
        raise Refused("the password on stdin is not valid UTF-8") from error


@verb(
    "account passwd",
    examples=(
        "account passwd alice",
        "account passwd alice < password.txt",
        "account passwd alice --for dana",
    ),
    arguments=(_NAME, _PERSON),
)
def account_passwd(command: Command, name: str, person: str | None) -> None:
    """Set a password for the console: ask for it twice, or read a line of stdin.

    The sessions that it was the password of end.
    """
    books = command.open_books()
    # An unknown name is refused before a password is asked for.
    PeopleBook(books).read(name)
    ended = signin.set_password(books, name, _ask_password(), person or "")
    command.show({"account": name, "person": person, "ended": ended})
    note = f" Sessions ended: {ended}." if ended else ""
    command.say(
        f"The password of account {PeopleBook(books).read(name, person or '').name} is set.{note}"
    )


@verb(
    "account signin-link",
    examples=("account signin-link alice", "account signin-link alice --for dana"),
    arguments=(_NAME, _PERSON),
)
def account_signin_link(command: Command, name: str, person: str | None) -> None:
    """Print a link that signs in to the console as the account. It works once, within 30 minutes.

    With a person it makes a sign-in of their own, for which they then set a password.
    """
    server = command.config.server
    # First: without an address no link is made, and the earlier one stays valid.
    base_url = signin.find_base_url(server)
    tunnel = make_tunnel_command(server.host, server.port, os.environ)
    books = command.open_books()
    link = signin.make_signin_link(books, name, person or "")
    command.say(
        f"This link signs in as {PeopleBook(books).read(name, person or '').name} once, until"
        f" {format_moment(link.expires_ms)} UTC. Earlier links no longer work."
    )
    if tunnel is not None and server.public_url is None:
        command.say(f"To open it on another machine, type there: {tunnel}")
    url = link.url(base_url)
    command.show({"url": url, "expires": format_iso(link.expires_ms)}, url)


@verb(
    "account signins",
    examples=("account signins alice", "account signins alice --json"),
    arguments=(_NAME,),
)
def account_signins(command: Command, name: str) -> None:
    """List who signs in to an account: its own sign-in, and people with one of their own."""
    command.show_list(PeopleBook(command.open_books()).read_all(name), signin.SIGNIN)


@verb(
    "account signin-remove",
    examples=("account signin-remove alice --for dana",),
    arguments=(_NAME, arg("--for", "PERSON", "whose sign-in it is", dest="person", required=True)),
)
def account_signin_remove(command: Command, name: str, person: str) -> None:
    """Remove a person's sign-in: the password, one-time codes, link and sessions end at once."""
    ended = PeopleBook(command.open_books()).remove(name, person)
    command.show({"account": name, "person": person, "ended": ended})
    command.say(f"{person} no longer signs in to account {name}; sessions ended: {ended}.")


@verb(
    "account remove-totp",
    examples=("account remove-totp alice", "account remove-totp alice --for dana"),
    arguments=(_NAME, _PERSON),
)
def account_remove_totp(command: Command, name: str, person: str | None) -> None:
    """Ask an account for no one-time codes any more, as when its authenticator app is lost."""
    books = command.open_books()
    own = PeopleBook(books).read(name, person or "")
    TotpBook(books).remove(own)
    command.show({"account": name, "person": person, "totp": None})
    command.say(f"Account {own.name} signs in without one-time codes. Its recovery codes are void.")


@verb("account end-sessions", examples=("account end-sessions alice",), arguments=(_NAME,))
def account_end_sessions(command: Command, name: str) -> None:
    """Sign everybody of an account out of the console. Its passwords stay."""
    ended = SignInBook(command.open_books()).end_all_sessions(name)
    command.show({"account": name, "ended": ended})
    command.say(f"Account {name} is signed out; sessions ended: {ended}. Sign-in links end too.")
