"""Accounts, keys, holds and charges. No other folder knows how they are stored.

    base             records of a serving ledger: accounts and keys in memory, holds, settlements
    records          errors of a ledger, and where one is: a file, or the address of a database;
                     records of accounts, entries, events and audits
    key_records      keys, their terms, limits
    budget_records   budgets, their periods, what is spent
    call_records     receipts of calls, and the words for how calls end
    checks           checks of names, notes, amounts, limits and dates, before they are stored
    versions         the version of a file's schema, and which older ones are upgraded
    opening          opens and checks the ledger of a location
    serving/         the contract of a serving ledger: decisions in memory, one writer over a store
    sql/             statements that databases share, and the operator's books made of them
    sqlite/          a ledger in one SQLite file, for one serving process

README.md has the rules, their tables, and what is done in which order.

The life of money:

    1. `hold` checks the balance and sets the expected cost aside, in one synchronous step.
    2. `confirm` has it in force for all processes before the request goes to a provider.
    3. The request's row is committed before the caller's first byte (`wait_admitted`).
    4. `settle` queues the charge, or the void if nothing is owed; the hold is raised to it.
    5. The charge is committed: one entry per request, however often `settle` is called.
    6. Balances in memory are assigned from the commit, and the hold is dropped.
    7. Only then the caller gets the last bytes of the reply.
    8. If commits fail, nobody is admitted; charges of delivered streams wait in the queue.
    9. A crash interrupts what is pending: nothing is charged, nothing is held.
    10. The operator credits and corrects through the books, in entries of the same table.
    11. The audit proves that each balance is the sum of its entries.

A key's cap and budget are checked by the same hold and added to by the same commit.

May import: `base`, `extension` (for the databases of extras).
"""
