"""Runs operators' commands, without a shell or the gateway's secrets: for alerts, and to print keys.

Without this extra no command is run, and the gateway, as process 1 of a container, does not reap the orphans
that commands leave behind.

running  runs a command with limits on time and output
orphans  reaps processes that nobody waits for, as process 1 of a container
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
