"""`reload` and SIGHUP: gateway.toml is read again while serving; changes of prices become events.

Without it a change of the file takes a restart, for which callers wait at systemd's socket, and the log of events
has no changes of prices. SIGHUP is ignored.

reloader  reads and checks the file, replaces configuration and routes, says what changed
prices    events of models whose prices changed
asking    asks the process that serves, and finds its answer
verbs     the command
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from gateway.base.process import ExitCode
from gateway.extension import Extra, Started

if TYPE_CHECKING:
    from gateway.api.state import Gateway


def _start(gateway: Gateway) -> Started:
    from gateway.extras.reloads.reloader import reloading

    return Started(run=partial(reloading, gateway))


EXTRA = Extra(
    start=_start,
    first_words={
        "reload": (
            "Make the process that serves on this machine read the configuration again. It checks the"
            " whole file before anything changes, with the variables of its own environment, and says"
            " what changed and which providers are off, or why nothing changed."
            f" Exits {ExitCode.CONFIG} if the file is invalid, {ExitCode.UNAVAILABLE} if nothing serves,"
            f" {ExitCode.NOT_FOUND} if there is no database."
        )
    },
)
