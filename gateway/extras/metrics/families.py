"""Families of numbers, and their text in Prometheus's exposition format 0.0.4, without I/O.

A family has one series for each tuple of label values that was seen. It is counted on the event loop;
`freeze` copies it there, and the text of the copies is made in another thread.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import ClassVar, Final

Labels = tuple[str, ...]
"""The values of a family's labels, in their order."""

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_ESCAPES: Final = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


class Family:
    """Numbers under one name: a gauge, unless a subclass counts or measures."""

    kind: ClassVar[str] = "gauge"

    def __init__(self, name: str, doc: str, labels: Labels = ()) -> None:
        self.name, self.doc, self.labels = name, doc, labels

    def render(self, values: Mapping[Labels, float]) -> Iterator[str]:
        """Yield the family's lines, with one value for each tuple of label values."""
        yield from self._begin()
        for labels, value in values.items():
            yield f"{self.name}{_brace(self._name(labels))} {format_number(value)}\n"

    def _begin(self) -> Iterable[str]:
        return f"# HELP {self.name} {self.doc}\n", f"# TYPE {self.name} {self.kind}\n"

    def _name(self, values: Labels) -> str:
        pairs = zip(self.labels, values, strict=True)
        return ",".join(f'{name}="{value.translate(_ESCAPES)}"' for name, value in pairs)


class Counter(Family):
    """Numbers that only grow."""

    kind = "counter"

    def __init__(self, name: str, doc: str, labels: Labels = ()) -> None:
        super().__init__(name, doc, labels)
        self._values: dict[Labels, int] = {}

    def add(self, labels: Labels, amount: int = 1) -> None:
        self._values[labels] = self._values.get(labels, 0) + amount

    def freeze(self) -> Iterator[str]:
        """Copy the present values; return what makes their lines, in any thread."""
        return self.render(dict(self._values))


class Histogram(Family):
    """Measured values, counted in the bucket with the smallest bound at or above them."""

    kind = "histogram"

    def __init__(self, name: str, doc: str, bounds: Sequence[float], labels: Labels = ()) -> None:
        super().__init__(name, doc, labels)
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

    def freeze(self) -> Iterator[str]:
        """Copy the present values; return what makes their lines, in any thread."""
        counts = {labels: [*one] for labels, one in self._counts.items()}
        return self._render_buckets(counts, dict(self._sums))

    def _render_buckets(
        self, counts: Mapping[Labels, Sequence[int]], sums: Mapping[Labels, float]
    ) -> Iterator[str]:
        name, bounds = self.name, [*map(format_number, self._bounds), "+Inf"]
        yield from self._begin()
        for labels, numbers in counts.items():
            shown, total = self._name(labels), 0
            for bound, number in zip(bounds, numbers, strict=True):
                total += number
                yield f'{name}_bucket{{{shown}{"," if shown else ""}le="{bound}"}} {total}\n'
            yield f"{name}_sum{_brace(shown)} {format_number(sums[labels])}\n"
            yield f"{name}_count{_brace(shown)} {total}\n"


def format_number(value: float) -> str:
    """Format a number as Prometheus reads it; whole numbers of any size stay exact."""
    return str(value) if isinstance(value, int) else repr(value).removesuffix(".0")


def _brace(labels: str) -> str:
    return f"{{{labels}}}" if labels else ""
