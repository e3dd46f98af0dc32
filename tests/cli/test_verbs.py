"""The words that are typed and what is written back: verbs, their arguments, tables."""

from __future__ import annotations

import io
import json
import re
import shlex
from argparse import ArgumentTypeError
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import pytest

from gateway.cli.arguments import (
    Output,
    amount,
    amount_above_zero,
    amount_or_zero,
    count,
    duration_seconds,
    end,
    expiry,
    model_list,
    render_fields,
    render_table,
    start,
    word,
)
from gateway.cli.verbs import JSON, VERBS, WORDS, Options, load_verbs, make_parser, parse
from gateway.process import PROGRAM
from tests.support.cli import Cli
from tests.support.rows import each_row

WRONG: Final = Path(__file__).with_name("wrong.txt")
"""Command lines that are no commands."""

load_verbs()


# ---- grammar and help ----------------------------------------------------------------------------


def test_these_verbs_and_no_others_exist() -> None:
    assert sorted(VERBS) == sorted([
        "serve", "init", "check", "reload", "audit", "events", "backup", "export", "import", "unit",
        "account add", "account import", "account edit", "account list", "account show", "account credit", "account correct",
        "account suspend", "account resume", "account passwd", "account signin-link", "account signin-remove", "account signins",
        "account remove-totp", "account end-sessions",
        "key add", "key edit", "key list", "key rotate", "key revoke",
        "budget add", "budget list", "budget edit", "budget remove",
        "code make", "code list", "code void",
        "token add", "token list", "token revoke",
        "price check", "price propose",
        "entries", "orders", "statement", "usage", "calls", "receipt", "refund", "providers", "alerts list", "alerts test", "refusals",
    ])  # fmt: skip


def test_no_verb_serves() -> None:
    for words in ([], ["--config", "x.toml"]):
        assert parse(words).verb.path == "serve"


def test_every_example_can_be_typed() -> None:
    parser = make_parser()
    for verb in VERBS.values():
        for example in verb.examples:
            command = re.sub(r"^\w+=\$\((.*)\)$", r"\1", example).removeprefix(f"{PROGRAM} ")
            words = shlex.split(re.split(" [<>] ", command)[0])
            options, unknown = parser.parse_known_args(words, Options())
            assert (options.verb, unknown) == (verb, []), example


def test_all_verbs_but_these_can_answer_in_json() -> None:
    assert {path for path, one in VERBS.items() if JSON not in (*one.arguments, *one.either)} == {
        *("serve", "unit", "account passwd", "account signin-link", "account remove-totp")
    }


def test_help_begins_with_what_it_is_for_and_examples(cli: Cli) -> None:
    for path in {*VERBS, *WORDS, ""}:
        answer = cli.done(*path.split(), "--help")
        lines = answer.out.splitlines()
        assert lines[0].endswith("."), path
        assert lines[2] == "examples:", path
        assert lines[3].startswith(f"  {PROGRAM} "), path
        assert answer.out.index("examples:") < answer.out.index("usage:"), path


@each_row("words", [*map(shlex.split, WRONG.read_text().splitlines()), ["check", "\udcff"]])
def test_wrong_usage_exits_2(cli: Cli, words: Sequence[str]) -> None:
    answer = cli.run(*words)
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.startswith("usage: ")
    assert not cli.database.exists()


@each_row(
    ("words", "told"),
    [
        (("account", "add", "a", "--credti", "5"), "unknown argument --credti; did you mean --cr"),
        (("account", "add", "a", "--credti=5"), "unknown argument --credti=5; did you mean --cred"),
        (("audit", "extra"), "unknown argument extra; see --help"),
        (("--nonsense",), "unknown argument --nonsense; see --help"),
    ],
)
def test_an_unknown_argument_shows_the_usage_of_its_verb(
    capsys: pytest.CaptureFixture[str], words: tuple[str, ...], told: str
) -> None:
    with pytest.raises(SystemExit) as stop:
        parse(words)
    assert stop.value.code == 2
    err = capsys.readouterr().err
    verb = " ".join(one for one in words[:2] if one in ("account", "add", "audit"))
    assert err.startswith(f"usage: python -m gateway {verb}".rstrip() + " [-h]")
    assert told in err


@each_row(
    ("words", "told"),
    [
        (("acount", "list"), "unknown verb 'acount'; did you mean account?"),
        (("account", "lsit"), "unknown verb 'account lsit'; did you mean account list?"),
        (("--config", "x", "moon"), "unknown verb 'moon'; see --help"),
        (("usage", "--by", "moon"), "argument --by: invalid choice: 'moon'"),
    ],
)
def test_an_unknown_verb_is_told_with_one_that_is_meant(
    cli: Cli, words: tuple[str, ...], told: str
) -> None:
    answer = cli.run(*words)
    assert answer.code == 2
    assert told in answer.err.splitlines()[-1]


# ---- arguments -----------------------------------------------------------------------------------

NOW_MS = 1_700_000_000_000
DAY_MS = 86_400_000


MIDNIGHT_MS = 1_699_920_000_000
"""The beginning of the day of `NOW_MS`."""


def start_now(text: str) -> int:
    return start(text, lambda: NOW_MS)


def end_now(text: str) -> int:
    return end(text, lambda: NOW_MS)


def expire(text: str) -> int:
    return expiry(text, lambda: NOW_MS).at(NOW_MS)


PARSED: Final[tuple[tuple[Callable[[str], object], dict[str, object]], ...]] = (
    (amount, {"5": 5 * 10**9, "+0.25": 250_000_000, "-0.5": -500_000_000, "0.000000001": 1}),
    (amount_or_zero, {"0": 0}),
    (duration_seconds, {"0": 0, "90s": 90, "15m": 900, "1h": 3600, "24h": 86_400, "7d": 604_800}),
    (duration_seconds, {"2w": 1_209_600, "36600d": 36_600 * 86_400}),
    (start, {"1970-01-02": DAY_MS, "1970-01-01T00:00:01": 1000, "1970-01-01T00:00:01Z": 1000}),
    (start, {"1970-01-01T01:00:01+01:00": 1000, "1970-01-01 00:00:00.250": 250}),
    (start_now, {"7d": NOW_MS - 7 * DAY_MS, "24h": NOW_MS - DAY_MS, "0m": NOW_MS}),
    (start_now, {"today": MIDNIGHT_MS, "yesterday": MIDNIGHT_MS - DAY_MS}),
    (end_now, {"7d": NOW_MS - 7 * DAY_MS, "0m": NOW_MS, "yesterday": MIDNIGHT_MS}),
    (end_now, {"today": MIDNIGHT_MS + DAY_MS, "2023-11-14": MIDNIGHT_MS + DAY_MS}),
    (end, {"1970-01-01": DAY_MS, "1970-01-01T12:00": DAY_MS // 2}),
    (expire, {"30d": NOW_MS + 30 * DAY_MS, "12h": NOW_MS + DAY_MS // 2}),
    (expire, {"2023-11-15": MIDNIGHT_MS + DAY_MS, "2023-11-14T22:13:20.001": NOW_MS + 1}),
    (model_list, {"a, b/c,a": ("a", "b/c")}),
    (word, {"a b": "a b"}),
    (count, {"0": 0, "1000000000": 10**9}),
)
NO_MOMENT: Final = ("", "soon", "2026-13-01", "2026-02-30", "12:00", "2026", "7", "-7d", "Today")
REFUSED: Final[tuple[tuple[Callable[[str], object], tuple[str, ...]], ...]] = (
    (amount, ("", "x", "1e3", "0.0000000001", "1,5", "nan", "1000000001", "--5")),
    (amount_or_zero, ("-1",)),
    (amount_above_zero, ("0",)),
    (duration_seconds, ("", "5", "5y", "-1h", "1.5h", "h", "9999999999w", "36601d", "٣h")),
    (start, NO_MOMENT),
    (end, NO_MOMENT),
    (expire, ("0", "0d", "2023-11-14", "2023-11-14T22:13:20", "never", "today")),
    (model_list, ("", "a,", ",a", "a,,b", "a\x1b")),
    (word, ("", " ", "a\nb", "\x1b[2J", "\udcff")),
    (count, ("-1", "1.0", "1000000001", "", "١")),
)


@each_row(
    ("read", "text", "value"),
    [(read, text, value) for read, found in PARSED for text, value in found.items()],
)
def test_an_argument_is_parsed(read: Callable[[str], object], text: str, value: object) -> None:
    """Amounts are exact, times are UTC unless they say otherwise, a last day is included."""
    assert read(text) == value


@each_row(("read", "text"), [(read, text) for read, texts in REFUSED for text in texts])
def test_what_is_no_argument_is_refused(read: Callable[[str], object], text: str) -> None:
    with pytest.raises(ArgumentTypeError):
        read(text)


# ---- tables and JSON -----------------------------------------------------------------------------


def test_a_table_is_aligned_and_has_no_trailing_spaces() -> None:
    table = render_table(("NAME", ">COST", "NOTE"), [("a", "1.00", "x"), ("longer", "12.50", "")])
    assert table == (
        "NAME     COST  NOTE\n"
        "a        1.00  x\n"
        "longer  12.50"
    )  # fmt: skip


def test_the_points_of_amounts_stand_under_each_other() -> None:
    amounts = ("20.00", "0.0004", "-", "free", "-1234.000000001")
    table = render_table((">COST", "N"), [(one, "x") for one in amounts])
    assert table == (
        "           COST  N\n"
        "   20.00         x\n"
        "    0.0004       x\n"
        "              -  x\n"
        "           free  x\n"
        "-1234.000000001  x"
    )


def test_a_table_without_rows_is_its_heading() -> None:
    assert render_table(("A", "B"), []) == "A  B"


def test_nothing_in_a_cell_moves_the_cursor() -> None:
    shown = render_table(("A",), [("x\x1b[2J\r\n\u202ey",)])
    assert shown == "A\nx\ufffd[2J\ufffd\ufffd\ufffdy"
    assert "\x1b" not in render_fields([("name", "\x1b]0;title\x07")])


def test_json_is_the_same_bytes_in_every_locale() -> None:
    out = io.StringIO()
    Output(out, io.StringIO()).print_json({"name": "…é"})
    assert out.getvalue().isascii()
    assert json.loads(out.getvalue()) == {"name": "…é"}
