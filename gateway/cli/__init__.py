"""The command line: `python -m gateway VERB`.

    main        runs a command and returns its exit code
    verbs       the decorator that makes a verb of a function; the words, and argparse's parser
    arguments   parses amounts, durations, times and lists; writes data to stdout, messages to stderr
    command     a command as its verb sees it: configuration, books, who asks; `serve`, `reload`
    books  unit  check  accounts  keys  codes  calls  alerts  prices
                the verbs of these subjects, with their arguments, help, examples and tables

May import: the leaves, `config`, `ledger`, `upstream`, `price_lists`, `admin`, `alerts`, `server`.
"""

from gateway.cli.main import main

__all__ = ["main"]
