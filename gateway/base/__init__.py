"""Modules that all other folders use.

errors      whose fault a failure is, and what the caller is told
money       amounts in nano-units, prices, the cost of tokens
prices      prices by rules, and the price that applied
usage       what a reply used, measured or estimated
times       clocks, days, months, moments in words
ids         ids of requests, keys and their digests
addresses   hosts, ports, and who stands behind a proxy
tls         why a TLS handshake failed
process     exit codes, the program's name, the version
progress    how far a long operation is; log lines for states that come and go
turns       shares of the event loop's turns and a thread, fair by owner; background tasks; the loop's lag
deadlines   deadlines of callers and providers; time in which this process did not run is left out

May import: nothing. Among themselves the modules import `money`, `prices` and `times` alone; `deadlines`
also `errors` and `turns`.
"""
