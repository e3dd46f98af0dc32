"""The table of implementations: what a row does not have is said there, and nowhere else."""

from __future__ import annotations

from collections.abc import Callable

from tests.ledger.contract.implementations import IMPLEMENTATIONS, Needs, find_able, needs


def test_an_implementation_runs_what_asks_for_nothing_it_lacks() -> None:
    def plain() -> None: ...

    @needs(Needs.PROCESSES)
    def shared() -> None: ...

    @needs(Needs.PROCESSES, Needs.BOOKS)
    def whole() -> None: ...

    @needs(Needs.NODES)
    def of_nodes() -> None: ...

    def name(test: Callable[..., object]) -> list[str]:
        return [one.name for one in find_able(test)]

    assert name(plain) == ["sqlite", "postgres", "memory"]
    assert name(shared) == name(whole) == ["sqlite", "postgres"]
    assert name(of_nodes) == ["postgres"]


def test_each_capability_is_had_by_what_is_shipped() -> None:
    shipped = {one.name: one.has for one in IMPLEMENTATIONS if one.has}
    assert shipped.keys() == {"sqlite", "postgres"}
    assert frozenset().union(*shipped.values()) == frozenset(Needs)
