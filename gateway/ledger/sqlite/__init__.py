"""The ledger in one SQLite file: one serving process, and operators beside it.

schema    the file: created, opened, upgraded, with the tables of extras
upgrades  the copy from before an upgrade, and what is said while one is under way
backup    copies of it while others write
faults    its errors and the system's, in words for operators
files     its lock and its names
batch     the transaction that moves money, and adds to what budgets have spent
folds     sums and lists: of charges, which are written a moment later; of voids
statements   transactions, and statements that take many rows at once
books     implements `Books`; the file as SQLite checks it, and the proof of the books
serving   opens a `ServingLedger` on it: the lock, the audit, recovery from a crash, everything into
          memory; reads receipts and spending on a connection beside the writer's
store     one round after the other, on the thread of the writer's connection: look for changes of
          others, commit a batch
thread    a thread that owns a connection and runs functions on it
polls     what a round looks at now and then: commits of others, the size of the log
"""
