"""The ledger of a serving process, the same for each database: decisions in memory, one writer.

ledger    the contract: hold, confirm, settle; its waits, and its receipts
memory    accounts and keys, as a request reads no row; the check and the reservation of money in one
          step, and their release
queue     holds and settlements that are not committed, and who waits for them; the contract of a store,
          which carries out rounds: what it is given and what it reports
writer    rounds: when one begins, a batch to commit, what was committed into memory; whether commits
          work: outages, retries and their log lines
"""
