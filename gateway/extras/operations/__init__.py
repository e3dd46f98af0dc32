"""How providers answer, what was refused, who did what: `providers`, `refusals`, `events`, pages of the console.

Without it nobody sees what the extra `observations` counts: only the log has each failure and refusal. The
ledger still stores each event, and no command and no page shows them.

health   judges providers by their latest calls; latencies, refusals
needs    the problems that an operator has to see to, for the console's overview
events   events as operators see and search them
verbs    the three commands
console  where the console is, for operators: health, how providers answer, refusals, the log of events
audits   likewise: the audit of the books
overview likewise: the overview of the whole gateway
costs    likewise: charges, costs and the margin
"""

from __future__ import annotations

from gateway.extension import Extra


def _add_to_console() -> object:
    from gateway.extras.operations import costs, overview  # noqa: F401 - the decorators of handlers
    from gateway.extras.operations.console import ADDITION

    return ADDITION


EXTRA = Extra(
    needs=("observations", "reports"),
    adds_to={"console": _add_to_console},
    first_words={
        "providers": "Show how the providers answer: calls, failures, the last error, latencies.",
        "refusals": "Show which requests were refused, for whom and why, summed by the hour.",
        "events": "List who did what, apart from requests: the latest first.",
    },
)
