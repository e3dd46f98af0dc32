"""The console in a real browser, against `python -m gateway` on a database of the test's own.

test_first_run      the whole first journey
test_played         what people do on the pages, as `played/` has it: with and without a mouse
test_accessible     axe on all pages, both themes, narrow and wide; no foreign resources
test_phones         each page loaded at its address: with very many rows, at most three screens of a phone
test_hostile        names that are markup, other sites, other accounts' ids
test_figures        chart, table, CSV, API and ledger agree; no data, much data, long names
test_failures       restarts, locks, failures, refused requests, nothing outdated

With CONSOLE_SCREENSHOTS=folder, test_accessible leaves pictures of all pages there.

The other tests go from page to page by links, which costs a quarter of loading them.

kit                 the browser, a served gateway, a witness of all errors in the page; all pages
"""
