"""The ledger in one SQLite file: one serving process, and operators beside it.

schema    the file: created, locked, opened, migrated
batch     the transaction that moves money, for the server and the operator
rows      many rows in one statement
totals    the sums by hour and day
budgets   the sums of budgets
costs     the sums of what providers bill
observations  sums of refusals and of calls to providers, written beside the books
reasons   why a database cannot be used, in words for operators
audit     the proof of the books; checks has its queries
integrity the file as SQLite checks it
backup    a copy while others write
moving    every row as records, and a new database made of them
receipts  the receipt of one request
serving/  implements `Ledger`
books/    implements `Books`
"""
