"""The ledger in one SQLite file: one serving process, and operators beside it.

schema    the file: created, locked, opened, migrated
batch     the transaction that moves money, for the server and the operator
rows      many rows in one statement
totals    the sums by hour and day
reasons   why a database cannot be used, in words for operators
audit     the proof of the books
integrity the file as SQLite checks it
backup    a copy while others write
serving/  implements `Ledger`
books/    implements `Books`
"""
