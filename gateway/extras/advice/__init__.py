"""Advice about gateway.toml and files: what a mistake was meant for, and what cannot be meant though it is well formed.

Without it the same files are read, and errors give the rule alone: no "did you mean", no word of other programs'
files, no owner of a file that this user may not use. Nothing is said against a placeholder in the place of a key,
an endpoint in that of an address, a pattern in that of a model's name, a price of another unit or below its cost, a
secret that others can read.

mistaken     what stands in the place of a secret, a model's name, an address or a price by mistake
meant        what was meant by a name that no setting has, or by text that is not TOML
plausible    prices that no vendor comes near
likeness     names of accounts that people may take for others
literals     secrets that are written out in the file, and others who may read them
overlaps     rules of prices that may hold for one request
losses       warnings of prices below their cost, of rules that meet, of addresses that are not found
obstacles    what keeps a user from a file, and what to type
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from gateway.extension import Advice, Extra

if TYPE_CHECKING:
    from gateway.config.records import Config


def _list_warnings(config: Config) -> Iterator[str]:
    from gateway.extras.advice.losses import list_warnings

    return list_warnings(config)


def _add_to_operations() -> object:
    from gateway.extras.advice.losses import list_losses

    return list_losses


def _make_advice() -> Advice:
    from gateway.extras.advice import likeness, literals, meant, mistaken, obstacles, plausible

    return Advice(
        guess=meant.guess,
        explain=meant.explain,
        judge=mistaken.judge,
        find_mistake=mistaken.find_mistake,
        judge_model=plausible.judge_model,
        judge_dollars=plausible.judge_dollars,
        list_warnings=_list_warnings,
        note_names=likeness.note_names,
        find_literals=literals.find_literals,
        warn_of_literals=literals.warn_of_literals,
        find_obstacle=obstacles.find_obstacle,
        explain_error=obstacles.explain_error,
    )


EXTRA = Extra(adds_to={"operations": _add_to_operations}, make_advice=_make_advice)
