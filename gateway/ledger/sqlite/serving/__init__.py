"""The ledger of a serving process on one SQLite file.

ledger       opens it: the lock, the audit, recovery from a crash, everything into memory
store        one round on the writer's connection: look for changes, commit a batch, cut the log
connections  the writer's on a thread of its own, and the reader's for receipts and spending
"""
