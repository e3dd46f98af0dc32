"""The ledger in one SQLite file: one serving process, and operators beside it.

schema    the file: created, opened, migrated; files: its lock and its names
batch     the transaction that moves money
rows      many rows in one statement
totals    the sums by hour and day
budgets   the sums of budgets
costs     the sums of what providers bill
observations  sums of refusals and of calls to providers, written beside the books
reasons   why a database cannot be used, in words for operators
audit     the file as SQLite checks it (integrity), and the proof of the books
backup    a copy while others write
moving    every row as records, and a new database made of them
books     implements `Books`
serving/  implements `Ledger`
"""
