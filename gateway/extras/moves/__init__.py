"""Moving: in from another gateway, with callers' keys, and a whole ledger to another machine.

Without this extra, gateway.toml is written by hand, callers get new keys, accounts are added one by one, and
there are no paths `/v1/dashboard/billing`. A database in a file can then move as a backup, and PostgreSQL's
by its own tools, but neither can become the other.

verbs    the commands `adopt`, `key adopt`, `account import`, `export` and `import`
litellm  LiteLLM's config.yaml as a draft
costs    the prices and limits in LiteLLM's config.yaml
new_api  new-api's channels and options as a draft
sources  reads their files, and the texts and numbers in them
draft    the gateway.toml that is being written, and notes on settings not carried over
known    vendors' addresses, models' prices and limits that others have built in
keys     keys of another gateway, stored as digests
people   the accounts of a CSV file, each with a key
billing  the balance, at the paths where clients of one-api ask for it
files    the file of JSON lines, proven by the audit on both sides
ledgers  reads the rows of a whole ledger, and makes a new ledger of them
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gateway.base.process import ExitCode
from gateway.extension import Extra

if TYPE_CHECKING:
    from gateway.api.state import Gateway
    from gateway.extension import Started


def _start(_: Gateway) -> Started:
    from gateway.extras.moves.billing import start

    return start()


EXTRA = Extra(
    needs=("packages", "spreadsheets"),
    first_words={
        "adopt": "Write a gateway.toml from the settings of another gateway: LiteLLM or new-api.",
        "key": "",
        "account": "",
        "export": (
            "Write the whole ledger to a new private file of JSON lines: no key or password, but the secrets"
            f" of holders' webhooks. Exits {ExitCode.AUDIT_MISMATCH} if the books do not add up."
        ),
        "import": (
            "Make a new database of an exported file, or fill an empty one of PostgreSQL."
            f" Exits {ExitCode.AUDIT_MISMATCH}, and makes none, if the books do not add up."
        ),
    },
    start=_start,
)
