"""The command line: `python -m gateway VERB`.

    main        runs a command and returns its exit code
    verbs       the decorator that makes a verb of a function; the words, and argparse's parser
    arguments   parses amounts, durations, times and lists
    command     a command as its verb sees it: configuration, books, output
    output      writes data to stdout and messages to stderr; tables
    actor       the name of the person who runs a command
    process  books  unit  check  accounts  keys  budgets  codes  tokens  calls  observations  alerts
    prices      the verbs of these subjects, with their arguments, help, examples and tables

May import: the leaves, `config`, `ledger`, `upstream`, `price_lists`, `admin`, `alerts`, `server`.
"""

from gateway.cli.main import main

__all__ = ["main"]
