"""Code that SQLite and PostgreSQL share: statements in the SQL of both, and the books made of them.

connection  the connection as both drivers offer it, and how statements are written
rows        columns and the records made of them: terms, entries, receipts, sums of charges; what a
            serving process reads
audit       the proof of the books
books/      implements `Books`, but for what each database adds
"""
