BEGIN TRANSACTION;
CREATE TABLE accounts (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    operator INTEGER NOT NULL DEFAULT 0 CHECK (operator IN (0, 1)),
    suspended INTEGER NOT NULL DEFAULT 0 CHECK (suspended IN (0, 1)),
    -- The sum of the account's entries, kept in the transaction that adds an entry.
    balance_nano INTEGER NOT NULL DEFAULT 0,
    created_ms INTEGER NOT NULL,
    -- For all its keys together. A JSON array of model ids; NULL allows all.
    models TEXT CHECK (models IS NULL OR json_valid(models)),
    -- Limits: NULL is the default of the configuration, 0 is none.
    requests_per_minute INTEGER CHECK (requests_per_minute >= 0),
    tokens_per_minute INTEGER CHECK (tokens_per_minute >= 0),
    concurrency INTEGER CHECK (concurrency >= 0)
) STRICT;
INSERT INTO "accounts" VALUES(1,'alice',0,0,19999731000,1795883831380,NULL,NULL,NULL,NULL);
INSERT INTO "accounts" VALUES(2,'bob',0,0,4749964000,1795883832295,NULL,NULL,NULL,NULL);
INSERT INTO "accounts" VALUES(3,'idle',0,1,0,1795883833414,NULL,NULL,NULL,NULL);
CREATE TABLE alert_conditions (
    kind TEXT NOT NULL,
    -- An account's id, a provider's name.
    subject TEXT NOT NULL,
    since_ms INTEGER NOT NULL,
    PRIMARY KEY (kind, subject)
) STRICT, WITHOUT ROWID;
INSERT INTO "alert_conditions" VALUES('low_balance','2',1795883851346);
CREATE TABLE alert_hooks (
    account_id INTEGER PRIMARY KEY REFERENCES accounts (id),
    -- NULL: this account is told by the console alone.
    url TEXT,
    -- The key of the signature: it has to be known in the clear.
    secret TEXT,
    -- NULL: the threshold of the configuration.
    low_balance_nano INTEGER CHECK (low_balance_nano >= 0),
    CHECK ((url IS NULL) = (secret IS NULL))
) STRICT;
CREATE TABLE alerts (
    id TEXT PRIMARY KEY,
    -- The occurrence, which is raised once for each channel.
    key TEXT NOT NULL,
    channel TEXT NOT NULL CHECK (channel IN ('webhook', 'command', 'holder')),
    kind TEXT NOT NULL,
    -- The account that it is about, or NULL.
    account_id INTEGER REFERENCES accounts (id),
    -- What is sent.
    body TEXT NOT NULL CHECK (json_valid(body)),
    created_ms INTEGER NOT NULL,
    -- NULL: it is delivered, or given up.
    next_try_ms INTEGER,
    attempts INTEGER NOT NULL DEFAULT 0,
    delivered_ms INTEGER,
    -- Why the last try failed.
    reason TEXT,
    UNIQUE (key, channel),
    CHECK (channel <> 'holder' OR account_id NOT NULL),
    CHECK (delivered_ms IS NULL OR next_try_ms IS NULL)
) STRICT;
INSERT INTO "alerts" VALUES('alert_939f6e649dd4dee0c5c6506a','low_balance:bob:1795883851346','command','low_balance',2,'{"id":"alert_939f6e649dd4dee0c5c6506a","kind":"low_balance","state":"raised","subject":"bob","account":"bob","text":"The balance of account ''bob'' is 4.749964 USD, below 5.00 USD.","at":"2026-11-28T16:37:31.346Z"}',1795883851346,NULL,1,1795883851408,NULL);
INSERT INTO "alerts" VALUES('alert_001ae10213c876c5acf37f9f','password_changed:alice:14','command','password_changed',1,'{"id":"alert_001ae10213c876c5acf37f9f","kind":"password_changed","state":"raised","subject":"alice","account":"alice","text":"The password of account ''alice'' was changed by cli (ann via sudo).","at":"2026-11-28T16:37:31.366Z"}',1795883851366,NULL,1,1795883851424,NULL);
CREATE TABLE budgets (
    id INTEGER PRIMARY KEY,
    account_id INTEGER NOT NULL REFERENCES accounts (id),
    -- NULL for a key's own, which only the keys that it is rotated to share.
    name TEXT CHECK (name <> ''),
    period TEXT NOT NULL CHECK (period IN ('day', 'week', 'month')),
    amount_nano INTEGER NOT NULL CHECK (amount_nano > 0),
    -- The sum of the posted requests charged to it that ended in the period which begins on
    -- `period_day`, kept in the transaction that posts one.
    spent_nano INTEGER NOT NULL DEFAULT 0 CHECK (spent_nano >= 0),
    period_day INTEGER NOT NULL,
    created_ms INTEGER NOT NULL,
    ended_ms INTEGER,
    CHECK (ended_ms IS NULL OR name IS NOT NULL)
) STRICT;
INSERT INTO "budgets" VALUES(1,1,'monthly','month',10000000000,0,20758,1795883837887,NULL);
INSERT INTO "budgets" VALUES(2,2,'weekly','week',1000000000,0,20780,1795883838971,NULL);
CREATE TABLE calls_by_account (
    account_id INTEGER NOT NULL,
    id TEXT NOT NULL,
    key_id TEXT NOT NULL,
    model TEXT NOT NULL,
    PRIMARY KEY (account_id, id)
) STRICT, WITHOUT ROWID;
INSERT INTO "calls_by_account" VALUES(1,'req_01a22304d2a063f9e5509ec4d9e4','key_31c4939b0d48b551','demo/echo');
INSERT INTO "calls_by_account" VALUES(1,'req_01a22304d2ba06e8bbce3ac71408','key_31c4939b0d48b551','demo/echo');
INSERT INTO "calls_by_account" VALUES(1,'req_01a22304d2bf9cb26e37ef7ee99d','key_31c4939b0d48b551','demo/echo');
INSERT INTO "calls_by_account" VALUES(1,'req_01a22304d2c313ddd86b124d5618','key_31c4939b0d48b551','demo/echo');
INSERT INTO "calls_by_account" VALUES(1,'req_01a22304d2cae4ff7a5d0123c852','key_20e21607bf6acf32','demo/echo');
INSERT INTO "calls_by_account" VALUES(1,'req_01a22304d2d59ad96aa1f590ee3f','key_20e21607bf6acf32','demo/echo');
INSERT INTO "calls_by_account" VALUES(1,'req_01a22304d2e1eea356542816a5b0','key_20e21607bf6acf32','demo/echo');
INSERT INTO "calls_by_account" VALUES(1,'req_01a22304e7e73e90e98555f47e62','key_20e21607bf6acf32','demo/echo');
INSERT INTO "calls_by_account" VALUES(2,'req_01a22304d2f156ed436a8035a10d','key_7bc932a81e621b4d','demo/echo');
INSERT INTO "calls_by_account" VALUES(2,'req_01a22304d2f784fdaef57bcf3076','key_7bc932a81e621b4d','demo/echo');
CREATE TABLE calls_by_model (
    model TEXT NOT NULL,
    id TEXT NOT NULL,
    PRIMARY KEY (model, id)
) STRICT, WITHOUT ROWID;
INSERT INTO "calls_by_model" VALUES('demo/echo','req_01a22304d2a063f9e5509ec4d9e4');
INSERT INTO "calls_by_model" VALUES('demo/echo','req_01a22304d2ba06e8bbce3ac71408');
INSERT INTO "calls_by_model" VALUES('demo/echo','req_01a22304d2bf9cb26e37ef7ee99d');
INSERT INTO "calls_by_model" VALUES('demo/echo','req_01a22304d2c313ddd86b124d5618');
INSERT INTO "calls_by_model" VALUES('demo/echo','req_01a22304d2cae4ff7a5d0123c852');
INSERT INTO "calls_by_model" VALUES('demo/echo','req_01a22304d2d59ad96aa1f590ee3f');
INSERT INTO "calls_by_model" VALUES('demo/echo','req_01a22304d2e1eea356542816a5b0');
INSERT INTO "calls_by_model" VALUES('demo/echo','req_01a22304d2f156ed436a8035a10d');
INSERT INTO "calls_by_model" VALUES('demo/echo','req_01a22304d2f784fdaef57bcf3076');
INSERT INTO "calls_by_model" VALUES('demo/echo','req_01a22304e7e73e90e98555f47e62');
CREATE TABLE calls_by_provider (
    provider TEXT NOT NULL,
    id TEXT NOT NULL,
    account_id INTEGER NOT NULL,
    PRIMARY KEY (provider, id)
) STRICT, WITHOUT ROWID;
INSERT INTO "calls_by_provider" VALUES('demo','req_01a22304d2a063f9e5509ec4d9e4',1);
INSERT INTO "calls_by_provider" VALUES('demo','req_01a22304d2ba06e8bbce3ac71408',1);
INSERT INTO "calls_by_provider" VALUES('demo','req_01a22304d2bf9cb26e37ef7ee99d',1);
INSERT INTO "calls_by_provider" VALUES('demo','req_01a22304d2c313ddd86b124d5618',1);
INSERT INTO "calls_by_provider" VALUES('demo','req_01a22304d2cae4ff7a5d0123c852',1);
INSERT INTO "calls_by_provider" VALUES('demo','req_01a22304d2d59ad96aa1f590ee3f',1);
INSERT INTO "calls_by_provider" VALUES('demo','req_01a22304d2e1eea356542816a5b0',1);
INSERT INTO "calls_by_provider" VALUES('demo','req_01a22304d2f156ed436a8035a10d',2);
INSERT INTO "calls_by_provider" VALUES('demo','req_01a22304d2f784fdaef57bcf3076',2);
INSERT INTO "calls_by_provider" VALUES('demo','req_01a22304e7e73e90e98555f47e62',1);
CREATE TABLE changes (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    kind TEXT NOT NULL CHECK (kind IN ('account', 'key', 'budget')),
    id TEXT NOT NULL
) STRICT;
INSERT INTO "changes" VALUES(8,'account','1');
INSERT INTO "changes" VALUES(9,'account','1');
INSERT INTO "changes" VALUES(10,'account','3');
INSERT INTO "changes" VALUES(11,'key','key_cca74c91c85eb8fa');
INSERT INTO "changes" VALUES(12,'key','key_31c4939b0d48b551');
CREATE TABLE checkpoints (
    id INTEGER PRIMARY KEY,
    entry_id INTEGER NOT NULL,
    created_ms INTEGER NOT NULL
) STRICT;
INSERT INTO "checkpoints" VALUES(1,3,1795883848227);
INSERT INTO "checkpoints" VALUES(2,14,1795883855038);
CREATE TABLE codes (
    id TEXT PRIMARY KEY,
    batch TEXT NOT NULL,
    digest BLOB NOT NULL UNIQUE CHECK (length(digest) = 32),
    last4 TEXT NOT NULL CHECK (length(last4) = 4),
    amount_nano INTEGER NOT NULL CHECK (amount_nano > 0),
    note TEXT NOT NULL,
    created_by TEXT NOT NULL,
    created_ms INTEGER NOT NULL,
    expires_ms INTEGER,
    voided_ms INTEGER,
    redeemed_ms INTEGER,
    redeemed_by INTEGER REFERENCES accounts (id),
    entry_id INTEGER UNIQUE REFERENCES entries (id),
    CHECK ((redeemed_ms IS NULL) = (redeemed_by IS NULL)),
    CHECK ((redeemed_ms IS NULL) = (entry_id IS NULL)),
    CHECK (redeemed_ms IS NULL OR voided_ms IS NULL)
) STRICT;
INSERT INTO "codes" VALUES('code_01a22304b12d000c8b64135','batch_db7df097bfc2b521',X'F5B8305A08A575487A7813726A8B2404C99982EB9CE1E5B20D12DEAF2C1BACE8','NFUZ',2500000000,'fair','cli (ann via sudo)',1795883839789,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "codes" VALUES('code_01a22304b12d0016aa4458c','batch_db7df097bfc2b521',X'39E81139136326C24F99D0D37496D2CF5406D9FE1489F9596D8FCF3856DD9DD3','MFY5',2500000000,'fair','cli (ann via sudo)',1795883839789,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "codes" VALUES('code_01a22304b12d002b7d60c89','batch_db7df097bfc2b521',X'4284E6258BEB95A70700DEA787159513B4F6B0C052413A1A06D340BBAB2A38BB','4ES5',2500000000,'fair','cli (ann via sudo)',1795883839789,NULL,1795883841642,NULL,NULL,NULL);
CREATE TABLE daily (
    account_id INTEGER NOT NULL REFERENCES accounts (id),
    day INTEGER NOT NULL,
    model TEXT NOT NULL,
    key_id TEXT NOT NULL REFERENCES keys (id),
    requests INTEGER NOT NULL,
    failed INTEGER NOT NULL,
    input_tokens INTEGER NOT NULL,
    cached_input_tokens INTEGER NOT NULL,
    cache_write_tokens INTEGER NOT NULL,
    output_tokens INTEGER NOT NULL,
    cost_nano INTEGER NOT NULL,
    PRIMARY KEY (account_id, day, model, key_id)
) STRICT, WITHOUT ROWID;
INSERT INTO "daily" VALUES(1,20785,'demo/echo','key_20e21607bf6acf32',3,0,6,0,0,6,108000);
INSERT INTO "daily" VALUES(1,20785,'demo/echo','key_31c4939b0d48b551',4,0,10,0,0,10,180000);
INSERT INTO "daily" VALUES(2,20785,'demo/echo','key_7bc932a81e621b4d',2,0,2,0,0,2,36000);
CREATE TABLE daily_costs (
    account_id INTEGER NOT NULL REFERENCES accounts (id),
    day INTEGER NOT NULL,
    model TEXT NOT NULL,
    key_id TEXT NOT NULL REFERENCES keys (id),
    -- Requests whose cost is known, what they were charged, and their cost.
    known INTEGER NOT NULL,
    charged_nano INTEGER NOT NULL,
    cost_nano INTEGER NOT NULL,
    -- Requests with a report, and its sum.
    reported INTEGER NOT NULL,
    reported_nano INTEGER NOT NULL,
    -- Requests with both, and how much more was reported than computed.
    compared INTEGER NOT NULL,
    difference_nano INTEGER NOT NULL,
    PRIMARY KEY (account_id, day, model, key_id)
) STRICT, WITHOUT ROWID;
INSERT INTO "daily_costs" VALUES(1,20785,'demo/echo','key_20e21607bf6acf32',3,108000,36000,0,0,0,0);
INSERT INTO "daily_costs" VALUES(1,20785,'demo/echo','key_31c4939b0d48b551',4,180000,60000,0,0,0,0);
INSERT INTO "daily_costs" VALUES(2,20785,'demo/echo','key_7bc932a81e621b4d',2,36000,12000,0,0,0,0);
CREATE TABLE entries (
    id INTEGER PRIMARY KEY,
    account_id INTEGER NOT NULL REFERENCES accounts (id),
    kind TEXT NOT NULL CHECK (kind IN ('credit', 'code', 'card', 'charge', 'correction')),
    amount_nano INTEGER NOT NULL,
    balance_after_nano INTEGER NOT NULL,
    request_id TEXT REFERENCES requests (id),
    idempotency_key TEXT,
    note TEXT NOT NULL DEFAULT '',
    created_ms INTEGER NOT NULL,
    CHECK (kind <> 'charge' OR (amount_nano <= 0 AND request_id IS NOT NULL)),
    CHECK (kind NOT IN ('credit', 'code', 'card') OR (amount_nano > 0 AND request_id IS NULL)),
    -- A correction of 0 says of a request that its charge stays as it is.
    CHECK (kind <> 'correction' OR (note <> '' AND (amount_nano <> 0 OR request_id IS NOT NULL)))
) STRICT;
INSERT INTO "entries" VALUES(1,1,'credit',20000000000,20000000000,NULL,NULL,'',1795883831380);
INSERT INTO "entries" VALUES(2,2,'credit',5000000000,5000000000,NULL,NULL,'',1795883832295);
INSERT INTO "entries" VALUES(3,2,'correction',-250000000,4750000000,NULL,NULL,'postage',1795883842680);
INSERT INTO "entries" VALUES(4,1,'charge',-18000,19999982000,'req_01a22304d2a063f9e5509ec4d9e4',NULL,'',1795883848368);
INSERT INTO "entries" VALUES(5,1,'charge',-36000,19999946000,'req_01a22304d2ba06e8bbce3ac71408',NULL,'',1795883848379);
INSERT INTO "entries" VALUES(6,1,'charge',-54000,19999892000,'req_01a22304d2bf9cb26e37ef7ee99d',NULL,'',1795883848384);
INSERT INTO "entries" VALUES(7,1,'charge',-72000,19999820000,'req_01a22304d2c313ddd86b124d5618',NULL,'',1795883848388);
INSERT INTO "entries" VALUES(8,1,'charge',-36000,19999784000,'req_01a22304d2cae4ff7a5d0123c852',NULL,'',1795883848402);
INSERT INTO "entries" VALUES(9,1,'charge',-36000,19999748000,'req_01a22304d2d59ad96aa1f590ee3f',NULL,'',1795883848411);
INSERT INTO "entries" VALUES(10,1,'charge',-36000,19999712000,'req_01a22304d2e1eea356542816a5b0',NULL,'',1795883848426);
INSERT INTO "entries" VALUES(11,2,'charge',-18000,4749982000,'req_01a22304d2f156ed436a8035a10d',NULL,'',1795883848435);
INSERT INTO "entries" VALUES(12,2,'charge',-18000,4749964000,'req_01a22304d2f784fdaef57bcf3076',NULL,'',1795883848440);
INSERT INTO "entries" VALUES(13,1,'correction',18000,19999730000,'req_01a22304d2a063f9e5509ec4d9e4','refund req_01a22304d2a063f9e5509ec4d9e4 18000','sorry',1795883849211);
INSERT INTO "entries" VALUES(14,1,'correction',1000,19999731000,'req_01a22304d2ba06e8bbce3ac71408','refund req_01a22304d2ba06e8bbce3ac71408 1000','a part',1795883850069);
CREATE TABLE entries_by_account (
    account_id INTEGER NOT NULL,
    id INTEGER NOT NULL,
    PRIMARY KEY (account_id, id)
) STRICT, WITHOUT ROWID;
INSERT INTO "entries_by_account" VALUES(1,1);
INSERT INTO "entries_by_account" VALUES(1,4);
INSERT INTO "entries_by_account" VALUES(1,5);
INSERT INTO "entries_by_account" VALUES(1,6);
INSERT INTO "entries_by_account" VALUES(1,7);
INSERT INTO "entries_by_account" VALUES(1,8);
INSERT INTO "entries_by_account" VALUES(1,9);
INSERT INTO "entries_by_account" VALUES(1,10);
INSERT INTO "entries_by_account" VALUES(1,13);
INSERT INTO "entries_by_account" VALUES(1,14);
INSERT INTO "entries_by_account" VALUES(2,2);
INSERT INTO "entries_by_account" VALUES(2,3);
INSERT INTO "entries_by_account" VALUES(2,11);
INSERT INTO "entries_by_account" VALUES(2,12);
CREATE TABLE events (
    id INTEGER PRIMARY KEY,
    at_ms INTEGER NOT NULL,
    actor TEXT NOT NULL,
    action TEXT NOT NULL,
    account TEXT,
    target TEXT,
    detail TEXT NOT NULL,
    address TEXT
) STRICT;
INSERT INTO "events" VALUES(1,1795883831381,'cli (ann via sudo)','account.add','alice',NULL,'with a credit of 20.00',NULL);
INSERT INTO "events" VALUES(2,1795883832296,'cli (ann via sudo)','account.add','bob',NULL,'with a credit of 5.00',NULL);
INSERT INTO "events" VALUES(3,1795883833414,'cli (ann via sudo)','account.add','idle',NULL,'',NULL);
INSERT INTO "events" VALUES(4,1795883834522,'cli (ann via sudo)','key.add','alice','key_31c4939b0d48b551','laptop',NULL);
INSERT INTO "events" VALUES(5,1795883835569,'cli (ann via sudo)','key.add','alice','key_20e21607bf6acf32','ci',NULL);
INSERT INTO "events" VALUES(6,1795883836934,'cli (ann via sudo)','key.add','bob','key_7bc932a81e621b4d','',NULL);
INSERT INTO "events" VALUES(7,1795883837888,'cli (ann via sudo)','budget.add','alice','1','''monthly'': 10.00 a month',NULL);
INSERT INTO "events" VALUES(8,1795883838972,'cli (ann via sudo)','budget.add','bob','2','''weekly'': 1.00 a week',NULL);
INSERT INTO "events" VALUES(9,1795883839790,'cli (ann via sudo)','code.make',NULL,'batch_db7df097bfc2b521','3 of 2.50: fair',NULL);
INSERT INTO "events" VALUES(10,1795883841642,'cli (ann via sudo)','code.void',NULL,'code_01a22304b12d002b7d60c89','2.50',NULL);
INSERT INTO "events" VALUES(11,1795883842680,'cli (ann via sudo)','account.correct','bob',NULL,'-0.25: postage',NULL);
INSERT INTO "events" VALUES(12,1795883843492,'cli (ann via sudo)','token.add',NULL,'tok_17df81aec0090475','shop, role read',NULL);
INSERT INTO "events" VALUES(13,1795883844364,'cli (ann via sudo)','account.signin_link','alice',NULL,'',NULL);
INSERT INTO "events" VALUES(14,1795883846030,'cli (ann via sudo)','account.password','alice',NULL,'ended 0 sessions',NULL);
INSERT INTO "events" VALUES(15,1795883849213,'cli (ann via sudo)','account.correct','alice','req_01a22304d2a063f9e5509ec4d9e4','0.000018: sorry',NULL);
INSERT INTO "events" VALUES(16,1795883850069,'cli (ann via sudo)','account.correct','alice','req_01a22304d2ba06e8bbce3ac71408','0.000001: a part',NULL);
INSERT INTO "events" VALUES(17,1795883850953,'cli (ann via sudo)','account.suspend','idle',NULL,'',NULL);
INSERT INTO "events" VALUES(18,1795883853099,'cli (ann via sudo)','key.rotate','alice','key_31c4939b0d48b551','replaced by key_cca74c91c85eb8fa, grace 0 s',NULL);
CREATE TABLE folded (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    entry_id INTEGER NOT NULL
) STRICT;
INSERT INTO "folded" VALUES(1,14);
CREATE TABLE hourly (
    account_id INTEGER NOT NULL REFERENCES accounts (id),
    hour INTEGER NOT NULL,
    model TEXT NOT NULL,
    key_id TEXT NOT NULL REFERENCES keys (id),
    requests INTEGER NOT NULL,
    failed INTEGER NOT NULL,
    input_tokens INTEGER NOT NULL,
    cached_input_tokens INTEGER NOT NULL,
    cache_write_tokens INTEGER NOT NULL,
    output_tokens INTEGER NOT NULL,
    cost_nano INTEGER NOT NULL,
    PRIMARY KEY (account_id, hour, model, key_id)
) STRICT, WITHOUT ROWID;
INSERT INTO "hourly" VALUES(1,498856,'demo/echo','key_20e21607bf6acf32',3,0,6,0,0,6,108000);
INSERT INTO "hourly" VALUES(1,498856,'demo/echo','key_31c4939b0d48b551',4,0,10,0,0,10,180000);
INSERT INTO "hourly" VALUES(2,498856,'demo/echo','key_7bc932a81e621b4d',2,0,2,0,0,2,36000);
CREATE TABLE keys (
    id TEXT PRIMARY KEY,
    account_id INTEGER NOT NULL REFERENCES accounts (id),
    name TEXT NOT NULL,
    digest BLOB NOT NULL UNIQUE CHECK (length(digest) = 32),
    last4 TEXT NOT NULL CHECK (length(last4) = 4),
    -- As for accounts.
    models TEXT CHECK (models IS NULL OR json_valid(models)),
    requests_per_minute INTEGER CHECK (requests_per_minute >= 0),
    tokens_per_minute INTEGER CHECK (tokens_per_minute >= 0),
    concurrency INTEGER CHECK (concurrency >= 0),
    -- The most that the key may ever spend, with all that it was rotated from and to.
    cap_nano INTEGER CHECK (cap_nano >= 0),
    -- The first key of such a line, or the key itself. Its row has the sum of the posted requests of
    -- all of them, but for what is not folded; the others have 0.
    origin_id TEXT NOT NULL REFERENCES keys (id),
    spent_nano INTEGER NOT NULL DEFAULT 0 CHECK (spent_nano >= 0),
    created_ms INTEGER NOT NULL,
    expires_ms INTEGER,
    revoked_ms INTEGER,
    replaced_by TEXT REFERENCES keys (id),
    -- When it was last charged for a request, but for what is not folded.
    last_used_ms INTEGER,
    budget_id INTEGER REFERENCES budgets (id),
    CHECK (spent_nano = 0 OR origin_id = id)
) STRICT;
INSERT INTO "keys" VALUES('key_31c4939b0d48b551',1,'laptop',X'6EA5EFB08CC9CCBD8EC2CA74BD34083335764B8773109524842A4B26C8E9F6D4','nBnK',NULL,NULL,NULL,NULL,5000000000,'key_31c4939b0d48b551',180000,1795883834520,1795883853099,NULL,'key_cca74c91c85eb8fa',1795883848388,NULL);
INSERT INTO "keys" VALUES('key_20e21607bf6acf32',1,'ci',X'13C060A7418ACAF82217674B81E91690C5F2D3ACE00CBD0A7592A1CB25A5D08C','yTd5',NULL,NULL,NULL,NULL,NULL,'key_20e21607bf6acf32',108000,1795883835567,1798475835565,NULL,NULL,1795883848426,NULL);
INSERT INTO "keys" VALUES('key_7bc932a81e621b4d',2,'',X'44FDE37D8658F79A2972C7794907B1970129D8616026ABC6C751413254812C29','Dazl',NULL,NULL,NULL,NULL,NULL,'key_7bc932a81e621b4d',36000,1795883836934,NULL,NULL,NULL,1795883848440,NULL);
INSERT INTO "keys" VALUES('key_cca74c91c85eb8fa',1,'laptop',X'CA52B523720232A594B52075AE2F683A6468A71E8EB8EBF1C8BD3F5D82D34E0A','E48h',NULL,NULL,NULL,NULL,5000000000,'key_31c4939b0d48b551',0,1795883853099,NULL,NULL,NULL,NULL,NULL);
CREATE TABLE latencies (
    scope TEXT NOT NULL CHECK (scope IN ('route', 'account', 'day')),
    hour INTEGER NOT NULL CHECK (hour >= 0),
    -- 0, or '', where the scope has none.
    account_id INTEGER NOT NULL,
    provider TEXT NOT NULL,
    upstream_model TEXT NOT NULL,
    bucket INTEGER NOT NULL CHECK (bucket >= 0),
    firsts INTEGER NOT NULL CHECK (firsts >= 0),
    totals INTEGER NOT NULL CHECK (totals >= 0),
    PRIMARY KEY (scope, hour, account_id, provider, upstream_model, bucket)
) STRICT, WITHOUT ROWID;
INSERT INTO "latencies" VALUES('account',498856,1,'','',0,6,6);
INSERT INTO "latencies" VALUES('account',498856,1,'','',2,1,1);
INSERT INTO "latencies" VALUES('account',498856,2,'','',0,2,2);
INSERT INTO "latencies" VALUES('day',498840,0,'','',0,8,8);
INSERT INTO "latencies" VALUES('day',498840,0,'','',2,1,1);
INSERT INTO "latencies" VALUES('route',498856,0,'demo','echo',0,8,8);
INSERT INTO "latencies" VALUES('route',498856,0,'demo','echo',2,1,1);
CREATE TABLE model_prices (
    model TEXT PRIMARY KEY,
    prices TEXT NOT NULL CHECK (json_valid(prices))
) STRICT, WITHOUT ROWID;
INSERT INTO "model_prices" VALUES('demo/echo','["{\"input\":3000000000,\"output\":15000000000,\"cached_input\":300000000,\"cache_write\":3000000000,\"request\":0,\"cache_write_1h\":4800000000,\"web_search\":0}"]');
CREATE TABLE order_reversals (
    id TEXT PRIMARY KEY,
    order_id TEXT NOT NULL REFERENCES orders (id),
    -- `refunds` is what all refunds of a charge had come to, which is told beside each of them.
    kind TEXT NOT NULL CHECK (kind IN ('refund', 'refunds', 'dispute')),
    amount_nano INTEGER NOT NULL CHECK (amount_nano >= 0),
    -- 0 once the refund failed, or the dispute was won: that is final.
    stands INTEGER NOT NULL CHECK (stands IN (0, 1))
) STRICT;
CREATE TABLE orders (
    id TEXT PRIMARY KEY,
    account_id INTEGER NOT NULL REFERENCES accounts (id),
    amount_nano INTEGER NOT NULL CHECK (amount_nano > 0),
    currency TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('made', 'paid', 'failed', 'expired', 'refunded')),
    -- The payment page; NULL until the provider has told it.
    session_id TEXT UNIQUE,
    -- What refunds and disputes name; NULL until the payment.
    payment_id TEXT UNIQUE,
    -- The credit.
    entry_id INTEGER UNIQUE REFERENCES entries (id),
    -- What refunds and disputes took back: minus the sum of the order's corrections.
    taken_nano INTEGER NOT NULL DEFAULT 0 CHECK (taken_nano >= 0),
    created_ms INTEGER NOT NULL,
    -- When the state changed last.
    changed_ms INTEGER NOT NULL,
    CHECK ((entry_id IS NULL) = (state NOT IN ('paid', 'refunded')))
) STRICT;
INSERT INTO "orders" VALUES('ord_1',1,25000000000,'USD','made','cs_1',NULL,NULL,0,1795883833414,1795883833414);
CREATE TABLE passwords (
    account_id INTEGER PRIMARY KEY REFERENCES accounts (id),
    -- scrypt, with its parameters and salt.
    hash TEXT NOT NULL,
    changed_ms INTEGER NOT NULL
) STRICT;
INSERT INTO "passwords" VALUES(1,'scrypt$15$8$3$EGfwg7yYEIapEcDWHBkS0g==$DXvDTMzYFh1L0OLCpGVd1v_pejxZu2jmfhu0o5Og_u8=',1795883846030);
CREATE TABLE prices (
    id INTEGER PRIMARY KEY,
    price TEXT NOT NULL CHECK (json_valid(price))
) STRICT;
INSERT INTO "prices" VALUES(5822457561627406117,'{"input":3000000000,"output":15000000000,"cached_input":300000000,"cache_write":3000000000,"request":0,"cache_write_1h":4800000000,"web_search":0}');
CREATE TABLE recovery_codes (
    digest BLOB PRIMARY KEY CHECK (length(digest) = 32),
    account_id INTEGER NOT NULL REFERENCES totp (account_id)
) STRICT;
CREATE TABLE refusals (
    hour INTEGER NOT NULL CHECK (hour >= 0),
    -- NULL for a key that is unknown.
    account_id INTEGER REFERENCES accounts (id),
    code TEXT NOT NULL,
    -- '' if the request named none, or none of the configuration.
    model TEXT NOT NULL,
    refused INTEGER NOT NULL CHECK (refused > 0),
    last_ms INTEGER NOT NULL,
    last_request_id TEXT NOT NULL
) STRICT;
INSERT INTO "refusals" VALUES(498856,2,'empty_array','',1,1795883848443,'req_01a22304d2fb6841dc3d1bceb2fa');
INSERT INTO "refusals" VALUES(498856,NULL,'invalid_api_key','',1,1795883848445,'req_01a22304d2fd46fabf4f5242b199');
CREATE TABLE refused (
    request_id TEXT PRIMARY KEY,
    refused_ms INTEGER NOT NULL,
    account_id INTEGER NOT NULL REFERENCES accounts (id),
    key_id TEXT NOT NULL,
    code TEXT NOT NULL,
    -- What the request asked for, even if nothing has that name; '' if it was refused before that is known.
    model TEXT NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO "refused" VALUES('req_01a22304d2fb6841dc3d1bceb2fa',1795883848443,2,'key_7bc932a81e621b4d','empty_array','');
CREATE TABLE replays (
    caller TEXT NOT NULL,
    route TEXT NOT NULL,
    idempotency_key TEXT NOT NULL,
    -- SHA-256 of the request.
    request BLOB NOT NULL CHECK (length(request) = 32),
    status INTEGER NOT NULL,
    reply BLOB NOT NULL,
    created_ms INTEGER NOT NULL,
    PRIMARY KEY (caller, route, idempotency_key)
) STRICT, WITHOUT ROWID;
CREATE TABLE requests (
    id TEXT PRIMARY KEY,
    account_id INTEGER NOT NULL REFERENCES accounts (id),
    key_id TEXT NOT NULL REFERENCES keys (id),
    -- That of the key at the time of the hold, whatever becomes of the key.
    budget_id INTEGER REFERENCES budgets (id),
    model TEXT NOT NULL,
    provider TEXT NOT NULL,
    stream INTEGER NOT NULL CHECK (stream IN (0, 1)),
    hold_nano INTEGER NOT NULL CHECK (hold_nano >= 0),
    -- The price that the cost was computed from or, until the end, the hold.
    price_id INTEGER NOT NULL REFERENCES prices (id),
    state TEXT NOT NULL CHECK (state IN ('pending', 'posted', 'voided')),
    outcome TEXT NOT NULL,
    status INTEGER CHECK (status BETWEEN 100 AND 599),
    attempts INTEGER NOT NULL CHECK (attempts >= 0),
    input_tokens INTEGER NOT NULL CHECK (input_tokens >= 0),
    cached_input_tokens INTEGER NOT NULL CHECK (cached_input_tokens >= 0),
    -- Written for some minutes. The sums by hour and day have both lifetimes as one class.
    cache_write_tokens INTEGER NOT NULL CHECK (cache_write_tokens >= 0),
    cache_write_1h_tokens INTEGER NOT NULL CHECK (cache_write_1h_tokens >= 0),
    output_tokens INTEGER NOT NULL CHECK (output_tokens >= 0),
    -- Tokens of other media, which are part of the above, and calls of tools: a JSON object by name.
    extras TEXT CHECK (extras IS NULL OR json_valid(extras)),
    cost_nano INTEGER NOT NULL CHECK (cost_nano >= 0),
    estimated INTEGER NOT NULL CHECK (estimated IN (0, 1)),
    started_ms INTEGER NOT NULL CHECK (started_ms >= 0),
    first_byte_ms INTEGER CHECK (first_byte_ms >= 0),
    ended_ms INTEGER CHECK (ended_ms >= 0),
    -- What the provider bills for it, by the cost that was configured then; NULL if none was.
    provider_cost_nano INTEGER
    CHECK (provider_cost_nano IS NULL OR (provider_cost_nano >= 0 AND state = 'posted')),
    -- The same as the provider reported it; NULL if it did not.
    reported_cost_nano INTEGER
    CHECK (reported_cost_nano IS NULL OR (reported_cost_nano >= 0 AND state = 'posted')), charge_id INTEGER,
    CHECK ((state = 'pending') = (outcome = 'pending')),
    CHECK ((state = 'pending') = (ended_ms IS NULL)),
    -- What the caller of an interrupted request saw, nobody knows.
    CHECK ((outcome IN ('pending', 'interrupted')) = (status IS NULL)),
    CHECK (outcome <> 'interrupted' OR state = 'voided'),
    CHECK (state = 'posted' OR cost_nano = 0)
) STRICT;
INSERT INTO "requests" VALUES('req_01a22304d2a063f9e5509ec4d9e4',1,'key_31c4939b0d48b551',NULL,'demo/echo','demo',0,15048000,5822457561627406117,'posted','complete',200,1,1,0,0,0,1,NULL,18000,0,1795883848352,15,1795883848368,6000,NULL,4);
INSERT INTO "requests" VALUES('req_01a22304d2ba06e8bbce3ac71408',1,'key_31c4939b0d48b551',NULL,'demo/echo','demo',0,15054000,5822457561627406117,'posted','complete',200,1,2,0,0,0,2,NULL,36000,0,1795883848378,0,1795883848379,12000,NULL,5);
INSERT INTO "requests" VALUES('req_01a22304d2bf9cb26e37ef7ee99d',1,'key_31c4939b0d48b551',NULL,'demo/echo','demo',0,15057000,5822457561627406117,'posted','complete',200,1,3,0,0,0,3,NULL,54000,0,1795883848383,0,1795883848383,18000,NULL,6);
INSERT INTO "requests" VALUES('req_01a22304d2c313ddd86b124d5618',1,'key_31c4939b0d48b551',NULL,'demo/echo','demo',0,15063000,5822457561627406117,'posted','complete',200,1,4,0,0,0,4,NULL,72000,0,1795883848387,0,1795883848388,24000,NULL,7);
INSERT INTO "requests" VALUES('req_01a22304d2cae4ff7a5d0123c852',1,'key_20e21607bf6acf32',NULL,'demo/echo','demo',1,15093000,5822457561627406117,'posted','complete',200,1,2,0,0,0,2,NULL,36000,0,1795883848394,5,1795883848402,12000,NULL,8);
INSERT INTO "requests" VALUES('req_01a22304d2d59ad96aa1f590ee3f',1,'key_20e21607bf6acf32',NULL,'demo/echo','demo',1,15093000,5822457561627406117,'posted','complete',200,1,2,0,0,0,2,NULL,36000,0,1795883848405,4,1795883848411,12000,NULL,9);
INSERT INTO "requests" VALUES('req_01a22304d2e1eea356542816a5b0',1,'key_20e21607bf6acf32',NULL,'demo/echo','demo',1,15093000,5822457561627406117,'posted','complete',200,1,2,0,0,0,2,NULL,36000,0,1795883848417,7,1795883848426,12000,NULL,10);
INSERT INTO "requests" VALUES('req_01a22304d2f156ed436a8035a10d',2,'key_7bc932a81e621b4d',NULL,'demo/echo','demo',0,807000,5822457561627406117,'posted','complete',200,1,1,0,0,0,1,NULL,18000,0,1795883848433,1,1795883848435,6000,NULL,11);
INSERT INTO "requests" VALUES('req_01a22304d2f784fdaef57bcf3076',2,'key_7bc932a81e621b4d',NULL,'demo/echo','demo',0,807000,5822457561627406117,'posted','complete',200,1,1,0,0,0,1,NULL,18000,0,1795883848439,0,1795883848440,6000,NULL,12);
INSERT INTO "requests" VALUES('req_01a22304e7e73e90e98555f47e62',1,'key_20e21607bf6acf32',NULL,'demo/echo','demo',1,26334000,5822457561627406117,'pending','pending',NULL,0,0,0,0,0,0,NULL,0,0,1795883853799,NULL,NULL,NULL,NULL,NULL);
CREATE TABLE sessions (
    id TEXT PRIMARY KEY,
    account_id INTEGER NOT NULL REFERENCES accounts (id),
    digest BLOB NOT NULL UNIQUE CHECK (length(digest) = 32),
    opened_by TEXT NOT NULL CHECK (opened_by IN ('password', 'link', 'identity header')),
    device TEXT NOT NULL,
    address TEXT NOT NULL,
    created_ms INTEGER NOT NULL,
    last_seen_ms INTEGER NOT NULL,
    -- Whatever happens; it ends earlier when nobody uses it.
    expires_ms INTEGER NOT NULL
) STRICT;
INSERT INTO "sessions" VALUES('ses_1',1,X'ABABABABABABABABABABABABABABABABABABABABABABABABABABABABABABABAB','password','Firefox','192.0.2.1',1795883833414,1795883833414,1796883833414);
CREATE TABLE signin_links (
    account_id INTEGER PRIMARY KEY REFERENCES accounts (id),
    digest BLOB NOT NULL UNIQUE CHECK (length(digest) = 32),
    created_ms INTEGER NOT NULL,
    expires_ms INTEGER NOT NULL
) STRICT;
CREATE TABLE tokens (
    id TEXT PRIMARY KEY,
    name TEXT NOT NULL,
    role TEXT NOT NULL CHECK (role IN ('operator', 'accounts', 'read')),
    digest BLOB NOT NULL UNIQUE CHECK (length(digest) = 32),
    last4 TEXT NOT NULL CHECK (length(last4) = 4),
    created_by TEXT NOT NULL,
    created_ms INTEGER NOT NULL,
    expires_ms INTEGER,
    revoked_ms INTEGER,
    last_used_ms INTEGER
) STRICT;
INSERT INTO "tokens" VALUES('tok_17df81aec0090475','shop','read',X'2E39E6AA04623FC85F77D55F3431E9A97A51AC29DDD7EB22C04CEF67DF781246','jEMI','cli (ann via sudo)',1795883843491,NULL,NULL,NULL);
CREATE TABLE totp (
    account_id INTEGER PRIMARY KEY REFERENCES accounts (id),
    -- The key that the holder's app has, too: it has to be known in the clear.
    secret BLOB NOT NULL CHECK (length(secret) = 20),
    -- The time step of the last code that was accepted: only later ones are.
    last_step INTEGER NOT NULL,
    created_ms INTEGER NOT NULL,
    -- NULL: the holder has not shown a code yet, and none is asked for.
    confirmed_ms INTEGER
) STRICT;
INSERT INTO "totp" VALUES(1,X'0000000000000000000000000000000000000000',7,1795883833414,1795883833414);
CREATE TABLE upstream_calls (
    slot INTEGER NOT NULL CHECK (slot >= 0),
    provider TEXT NOT NULL,
    upstream_model TEXT NOT NULL,
    calls INTEGER NOT NULL CHECK (calls > 0),
    failures INTEGER NOT NULL CHECK (failures BETWEEN 0 AND calls),
    -- The last failure of these minutes; NULL if there is none. It never quotes the provider.
    failed_ms INTEGER,
    failed_request_id TEXT,
    failed_status INTEGER,
    reason TEXT,
    url TEXT,
    PRIMARY KEY (slot, provider, upstream_model)
) STRICT, WITHOUT ROWID;
INSERT INTO "upstream_calls" VALUES(2993139,'demo','echo',9,0,NULL,NULL,NULL,NULL,NULL);
CREATE TABLE upstream_failures (
    id INTEGER PRIMARY KEY,
    failed_ms INTEGER NOT NULL,
    request_id TEXT NOT NULL,
    status INTEGER,
    reason TEXT NOT NULL,
    url TEXT NOT NULL, type TEXT NOT NULL DEFAULT '', code TEXT NOT NULL DEFAULT '', param TEXT NOT NULL
    DEFAULT '', rejected INTEGER NOT NULL DEFAULT 0 CHECK (rejected IN (0, 1))) STRICT;
CREATE INDEX budgets_by_account ON budgets (account_id);
CREATE UNIQUE INDEX budgets_by_name ON budgets (account_id, name)
WHERE name IS NOT NULL AND ended_ms IS NULL;
CREATE TRIGGER budgets_no_delete BEFORE DELETE ON budgets
BEGIN
    SELECT RAISE(ABORT, 'budgets are kept');
END;
CREATE INDEX keys_by_account ON keys (account_id);
CREATE INDEX keys_by_budget ON keys (budget_id) WHERE budget_id IS NOT NULL;
CREATE INDEX requests_pending ON requests (account_id) WHERE state = 'pending';
CREATE INDEX requests_interrupted ON requests (started_ms) WHERE outcome = 'interrupted';
CREATE INDEX requests_over_hours ON requests (account_id, started_ms, ended_ms, key_id, model)
WHERE ended_ms / 3600000 <> started_ms / 3600000;
CREATE INDEX requests_failed ON requests (id, outcome, status, provider, account_id)
WHERE outcome NOT IN ('pending', 'complete');
CREATE INDEX requests_by_budget ON requests (budget_id, ended_ms, cost_nano)
WHERE budget_id IS NOT NULL AND ended_ms IS NOT NULL;
CREATE TRIGGER requests_settle_once BEFORE UPDATE ON requests WHEN OLD.state <> 'pending'
BEGIN
    SELECT RAISE(ABORT, 'a request is settled once');
END;
CREATE TRIGGER requests_no_replace BEFORE INSERT ON requests
WHEN EXISTS (SELECT 1 FROM requests WHERE id = NEW.id OR rowid = NEW.rowid)
BEGIN
    SELECT RAISE(ABORT, 'a request is inserted once');
END;
CREATE TRIGGER requests_keep_id BEFORE UPDATE ON requests
WHEN NEW.id <> OLD.id OR NEW.rowid <> OLD.rowid
BEGIN
    SELECT RAISE(ABORT, 'a request keeps its id');
END;
CREATE TRIGGER requests_no_delete BEFORE DELETE ON requests
BEGIN
    SELECT RAISE(ABORT, 'requests are kept');
END;
CREATE INDEX entries_moves ON entries (account_id, kind) WHERE kind <> 'charge';
CREATE INDEX entries_corrections ON entries (request_id)
WHERE kind = 'correction' AND request_id IS NOT NULL;
CREATE UNIQUE INDEX entries_idempotent ON entries (account_id, idempotency_key)
WHERE idempotency_key IS NOT NULL;
CREATE TRIGGER entries_no_update BEFORE UPDATE ON entries
BEGIN
    SELECT RAISE(ABORT, 'the ledger is append-only');
END;
CREATE TRIGGER entries_no_delete BEFORE DELETE ON entries
BEGIN
    SELECT RAISE(ABORT, 'the ledger is append-only');
END;
CREATE TRIGGER entries_one_charge BEFORE INSERT ON entries
WHEN NEW.kind = 'charge' AND NOT EXISTS (
    SELECT 1 FROM requests
    WHERE id = NEW.request_id AND charge_id = NEW.id AND state = 'posted'
        AND cost_nano = -NEW.amount_nano AND account_id = NEW.account_id
)
BEGIN
    SELECT RAISE(ABORT, 'a request is charged once, by the entry that it names');
END;
CREATE TRIGGER entries_no_replace BEFORE INSERT ON entries
WHEN EXISTS (SELECT 1 FROM entries WHERE id = NEW.id)
    OR (NEW.idempotency_key IS NOT NULL AND EXISTS (
        SELECT 1 FROM entries
        WHERE account_id = NEW.account_id AND idempotency_key = NEW.idempotency_key
    ))
BEGIN
    SELECT RAISE(ABORT, 'the ledger is append-only');
END;
CREATE TRIGGER entries_filed AFTER INSERT ON entries WHEN NEW.kind <> 'charge'
BEGIN
    INSERT INTO entries_by_account VALUES (NEW.account_id, NEW.id);
END;
CREATE VIEW unfolded AS
SELECT requests.id, charge_id, requests.account_id, key_id, model, provider, ended_ms, input_tokens,
    cached_input_tokens, cache_write_tokens, cache_write_1h_tokens, output_tokens, cost_nano,
    provider_cost_nano, reported_cost_nano
FROM entries CROSS JOIN requests ON requests.id = entries.request_id
WHERE entries.id > (SELECT entry_id FROM folded) AND kind = 'charge';
CREATE INDEX recovery_codes_by_account ON recovery_codes (account_id);
CREATE INDEX sessions_by_account ON sessions (account_id);
CREATE UNIQUE INDEX tokens_by_name ON tokens (name) WHERE revoked_ms IS NULL;
CREATE INDEX events_by_action ON events (action);
CREATE TRIGGER events_no_update BEFORE UPDATE ON events
BEGIN
    SELECT RAISE(ABORT, 'events are append-only');
END;
CREATE TRIGGER events_no_delete BEFORE DELETE ON events
BEGIN
    SELECT RAISE(ABORT, 'events are append-only');
END;
CREATE INDEX codes_by_batch ON codes (batch);
CREATE TRIGGER codes_end_once BEFORE UPDATE ON codes
WHEN OLD.redeemed_ms IS NOT NULL OR OLD.voided_ms IS NOT NULL
BEGIN
    SELECT RAISE(ABORT, 'a code is redeemed or voided once');
END;
CREATE TRIGGER codes_no_replace BEFORE INSERT ON codes
WHEN EXISTS (
    SELECT 1 FROM codes
    WHERE id = NEW.id OR rowid = NEW.rowid OR digest = NEW.digest OR entry_id = NEW.entry_id
)
BEGIN
    SELECT RAISE(ABORT, 'a code is made once');
END;
CREATE TRIGGER codes_keep_id BEFORE UPDATE ON codes
WHEN NEW.id <> OLD.id OR NEW.rowid <> OLD.rowid OR NEW.digest <> OLD.digest OR EXISTS (
    SELECT 1 FROM codes WHERE entry_id = NEW.entry_id AND id <> NEW.id
)
BEGIN
    SELECT RAISE(ABORT, 'a code keeps its id, its digest and its entry');
END;
CREATE TRIGGER codes_no_delete BEFORE DELETE ON codes
BEGIN
    SELECT RAISE(ABORT, 'codes are kept');
END;
CREATE INDEX orders_by_account ON orders (account_id, id);
CREATE INDEX orders_open ON orders (created_ms) WHERE state = 'made';
CREATE TRIGGER orders_no_replace BEFORE INSERT ON orders
WHEN EXISTS (
    SELECT 1 FROM orders WHERE id = NEW.id OR rowid = NEW.rowid OR session_id = NEW.session_id
)
BEGIN
    SELECT RAISE(ABORT, 'an order is made once');
END;
CREATE TRIGGER orders_keep_terms BEFORE UPDATE ON orders
WHEN NEW.id <> OLD.id OR NEW.rowid <> OLD.rowid OR NEW.account_id <> OLD.account_id
    OR NEW.amount_nano <> OLD.amount_nano OR NEW.currency <> OLD.currency
    OR NEW.session_id IS NOT coalesce(OLD.session_id, NEW.session_id)
    OR NEW.entry_id IS NOT coalesce(OLD.entry_id, NEW.entry_id)
BEGIN
    SELECT RAISE(ABORT, 'an order keeps its terms, its payment page and its credit');
END;
CREATE TRIGGER orders_no_delete BEFORE DELETE ON orders
BEGIN
    SELECT RAISE(ABORT, 'orders are kept');
END;
CREATE INDEX order_reversals_by_order ON order_reversals (order_id);
CREATE UNIQUE INDEX refusals_once ON refusals (hour, coalesce(account_id, 0), code, model);
CREATE INDEX refused_by_account ON refused (account_id, request_id);
CREATE INDEX upstream_failures_by_request ON upstream_failures (request_id);
CREATE INDEX upstream_failures_by_kind ON upstream_failures (rejected, id);
CREATE INDEX alerts_due ON alerts (next_try_ms) WHERE next_try_ms NOT NULL;
CREATE INDEX alerts_by_time ON alerts (created_ms);
CREATE INDEX alerts_by_account ON alerts (account_id, created_ms) WHERE channel = 'holder';
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('changes',12);
COMMIT;
PRAGMA user_version = 14;
