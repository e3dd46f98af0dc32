"""Shared ledgers in `tests.api.lives`: the memory, queue and writer of this extra over SQLite."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields

from gateway.base.errors import NoFunds
from gateway.extras.postgres.shared import SharedLedger, SharedReport, SharedWriter
from gateway.ledger.serving.queue import Item, Report
from tests.api.lives.ledger import ScriptedStore, Took, WatchedLedger
from tests.api.lives.loop import Log


class SharedLife(WatchedLedger, SharedLedger):
    def __init__(self, store: ScriptedStore, log: Log) -> None:
        super().__init__(store, log, SharedWriter)
        # SQLite takes no charge back.
        self._writer.takes_back = False


def share(report: Took) -> Took:
    """Let reports of rounds be those of a shared store."""

    def tell(told: Report | BaseException) -> None:
        if isinstance(told, Report) and not isinstance(told, SharedReport):
            told = SharedReport(**{one.name: getattr(told, one.name) for one in fields(told)})
        report(told)

    return tell


def decline(rows: Sequence[Item]) -> SharedReport:
    return SharedReport(declined=[(item, NoFunds("balance held")) for item in rows])
