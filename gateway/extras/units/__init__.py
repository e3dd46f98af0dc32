"""`unit` prints systemd's units for this installation or a container; `health` asks whether it is ready.

Without it the gateway still takes systemd's sockets, tells it its state and pings its watchdog; the units are
written by hand, and `/readyz` is asked by another program.

texts    the text of each unit, from the template beside it: gateway.service, gateway.socket, gateway.container
verbs    the command: paths and owner of this installation, and how the unit is installed
health   the command that asks a gateway on this machine whether it accepts requests
"""

from __future__ import annotations

from gateway.base.process import ExitCode
from gateway.extension import Extra

EXTRA = Extra(
    first_words={
        "unit": "Print the systemd unit of this installation, and on stderr how to install it.",
        "health": (
            "Ask the gateway that listens at [server] host and port of this machine whether it accepts"
            f" requests, as health checks of containers do. Exits {ExitCode.FAILED} if it does not."
        ),
    }
)
