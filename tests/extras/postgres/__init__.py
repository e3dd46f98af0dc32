"""Tests of the ledger in PostgreSQL, and what other tests need for it.

cluster    PostgreSQL servers of the tests' own, and PgBouncer in front of one
databases  databases with the ledger's tables, made from one of them
fixtures   a server for each worker, a database for each test
places     the ledger's contracts and books, for the tests that run with each database
storage    a ledger, and how it is broken
fleet      several gateways on one database; loads and bursts on them
long       what `python -m tests.long` has of it, and `bench` its measurements
"""
