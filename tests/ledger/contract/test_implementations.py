"""The table of implementations: what a row does not have is said there, and nowhere else."""

from __future__ import annotations

from tests.ledger.contract.implementations import IMPLEMENTATIONS, Needs, find_able, needs


def test_an_implementation_runs_what_asks_for_nothing_it_lacks() -> None:
    def plain() -> None: ...

    @needs(Needs.PROCESSES)
    def shared() -> None: ...

    @needs(Needs.PROCESSES, Needs.BOOKS)
    def whole() -> None: ...

    assert find_able(plain) == list(IMPLEMENTATIONS)
    for test in (shared, whole):
        assert find_able(test) == [one for one in IMPLEMENTATIONS if one.has]


def test_each_capability_is_had_by_what_is_shipped() -> None:
    assert {one.name: one.has for one in IMPLEMENTATIONS} == {
        "sqlite": frozenset(Needs),
        "memory": frozenset(),
    }
