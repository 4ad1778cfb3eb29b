-- The tables of schema version 1, with the statements of commit 3bf507d9, and no content.
CREATE SCHEMA paytokend;
SET search_path = paytokend, pg_temp;
CREATE TABLE ledger_state (
    only_row         boolean  NOT NULL DEFAULT true PRIMARY KEY CHECK (only_row),
    schema_version   bigint   NOT NULL,
    forgotten_before bigint,
    guard            smallint NOT NULL DEFAULT 0
);
CREATE TABLE node (
    name                 text COLLATE "C" NOT NULL PRIMARY KEY CHECK (name ~ '^[A-Za-z0-9._-]{1,64}$'),
    fence                bigint      NOT NULL,
    lease_until          timestamptz NOT NULL,
    seen_at              timestamptz NOT NULL,
    version              text        NOT NULL,
    last_batch           bytea       CHECK (octet_length(last_batch) = 16),
    signed_ahead         bigint      NOT NULL DEFAULT 0,
    clock_accepted_after bigint      NOT NULL DEFAULT 0
) WITH (fillfactor = 10);
CREATE TABLE merchant_key (
    public_key_hash     bytea  NOT NULL PRIMARY KEY CHECK (octet_length(public_key_hash) = 32),
    merchant_identifier text   NOT NULL,
    algorithm           text   NOT NULL,
    state               text   NOT NULL,
    cut_off             bigint,
    origin              text   NOT NULL,
    created_at          bigint NOT NULL,
    node                text COLLATE "C" NOT NULL
);
CREATE TABLE claim (
    transaction_id   bytea  NOT NULL PRIMARY KEY CHECK (octet_length(transaction_id) = 32),
    public_key_hash  bytea  NOT NULL,
    caller           text   NOT NULL,
    reference_digest bytea,
    content_digest   bytea  NOT NULL,
    attempt          bytea  NOT NULL,
    claimed_at       bigint NOT NULL,
    repeats          bigint NOT NULL DEFAULT 0,
    repeat_attempt   bytea,
    repeated_at      bigint,
    node             text COLLATE "C" NOT NULL
);
CREATE INDEX claim_by_age ON claim (claimed_at);
CREATE TABLE audit_record (
    node            text COLLATE "C" NOT NULL,
    sequence        bigint NOT NULL CHECK (sequence > 0),
    time            bigint NOT NULL,
    event           text   NOT NULL,
    outcome         text   NOT NULL,
    caller          text,
    caller_uid      bigint,
    merchant        text,
    public_key_hash bytea,
    transaction_id  bytea,
    hash            bytea  NOT NULL CHECK (octet_length(hash) = 32),
    line            bytea  NOT NULL,
    PRIMARY KEY (node, sequence)
);
CREATE INDEX audit_record_by_time ON audit_record (node, time, sequence);
CREATE INDEX audit_record_by_outcome ON audit_record (outcome, node, sequence) WHERE outcome <> 'ok';
CREATE INDEX audit_record_by_transaction ON audit_record (transaction_id, node, sequence)
WHERE transaction_id IS NOT NULL;
CREATE TABLE checkpoint (
    node     text COLLATE "C" NOT NULL,
    sequence bigint NOT NULL,
    time     bigint NOT NULL,
    line     bytea  NOT NULL,
    PRIMARY KEY (node, sequence)
);
CREATE TABLE audit_key (
    node       text COLLATE "C" NOT NULL,
    ordinal    bigint NOT NULL CHECK (ordinal > 0),
    identifier bytea  NOT NULL CHECK (octet_length(identifier) = 16),
    public_key bytea  CHECK (octet_length(public_key) = 65),
    planned_at bigint NOT NULL,
    PRIMARY KEY (node, ordinal),
    UNIQUE (node, identifier)
);
CREATE TABLE approval (
    identifier       bytea  NOT NULL PRIMARY KEY,
    operation        text   NOT NULL,
    parameters       bytea  NOT NULL CHECK (octet_length(parameters) = 32),
    public_key_hash  bytea  CHECK (octet_length(public_key_hash) = 32),
    key_state        text,
    requester        bigint NOT NULL,
    requester_name   text   NOT NULL,
    requester_uid    bigint NOT NULL,
    requester_gid    bigint NOT NULL,
    requester_groups text   NOT NULL,
    reason           text   NOT NULL,
    requested_at     bigint NOT NULL,
    expires_at       bigint NOT NULL,
    status           text   NOT NULL,
    decided_by       bigint,
    decided_at       bigint,
    node             text COLLATE "C" NOT NULL
);
CREATE INDEX approval_by_expiry ON approval (status, expires_at);
CREATE FUNCTION present() RETURNS bigint LANGUAGE sql VOLATILE SET search_path = paytokend, pg_temp AS $$
    SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint
$$;
CREATE FUNCTION exclude_releases() RETURNS void LANGUAGE plpgsql SECURITY DEFINER
SET search_path = paytokend, pg_temp AS $$
BEGIN
    LOCK TABLE ledger_state IN EXCLUSIVE MODE;
    LOCK TABLE merchant_key IN EXCLUSIVE MODE;
END $$;
CREATE FUNCTION prune_claims(horizon bigint, signed bigint, most bigint) RETURNS bigint LANGUAGE plpgsql
SECURITY DEFINER SET search_path = paytokend, pg_temp AS $$
DECLARE
    removed bigint;
BEGIN
    IF horizon IS NULL OR signed IS NULL OR signed < horizon OR horizon > present() THEN
        RAISE EXCEPTION 'claims are not to be forgotten yet' USING ERRCODE = 'P0001';
    END IF;
    PERFORM exclude_releases();
    DELETE FROM claim WHERE transaction_id IN
        (SELECT transaction_id FROM claim WHERE claimed_at < horizon ORDER BY claimed_at LIMIT most);
    GET DIAGNOSTICS removed = ROW_COUNT;
    IF removed > 0 THEN
        UPDATE ledger_state SET forgotten_before = greatest(forgotten_before, signed);
    END IF;
    RETURN removed;
END $$;
CREATE FUNCTION limit_forgotten(expected bigint, served_from bigint) RETURNS boolean LANGUAGE plpgsql
SECURITY DEFINER SET search_path = paytokend, pg_temp AS $$
BEGIN
    PERFORM exclude_releases();
    UPDATE ledger_state SET forgotten_before = coalesce(served_from, forgotten_before)
    WHERE forgotten_before IS NOT DISTINCT FROM expected;
    RETURN FOUND;
END $$;
CREATE FUNCTION forget_approvals(expired bigint, most bigint) RETURNS bigint LANGUAGE plpgsql
SECURITY DEFINER SET search_path = paytokend, pg_temp AS $$
DECLARE
    old bigint;
    beyond bigint;
BEGIN
    DELETE FROM approval
    WHERE status IN ('done', 'rejected', 'withdrawn', 'expired') AND expires_at < expired;
    GET DIAGNOSTICS old = ROW_COUNT;
    DELETE FROM approval WHERE identifier IN (
        SELECT identifier FROM approval WHERE status IN ('done', 'rejected', 'withdrawn', 'expired')
        ORDER BY requested_at DESC, identifier DESC OFFSET greatest(most, 0));
    GET DIAGNOSTICS beyond = ROW_COUNT;
    RETURN old + beyond;
END $$;
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA paytokend FROM PUBLIC;
