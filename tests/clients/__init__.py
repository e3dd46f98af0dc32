"""Clients as people install them, as subprocesses, against the gateway and a scripted provider.

The folder in which npm and pip installed them is named by `GATEWAY_CLIENTS`; without it these tests
are skipped. `.ci/run` installs them.
"""
