"""The verbs for what the server counts beside the books: how providers answer, and refusals."""

from __future__ import annotations

from typing import Final

from gateway.admin import observations
from gateway.cli.command import Command
from gateway.cli.output import Column, Columns, render_table
from gateway.cli.verbs import ACCOUNT, JSON, SINCE, verb
from gateway.ledger import CallSums, RefusalView, UpstreamFailure
from gateway.times import DAY_MS, format_moment

RECENT_MS: Final = 7 * DAY_MS
"""How far back refusals are shown unless another time is asked for."""

_PROVIDERS: Final = (
    *map(Column, ("PROVIDER", "MODEL THERE", "STATE")),
    *(Column(title, right=True) for title in ("LAST HOUR", "TODAY")),
    Column("LAST FAILURE"),
)
_REFUSALS: Final[Columns[RefusalView]] = (
    ("LAST UTC", lambda one: format_moment(one.last_ms)),
    ("ACCOUNT", lambda one: "unknown key" if one.account is None else one.account),
    ("CODE", lambda one: one.code),
    ("MODEL", lambda one: one.model or "-"),
    ("REQUESTS", lambda one: str(one.count)),
    ("LAST REQUEST", lambda one: one.last_request_id),
)


@verb("providers", "providers", "providers --json", arguments=(JSON,))
def providers(command: Command) -> None:
    with command.open_books() as books:
        rows = observations.list_upstream(books, command.config)
    judged = [
        (row.provider.name, row.upstream_model, observations.judge([row.seen])) for row in rows
    ]
    command.show(
        [
            {"provider": name, "model": model, **observations.describe_upstream(state)}
            for name, model, state in judged
        ],
        render_table(_PROVIDERS, [_make_cells(*row) for row in judged]),
    )


@verb(
    "refusals",
    "refusals",
    "refusals --account alice --since yesterday",
    arguments=(ACCOUNT, SINCE, JSON),
)
def refusals(command: Command, account: str | None, since: int | None) -> None:
    with command.open_books() as books:
        since_ms = books.clock() - RECENT_MS if since is None else since
        rows = observations.list_refusals(books, account, since_ms)
    command.show_list(rows, observations.describe_refusal, _REFUSALS)


def _make_cells(provider: str, model: str, state: observations.UpstreamState) -> tuple[str, ...]:
    return (
        provider,
        model,
        state.words,
        _describe_sums(state.hour),
        _describe_sums(state.today),
        _describe_last(state),
    )


def _describe_sums(sums: CallSums) -> str:
    return f"{sums.calls}, {sums.failures} failed" if sums.failures else str(sums.calls)


def _describe_last(state: observations.UpstreamState) -> str:
    failure = state.failure
    if failure is None:
        return "-"
    return f"{format_moment(failure.at_ms)} {describe_failure(failure)} {failure.request_id}"


def describe_failure(failure: UpstreamFailure) -> str:
    """Return why the provider failed, and at which address."""
    return " at ".join(filter(None, (failure.reason, failure.url)))
