"""Calls, receipts, usage, and what the server noticed: what an operator is told."""

from __future__ import annotations

import asyncio
import csv
import io
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Final, get_args

from gateway import ids
from gateway.cli.calls import page_receipt
from gateway.ids import make_request_id
from gateway.ledger.alert_records import Alert, UpstreamFailure
from gateway.ledger.call_records import CallDetail, KeyLabel, Outcome, Receipt
from gateway.ledger.opening import open_ledger
from gateway.ledger.serving.ledger import ServingLedger
from gateway.ledger.sqlite.books import SqliteBooks
from gateway.money import PRICES, Price, Tokens
from gateway.prices import AppliedPrice
from gateway.times import DAY_MS, unix_ms
from tests.alerts.receiver import SECRET, Receiver, listen
from tests.alerts.test_watch import run_verb, write_alerts
from tests.console.kit import prepare
from tests.ledger.kit import admission, charge, find_key, make_place, settlement, void
from tests.support.cli import Cli
from tests.support.rows import each_row

NO_COSTS: Final = {
    "provider_cost": None,
    "provider_cost_nano": None,
    "margin": None,
    "margin_nano": None,
    "costed_requests": 0,
    "reported_cost": None,
    "reported_cost_nano": None,
    "reported_excess": None,
    "reported_excess_nano": None,
    "reported_requests": 0,
}
NOW_MS = 1_700_000_000_000
RECEIPT = Receipt(
    request_id="req_1",
    key_id="key_1",
    state="posted",
    outcome="upstream_error",
    model="m",
    provider="vendor",
    stream=True,
    price=AppliedPrice(Price(150, 600, 0, 0, web_search=10**10), "input_above 200000"),
    hold_nano=10**9,
    started_ms=NOW_MS,
    attempts=2,
    status=502,
    tokens=Tokens(98, 20, 5, 50),
    tool_calls={"web_search": 3},
    cost_nano=77,
    estimated=True,
    first_byte_ms=12,
    ended_ms=NOW_MS + 1000,
)
FAILURE = UpstreamFailure(1, "req_1", 401, "status 401: refused", "https://api/v1/chat")
DETAIL = CallDetail("alice", KeyLabel("key_1", "laptop", "sk-ru-…a1b2"), RECEIPT, (FAILURE,))
ENDED = "upstream_error, status 502; ended by: upstream"
TOLD = "input 0.00000015 per million, output 0.0000006 per million, web_search 10.00 per thousand"


async def make_calls(cli: Cli) -> tuple[str, list[str]]:
    """Make three calls of account `a`, the second of which fails; return its key and their ids."""
    place = make_place(cli.folder)
    ids = [make_request_id(NOW_MS + second * 1000) for second in range(3)]
    async with open_ledger(place.path) as ledger:
        key = find_key(ledger, place)
        for number, id_ in enumerate(ids):
            hold = ledger.hold(key, admission(id_=id_, started_ms=NOW_MS + number * 1000))
            await ledger.settle(hold, replace(void(), status=502) if number == 1 else settlement(5))
    return place.key_id, ids


async def test_calls_are_chosen_by_every_filter(cli: Cli) -> None:
    key_id, ids = await make_calls(cli)
    for words, expected in (
        ((), [2, 1, 0]),
        (("--account", "a", "--key", key_id), [2, 1, 0]),
        (("--key", "key_none"), []),
        (("--model", "demo/echo", "--limit", "2"), [2, 1]),
        (("--model", "none"), []),
        (("--provider", "none"), []),
        (("--outcome", "failed"), [1]),
        (("--outcome", "upstream_error"), [1]),
        (("--outcome", "complete"), [2, 0]),
        (("--status", "200"), [2, 0]),
        (("--status", "502"), [1]),
        (("--status", "418"), []),
        (("--since", "2023-11-14T22:13:21"), [2, 1]),
        (("--until", "2023-11-14T22:13:21"), [0]),
        (("--until", "2023-11-14"), [2, 1, 0]),
        (("--since", "2023-11-15"), []),
    ):
        found = cli.done("calls", *words, "--json").json
        assert [ids.index(call["request_id"]) for call in found] == expected, words


async def test_a_list_that_was_cut_says_so(cli: Cli) -> None:
    _, ids = await make_calls(cli)
    cut = cli.done("calls", "--limit", "2")
    assert cut.err == "These are the latest 2 calls; --limit N shows more.\n"
    assert cut.out.split("\n")[0].split() == [
        *("ID", "STARTED", "UTC", "ACCOUNT", "KEY", "MODEL", "PROVIDER", "ENDED", "COST", "EUR")
    ]
    assert (ids[2] in cut.out, ids[0] in cut.out) == (True, False)
    assert cli.done("calls", "--limit", "3").err == ""


async def test_a_receipt_says_why_a_call_failed(cli: Cli) -> None:
    key_id, ids = await make_calls(cli)
    told = cli.done("receipt", ids[1])
    assert "The provider failed, refused the call or broke off." in told.out
    assert "ended by: upstream" in told.out
    described = cli.done("receipt", ids[1], "--json").json
    assert (described["account"], described["key"]) == ("a", key_id)
    assert (described["outcome"], described["cost_nano"]) == ("upstream_error", 0)
    cli.done("account", "correct", "a", "0.5", "--note", "too dear", "--request", ids[0])
    assert "too dear" in cli.done("receipt", ids[0]).out
    missing = cli.run("receipt", "req_none")
    assert (missing.code, "no call of that request id" in missing.err) == (5, True)


def test_the_page_of_a_receipt_has_everything() -> None:
    page = page_receipt(DETAIL, "EUR")
    assert page.splitlines() == [
        "request     req_1",
        "account     alice",
        "key         laptop sk-ru-…a1b2 key_1",
        "model       m",
        "provider    vendor",
        "attempts    2",
        f"ended       The provider failed, refused the call or broke off. ({ENDED})",
        "failure     status 401: refused at https://api/v1/chat",
        "started     2023-11-14 22:13 UTC",
        "took        1000 ms; to the first byte: 12 ms",
        "tokens      input 123, of these cached 20, written to the cache 5; output 50",
        "web search  3 calls",
        f"prices      {TOLD} (EUR)",
        "price rule  input_above 200000",
        "hold        1.00 EUR",
        "cost        0.000000077 EUR (posted; estimated, as the provider did not report all usage)",
    ]


@each_row("outcome", get_args(Outcome))
def test_every_outcome_has_a_page(outcome: Outcome) -> None:
    """Also where nothing is known of attempts, status and times yet."""
    receipt = replace(
        RECEIPT, outcome=outcome, attempts=None, status=None, first_byte_ms=None, ended_ms=None
    )
    page = page_receipt(replace(DETAIL, receipt=receipt), "EUR")
    assert f"({outcome}" in page


def test_every_price_is_named() -> None:
    amounts = dict.fromkeys(PRICES, 10**9)
    price = replace(Price(0, 0, 0, 0), **amounts, tools={"file_search": 7}, reported=1_200_000)
    page = page_receipt(replace(DETAIL, receipt=replace(RECEIPT, price=AppliedPrice(price))), "EUR")
    for name in amounts:
        assert f" {name} 1.00 " in page
    assert "file_search 0.000000007 per call" in page
    assert "1.2 × the provider's bill, where it tells it" in page


async def make_usage(cli: Cli, second_model: str = "demo/echo") -> str:
    """Make two charges of account `a` and return the id of its key."""
    place = make_place(cli.folder)
    async with open_ledger(place.path) as ledger:
        key = find_key(ledger, place)
        await charge(ledger, key, 1_000_000_001)
        second = ledger.hold(key, replace(admission(), model=second_model))
        await ledger.settle(second, settlement(2))
    return place.key_id


async def test_usage_is_summed_by_day_model_and_key(cli: Cli) -> None:
    key_id = await make_usage(cli)
    for by, names in (
        ("day", {"day": "2023-11-14"}),
        ("model", {"model": "demo/echo"}),
        ("account", {"account": "a"}),
        ("key", {"key": key_id, "account": "a", "key_name": ""}),
    ):
        assert cli.done("usage", "--by", by, "--json").json == [
            {
                **names,
                "requests": 2,
                "input_tokens": 200,
                "cached_input_tokens": 40,
                "cache_write_tokens": 10,
                "output_tokens": 100,
                "cost": "1.000000003",
                "cost_nano": 1_000_000_003,
                **NO_COSTS,
            }
        ]


async def test_usage_is_cut_by_account_and_date(cli: Cli) -> None:
    await make_usage(cli)
    cli.done("account", "add", "other")
    counts = {
        words: sum(row["requests"] for row in cli.done("usage", *words, "--json").json)
        for words in (
            ("--account", "a"),
            ("--account", "other"),
            ("--since", "2023-11-14"),
            ("--since", "2023-11-15"),
            ("--until", "2023-11-14"),
            ("--until", "2023-11-13"),
            ("--since", "2023-11-14T22:13:21", "--until", "2023-11-14T22:13:22"),
        )
    }
    assert list(counts.values()) == [2, 0, 2, 0, 2, 0, 2]


async def test_usage_for_people_and_for_spreadsheets(cli: Cli) -> None:
    await make_usage(cli, "=cmd")
    assert cli.done("usage", "--by", "model").out == (
        "MODEL      REQUESTS  INPUT  OF IT CACHED  OF IT WRITTEN  OUTPUT     COST EUR\n"
        "=cmd              1    125            20              5      50  0.000000002\n"
        "demo/echo         1    125            20              5      50  1.000000001\n"
        "total             2    250            40             10     100  1.000000003\n"
    )
    rows = list(csv.DictReader(io.StringIO(cli.done("usage", "--by", "model", "--csv").out)))
    assert [row["model"] for row in rows] == ["'=cmd", "demo/echo"]
    assert [(row["cost"], row["cost_nano"]) for row in rows] == [
        ("0.000000002", "2"),
        ("1.000000001", "1000000001"),
    ]


async def test_usage_tells_operators_what_providers_bill(cli: Cli) -> None:
    """The margin is of those requests whose cost is known."""
    place = make_place(cli.folder)
    async with open_ledger(place.path) as ledger:
        key = find_key(ledger, place)
        await charge(ledger, key, 10)
        billed = settlement(100, provider_cost_nano=60, reported_cost_nano=75)
        await ledger.settle(ledger.hold(key, replace(admission(), model="large")), billed)
    lines = cli.done("usage", "--by", "model").out.splitlines()
    header, *rows = [re.split("  +", line.strip())[-6:] for line in lines]
    assert header == ["COST EUR", "WITH COST", "PROVIDER COST", "MARGIN", "REPORTED", "EXCESS"]
    billed_cells = ["1", "0.00000006", "0.00000004", "0.000000075", "0.000000015"]
    assert rows == [
        ["0.00000001", "0", "-", "-", "-", "-"],
        ["0.0000001", *billed_cells],
        ["0.00000011", *billed_cells],
    ]
    plain, large = cli.done("usage", "--by", "model", "--json").json
    assert {name: plain[name] for name in NO_COSTS} == NO_COSTS
    assert (large["provider_cost_nano"], large["margin_nano"]) == (60, 40)
    assert (large["reported_cost_nano"], large["reported_excess_nano"]) == (75, 15)
    (_, row) = csv.DictReader(io.StringIO(cli.done("usage", "--by", "model", "--csv").out))
    assert (row["provider_cost"], row["margin_nano"]) == ("0.00000006", "40")
    cli.done("audit")


async def test_who_spent_most_stands_first(cli: Cli) -> None:
    """In whole days, and in parts of one, which are summed from the requests themselves."""
    place = make_place(cli.folder)
    cli.done("account", "add", "zoe", "--credit", "5")
    secret = cli.done("key", "add", "zoe", "--name", "laptop").out.strip()
    async with open_ledger(place.path) as ledger:
        await charge(ledger, find_key(ledger, place), 5)
        key = ledger.find_key(ids.digest(secret))
        assert key is not None
        await charge(ledger, key, 6)
    for part in ((), ("--since", "2023-11-14T22:13:00")):
        rows = cli.done("usage", "--by", "account", "--json", *part).json
        assert [(row["account"], row["cost_nano"]) for row in rows] == [("zoe", 6), ("a", 5)]
        rows = cli.done("usage", "--by", "key", "--json", *part).json
        assert {(row["account"], row["key_name"], row["cost_nano"]) for row in rows} == {
            ("zoe", "laptop", 6),
            ("a", "", 5),
        }
    assert "ACCOUNT  NAME" in cli.done("usage", "--by", "key").out
    (header, *_) = cli.done("usage", "--by", "key", "--csv").out.splitlines()
    assert header.startswith("key,account,key_name,requests,")


def test_usage_takes_one_format(cli: Cli, alice: str) -> None:
    assert cli.run("usage", "--csv", "--json", "--account", alice).code == 2


# ---- providers and refusals ----------------------------------------------------------------------

URL = "https://api.example.com/v1/chat/completions"
REASON = "status 401: the provider refuses our key"


def count(cli: Cli, note: Callable[[ServingLedger], None], *, ago_ms: int = 0) -> None:
    """Let a serving process count, and stop."""

    async def serve() -> None:
        async with open_ledger(cli.database, clock=lambda: unix_ms() - ago_ms) as ledger:
            note(ledger)

    asyncio.run(serve())


def fail(ledger: ServingLedger) -> None:
    for _ in range(3):
        ledger.note_upstream_call("demo", "echo", UpstreamFailure(0, "req_9", 401, REASON, URL))


def refuse(ledger: ServingLedger) -> None:
    (account,) = ledger.accounts()
    for _ in range(3):
        ledger.note_refusal(account.id, "rate_limit_exceeded", "", "req_1")
    ledger.note_refusal(None, "invalid_api_key", "", "req_2")


def test_providers_and_how_they_answer(cli: Cli, alice: str) -> None:
    assert alice
    asked = cli.done("providers").out.splitlines()
    assert asked[1].split("  ")[0:1] == ["demo"]
    assert "not asked yet" in asked[1]
    count(cli, fail)
    line = cli.done("providers").out.splitlines()[1]
    for words in ("failing (3 of 3 in the last hour)", "3, 3 failed", REASON, URL, "req_9"):
        assert words in line
    (row,) = cli.done("providers", "--json").json
    assert (row["provider"], row["model"], row["state"]) == ("demo", "echo", "failing")
    assert row["hour"] == row["today"] == {"calls": 3, "failures": 3}
    assert row["last_failure"] == {
        "at": "1970-01-01T00:00:00.000Z",
        "request_id": "req_9",
        "status": 401,
        "reason": REASON,
        "url": URL,
    }


def test_a_provider_is_not_called_off_for_a_key_that_only_the_server_has(
    cli: Cli, alice: str
) -> None:
    """The verb runs without the server's variables, so it cannot know."""
    assert alice
    more = '[models.far]\nroutes = ["vendor/far"]\nprice = "free"\n'
    cli.config.write_text(cli.config.read_text(encoding="utf-8") + more, encoding="utf-8")
    assert [row["state"] for row in cli.done("providers", "--json").json] == ["not_asked"] * 2
    failure = UpstreamFailure(0, "req_9", 401, REASON, URL)
    count(cli, lambda ledger: ledger.note_upstream_call("vendor", "far", failure))
    assert cli.done("providers", "--json").json[1]["state"] == "failing"


def test_refusals_for_whom_and_why(cli: Cli, alice: str) -> None:
    count(cli, refuse)
    lines = cli.done("refusals").out.splitlines()
    assert lines[0].split("  ")[0] == "LAST UTC"
    assert {"rate_limit_exceeded", "alice", "3", "req_1"} <= set(
        next(line for line in lines if "alice" in line).split()
    )
    assert any("unknown key" in line and "invalid_api_key" in line for line in lines)
    (mine,) = cli.done("refusals", "--account", alice, "--json").json
    assert (mine["account"], mine["count"], mine["last_request_id"]) == ("alice", 3, "req_1")
    assert cli.run("refusals", "--account", "nobody").code != 0


def test_old_refusals_are_shown_when_asked_for(cli: Cli, alice: str) -> None:
    assert alice
    count(cli, refuse, ago_ms=9 * DAY_MS)
    assert cli.done("refusals", "--json").json == []
    assert len(cli.done("refusals", "--since", "2020-01-01", "--json").json) == 2


# ---- alerts --------------------------------------------------------------------------------------


def set_up(folder: Path, receiver: Receiver, more: str = "") -> None:
    prepare(folder, 0, more=write_alerts(receiver, more))


@each_row(("script", "code", "said"), [((), 0, "delivered"), ((500,), 1, "status 500")])
def test_a_test_says_how_each_way_went(
    tmp_path: Path, script: tuple[int, ...], code: int, said: str
) -> None:
    with listen(*script) as receiver:
        set_up(tmp_path, receiver, 'command = ["true"]')
        done = run_verb(tmp_path, "alerts", "test")
    assert done.code == code
    assert done.err.splitlines() == [f"webhook: {said}", "command: delivered"]
    assert SECRET not in done.err + done.out
    assert receiver.kinds() == ["test"]


def test_the_latest_are_listed(tmp_path: Path) -> None:
    with listen() as receiver:
        set_up(tmp_path, receiver)
    with SqliteBooks(tmp_path / "gateway.db") as books:
        books.alerts.raise_all([Alert("old_backup", "backup", "1", "Too old.")], ["webhook"])
        (due,) = books.alerts.read_due(1)
        books.alerts.note_failure(due.id, "status 500", None)
    done = run_verb(tmp_path, "alerts", "list")
    assert "given up: status 500" in done.out
    assert "Too old." in done.out
    assert '"kind":"old_backup"' in run_verb(tmp_path, "alerts", "list", "--json").out.replace(
        " ", ""
    )
