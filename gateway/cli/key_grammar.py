"""The grammar of the verbs for keys and top-up codes."""

from __future__ import annotations

from typing import Final, get_args

from gateway.cli import arguments as read
from gateway.cli import codes, keys
from gateway.cli.account_grammar import JSON, make_limits
from gateway.cli.budget_grammar import BUDGET
from gateway.cli.parser import Verb, arg, choice, edit, flag
from gateway.ledger import CodeStatus

KEY: Final = arg(
    "key", "KEY", read.word, "the key's id, as `key list` shows it, or its name if no other has it"
)

KEY_VERBS: Final[tuple[Verb, ...]] = (
    Verb(
        "key add",
        "Make a key and print it on stdout. It is shown only once.",
        keys.key_add,
        (
            "key add alice --name laptop",
            "key add alice --models gpt-5.4-nano,demo/echo --cap 10 --expires 30d",
            "key add alice --name ci --budget 5/day",
            "KEY=$(python -m gateway key add alice)",
        ),
        (
            arg("account", "ACCOUNT", read.word, "the account that pays"),
            arg("--name", "NAME", read.word, "a name to tell keys apart"),
            arg(
                "--expires",
                "TIME",
                read.expiry,
                "when it expires: 30d, 12h, 2026-12-31 or 2026-12-31T18:00 in UTC (default: never)",
            ),
            *make_limits(arg),
            arg(
                "--cap",
                "AMOUNT",
                read.amount_above_zero,
                "the most it may ever spend (default: no cap)",
            ),
            arg(*BUDGET),
            JSON,
        ),
    ),
    Verb(
        "key edit",
        "Change a key. Options that are left out change nothing.",
        keys.key_edit,
        ("key edit laptop --cap 20 --expires 90d", "key edit ID --rpm 60 --budget none"),
        (
            KEY,
            edit("--name", "NAME", read.word, "a name to tell keys apart"),
            edit("--cap", "AMOUNT", read.amount_above_zero, "the most it may ever spend"),
            edit(*BUDGET),
            edit("--expires", "TIME", read.expiry, "when it expires: 30d, 12h or 2026-12-31"),
            *make_limits(edit),
            JSON,
        ),
    ),
    Verb(
        "key list",
        "List keys, without their secrets.",
        keys.key_list,
        ("key list", "key list alice --json"),
        (
            arg("account", "ACCOUNT", read.word, "list only the keys of this account", nargs="?"),
            JSON,
        ),
    ),
    Verb(
        "key rotate",
        "Replace a key by one on the same terms, which is printed on stdout and shown only once.",
        keys.key_rotate,
        ("key rotate laptop", "key rotate ID --grace 24h"),
        (
            KEY,
            arg(
                "--grace",
                "TIME",
                read.duration_seconds,
                "how long the old key still works: 0, 1h, 24h or 7d",
                default=0,
            ),
            JSON,
        ),
    ),
    Verb(
        "key revoke",
        "Revoke a key for good.",
        keys.key_revoke,
        ("key revoke laptop", "key revoke ID"),
        (KEY, JSON),
    ),
)

CODE_VERBS: Final[tuple[Verb, ...]] = (
    Verb(
        "code make",
        "Make top-up codes and print them on stdout, one per line. They are shown only once.",
        codes.code_make,
        (
            "code make --amount 5 --count 20 --expires 90d > codes.txt",
            'code make --amount 25 --note "spring course"',
        ),
        (
            arg(
                "--amount",
                "AMOUNT",
                read.amount_above_zero,
                "the value of each code",
                required=True,
            ),
            arg("--count", "N", read.count, "the number of codes", default=1),
            arg(
                "--expires",
                "TIME",
                read.expiry,
                "when they expire: 30d, 2026-12-31 or 2026-12-31T18:00 in UTC (default: never)",
            ),
            arg("--note", "TEXT", read.word, "their purpose, shown in lists"),
            JSON,
        ),
    ),
    Verb(
        "code list",
        "List codes, without their secrets.",
        codes.code_list,
        ("code list", "code list --status open --json"),
        (choice("--status", get_args(CodeStatus), "list only codes with this status"), JSON),
    ),
    Verb(
        "code void",
        "Void a code, or all open codes of a batch.",
        codes.code_void,
        ("code void ID", "code void --batch ID"),
        (
            arg("id", "ID", read.word, "the id, as shown by `code list`"),
            flag("--batch", "ID is the id of a batch"),
            JSON,
        ),
    ),
)
