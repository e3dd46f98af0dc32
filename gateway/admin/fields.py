"""How a record is shown: one list of its fields gives JSON and tables.

    REFUSAL = Fields[RefusalView](
        "account",                                  an attribute; "terms.name" is one of an attribute
        ("requests", "count"),                      under another name
        ("label", lambda one: LABELS[one.code]),    computed from the record
        "last_ms",
        table=("last_ms", (">REQUESTS", "requests"), ("ACCOUNT", find_name)),
    )
    REFUSAL.describe(row)               the object for JSON
    REFUSAL.names                       the names of its members
    REFUSAL.columns                     titles and functions, as `cli.output.render` takes them

The suffix of a name is the unit of its value: `…_nano` is an amount, which JSON has twice, as a
decimal string and, under `…_nano`, in nano-units; `…_ms` is a time, whose name loses the suffix in
JSON; `tokens` are counts by class, `more` are members of their own. A method is called with the
present time, as `status` wants it.
A column of a table is a member, or another attribute, whose title is its name (`LAST UTC`), or a title
with one or with a function. `>` in a title aligns to the right, and `{}` is the currency.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from typing import Final, Generic, TypeVar

from gateway.base.money import Tokens, describe_amount, describe_tokens, format_amount
from gateway.base.times import format_iso, format_moment, unix_ms

Row = TypeVar("Row")
Whole = TypeVar("Whole")
Value = TypeVar("Value")
Member = tuple[str, Callable[[Row], object]]
Columns = tuple[tuple[str, Callable[[Row], str]], ...]
"""The title and the cell of each column of a table."""

_DURATIONS: Final = frozenset(
    {"first_byte_ms", "total_ms"}
    | {f"{what}_{part}_ms" for what in ("first_byte", "total") for part in ("p50", "p95")}
)
"""Members that are durations, not times, so they keep the suffix."""


class Fields(Generic[Row]):
    """The fields of a record, in the order of its JSON object."""

    def __init__(
        self,
        *members: str | tuple[str, str | Callable[[Row], object]],
        table: Sequence[str | tuple[str, str | Callable[[Row], str]]] = (),
    ) -> None:
        self.members: tuple[Member[Row], ...] = tuple(map(_make_member, members))
        self.columns: Columns[Row] = tuple(
            _make_column(column, dict(self.members)) for column in table
        )

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of the JSON object's members."""
        return tuple(part for name, _ in self.members for part in _spread(name, None))

    def describe(self, row: Row, now_ms: int | None = None) -> dict[str, object]:
        """Return the record as an object for JSON; `now_ms` is the time of its status."""
        described: dict[str, object] = {}
        for name, read in self.members:
            value = read(row)
            if callable(value):  # a method such as `status`
                value = value(unix_ms() if now_ms is None else now_ms)
            described |= _spread(name, value)
        return described

    def under(self, find: Callable[[Whole], Row]) -> Fields[Whole]:
        """Return the same fields for a record that this one is a part of."""
        part = Fields[Whole]()
        part.members = tuple((name, _chain(find, read)) for name, read in self.members)
        part.columns = tuple((title, _chain(find, write)) for title, write in self.columns)
        return part


def describe(record: object, *names: str) -> dict[str, object]:
    """Return these attributes of a record for JSON."""
    return Fields[object](*names).describe(record)


def _chain(find: Callable[[Whole], Row], read: Callable[[Row], Value]) -> Callable[[Whole], Value]:
    return lambda whole: read(find(whole))


def _make_member(member: str | tuple[str, str | Callable[[Row], object]]) -> Member[Row]:
    if isinstance(member, str):
        return member.rpartition(".")[2], attrgetter(member)
    name, source = member
    return name, attrgetter(source) if isinstance(source, str) else source


def _make_column(
    column: str | tuple[str, str | Callable[[Row], str]],
    members: Mapping[str, Callable[[Row], object]],
) -> tuple[str, Callable[[Row], str]]:
    title, source = (_make_title(column), column) if isinstance(column, str) else column
    if not isinstance(source, str):
        return title, source
    find, name = members.get(source) or attrgetter(source), source
    return title, lambda row: _write_cell(name, find(row))


def _make_title(name: str) -> str:
    """Return the title of a column: `CREATED UTC` for `created_ms`, `>CAP {}` for `terms.cap_nano`."""
    title = name.rpartition(".")[2].upper().replace("_", " ")
    if title.endswith(" NANO"):
        return f">{title.removesuffix(' NANO')} {{}}"
    return f"{title.removesuffix(' MS')} UTC" if title.endswith(" MS") else title


def _spread(name: str, value: object) -> Mapping[str, object]:
    """Return the members of JSON that a value becomes."""
    if name.endswith("_nano"):
        assert value is None or isinstance(value, int)
        return describe_amount(name.removesuffix("_nano"), value)
    if name.endswith("_ms") and name not in _DURATIONS:
        assert value is None or isinstance(value, int)
        return {name.removesuffix("_ms"): format_iso(value)}
    if name == "more":  # members of its own
        return value if isinstance(value, Mapping) else {}
    if name == "tokens":
        return describe_tokens(value if isinstance(value, Tokens) else Tokens())
    return {name: value}


def _write_cell(name: str, value: object) -> str:
    """Write a value for people; "-" is nothing."""
    if value is None or value == "":
        return "-"
    if isinstance(value, int) and name.endswith("_nano"):
        return format_amount(value)
    if isinstance(value, int) and name.endswith("_ms"):
        return format_moment(value)
    return str(value)


def printable(cell: str) -> str:
    """Replace unprintable characters, such as codes that move a terminal's cursor."""
    if cell.isprintable():
        return cell
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in cell)


def name_process(pid: int, host: str | None = None) -> str:
    """Name a process, by default one of this machine."""
    return f"process {pid} on {host or socket.gethostname()}"
