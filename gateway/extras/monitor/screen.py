"""A snapshot as text that fits a terminal, and the terminal while it is shown."""

from __future__ import annotations

import os
import select
import signal
import termios
import time
import tty
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import accumulate
from typing import Final, NoReturn, TextIO
from unicodedata import east_asian_width

from gateway.base.money import NANO, format_amount
from gateway.base.times import format_iso
from gateway.cli.output import render_table
from gateway.extras.monitor.snapshot import Call, ProviderLine, Snapshot

QUIT: Final = "q"
"""The key that ends `top`."""
_CENT: Final = NANO // 100
"""The nano-units to which balances are rounded: nobody acts on less."""
_ENDING: Final = (signal.SIGTERM, signal.SIGHUP)
_KEYS: Final = 64
"""Bytes of keys that are read at once: nobody types more between two looks."""
_SIGNALLED: Final = 128
"""The exit code of a signal is this and its number, as shells report it."""
_SECONDS: Final = 60
"""Seconds over which rates are counted: over fewer, the rate of a quiet gateway would jump."""
_BEGIN: Final = "\x1b[?1049h\x1b[?25l"
"""Shows the terminal's other screen, and hides the cursor."""
_END: Final = "\x1b[?25h\x1b[?1049l"
"""Shows the cursor, and what was on the terminal before."""
_HOME: Final = "\x1b[H"
_REST: Final = "\x1b[K"
"""Empties the rest of a line."""
_BELOW: Final = "\x1b[J"
"""Empties the lines below."""

_PLAIN: Final = "\x1b[0m"
_RED: Final = "\x1b[31m"
_YELLOW: Final = "\x1b[33m"
_SLOW_MS: Final = 30_000
"""A call that takes longer is yellow: people wait for less."""

Row = tuple[str, tuple[str, ...]]
"""The row's colour, or "", and its cells."""
Table = tuple[tuple[str, ...], list[Row]]
"""Titles as `render_table` takes them, and rows."""


def has_colours(out: TextIO) -> bool:
    """Return whether `out` is a terminal that shows colours, and its owner wants them."""
    is_plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"  # see no-color.org
    return out.isatty() and not is_plain


def draw(snapshot: Snapshot, width: int, height: int, *, coloured: bool = False) -> str:
    """Return at most `height` lines of at most `width` columns."""
    at = format_iso(snapshot.at_ms)[:19].replace("T", " ")
    calls, tokens = _per_second(snapshot.calls), _per_second(snapshot.tokens.total)
    rates = f"calls/s {calls}   tokens/s {tokens}   charged/min"
    lines = [
        f"{at} UTC   in flight {snapshot.in_flight}",
        f"{rates} {format_amount(snapshot.charged_nano)} {snapshot.currency}",
    ]
    tables = [(titles, rows) for titles, rows in _make_tables(snapshot) if rows]
    if not tables:
        lines += ["", "No calls today, and none in flight."]
    tones = [""] * len(lines)
    for (titles, rows), shown in zip(
        tables, _share([len(rows) for _, rows in tables], height - len(lines)), strict=True
    ):
        if shown:
            lines += ["", *render_table(titles, [row for _, row in rows[:shown]]).splitlines()]
            tones += ["", "", *(tone for tone, _ in rows[:shown])]
    cut = [_cut(line, width) for line in lines[:height]]
    if coloured:
        cut = [
            f"{tone}{line}{_PLAIN}" if tone else line
            for line, tone in zip(cut, tones, strict=False)
        ]
    return "\n".join(cut)


def _cut(line: str, width: int) -> str:
    """Cut a line that would be wrapped; a wide character, as of Chinese, takes two columns."""
    ends = accumulate(1 + (east_asian_width(one) in "WF") for one in line)
    return "".join(one for one, end in zip(line, ends, strict=True) if end <= width)


def _per_second(count: int) -> str:
    """Write a rate with one decimal, in whole numbers."""
    tenths = count * 10 // _SECONDS
    return f"{tenths // 10:,}.{tenths % 10}"


def _share(wanted: Sequence[int], room: int) -> list[int]:
    """Return how many rows each table shows: a row for each if there is room, then one more in turn."""
    shown = [0] * len(wanted)
    for place in range(len(wanted)):
        if room >= (needed := 3):  # an empty line, the titles, a row
            shown[place], room = 1, room - needed
    while room > 0 and any(0 < has < want for has, want in zip(shown, wanted, strict=True)):
        for place, want in enumerate(wanted):
            if room and 0 < shown[place] < want:
                shown[place], room = shown[place] + 1, room - 1
    return shown


def _make_tables(snapshot: Snapshot) -> Iterator[Table]:
    yield (
        ("PROVIDER", ">IN FLIGHT", ">LAST HOUR", ">FAILED", "STATE"),
        [_describe_provider(one) for one in snapshot.providers],
    )
    yield (
        (">IN FLIGHT FOR", *_NAMES),
        [
            (_find_tone(ms := snapshot.at_ms - one.started_ms), (_describe_ms(ms), *_name(one)))
            for one in snapshot.longest
        ],
    )
    yield (
        (">SLOWEST, 10 MIN", ">FIRST BYTE", *_NAMES),
        [
            (
                _find_tone(one.total_ms),
                (_describe_ms(one.total_ms), _describe_ms(one.first_byte_ms), *_name(one)),
            )
            for one in snapshot.slowest
        ],
    )
    yield (
        (f">LOWEST BALANCE {snapshot.currency}", ">CHARGED, 24 H", "ACCOUNT"),
        [
            (
                _RED if one.balance_nano < 0 else "",
                (_format_cents(one.balance_nano), format_amount(one.charged_nano), one.account),
            )
            for one in snapshot.balances
        ],
    )


def _describe_provider(one: ProviderLine) -> Row:
    hour = one.state.hour
    cells = str(one.in_flight), str(hour.calls), str(hour.failures), one.state.words
    return _STATES.get(one.state.state, ""), (one.provider, *cells)


_STATES: Final[Mapping[str, str]] = {"failing": _RED, "resting": _YELLOW, "probing": _YELLOW}


def _find_tone(ms: int | None) -> str:
    return _YELLOW if ms is not None and ms >= _SLOW_MS else ""


def _format_cents(nano: int) -> str:
    """Round down to the cent, which makes debts larger. Less than a cent stays, so that only zero is 0.00."""
    return format_amount(nano // _CENT * _CENT if abs(nano) >= _CENT else nano)


_NAMES: Final = ("ACCOUNT", "MODEL", "PROVIDER", "ID")


def _name(call: Call) -> tuple[str, ...]:
    return call.account, call.model, call.provider, call.request_id


def _describe_ms(ms: int | None) -> str:
    return "-" if ms is None else f"{max(ms, 0) / 1000:.1f} s"


@contextmanager
def full_screen(out: TextIO) -> Iterator[Callable[[str], None]]:
    """Take the whole terminal and yield a function that shows a text. Give the terminal back in any case."""

    def show(text: str) -> None:
        body = f"{_REST}\n".join(text.split("\n"))
        out.write(f"{_HOME}{body}{_REST}{_BELOW}")
        out.flush()

    out.write(_BEGIN)
    try:
        yield show
    finally:
        out.write(_END)
        out.flush()


@contextmanager
def ending_by_signals() -> Iterator[None]:
    """Let signals that end a program raise SystemExit, so that the terminal is given back."""

    def end(number: int, _: object) -> NoReturn:
        for one in taken:  # whoever stops services sends several, and one is enough
            signal.signal(one, signal.SIG_IGN)
        raise SystemExit(_SIGNALLED + number)

    # What is ignored, as by nohup, stays ignored.
    taken = {one: signal.getsignal(one) for one in _ENDING}
    taken = {one: before for one, before in taken.items() if before != signal.SIG_IGN}
    try:
        for one in taken:
            signal.signal(one, end)
        yield
    finally:
        for one, before in taken.items():
            signal.signal(one, before)


@contextmanager
def reading_keys(source: TextIO) -> Iterator[Callable[[float], str]]:
    """Yield a function that waits for keys, at most so many seconds, and returns them; "" if none came."""
    modes = termios.tcgetattr(source)
    try:
        tty.setcbreak(source)  # keys come without Enter; Ctrl-C still interrupts
        live = termios.tcgetattr(source)
        # Ctrl-Z is a key without meaning: a shell would get the terminal as it is now.
        live[6][termios.VSUSP] = bytes([os.fpathconf(source.fileno(), "PC_VDISABLE")])
        termios.tcsetattr(source, termios.TCSANOW, live)

        def wait(seconds: float) -> str:
            until_seconds, ready = time.monotonic() + seconds, list[TextIO]()
            # A signal that comes right before `select` is noticed behind it: so a second at most.
            while not ready and (left_seconds := until_seconds - time.monotonic()) > 0:
                ready, _, _ = select.select([source], [], [], min(left_seconds, 1))
            # Past the buffer of `source`, of which `select` knows nothing. At its end nobody types any more.
            return os.read(source.fileno(), _KEYS).decode("latin-1") or QUIT if ready else ""

        yield wait
    finally:
        with suppress(termios.error):  # it is gone, which SIGHUP tells
            termios.tcsetattr(source, termios.TCSADRAIN, modes)
