"""Sessions with a ledger, played as they are written in files.

    == the title of a session
    $ keys.edit key_1 {"name": "n"} own=[5, "day"] | terms.name    book, verb, values; fields to show
    n                                                              these fields, or what is no record
    $ key key_1 | held_nano => 0                                   what fits stands behind the command
    $ 3 x keys.create a {} key_#                                   three times, `#` being 1, 2 and 3
    $ serve one && hold theirs key_1 5                             one after the other; all but the last tell nothing

A refusal shows its kind, code, field and message. Words become what the verb takes: `key_1` a stored
secret of that id whose digest is made of the same word, `+5` the time 5 ms after
the start. Ids that the ledger makes have names. `$ later 5` sets the clock, and `$ events 9 key.` are the latest
events of such actions.
To write the answers anew:

    WRITE_SESSION=1 python -m pytest tests/ledger -k as_it_is_written && git diff
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, is_dataclass
from importlib import import_module
from pathlib import Path
from types import UnionType
from typing import (
    Any,
    ClassVar,
    Final,
    Literal,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

from gateway.base.errors import GatewayError
from gateway.extension import find_extras
from gateway.ledger.records import Actor, Refused, StoredSecret
from gateway.ledger.sql.books import Books
from gateway.ledger.sql.database import Part
from gateway.ledger.sql.rows import read_receipt
from tests.ledger.contract.kit import NOW_MS
from tests.support.books import read_events
from tests.support.layout import WIDTH
from tests.support.rows import told_together

BLOCK: Final = re.compile(r"((?:# .*\n)*)\$ (.*)\n((?:(?![#$] ).*\n?)*)")
"""Comments, a command, and what is told of it."""
MADE: Final = re.compile(r"\b(order|req)_[0-9a-z]{16,}")
USED: Final = re.compile(r"(?:^\$| &&) (\w+)\.\w+\.\w", re.MULTILINE)
"""The extra in `$ reports.usage.sum_by`."""
UNITS_MS: Final = {"": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
NEAR_MS: Final = 10**11
"""Numbers as near to the start of a session are times."""
NOTHING: Final = object()
"""The answer of a verb that has none."""
Play = Callable[[str], Awaitable[str]]


def read_sessions(*folders: Path) -> dict[str, tuple[Path, str]]:
    """Find the sessions of folders' files, by their names and titles, but for those with an extra that is missing."""
    return {
        f"{path.stem}: {text.splitlines()[0]}": (path, text)
        for folder in folders
        for path in sorted(folder.iterdir())
        for text in path.read_text(encoding="utf-8").split("== ")[1:]
        if find_extras().keys() >= {*USED.findall(text)}
    }


async def play_session(path: Path, text: str, play: Play) -> None:
    """Play a session of a file and compare what is told, or write it."""
    blocks = [
        (why, *line.split(" => ", 1)) if " => " in line else (why, line, told)
        for why, line, told in BLOCK.findall(text)
    ]
    played = [[await play(one) for one in line.split(" && ")] for _, line, _ in blocks]
    if "WRITE_SESSION" in os.environ:
        new = [
            why + _write_block(line.split(" && "), told)
            for (why, line, _), told in zip(blocks, played, strict=True)
        ]
        _write(path, text, "".join(new))
    with told_together() as row:
        for (_, line, expected), (*before, told) in zip(blocks, played, strict=True):
            with row(line):
                assert (told, any(before)) == (expected.strip("\n"), False)


def _write_block(commands: list[str], told: list[str]) -> str:
    """Write commands one after the other, up to each that tells something."""
    out, begun = "", "$ "
    for command, answer in zip(commands, told, strict=True):
        line = begun + command
        fits = "\n" not in answer and len(f"{line} => {answer}") <= WIDTH
        out += line + (" => " if fits else "\n") * bool(answer) + answer
        begun = "\n$ " if answer else " && "
    return f"{out}\n"


def _write(path: Path, text: str, played: str) -> None:
    head = text[: next(BLOCK.finditer(text)).start()]
    written = f"{head}{played}" + "\n" * text.endswith("\n\n")
    whole = path.read_text(encoding="utf-8")
    path.write_text(whole.replace(text, written), encoding="utf-8")


def digest(word: str) -> bytes:
    return word.encode().ljust(20 if word.startswith("secret") else 32)


def read_time(text: str) -> int:
    found = re.fullmatch(r"\+(-?\d+)([smhd]?)(?:([+-]\d+))?", text)
    assert found is not None, text
    return int(found[1]) * UNITS_MS[found[2]] + int(found[3] or 0)


def split(text: str) -> Iterator[tuple[str, Any]]:
    """Find the values of a command, with the name of each that has one."""
    decoder = json.JSONDecoder()
    while text := text.lstrip():
        name, text = (text.split("=", 1)) if re.match(r"[a-z_]+=", text) else ("", text)
        if text[0] in '{["':
            value, end = decoder.raw_decode(text)
        else:
            end = len(text.split(" ", 1)[0])
            value = text[:end]
            if re.fullmatch(r"-?\d+|null|true|false", value):
                value = json.loads(value)
        yield name, value
        text = text[end:]


@dataclass
class Clock:
    now_ms: int = NOW_MS

    def __call__(self) -> int:
        return self.now_ms


def find_part(books: Books, name: str) -> Any:
    """Return a part of the books, which an extra of this name may have in its module `book`, or `NAME.MODULE`."""
    if hasattr(books, name):
        return getattr(books, name)
    module = import_module(f"gateway.extras.{name if '.' in name else f'{name}.book'}")
    found = [
        one for one in vars(module).values() if isinstance(one, type) and issubclass(one, Part)
    ]
    (part,) = (one for one in found if one.__module__ == module.__name__)
    return part(books)


class Session:
    """One session: its books, and the names of what they made."""

    parts: ClassVar[Mapping[str, Callable[[Books], object]]] = {}
    """Makes parts of the books that extras have, by their names in commands."""

    def __init__(self, books: Books, clock: Clock) -> None:
        self._books, self._clock = books, clock
        self._names: dict[str, str] = {}
        self.words: dict[object, Callable[[str], object]] = {
            int: lambda text: NOW_MS + read_time(text),
            bytes: digest,
        }

    async def play(self, line: str) -> str:
        command, _, shown = line.partition(" | ")
        for made, name in self._names.items():
            command = re.sub(rf"\b{name}\b", made, command)
        try:
            told = await self.do(command)
            answer = " ".join(self._show(self._pick(told, one)) for one in shown.split() or [""])
        except Refused as error:
            words = (type(error).__name__, error.code, error.field, str(error))
            answer = " ".join(one for one in words if one)
        except GatewayError as error:
            answer = f"{type(error).__name__} {error.status} {error}"
        return MADE.sub(self._name, answer)

    def _name(self, found: re.Match[str]) -> str:
        kind = found[1]
        number = 1 + sum(name.startswith(kind) for name in self._names.values())
        return self._names.setdefault(found[0], f"{kind}_{number}")

    async def do(self, command: str) -> Any:
        verb, _, rest = command.partition(" ")
        if repeated := re.fullmatch(r"(\d+) x (.*)", command):
            numbers = range(1, int(repeated[1]) + 1)
            return [await self.do(repeated[2].replace("#", str(number))) for number in numbers][-1]
        match verb:
            case "later":
                self._clock.now_ms += read_time(f"+{rest}")
            case "actor":
                self._books.actor = Actor(*rest.split())
            case "events":
                return self.call(read_events, rest, books=self._books)
            case "receipt":
                return read_receipt(self._books.connection, request_id=rest)
            case _:
                return await self.act(verb, rest)
        return NOTHING

    async def act(self, verb: str, rest: str) -> Any:
        """Do what not every session can."""
        book, _, name = verb.rpartition(".")
        make = self.parts.get(book)
        part = make(self._books) if make else find_part(self._books, book) if book else self._books
        return self.call(getattr(part, name), rest)

    def call(self, method: Callable[..., Any], rest: str, **others: Any) -> Any:
        """Call a function with the values of a command, each made what it takes."""
        hints = get_type_hints(method)
        names = (name for name in hints if name not in others)
        given = [(name or next(names), value) for name, value in split(rest)]
        made = {name: self.make(hints[name], value) for name, value in given}
        answer = method(**others, **made)
        return NOTHING if answer is None and hints["return"] is type(None) else answer

    def make(self, kind: Any, value: Any) -> Any:
        """Make what a verb takes of a word, a number or JSON."""
        origin, arguments = get_origin(kind), get_args(kind)
        if value is None or origin is Literal:
            return value
        if origin in (Union, UnionType):
            return self.make(arguments[0], value)
        if isinstance(value, str) and kind in self.words:
            return self.words[kind](value)
        if is_typeddict(kind) or is_dataclass(kind):
            return self._make_record(kind, value)
        if isinstance(value, list):
            return tuple(self.make(arguments[0], one) for one in value)
        return value

    def _make_record(self, kind: Any, value: Any) -> Any:
        hints = get_type_hints(kind)
        if isinstance(value, str):
            value = {"id": value}
        if isinstance(value, list):
            value = dict(zip(hints, value, strict=False))
        if kind is StoredSecret:
            value = {"digest": value["id"], "last4": "AAAA", **value}
        return kind(**{name: self.make(hints[name], one) for name, one in value.items()})

    def _show(self, value: Any) -> str:
        if value is NOTHING or is_dataclass(value):
            return ""
        if isinstance(value, set):
            value = sorted(value)
        if isinstance(value, (list, tuple)):
            return f"[{', '.join(map(self._show, value))}]"
        if isinstance(value, bytes):
            return value.decode().rstrip()
        if isinstance(value, int) and abs(value - NOW_MS) < NEAR_MS:
            return f"{value - NOW_MS:+d}"
        return (
            value
            if isinstance(value, str) and value
            else json.dumps(value, default=str, sort_keys=True)
        )

    def _pick(self, value: Any, path: str) -> Any:
        """Follow names and numbers; `*` stands for each of a list."""
        name, _, rest = path.partition(".")
        if not name or value is None:
            return value
        if name == "*":
            return [self._pick(one, rest) for one in value]
        found = value[int(name)] if name.isdigit() else getattr(value, name)
        return self._pick(found(self._clock()) if callable(found) else found, rest)
