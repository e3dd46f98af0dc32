"""`unit`: prints units of this installation, for systemd and for a container under it.

Without it the gateway still takes systemd's sockets, tells it its state and pings its watchdog; the units are
written by hand.

texts    the text of each unit, from the template beside it: gateway.service, gateway.socket, gateway.container
verbs    the command: paths and owner of this installation, and how the unit is installed
"""

from __future__ import annotations

from gateway.extension import Extra

EXTRA = Extra(
    words={"unit": "Print the systemd unit of this installation, and on stderr how to install it."}
)
