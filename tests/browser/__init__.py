"""The console in a real browser, against `python -m gateway` on a database of the test's own.

test_first_run      the whole first journey; a key is shown once
test_flows          limits, roles, budgets, calls; a double click moves money once
test_accessible     axe on all pages, both themes, narrow and wide; no foreign resources
test_keyboard       everything without a mouse
test_narrow         on a phone: rows are cards, and nothing scrolls sideways
test_hostile        names that are markup, other sites, other accounts' ids
test_figures        chart, table, CSV, API and ledger agree; no data, much data, long names
test_sessions       sessions end, and people sign in again
test_screenshots    pictures of all pages, on request
test_failures       restarts, locks, failures

kit                 the browser, a served gateway, a witness of all errors in the page; all pages
"""
