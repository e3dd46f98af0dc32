"""Random lives of completions: the real driver against scripted providers, callers and ledgers.

There are no sockets and no waiting: the event loop's clock jumps to the next timer. A life that
does not end raises Hang. Each life has a seed, and
`python -m tests.long lives --count 1 --seed N` plays it again.
"""
