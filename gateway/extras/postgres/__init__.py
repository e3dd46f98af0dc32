"""The ledger in PostgreSQL, shared by several gateways: `[storage] url`. Needs psycopg.

Without it the ledger is in a file, which one gateway serves from; a ledger in PostgreSQL stays there,
untouched, until the extra is back.

opening   what `ledger.opening` and the extra `moves` call, and no import before
urls      addresses: read, and shown without the password
session   a connection, its clock, and the transaction of the books
adapters  statements in PostgreSQL's words, values in its types
schema    tables and functions: made, checked, migrated; the proof of the books in them. The scripts
          have the rules:
          tables, requests, rules, nodes   the tables, and what nothing may do to them
          rounds, settle, admit            one round of a node, in one call
          lives                            which nodes live, which died, and the requests that they left
          sums, rates                      what rounds count
          periods, months                  budgets' periods; partitions
versions  the version of the schema, and which older ones are migrated
books     implements `Books`
moving    every row as records, and a ledger made of them: for the extra `moves`
nodes     the processes that serve, and what they count beside the books; dead nodes, and months
feed      other processes' changes, of which a node is notified, or which it finds by polling
serving   opens a `ServingLedger` on it: connects, proves, loads, registers the node; reads receipts
shared    holds that are stored at once, declined ones, locked accounts: a `ServingLedger` of several
store     carries out rounds; connects again when the database was away
messages  a round's items as JSON, and its answer
statement one statement on the event loop, without a thread

A request's way through it:

    1. `hold` decides by what this node knows. `confirm` queues the admission, and waits.
    2. A round takes all that waits: one call of `run_round`, one transaction. It verifies that the
       node was not taken over, locks the accounts by id, settles, then admits by the same rules.
    3. The settlement is in a later round. Both are awaited as with SQLite.
    4. If the answer to a round is lost, the next one asks by request id what became of it.
    5. A node that is not seen for seconds is taken over: its requests are interrupted, once.
    6. An account that a stranger has locked is left out of rounds until it is free.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gateway.extension import Extra

if TYPE_CHECKING:
    from gateway.extras.moves.ledgers import Mover
    from gateway.ledger.opening import Databases


def _find_databases() -> Databases:
    from gateway.extras.postgres.opening import DATABASES

    return DATABASES


def _add_to_moves() -> Mover:
    from gateway.extras.postgres import opening

    return opening


EXTRA = Extra(needs=("packages",), adds_to={"moves": _add_to_moves}, databases=_find_databases)
