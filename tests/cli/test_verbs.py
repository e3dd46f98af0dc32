"""The words that are typed and what is written back: verbs, their arguments, tables."""

from __future__ import annotations

import io
import json
import re
import shlex
from argparse import ArgumentTypeError
from collections.abc import Callable, Sequence

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
from gateway.cli.verbs import (
    JSON,
    PROGRAM,
    VERBS,
    WORDS,
    Options,
    load_verbs,
    make_parser,
    parse,
)
from tests.support.cli import Cli
from tests.support.rows import each_row

load_verbs()


# ---- grammar and help ----------------------------------------------------------------------------


def test_these_verbs_and_no_others_exist() -> None:
    assert sorted(VERBS) == sorted([
        "serve", "check", "reload", "audit", "events", "backup", "export", "import", "unit",
        "account add", "account edit", "account list", "account show", "account credit", "account correct",
        "account suspend", "account resume", "account passwd", "account signin-link",
        "account remove-totp", "account end-sessions",
        "key add", "key edit", "key list", "key rotate", "key revoke",
        "budget add", "budget list", "budget edit", "budget remove",
        "code make", "code list", "code void",
        "token add", "token list", "token revoke",
        "price check", "price propose",
        "usage", "calls", "receipt", "providers", "alerts list", "alerts test", "refusals",
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


@each_row(
    "words",
    [
        *(["nonsense"], ["account"], ["account", "nonsense"], ["account", "add"]),
        ["account", "add", ""],
        ["account", "add", "a", "--credit", "-1"],
        ["account", "add", "a", "--credit", "1e3"],
        ["account", "credit", "a", "-5"],
        ["account", "credit", "a", "0"],
        ["account", "credit", "a", "0.0000000001"],
        ["account", "correct", "a", "five", "--note", "n"],
        ["account", "correct", "a", "1", "--note", ""],
        ["account", "li"],
        ["account", "list", "--js"],
        ["key", "add", "a", "--expires", "2001-01-01"],
        ["key", "add", "a", "--models", ","],
        ["key", "add", "a", "--rpm", "-1"],
        ["key", "add", "a", "--cap", "0"],
        ["key", "rotate", "k", "--grace", "soon"],
        ["key", "edit", "k", "--cap", "0"],
        ["key", "edit", "k", "--expires", "2001-01-01"],
        ["code", "make"],
        ["code", "make", "--amount", "0"],
        ["code", "make", "--amount", "1", "--count", "many"],
        ["code", "list", "--status", "lost"],
        ["code", "void"],
        ["usage", "--by", "moon"],
        ["usage", "--since", "last week"],
        ["serve", "now"],
        ["check", "\udcff"],
    ],
)
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


# ---- arguments -----------------------------------------------------------------------------------

NOW_MS = 1_700_000_000_000
DAY_MS = 86_400_000


@each_row(
    ("text", "nano"),
    [("5", 5 * 10**9), ("+0.25", 250_000_000), ("-0.5", -500_000_000), ("0.000000001", 1)],
)
def test_an_amount_is_exact(text: str, nano: int) -> None:
    assert amount(text) == nano


@each_row("text", ["", "x", "1e3", "0.0000000001", "1,5", "nan", "1000000001", "--5"])
def test_what_is_no_amount_is_refused(text: str) -> None:
    with pytest.raises(ArgumentTypeError):
        amount(text)


def test_amounts_know_their_sign() -> None:
    assert amount_or_zero("0") == 0
    for refusing, text in ((amount_or_zero, "-1"), (amount_above_zero, "0")):
        with pytest.raises(ArgumentTypeError):
            refusing(text)


@each_row(
    ("text", "seconds"),
    [("0", 0), ("90s", 90), ("15m", 900), ("1h", 3600), ("24h", 86_400), ("7d", 604_800), ("2w", 1_209_600), ("36600d", 36_600 * 86_400)],
)  # fmt: skip
def test_a_duration_has_a_unit(text: str, seconds: int) -> None:
    assert duration_seconds(text) == seconds


@each_row("text", ["", "5", "5y", "-1h", "1.5h", "h", "9999999999w", "36601d", "٣h"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(ArgumentTypeError):
        duration_seconds(text)


@each_row(
    ("text", "ms"),
    [
        ("1970-01-02", DAY_MS),
        ("1970-01-01T00:00:01", 1000),
        ("1970-01-01T00:00:01Z", 1000),
        ("1970-01-01T01:00:01+01:00", 1000),
        ("1970-01-01 00:00:00.250", 250),
    ],
)
def test_a_moment_is_utc_unless_it_says_otherwise(text: str, ms: int) -> None:
    assert start(text) == ms


@each_row(
    ("text", "begins_ms", "ends_ms"),
    [
        ("7d", NOW_MS - 7 * DAY_MS, NOW_MS - 7 * DAY_MS),
        ("24h", NOW_MS - DAY_MS, NOW_MS - DAY_MS),
        ("0m", NOW_MS, NOW_MS),
        ("today", 1_699_920_000_000, 1_699_920_000_000 + DAY_MS),
        ("yesterday", 1_699_920_000_000 - DAY_MS, 1_699_920_000_000),
        ("2023-11-01", 1_698_796_800_000, 1_698_796_800_000 + DAY_MS),
    ],
)
def test_a_period_is_counted_back_or_has_days(text: str, begins_ms: int, ends_ms: int) -> None:
    assert start(text, lambda: NOW_MS) == begins_ms
    assert end(text, lambda: NOW_MS) == ends_ms


def test_a_last_day_is_included_and_a_last_moment_is_not() -> None:
    assert end("1970-01-01") == DAY_MS
    assert end("1970-01-01T12:00") == DAY_MS // 2


@each_row("text", ["", "soon", "2026-13-01", "2026-02-30", "12:00", "2026", "7", "-7d", "Today"])
@each_row("read", [start, end])
def test_what_is_no_moment_is_refused(read: Callable[[str], int], text: str) -> None:
    with pytest.raises(ArgumentTypeError):
        read(text)


@each_row(
    ("text", "ms"),
    [
        ("30d", NOW_MS + 30 * DAY_MS),
        ("12h", NOW_MS + DAY_MS // 2),
        ("2023-11-15", 1_700_006_400_000),
        ("2023-11-14T22:13:20.001", NOW_MS + 1),
    ],
)
def test_an_expiry_is_a_duration_or_a_moment_to_come(text: str, ms: int) -> None:
    assert expiry(text, lambda: NOW_MS).at(NOW_MS) == ms


@each_row("text", ["0", "0d", "2023-11-14", "2023-11-14T22:13:20", "never", "today"])
def test_an_expiry_that_has_passed_is_refused(text: str) -> None:
    with pytest.raises(ArgumentTypeError):
        expiry(text, lambda: NOW_MS)


def test_models_are_listed_with_commas() -> None:
    assert model_list("a, b/c,a") == ("a", "b/c")
    for text in ("", "a,", ",a", "a,,b", "a\x1b"):
        with pytest.raises(ArgumentTypeError):
            model_list(text)


def test_a_word_is_something_on_one_line() -> None:
    assert word("a b") == "a b"
    for text in ("", " ", "a\nb", "\x1b[2J", "\udcff"):
        with pytest.raises(ArgumentTypeError):
            word(text)


def test_a_count_is_whole_and_not_negative() -> None:
    assert [count("0"), count("1000000000")] == [0, 10**9]
    for text in ("-1", "1.0", "1000000001", "", "١"):
        with pytest.raises(ArgumentTypeError):
            count(text)


# ---- tables and JSON -----------------------------------------------------------------------------


def test_a_table_is_aligned_and_has_no_trailing_spaces() -> None:
    table = render_table(
        ("NAME", ">COST", "NOTE"),
        [("a", "1.00", "x"), ("longer", "12.50", "")],
    )
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
