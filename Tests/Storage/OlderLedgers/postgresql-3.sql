-- The tables of schema version 3, with the statements of commit 837d09b9, and no content.
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
ALTER TABLE ledger_state
    ADD COLUMN system_identifier text,
    ADD COLUMN timeline          bigint,
    ADD COLUMN held_since        bigint,
    ADD COLUMN restore_fence     bigint;
ALTER TABLE node
    ADD COLUMN widest_window     bigint CHECK (widest_window >= 0),
    ADD COLUMN system_identifier text,
    ADD COLUMN timeline          bigint;
CREATE TABLE hold (
    node                text COLLATE "C" NOT NULL PRIMARY KEY CHECK (node ~ '^[A-Za-z0-9._-]{1,64}$'),
    kind                text   NOT NULL CHECK (kind IN ('lost', 'rolled_back', 'forked')),
    ledger_sequence     bigint NOT NULL CHECK (ledger_sequence >= 0),
    remembered_sequence bigint CHECK (remembered_sequence > 0),
    remembered_hash     bytea  CHECK (octet_length(remembered_hash) = 32),
    remembered_at       bigint,
    key_id              bytea  CHECK (octet_length(key_id) = 32),
    found_at            bigint NOT NULL,
    accepted_at         bigint,
    accepted_on         text COLLATE "C"
);
CREATE TABLE key_holder (
    node            text COLLATE "C" NOT NULL CHECK (node ~ '^[A-Za-z0-9._-]{1,64}$'),
    public_key_hash bytea  NOT NULL CHECK (octet_length(public_key_hash) = 32),
    seen_at         bigint NOT NULL,
    PRIMARY KEY (node, public_key_hash)
);
CREATE FUNCTION this_server(OUT system_identifier text, OUT timeline bigint) LANGUAGE sql STABLE
SET search_path = paytokend, pg_temp AS $$
    SELECT c.system_identifier::text,
        ('x' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8))::bit(32)::int::bigint
    FROM pg_control_system() AS c
$$;
CREATE FUNCTION require_node(named text, held bigint) RETURNS void LANGUAGE plpgsql SECURITY DEFINER
SET search_path = paytokend, pg_temp AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM node WHERE name = named AND fence = held) THEN
        RAISE EXCEPTION 'the node is another daemon''s' USING ERRCODE = 'P0001';
    END IF;
END $$;
CREATE FUNCTION note_key_holder(named text, held bigint, hashes bytea[]) RETURNS void LANGUAGE plpgsql
SECURITY DEFINER SET search_path = paytokend, pg_temp AS $$
BEGIN
    PERFORM require_node(named, held);
    DELETE FROM key_holder WHERE node = named AND public_key_hash <> ALL (hashes);
    INSERT INTO key_holder (node, public_key_hash, seen_at)
    SELECT DISTINCT named, h, present() FROM unnest(hashes) AS h
    ON CONFLICT (node, public_key_hash) DO UPDATE SET seen_at = excluded.seen_at;
END $$;
CREATE FUNCTION put_hold(named text, finding text, ends_with bigint, remembered bigint, hash bytea, moment bigint,
    key bytea) RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = paytokend, pg_temp AS $$
BEGIN
    PERFORM exclude_releases();
    INSERT INTO hold (node, kind, ledger_sequence, remembered_sequence, remembered_hash, remembered_at, key_id,
        found_at)
    VALUES (named, finding, ends_with, remembered, hash, moment, key, present())
    ON CONFLICT (node) DO UPDATE SET kind = excluded.kind, ledger_sequence = excluded.ledger_sequence,
        remembered_sequence = excluded.remembered_sequence, remembered_hash = excluded.remembered_hash,
        remembered_at = excluded.remembered_at, key_id = excluded.key_id, found_at = excluded.found_at,
        accepted_at = NULL, accepted_on = NULL;
    UPDATE ledger_state SET held_since = coalesce(held_since, present());
END $$;
CREATE FUNCTION earliest_fence() RETURNS bigint LANGUAGE sql STABLE SET search_path = paytokend, pg_temp AS $$
    SELECT floor(extract(epoch FROM transaction_timestamp()) * 1000)::bigint + max(widest_window)
    FROM node HAVING bool_and(widest_window IS NOT NULL)
$$;
CREATE FUNCTION accept_restore(named text, held bigint, recorded bigint, approved bytea, served_from bigint,
    nodes text[], times bigint[]) RETURNS boolean LANGUAGE plpgsql SECURITY DEFINER
SET search_path = paytokend, pg_temp AS $$
DECLARE
    earliest bigint;
BEGIN
    PERFORM require_node(named, held);
    PERFORM exclude_releases();
    earliest := earliest_fence();
    IF NOT EXISTS (SELECT FROM audit_record AS r WHERE r.node = named AND r.sequence = recorded
            AND r.event = 'ledger_accept_restore' AND r.outcome = 'ok')
        OR (approved IS NOT NULL AND NOT EXISTS (SELECT FROM approval WHERE identifier = approved
            AND operation = 'ledger_accept_restore' AND status = 'done' AND decided_by IS NOT NULL))
        OR earliest IS NULL OR served_from IS NULL OR served_from < earliest THEN
        RAISE EXCEPTION 'the restored ledger is not to be accepted so' USING ERRCODE = 'P0001';
    END IF;
    IF (SELECT coalesce(array_agg(h.node || ' ' || h.found_at ORDER BY h.node), '{}') FROM hold AS h
            WHERE h.accepted_at IS NULL)
        <> (SELECT coalesce(array_agg(n || ' ' || f ORDER BY n COLLATE "C"), '{}')
            FROM unnest(nodes, times) AS shown (n, f)) THEN
        RETURN false;
    END IF;
    UPDATE hold SET accepted_at = present(), accepted_on = named WHERE accepted_at IS NULL;
    DELETE FROM hold WHERE node = named;
    UPDATE ledger_state SET held_since = NULL, restore_fence = greatest(restore_fence, served_from);
    RETURN true;
END $$;
CREATE FUNCTION end_hold(named text, held bigint, recorded bigint) RETURNS boolean LANGUAGE plpgsql
SECURITY DEFINER SET search_path = paytokend, pg_temp AS $$
BEGIN
    PERFORM require_node(named, held);
    IF NOT EXISTS (SELECT FROM audit_record AS r WHERE r.node = named AND r.sequence = recorded
            AND r.event = 'ledger_accept_restore' AND r.outcome = 'ok') THEN
        RAISE EXCEPTION 'the restored ledger is not to be taken up so' USING ERRCODE = 'P0001';
    END IF;
    DELETE FROM hold WHERE node = named AND accepted_at IS NOT NULL;
    RETURN FOUND;
END $$;
CREATE FUNCTION compare_server(named text, held bigint) RETURNS boolean LANGUAGE plpgsql SECURITY DEFINER
SET search_path = paytokend, pg_temp AS $$
DECLARE
    here record;
BEGIN
    PERFORM require_node(named, held);
    SELECT * INTO here FROM this_server();
    UPDATE node SET system_identifier = here.system_identifier, timeline = here.timeline WHERE name = named;
    IF EXISTS (SELECT FROM ledger_state AS s WHERE s.system_identifier = here.system_identifier
            AND s.timeline = here.timeline) THEN
        RETURN true;
    END IF;
    IF EXISTS (SELECT FROM node AS n WHERE n.name <> named AND n.lease_until >= clock_timestamp()
            AND (n.system_identifier, n.timeline) IS DISTINCT FROM (here.system_identifier, here.timeline)) THEN
        RETURN false;
    END IF;
    PERFORM exclude_releases();
    UPDATE ledger_state SET system_identifier = here.system_identifier, timeline = here.timeline;
    RETURN true;
END $$;
ALTER TABLE merchant_key ADD COLUMN change bigint NOT NULL DEFAULT 0;
CREATE SEQUENCE key_change;
CREATE INDEX merchant_key_by_change ON merchant_key (change);
CREATE FUNCTION number_key_change() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
SET search_path = paytokend, pg_temp AS $$
BEGIN
    NEW.change := nextval('key_change');
    RETURN NEW;
END $$;
CREATE TRIGGER number_change BEFORE INSERT OR UPDATE ON merchant_key
FOR EACH ROW EXECUTE FUNCTION number_key_change();
CREATE FUNCTION notify_administration() RETURNS trigger LANGUAGE plpgsql
SET search_path = paytokend, pg_temp AS $$
BEGIN
    PERFORM pg_notify('paytokend_administration', '');
    RETURN NULL;
END $$;
CREATE TRIGGER notify_change AFTER INSERT OR UPDATE ON merchant_key
FOR EACH STATEMENT EXECUTE FUNCTION notify_administration();
CREATE TRIGGER notify_change AFTER INSERT OR UPDATE ON approval
FOR EACH STATEMENT EXECUTE FUNCTION notify_administration();
CREATE FUNCTION keep_key_ended() RETURNS trigger LANGUAGE plpgsql SET search_path = paytokend, pg_temp AS $$
BEGIN
    IF (OLD.state = 'destroyed' AND NEW.state <> 'destroyed')
        OR (OLD.state = 'compromised' AND NEW.state NOT IN ('compromised', 'destroyed')) THEN
        RAISE EXCEPTION 'the key has ended' USING ERRCODE = 'P0001';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER keep_ended BEFORE UPDATE ON merchant_key
FOR EACH ROW EXECUTE FUNCTION keep_key_ended();
CREATE FUNCTION keep_repeats() RETURNS trigger LANGUAGE plpgsql SET search_path = paytokend, pg_temp AS $$
BEGIN
    IF NEW.repeats < OLD.repeats THEN
        RAISE EXCEPTION 'repeats are not taken back' USING ERRCODE = 'P0001';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER keep_repeats BEFORE UPDATE ON claim
FOR EACH ROW EXECUTE FUNCTION keep_repeats();
CREATE OR REPLACE FUNCTION limit_forgotten(expected bigint, served_from bigint) RETURNS boolean LANGUAGE plpgsql
SECURITY DEFINER SET search_path = paytokend, pg_temp AS $$
BEGIN
    IF served_from < floor(extract(epoch FROM transaction_timestamp()) * 1000) THEN
        RAISE EXCEPTION 'payment tokens of the past are not served again' USING ERRCODE = 'P0001';
    END IF;
    PERFORM exclude_releases();
    UPDATE ledger_state SET forgotten_before = coalesce(served_from, forgotten_before)
    WHERE forgotten_before IS NOT DISTINCT FROM expected;
    RETURN FOUND;
END $$;
ALTER TABLE ledger_state ADD COLUMN identity text NOT NULL DEFAULT gen_random_uuid()::text;
CREATE TABLE moved_ledger (
    node          text COLLATE "C" NOT NULL PRIMARY KEY CHECK (node ~ '^[A-Za-z0-9._-]{1,64}$'),
    run           bigint NOT NULL,
    begun_at      bigint NOT NULL,
    accepted_at   bigint,
    last_sequence bigint CHECK (last_sequence >= 0),
    last_hash     bytea  CHECK (octet_length(last_hash) = 32)
);
CREATE FUNCTION keep_moving_node_out() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
SET search_path = paytokend, pg_temp AS $$
BEGIN
    IF EXISTS (SELECT FROM moved_ledger WHERE node = NEW.name AND accepted_at IS NULL) THEN
        RAISE EXCEPTION 'the node is being moved' USING ERRCODE = 'PTM01';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER keep_moving_out BEFORE INSERT OR UPDATE OF fence ON node
FOR EACH ROW EXECUTE FUNCTION keep_moving_node_out();
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA paytokend FROM PUBLIC;
