"""The requests of a transcript in `played/`, and how they are written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(slots=True)
class Ask:
    """A request of a transcript, and what is told of it and of those that stand with it."""

    line: str
    scripts: list[str] = field(default_factory=list)
    why: str = ""
    told: list[str] = field(default_factory=list)


def read_asks(text: str) -> list[Ask]:
    """Read the requests of a transcript, one for each of the scripts that stand in one place."""
    asks: list[Ask] = []
    why, told = "", [""]
    for line in text.splitlines()[1:]:
        mark, _, rest = line.partition(" ")
        if line.startswith(("#", "$", "<", "|")):
            told = told if told == [] else []
        match mark:
            case "#":
                why += f"{line}\n"
            case "$":
                asks.append(Ask(rest, [], why, told))
                why = ""
            case "<" | "<<" if asks[-1].told is told:
                asks[-1].scripts.append(line)
            case "<" | "<<":
                asks.append(Ask(asks[-1].line, [line], why, told))
                why = ""
            case "|":
                place = asks[-1].scripts[-1].partition(" ")[0]
                scripts = [*asks[-1].scripts[:-1], f"{place} {rest}"]
                asks.append(Ask(asks[-1].line, scripts, "", told))
            case _:
                told += [line] if line else []
    return asks


def write_asks(asks: Sequence[Ask], played: Sequence[str]) -> str:
    """Write requests; those that follow each other and are told the same are told it once."""
    new, last = "", Ask("")
    for ask, text in zip(asks, played, strict=True):
        told, alike = (
            text.splitlines(),
            (ask.line, ask.scripts[:-1]) == (last.line, last.scripts[:-1]),
        )
        joins = told == last.told and not ask.why
        if joins:
            new = new.removesuffix(f"{text}\n")
        if joins and alike and ask.scripts:
            new += f"| {ask.scripts[-1].partition(' ')[2]}\n"
        else:
            again = ask.line == last.line and ask.scripts and not joins
            new += ask.why + "\n".join([*([] if again else [f"$ {ask.line}"]), *ask.scripts, ""])
        new, last = f"{new}{text}\n", Ask(ask.line, ask.scripts, "", told)
    return new
