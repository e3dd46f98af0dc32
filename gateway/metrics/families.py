"""Families of metrics, and their text in Prometheus's exposition format 0.0.4.

A family has one series for each tuple of label values that was seen. It is counted on the event
loop; `freeze` copies it there, and the text of the copies is made in another thread.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

Labels = tuple[str, ...]
"""The values of a family's labels, in their order."""

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_ESCAPES: Final = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


@dataclass(frozen=True, slots=True)
class Name:
    """The name of a family, its labels, and what it counts or measures."""

    name: str
    labels: tuple[str, ...]
    doc: str


class Family(Protocol):
    """Numbers under one name."""

    name: Name

    def freeze(self) -> Callable[[], Iterator[str]]:
        """Copy the present values; return what makes their lines."""


class Counter:
    """Numbers that only grow."""

    __slots__ = ("_values", "name")

    def __init__(self, name: str, doc: str, labels: Labels = ()) -> None:
        self.name = Name(name, labels, doc)
        self._values: dict[Labels, int] = {}

    def add(self, labels: Labels, amount: int = 1) -> None:
        self._values[labels] = self._values.get(labels, 0) + amount

    def freeze(self) -> Callable[[], Iterator[str]]:
        values = dict(self._values)
        return lambda: render_values(self.name, "counter", values)


class Histogram:
    """Measured values, counted by the smallest bound that is not below them."""

    __slots__ = ("_bounds", "_counts", "_sums", "name")

    def __init__(self, name: str, doc: str, bounds: Sequence[float], labels: Labels = ()) -> None:
        self.name = Name(name, labels, doc)
        self._bounds = bounds
        self._counts: dict[Labels, list[int]] = {}
        self._sums: dict[Labels, float] = {}

    def observe(self, labels: Labels, value: float) -> None:
        counts = self._counts.get(labels)
        if counts is None:
            counts = self._counts[labels] = [0] * (len(self._bounds) + 1)
            self._sums[labels] = 0.0
        counts[bisect_left(self._bounds, value)] += 1
        self._sums[labels] += value

    def freeze(self) -> Callable[[], Iterator[str]]:
        counts, sums = {labels: [*one] for labels, one in self._counts.items()}, dict(self._sums)
        return lambda: self._render(counts, sums)

    def _render(
        self, counts: Mapping[Labels, Sequence[int]], sums: Mapping[Labels, float]
    ) -> Iterator[str]:
        name, bounds = self.name, [*map(format_number, self._bounds), "+Inf"]
        yield from _render_head(name, "histogram")
        for labels, numbers in counts.items():
            shown, total = _render_labels(name.labels, labels), 0
            for bound, number in zip(bounds, numbers, strict=True):
                total += number
                yield f'{name.name}_bucket{{{shown}{"," if shown else ""}le="{bound}"}} {total}\n'
            yield f"{name.name}_sum{_brace(shown)} {format_number(sums[labels])}\n"
            yield f"{name.name}_count{_brace(shown)} {total}\n"


def render_gauge(name: Name, values: Mapping[Labels, float]) -> Iterator[str]:
    """Make the lines of values that rise and fall, as they are at a scrape."""
    return render_values(name, "gauge", values)


def render_values(name: Name, kind: str, values: Mapping[Labels, float]) -> Iterator[str]:
    yield from _render_head(name, kind)
    for labels, value in values.items():
        shown = _brace(_render_labels(name.labels, labels))
        yield f"{name.name}{shown} {format_number(value)}\n"


def format_number(value: float) -> str:
    """Format a number as Prometheus reads it; whole numbers of any size stay exact."""
    return str(value) if isinstance(value, int) else repr(value).removesuffix(".0")


def _render_head(name: Name, kind: str) -> Iterable[str]:
    return (f"# HELP {name.name} {name.doc}\n", f"# TYPE {name.name} {kind}\n")


def _render_labels(names: Labels, values: Labels) -> str:
    pairs = zip(names, values, strict=True)
    return ",".join(f'{name}="{value.translate(_ESCAPES)}"' for name, value in pairs)


def _brace(labels: str) -> str:
    return f"{{{labels}}}" if labels else ""
