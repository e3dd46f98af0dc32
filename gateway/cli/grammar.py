"""The command line's grammar: every verb with its arguments, help and examples.

Those of accounts, of keys and codes, of budgets, and of tokens are in the modules of these names.
"""

from __future__ import annotations

from typing import Final, get_args

from gateway.cli import alerts, calls, moves, observations, price_lists, verbs
from gateway.cli import arguments as read
from gateway.cli.account_grammar import ACCOUNT_VERBS, JSON, SINCE, UNTIL
from gateway.cli.budget_grammar import BUDGET_VERBS
from gateway.cli.key_grammar import CODE_VERBS, KEY_VERBS
from gateway.cli.parser import Verb, arg, choice, flag
from gateway.cli.token_grammar import TOKEN_VERBS
from gateway.config import load_config, load_storage
from gateway.exit_codes import ExitCode
from gateway.ledger import ENDINGS, UsageGroup

ACCOUNT: Final = arg("--account", "NAME", read.word, "only this account")
LIMIT: Final = arg("--limit", "N", read.count_above_zero, "the most to list", default=50)
_PRICE_LIST: Final = arg("file", "FILE", read.new_file, "the price list that you downloaded")


VERBS: Final[tuple[Verb, ...]] = (
    Verb(
        "serve",
        "Run the gateway. This is the default verb.",
        verbs.serve,
        ("serve", "serve --config /etc/gateway.toml"),
        load=load_config,
    ),
    Verb(
        "check",
        f"Check and summarise the configuration. Exits {ExitCode.CONFIG} if it is invalid.",
        verbs.check,
        ("check", "check --live", "check --json --config /etc/gateway.toml"),
        (
            flag(
                "--live",
                "also ask each provider for its list of models, and say what is wrong;"
                f" exits {ExitCode.FAILED} if one cannot be used",
            ),
            JSON,
        ),
        load=load_config,
    ),
    Verb(
        "reload",
        "Make the process that serves on this machine read the configuration again. It checks the whole file before anything"
        " changes, with the variables of its own environment, and says what changed, or why nothing did."
        f" Exits {ExitCode.CONFIG} if the file is invalid, {ExitCode.UNAVAILABLE} if nothing serves.",
        verbs.reload,
        ("reload", "reload --config /etc/gateway.toml --json"),
        (JSON,),
        load=load_storage,
    ),
    Verb(
        "audit",
        "Run the full audit: check that balances equal the sums of all entries and requests. "
        f"Exits {ExitCode.AUDIT_MISMATCH} if they do not.",
        verbs.audit,
        ("audit", "audit --json"),
        (JSON,),
    ),
    Verb(
        "events",
        "List who did what, apart from requests: the latest first.",
        verbs.events,
        ("events --since 24h", "events --search alice --limit 200", "events --search key.revoke"),
        (
            arg(
                "--search", "TEXT", read.word, "only where actor, action, account or target has it"
            ),
            SINCE,
            LIMIT,
            JSON,
        ),
    ),
    Verb(
        "backup",
        "Copy the database to a new file, for its owner alone. The gateway may be running. One of"
        f" PostgreSQL has backups of its own, so this exits {ExitCode.FAILED} with it.",
        verbs.backup,
        ("backup gateway-2026-11-21.db", "backup /var/backups/gateway.db --json"),
        (arg("file", "FILE", read.new_file, "the new file; must not exist"), JSON),
    ),
    Verb(
        "export",
        "Write the whole ledger to a new private file of JSON lines: no key or password, but the secrets"
        " of holders' webhooks."
        f" Exits {ExitCode.AUDIT_MISMATCH} if the books do not add up.",
        moves.export_ledger,
        ("export ledger.jsonl",),
        (arg("file", "FILE", read.new_file, "the new file; must not exist"), JSON),
    ),
    Verb(
        "import",
        "Make a new database of an exported file, or fill an empty one of PostgreSQL."
        f" Exits {ExitCode.AUDIT_MISMATCH}, and makes none, if the books do not add up.",
        moves.import_ledger,
        ("import ledger.jsonl", "import ledger.jsonl --config /etc/gateway.toml"),
        (arg("file", "FILE", read.new_file, "a file that `export` wrote"), JSON),
    ),
    Verb(
        "unit",
        "Print the systemd unit of this installation, and on stderr how to install it.",
        verbs.unit,
        (
            "unit > gateway.service",
            "unit --socket > gateway.socket",
            "unit --container > gateway.container",
        ),
        either=(
            flag(
                "--socket", "print the socket unit, which queues callers while the service restarts"
            ),
            flag("--container", "print the unit of a container, for Podman's Quadlet"),
        ),
    ),
    *ACCOUNT_VERBS,
    *KEY_VERBS,
    *BUDGET_VERBS,
    *CODE_VERBS,
    *TOKEN_VERBS,
    Verb(
        "price check",
        "Compare the prices with a list: the JSON of genai-prices, or LiteLLM's map. "
        f"Exits {ExitCode.FAILED} if one drifts.",
        price_lists.price_check,
        ("price check data.json", "price check model_prices_and_context_window.json --json"),
        (_PRICE_LIST, JSON),
    ),
    Verb(
        "price propose",
        "Print prices of a list as TOML to paste, with the old ones in comments. Changes nothing.",
        price_lists.price_propose,
        ("price propose data.json",),
        (_PRICE_LIST, JSON),
    ),
    Verb(
        "usage",
        "Sum up the requests, tokens and cost of all accounts or of one.",
        verbs.usage,
        (
            "usage --since 7d",
            "usage --by account --since today",
            "usage --account alice --by model --since yesterday",
            "usage --since 2026-11-01 --until 2026-11-30 --csv > usage.csv",
        ),
        (
            ACCOUNT,
            choice("--by", get_args(UsageGroup), "one line for each", default="day"),
            SINCE,
            UNTIL,
        ),
        either=(JSON, flag("--csv", "write CSV to stdout")),
    ),
    Verb(
        "calls",
        "List calls of all accounts, the latest first. What was said in them is kept nowhere.",
        calls.list_calls,
        (
            "calls --outcome failed --since yesterday",
            "calls --account alice --status 502 --limit 5 --json",
        ),
        (
            ACCOUNT,
            arg("--key", "ID", read.word, "only this key, by its id", dest="key_id"),
            arg("--model", "M", read.word, "only this model"),
            arg("--provider", "P", read.word, "only this provider"),
            choice("--outcome", ("failed", *ENDINGS), "only calls that ended so"),
            arg("--status", "N", read.count, "only this status of the reply", dest="http_status"),
            SINCE,
            UNTIL,
            LIMIT,
            JSON,
        ),
    ),
    Verb(
        "receipt",
        "Show how one call ended, what it used, and what it cost.",
        calls.show_receipt,
        ("receipt req_0123456789abcdef", "receipt req_0123456789abcdef --json"),
        (arg("id", "ID", read.word, "the request id, from the reply's x-request-id"), JSON),
    ),
    Verb(
        "providers",
        "Show how the providers answer: calls, failures and the last error.",
        observations.providers,
        ("providers", "providers --json"),
        (JSON,),
    ),
    Verb(
        "alerts list",
        "List the latest alerts to the operator, and whether they were delivered.",
        alerts.list_alerts,
        ("alerts list", "alerts list --limit 5 --json"),
        (arg("--limit", "N", read.count_above_zero, "the most to list", default=20), JSON),
    ),
    Verb(
        "alerts test",
        "Send a test to the webhook and the command under [alerts], and say how it went.",
        alerts.send_test,
        ("alerts test", "alerts test --json"),
        (JSON,),
        load=load_config,
    ),
    Verb(
        "refusals",
        "Show which requests were refused, for whom and why.",
        observations.refusals,
        ("refusals", "refusals --account alice --since yesterday"),
        (
            ACCOUNT,
            SINCE,
            JSON,
        ),
    ),
)

GROUPS: Final = {
    "account": "Manage accounts and their balances.",
    "key": "Manage the keys of accounts.",
    "budget": "Manage budgets, which begin anew each day, week or month.",
    "price": "Compare the prices with a list that others publish.",
    "alerts": "Look at alerts, and try where they go.",
    "code": "Manage top-up codes; each can be redeemed once.",
    "token": "Manage tokens, by which scripts use the console's API.",
}
