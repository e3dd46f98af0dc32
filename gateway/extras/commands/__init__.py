"""Operators' commands, run without a shell or secrets: that which gets alerts, and those that print keys.

Without it no command is run, and as process 1 of a container the gateway reaps no orphans, which commands
leave behind.

running  runs a command, within a limit of time and of output
orphans  reaps what nobody waits for, as process 1 of a container
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gateway.extension import Extra, Started

if TYPE_CHECKING:
    from gateway.api.state import Gateway


def _start(gateway: Gateway) -> Started:  # noqa: ARG001 - as `Extra.start` is called
    from gateway.extras.commands.orphans import run

    return Started(run=run)


EXTRA = Extra(start=_start)
