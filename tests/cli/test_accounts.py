"""The list of accounts without what they spent, which an extra adds to it."""

from __future__ import annotations

from gateway.cli import accounts
from gateway.cli.verbs import VERBS
from gateway.extension import find_extras
from tests.support.cli import Cli


def test_accounts_are_listed_with_their_balances(cli: Cli) -> None:
    cli.done("account", "add", "bo", "--credit", "0.5")
    cli.done("account", "add", "alice", "--credit", "20")
    told = cli.done("account", "list")
    names = [line.split()[0] for line in told.out.splitlines()]
    assert names[:3] == ["NAME", "alice", "bo"]
    is_own = VERBS["account list"].run is accounts.account_list
    assert is_own == ("reports" not in find_extras())
    assert ("LASTS" in told.out) != is_own
