"""The name of the person at the command line, under which events are kept."""

from __future__ import annotations

import os
import pwd
from collections.abc import Callable, Mapping
from typing import Final

from gateway.ledger import Actor

MAX_USER_CHARS: Final = 64
"""Characters of a user's name: twice what Linux allows. SUDO_USER may hold anything."""


def find_actor(environ: Mapping[str, str], find_user_id: Callable[[], int] = os.getuid) -> Actor:
    """Return `cli (alice)`, or `cli (alice via sudo)` if sudo says who called it.

    It helps people to ask each other. It proves nothing: who may write the database may set
    SUDO_USER too.
    """
    caller = environ.get("SUDO_USER", "")
    if caller.isprintable() and 0 < len(caller) <= MAX_USER_CHARS:
        return Actor(f"cli ({caller} via sudo)")
    return Actor(f"cli ({_find_user_name(find_user_id())})")


def _find_user_name(user_id: int) -> str:
    try:
        return pwd.getpwuid(user_id).pw_name
    except KeyError:  # as in a container that runs under a number
        return f"user {user_id}"
