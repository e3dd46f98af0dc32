"""Alerts: raised once, queued until delivered. Rows come as one JSON array, see `database.read_rows`."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final

import orjson

from gateway.ledger.alert_records import (
    KEPT_MS,
    Alert,
    AlertKind,
    AlertView,
    Channel,
    Due,
    Hook,
    make_alert_id,
    write_alert,
)
from gateway.ledger.sql.database import Connection, Part, read_account_name, read_script
from gateway.money import format_amount

MAX_AT_ONCE: Final = 500
"""Alerts about balances that one look raises: a new threshold may be above every balance."""
PER_RECEIVER: Final = 4
"""Alerts of one receiver that are due at once: one that hangs holds no others up."""

_SQL: Final = read_script(__file__)


class AlertBook(Part):
    """Alerts, queued until they are delivered. `channels` are the operator's configured ones."""

    def raise_all(self, alerts: Sequence[Alert], channels: Collection[Channel]) -> None:
        """Queue those that were not raised before, to the operator and to the holder's webhook."""
        if not alerts:
            return
        with self._database.changing() as connection:
            connection.execute(_SQL["forget"], (self._database.clock() - KEPT_MS,))
            for alert in alerts:
                self._raise(connection, alert, channels)

    def raise_test(self, account_id: int | None, channels: Collection[Channel]) -> None:
        """Queue a test: to the holder of the account, or to the operator."""
        alert = Alert("test", "test", make_alert_id(), "This is a test.", account_id)
        self.raise_all([alert], channels)

    def follow(
        self,
        kind: AlertKind,
        standing: Mapping[str, str],
        ended: Mapping[str, str],
        channels: Collection[Channel],
        unknown: Collection[str] = (),
    ) -> None:
        """Raise what stands and was not told yet; tell the end of what was told and has ended.

        Both are texts by subject; an end with the text "" is not told. Subjects that this process
        cannot judge are `unknown`: they stay as they are. What is in none of them is forgotten.
        """
        # Read outside a change, which would wait for others: nearly every look finds nothing new.
        told = set(self._database.read_rows(_SQL["conditions"], (kind,)))
        begun, over = standing.keys() - told, told - standing.keys() - set(unknown)
        if not begun and not over:
            return
        with self._database.changing() as connection:
            for subject in begun:
                if now_ms := self._begin(connection, kind, subject):
                    alert = Alert(kind, subject, str(now_ms), standing[subject])
                    self._raise(connection, alert, channels)
            for subject in over:
                is_mine = connection.execute(_SQL["end"], (kind, subject)).rowcount
                if is_mine and (text := ended.get(subject)):
                    end = Alert(kind, subject, f"{self._database.clock()} end", text, state="ended")
                    self._raise(connection, end, channels)

    def follow_balances(
        self, default_nano: int | None, currency: str, channels: Collection[Channel]
    ) -> None:
        """Raise an alert for each account that fell below its threshold since it was last above."""
        wanted = {"default": default_nano, "most": MAX_AT_ONCE}
        with self._database.snapshot():
            risen = self._database.read_rows(_SQL["risen"], wanted)
            fallen = self._database.read_rows(_SQL["fallen"], wanted)
        if not risen and not fallen:
            return
        with self._database.changing() as connection:
            for subject in risen:
                connection.execute(_SQL["end"], ("low_balance", subject))
            for account_id, name, balance_nano, threshold_nano in fallen:
                now_ms = self._begin(connection, "low_balance", str(account_id))
                if not now_ms:
                    continue
                text = (
                    f"The balance of account '{name}' is {format_amount(balance_nano)} {currency},"
                    f" below {format_amount(threshold_nano)} {currency}."
                )
                alert = Alert("low_balance", name, str(now_ms), text, account_id)
                self._raise(connection, alert, channels)

    def read_due(self, limit: int) -> list[Due]:
        """Return what is due, those of each receiver in turn."""
        # SQLite promises no order within json_group_array; rows begin with what they are sorted by.
        wanted = {"now": self._database.clock(), "most": PER_RECEIVER}
        rows = sorted(self._database.read_rows(_SQL["due"], wanted))
        return [
            Due(*(*row, Hook(*hook) if row[1] == "holder" and hook[0] else None))
            for row, hook in ((one[3:9], one[9:]) for one in rows[:limit])
        ]

    def claim(self, alert_ids: Sequence[str], until_ms: int) -> set[str]:
        """Take alerts that are due, so that nobody else has them due before a time.

        Return those that were taken; the others were taken by another process.
        """
        with self._database.changing() as connection:
            now_ms = self._database.clock()
            return {
                alert_id
                for alert_id in alert_ids
                if connection.execute(_SQL["claim"], (until_ms, alert_id, now_ms)).rowcount
            }

    def note_delivered(self, alert_id: str) -> None:
        with self._database.changing() as connection:
            connection.execute(_SQL["delivered"], (self._database.clock(), alert_id))

    def note_failure(self, alert_id: str, reason: str, next_try_ms: int | None) -> None:
        """Keep why a try failed, and when the next one is; None: it was the last.

        It changes nothing if another process delivered the alert meanwhile.
        """
        with self._database.changing() as connection:
            connection.execute(_SQL["failed"], (next_try_ms, reason, alert_id))

    def read_latest(self, limit: int, account_id: int | None = None) -> list[AlertView]:
        """Return the latest alerts to the operator, or to an account's holder."""
        rows = self._database.read_rows(_SQL["latest"], {"account": account_id, "limit": limit})
        views = [
            AlertView(id_, channel, kind, orjson.loads(body)["text"], *rest)
            for id_, channel, kind, body, *rest in rows
        ]
        return sorted(views, key=lambda one: (one.created_ms, one.id), reverse=True)

    def read_hook(self, account_id: int) -> Hook:
        row = self._database.read_one(_SQL["hook"], (account_id,))
        return Hook(*row) if row else Hook(None, None, None)

    def set_hook(self, account_id: int, hook: Hook) -> None:
        with self._database.changing() as connection:
            row = (account_id, hook.url, hook.secret, hook.low_balance_nano)
            connection.execute(_SQL["set hook"], row)
            # The address may hold a secret, so that it is no part of the event.
            said = "without a webhook" if hook.url is None else "with a webhook"
            name = read_account_name(connection, account_id)
            self._database.note("alerts.edit", account=name, detail=said)

    def _begin(self, connection: Connection, kind: AlertKind, subject: str) -> int:
        """Begin a condition; return since when it stands, or 0 if it does already."""
        now_ms = self._database.clock()
        return now_ms if connection.execute(_SQL["begin"], (kind, subject, now_ms)).rowcount else 0

    def _raise(self, connection: Connection, alert: Alert, channels: Collection[Channel]) -> None:
        """Queue an alert for each receiver; a test goes to one only."""
        receivers: list[Channel] = [*channels]
        if alert.account_id is not None:
            if alert.kind == "test":
                receivers = []
            row = connection.execute(_SQL["hook"], (alert.account_id,)).fetchone()
            if row is not None and row[0] is not None:
                receivers.append("holder")
        now_ms = self._database.clock()
        # The same key in every process: the constraint on it lets an occurrence be raised once.
        key = ":".join(alert.key)
        account_id = alert.account_id
        name = None if account_id is None else read_account_name(connection, account_id)
        for channel in receivers:
            alert_id = make_alert_id()
            body = write_alert(alert, alert_id, name, now_ms)
            row = (alert_id, key, channel, alert.kind, account_id, body, now_ms, now_ms)
            connection.execute(_SQL["raise"], row)
