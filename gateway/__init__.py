"""An LLM gateway: keys, balances and an exact ledger in front of several upstream providers.

The map, in the order a request meets the modules. (A test holds it to the folder.)

How it starts:

    __main__              `python -m gateway`
    cli                   the verbs: what runs, and which exit code it ends with
    cli_grammar           every verb with its arguments, help and examples
    cli_words             what the grammar is made of
    cli_parser            argparse made from the grammar
    cli_arguments         what an argument may be: amounts, dates, durations
    cli_verbs             accounts, usage, audit, backup
    cli_keys              keys
    cli_codes             top-up codes
    cli_signin            passwords and sign-in links for the console
    cli_check             `check`: what a configuration means
    cli_unit              `unit`: what this installation is
    cli_tables            records as tables for people
    cli_output            stdout for data, stderr for words
    config                gateway.toml as frozen records
    config_settings       every key of it: type, default, meaning
    config_reader         reading tables, and errors that name file, table and key
    config_values         addresses, secrets, headers, routes
    serve                 ledger, application, socket, signals, in that order and back
    listener              an address of our own, or sockets that were passed
    drain                 the way out: signals, requests in flight, open connections
    systemd               what systemd hands over, and what it is told
    unit                  the unit files by which it runs the gateway
    first_start           the account and key of a first start
    app                   routes and middlewares around one `Gateway`
    callerwatch           connections of callers that stand still
    state                 what the application and each request carry

The way of a request:

    middleware            dialect, caller, rate, balance
    limits                rates of a key
    apikeys               shape, checksum and digest of a key
    surface               the completion handler: read, check, hold, forward, settle, reply
    intake                reading the body, within a budget for all of them
    work                  one admitted request: all that serving it takes
    billing               one request's hold and its one settlement
    routing               which providers, in which order
    breaker               who fails again and again is left alone a while
    forwarder             a provider over HTTP, and what its failures mean
    connection            connections to a provider: opened, used, kept
    http1                 reading a response: bytes in, body out, no I/O
    demo                  the provider that is built in
    streaming             a stream from its first event to its last byte, and all its endings
    relay                 one stream: upstream bytes through the pipeline to the caller
    sink                  the caller's side of a stream
    watch                 one timer for all streams
    catalog               `GET /v1/models`
    counting              `POST /v1/messages/count_tokens`
    receipts              `GET /v1/receipts/{id}`: what a request was charged, and why
    keyinfo               `GET /v1/key`: what a key may do, has spent, and has left
    health                `GET /healthz` and `GET /readyz`
    access_log            one line per request

The console, in the order a request of its page meets the modules:

    console/routes        every way in, and the application's share of it
    console/pages         the page's files, from memory
    console/door          the way of a request: origin, session, role, body, handler
    console/origin        which site and which address it comes from
    console/cookies       the session's cookie
    console/state         what requests share, and what each of them carries
    console/desk          the books on a thread of their own
    console/fields        bodies and queries, read field by field
    console/once          what moves money happens once
    console/session_api   signing in and out
    console/throttle      how often somebody may try
    console/hasher        passwords on two threads
    console/devices       browsers in two words
    console/settings_api  one's own password and sessions
    console/overview_api  the balance, how long it lasts, the last days
    console/keys_api      one's own keys
    console/usage_api     what was used by day, hour, model, key; and as CSV
    console/billing_api   movements of the balance, and as CSV
    console/activity_api  calls, and as CSV
    console/models_api    what can be called, and its price
    console/accounts_api  all accounts, and what is done to one
    console/codes_api     top-up codes, and redeeming one
    console/operations_api  providers, health, audit
    console/vitals        the latest failures, the loop's lag, the last proof
    console/views         shapes that the page alone is shown
    console/paging        lists in pages
    console/csv_stream    a list as a file of any length
    console/refusals      errors, in words for the page
    console/headers       what a browser is told not to do

What the wire formats know, without I/O:

    dialects/base                   the seams: caller dialect, exchange, pipeline
    dialects/exchanges              which pairs of dialects there are
    dialects/checks                 checks of a request's fields
    dialects/jsonbytes              JSON edits that leave all other bytes alone
    dialects/framing                a stream's bytes as buffers of whole events
    dialects/template               content deltas without a parse
    dialects/passing                a stream that passes but for edits, whichever its dialect
    dialects/replay                 a JSON reply where a stream was asked for
    dialects/upstream_errors        what an upstream's error means for the caller

    dialects/chat                   the chat dialect, and chat over chat
    dialects/chat_request           validating a chat request
    dialects/chat_reply             a chat completion
    dialects/chat_stream            a chat stream: edits, repair, meter
    dialects/chat_repair            chunks that break the spec, made right

    dialects/messages               the messages dialect, and messages over messages
    dialects/messages_request       validating a messages request
    dialects/messages_reply         a message
    dialects/messages_stream        a messages stream: the model's name, meter

    dialects/chat_over_messages     chat callers over messages upstreams
    dialects/to_messages_request    the request translated
    dialects/to_messages_turns      its conversation
    dialects/to_messages_parts      its content
    dialects/to_messages_tools      its tools
    dialects/to_messages_reasoning  its reasoning effort
    dialects/to_messages_checks     what cannot be carried over
    dialects/from_messages_reply    the reply translated
    dialects/from_messages_stream   the stream translated
    dialects/from_messages_chunks   its blocks as chunks
    dialects/from_messages_ending   stop reasons, usage, failures

    dialects/messages_over_chat     messages callers over chat upstreams
    dialects/to_chat_request        the request translated
    dialects/to_chat_messages       its conversation
    dialects/to_chat_parts          its content
    dialects/to_chat_tools          its tools
    dialects/to_chat_fields         typed access that names the field
    dialects/from_chat_reply        the reply translated
    dialects/from_chat_stream       the stream translated
    dialects/from_chat_events       the upstream's bytes as chunks
    dialects/from_chat_blocks       its deltas as blocks
    dialects/from_chat_shapes       messages objects with all required keys

    sse                             server-sent events as bytes
    usage                           tokens, reported or estimated
    money                           nano-units, prices, the one rounding
    errors                          what can go wrong, and whose fault it is

What all of them use:

    times                 moments: from the clock, from dates, as texts
    addresses             hosts and ports as people and browsers write them
    csv_text              CSV that no spreadsheet runs
    views                 records as JSON, for the command line, receipts and the console
    tasks                 tasks that nobody awaits

Money at rest:

    ledger/base           what a ledger is
    ledger/sqlite         the ledger of a serving process
    ledger/memory         accounts, keys and holds; the binding check
    ledger/writer         the one task that commits
    ledger/hop            one batch on the connection's thread
    ledger/thread         functions on that thread
    ledger/batch          the one transaction that moves money
    ledger/totals         sums by hour and day, kept as requests end
    ledger/rows           many rows in one statement
    ledger/changes        what other processes changed
    ledger/reader         receipts and a key's sums, read beside the writer
    ledger/recovery       what a crash left in flight becomes `interrupted`
    ledger/wal            the write-ahead log kept small
    ledger/schema         opening, pragmas, migrations
    ledger/lock           one serving process per database
    ledger/books          the operator's side, as one
    ledger/book           a connection to read and change by, and the note of who did
    ledger/book_accounts  accounts, and what moves their balances apart from requests
    ledger/book_directory  accounts looked up, with how they stand
    ledger/book_keys      keys: made, edited, replaced, revoked
    ledger/book_codes     top-up codes: made, voided, redeemed once
    ledger/book_signins   passwords, links, sessions
    ledger/book_replays   the reply that is kept with its effect
    ledger/book_events    who did what; the last proof and the last copy
    ledger/book_usage     what was used and spent, from the sums by hour and day
    ledger/book_lists     entries and calls in pages, and how many there are
    ledger/list_entries   movements of a balance, the latest first
    ledger/list_calls     calls of an account, the latest first
    ledger/reports        what the operator's side reads
    ledger/records        what it is shown: accounts, keys, entries, calls; and its refusals
    ledger/code_records   top-up codes
    ledger/usage_records  sums of usage
    ledger/audit          balances proven from entries, and sums from requests
    ledger/backup         a copy while the gateway serves
    accounts              the operator's verbs
    codes                 top-up codes: how they look, and their verbs
    signin                passwords, links and sessions, as the CLI and the console have them
    passwords             what is stored of a password: scrypt
    verb_checks           what verbs ask of texts and amounts
"""
