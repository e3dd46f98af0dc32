"""Make the link of a first start, which signs in as the operator."""

from __future__ import annotations

import os

from gateway.config.records import Config, Server
from gateway.extension import FirstStartText
from gateway.extras.signins import signin
from gateway.extras.signins.tunnel import make_tunnel_command
from gateway.ledger.sql.books import Books


def show_link(books: Books, config: Config, account: str, local: tuple[str, int]) -> FirstStartText:
    """Make the link of an account; `local` is where the gateway listens."""
    link = signin.make_signin_link(books, account)
    return FirstStartText(
        lines=describe_link(link, config.server, local),
        does=f"the link signs in as '{account}'",
        lets="its link lets one sign in",
    )


def describe_link(link: signin.SigninLink, server: Server, local: tuple[str, int]) -> str:
    tunnel = make_tunnel_command(*local, os.environ) if server.public_url is None else None
    return (
        f"    console       {link.url(signin.find_base_url(server, local))}\n"
        "                  (works once, within 30 minutes; `account signin-link` makes another)\n"
        f"{_describe_tunnel(tunnel)}"
    )


def _describe_tunnel(command: str | None) -> str:
    """Tell people on another machine how to open the link, whose address works only on this machine."""
    if command is None:
        return ""
    return (
        f"    from another  {command}\n"
        "    machine       (type this there, then open the link there)\n"
    )
