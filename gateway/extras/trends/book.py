"""Read trends from the rows of calls or, if these are too many, from the sums by hour."""

from __future__ import annotations

from typing import Final

from gateway.base.times import HOUR_MS
from gateway.config.records import Config
from gateway.extras.reports.records import CallFilter
from gateway.extras.trends import rows, sums
from gateway.extras.trends.records import Span, Trends, make_span
from gateway.ledger.records import Refused
from gateway.ledger.sql.database import Part

_NAMES: Final = "SELECT json_group_array(json_array(id, name)) FROM accounts"


class TrendBook(Part):
    def read(self, chosen: CallFilter, first_ms: int, end_ms: int, config: Config) -> Trends:
        """Return the trends of calls that began in [first, end). Raises Refused."""
        span = make_span(first_ms, end_ms)
        whole = Span(span.before.first_ms, span.end_ms, span.step_ms)
        with self._database.snapshot():
            names: dict[int, str] = dict(self._database.read_rows(_NAMES))
            calls = rows.RowBook(self._database).read(chosen, whole)
            if calls is not None:
                return rows.compute(calls, span, names)
            span = make_span(first_ms, end_ms, HOUR_MS)
            if sums.can_tell(chosen) and sums.are_kept(span, self._database.clock()):
                return sums.SumBook(self._database).compute(chosen, span, config, names)
        raise Refused(
            f"more than {rows.MAX_CALLS:,} calls of this time and the one before match; choose a shorter"
            " time, or only an account, or only a provider",
            code="range_too_long",
            field="from",
        )
