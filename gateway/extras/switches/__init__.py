"""Models and providers that operators switch off and on while the gateway serves: `model off`, `provider on`.

Without it a model or a provider is taken out of gateway.toml, and a reload follows. What was switched off is
served again; the log of events keeps who did it.

    records    what is switched off, as people see it
    book       switch off and on; the log of events has what is off, so there is no table
    serving    what is off in the process that serves: read at the start, and again when the ledger tells
    verbs      `model off`, `model on`, `provider off`, `provider on`, `switches`
    console    where the console is: operators see and switch; `static` has the buttons
    alerts     where alerts are: what is off is told once, and its end

A verb appends an event and tells the serving processes through the ledger. Each of them reads the switches
and has its configuration adjusted, as at every reload. A model that is off has a reason for it, as a provider
without its key has. The routes leave both out, so requests have nothing more to check.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gateway.extension import Extra, Started

if TYPE_CHECKING:
    from gateway.api.state import Gateway


def _start(gateway: Gateway) -> Started:
    from gateway.extras.switches.serving import start

    return start(gateway)


def _add_to_console() -> object:
    from gateway.extras.switches.console import ADDITION

    return ADDITION


def _add_to_alerts() -> object:
    from gateway.extras.switches.alerts import LASTING

    return LASTING


EXTRA = Extra(
    first_words={
        "model": "Switch models off and on while the gateway serves.",
        "provider": "Switch providers off and on while the gateway serves.",
        "switches": "List the models and providers that are switched off: since when, by whom and why.",
    },
    start=_start,
    adds_to={"console": _add_to_console, "alerts": _add_to_alerts},
)
