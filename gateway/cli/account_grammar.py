"""The grammar of the verbs for accounts, and the arguments that other verbs have too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, get_args

from gateway.cli import accounts, signin
from gateway.cli import arguments as read
from gateway.cli.command import Role
from gateway.cli.parser import Argument, Verb, arg, choice, edit, flag

JSON: Final = flag("--json", "write JSON to stdout")
ACCOUNT_NAME: Final = arg("name", "NAME", read.word, "the account's name")
IDEMPOTENCY_KEY: Final = arg(
    "--idempotency-key",
    "KEY",
    read.word,
    "any text; a second command with the same KEY changes nothing",
)
MODELS: Final = "the only models it may use (default: all)"

_TIME: Final = "7d or 24h ago, today, yesterday, 2026-11-01, or 2026-11-01T18:00 (UTC)"
SINCE: Final = arg("--since", "TIME", read.start, f"only from this time on: {_TIME}")
UNTIL: Final = arg("--until", "TIME", read.end, "only before this time; a day is included")


def make_limits(make: Callable[..., Argument]) -> tuple[Argument, ...]:
    """Make the options of what an account or a key may use, with `arg` or `edit`."""
    return (
        make("--models", "A,B", read.model_list, MODELS),
        make("--rpm", "N", read.count, "requests per minute; 0 = unlimited"),
        make("--tpm", "N", read.count, "tokens per minute; 0 = unlimited"),
        make("--concurrency", "N", read.count, "requests in flight at once; 0 = unlimited"),
    )


ACCOUNT_VERBS: Final[tuple[Verb, ...]] = (
    Verb(
        "account add",
        "Add an account; create the database, or PostgreSQL's tables, if there is none.",
        accounts.account_add,
        ("account add alice --credit 20 --rpm 600", "account add admin --operator"),
        (
            arg("name", "NAME", read.word, "a name that is not yet taken"),
            arg("--credit", "AMOUNT", read.amount_or_zero, "the balance to begin with", default=0),
            flag("--operator", "make it an operator's account"),
            *make_limits(arg),
            JSON,
        ),
    ),
    Verb(
        "account edit",
        "Change what all keys of an account may use together, or its role.",
        accounts.account_edit,
        (
            "account edit alice --concurrency 20 --models gpt-5.4-nano,demo/echo",
            "account edit alice --rpm none --role operator",
        ),
        (
            ACCOUNT_NAME,
            *make_limits(edit),
            choice("--role", get_args(Role), "a new role ends the account's sessions"),
            JSON,
        ),
    ),
    Verb(
        "account list",
        "List the accounts with their balances.",
        accounts.account_list,
        ("account list", "account list --json"),
        (JSON,),
    ),
    Verb(
        "account show",
        "Show an account with its keys and latest entries.",
        accounts.account_show,
        ("account show alice",),
        (ACCOUNT_NAME, JSON),
    ),
    Verb(
        "account credit",
        "Add money to an account's balance.",
        accounts.account_credit,
        (
            'account credit alice 20 --note "invoice 17"',
            "account credit alice 20 --idempotency-key invoice-17",
        ),
        (
            ACCOUNT_NAME,
            arg("amount", "AMOUNT", read.amount_above_zero, "how much to add, such as 5 or 0.25"),
            arg("--note", "TEXT", read.word, "the reason, kept with the entry"),
            IDEMPOTENCY_KEY,
            JSON,
        ),
    ),
    Verb(
        "account correct",
        "Correct a balance, up or down.",
        accounts.account_correct,
        (
            'account correct alice -0.5 --note "charged twice by hand"',
            'account correct alice -0.25 --note "interrupted" --request req_0123456789abcdef',
            'account correct alice 0 --note "no reply" --request req_0123456789abcdef',
        ),
        (
            ACCOUNT_NAME,
            arg("amount", "±AMOUNT", read.amount, "how much to add, or to take: 0.25 or -0.5"),
            arg("--note", "TEXT", read.word, "the reason", required=True),
            arg("--request", "ID", read.word, "the interrupted request that this settles"),
            IDEMPOTENCY_KEY,
            JSON,
        ),
    ),
    Verb(
        "account suspend",
        "Refuse an account's requests until it is resumed.",
        accounts.account_suspend,
        ("account suspend alice",),
        (ACCOUNT_NAME, JSON),
    ),
    Verb(
        "account resume",
        "Accept a suspended account's requests again.",
        accounts.account_resume,
        ("account resume alice",),
        (ACCOUNT_NAME, JSON),
    ),
    Verb(
        "account passwd",
        "Set an account's password for the console: ask for it twice, or read a line of stdin."
        " Its sessions end.",
        signin.account_passwd,
        ("account passwd alice", "account passwd alice < password.txt"),
        (ACCOUNT_NAME,),
    ),
    Verb(
        "account signin-link",
        "Print a link that signs in to the console as the account. It works once, within a day.",
        signin.account_signin_link,
        ("account signin-link alice",),
        (ACCOUNT_NAME,),
    ),
    Verb(
        "account end-sessions",
        "Sign an account out of the console everywhere. Its password stays.",
        accounts.account_end_sessions,
        ("account end-sessions alice",),
        (ACCOUNT_NAME, JSON),
    ),
)
