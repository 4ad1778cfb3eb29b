--
-- PostgreSQL database dump
--


-- Dumped from database version 15.18 (Debian 15.18-0+deb12u1)
-- Dumped by pg_dump version 15.18 (Debian 15.18-0+deb12u1)

SET statement_timeout = 0;
SET lock_timeout = 0;
SET idle_in_transaction_session_timeout = 0;
SET client_encoding = 'UTF8';
SET standard_conforming_strings = on;
SELECT pg_catalog.set_config('search_path', '', false);
SET check_function_bodies = false;
SET xmloption = content;
SET client_min_messages = warning;
SET row_security = off;

--
-- Name: paytokend; Type: SCHEMA; Schema: -; Owner: -
--

CREATE SCHEMA paytokend;


--
-- Name: accept_restore(text, bigint, bigint, bytea, bigint, text[], bigint[]); Type: FUNCTION; Schema: paytokend; Owner: -
--

CREATE FUNCTION paytokend.accept_restore(named text, held bigint, recorded bigint, approved bytea, served_from bigint, nodes text[], times bigint[]) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'paytokend', 'pg_temp'
    AS $$
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


--
-- Name: acceptance_time(); Type: FUNCTION; Schema: paytokend; Owner: -
--

CREATE FUNCTION paytokend.acceptance_time() RETURNS bigint
    LANGUAGE sql IMMUTABLE
    SET search_path TO 'paytokend', 'pg_temp'
    AS $$
    SELECT 30000::bigint
$$;


--
-- Name: archived_through(text); Type: FUNCTION; Schema: paytokend; Owner: -
--

CREATE FUNCTION paytokend.archived_through(named text) RETURNS bigint
    LANGUAGE sql STABLE
    SET search_path TO 'paytokend', 'pg_temp'
    AS $$
    SELECT coalesce(max(a.last), 0) FROM archive AS a WHERE a.node = named
        AND EXISTS (SELECT FROM checkpoint AS c WHERE c.node = a.node AND c.sequence >= a.recorded)
$$;


--
-- Name: compare_server(text, bigint); Type: FUNCTION; Schema: paytokend; Owner: -
--

CREATE FUNCTION paytokend.compare_server(named text, held bigint) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'paytokend', 'pg_temp'
    AS $$
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


--
-- Name: earliest_fence(); Type: FUNCTION; Schema: paytokend; Owner: -
--

CREATE FUNCTION paytokend.earliest_fence() RETURNS bigint
    LANGUAGE sql SECURITY DEFINER
    SET search_path TO 'paytokend', 'pg_temp'
    AS $$
    SELECT greatest(floor(extract(epoch FROM transaction_timestamp()) * 1000)::bigint,
            floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint - acceptance_time())
        + max(widest_window)
    FROM node HAVING bool_and(widest_window IS NOT NULL)
$$;


--
-- Name: earliest_served(); Type: FUNCTION; Schema: paytokend; Owner: -
--

CREATE FUNCTION paytokend.earliest_served() RETURNS bigint
    LANGUAGE sql SECURITY DEFINER
    SET search_path TO 'paytokend', 'pg_temp'
    AS $$
    SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint
        + greatest(signing_lead(), widest_known_window())
$$;


--
-- Name: end_hold(text, bigint, bigint); Type: FUNCTION; Schema: paytokend; Owner: -
--

CREATE FUNCTION paytokend.end_hold(named text, held bigint, recorded bigint) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'paytokend', 'pg_temp'
    AS $$
BEGIN
    PERFORM require_node(named, held);
    IF NOT EXISTS (SELECT FROM audit_record AS r WHERE r.node = named AND r.sequence = recorded
            AND r.event = 'ledger_accept_restore' AND r.outcome = 'ok') THEN
        RAISE EXCEPTION 'the restored ledger is not to be taken up so' USING ERRCODE = 'P0001';
    END IF;
    DELETE FROM hold WHERE node = named AND accepted_at IS NOT NULL;
    RETURN FOUND;
END $$;


--
-- Name: exclude_releases(); Type: FUNCTION; Schema: paytokend; Owner: -
--

CREATE FUNCTION paytokend.exclude_releases() RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'paytokend', 'pg_temp'
    AS $$
BEGIN
    LOCK TABLE ledger_state IN EXCLUSIVE MODE;
    LOCK TABLE merchant_key IN EXCLUSIVE MODE;
END $$;


--
-- Name: forget_approvals(bigint, bigint); Type: FUNCTION; Schema: paytokend; Owner: -
--

CREATE FUNCTION paytokend.forget_approvals(expired bigint, most bigint) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'paytokend', 'pg_temp'
    AS $$
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


--
-- Name: keep_key_ended(); Type: FUNCTION; Schema: paytokend; Owner: -
--

CREATE FUNCTION paytokend.keep_key_ended() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path TO 'paytokend', 'pg_temp'
    AS $$
BEGIN
    IF (OLD.state = 'destroyed' AND NEW.state <> 'destroyed')
        OR (OLD.state = 'compromised' AND NEW.state NOT IN ('compromised', 'destroyed')) THEN
        RAISE EXCEPTION 'the key has ended' USING ERRCODE = 'P0001';
    END IF;
    RETURN NEW;
END $$;


--
-- Name: keep_moving_node_out(); Type: FUNCTION; Schema: paytokend; Owner: -
--

CREATE FUNCTION paytokend.keep_moving_node_out() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'paytokend', 'pg_temp'
    AS $$
BEGIN
    IF EXISTS (SELECT FROM moved_ledger WHERE node = NEW.name AND accepted_at IS NULL) THEN
        RAISE EXCEPTION 'the node is being moved' USING ERRCODE = 'PTM01';
    END IF;
    RETURN NEW;
END $$;


--
-- Name: keep_repeats(); Type: FUNCTION; Schema: paytokend; Owner: -
--

CREATE FUNCTION paytokend.keep_repeats() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path TO 'paytokend', 'pg_temp'
    AS $$
BEGIN
    IF NEW.repeats < OLD.repeats THEN
        RAISE EXCEPTION 'repeats are not taken back' USING ERRCODE = 'P0001';
    END IF;
    RETURN NEW;
END $$;


--
-- Name: keep_signed_ahead(); Type: FUNCTION; Schema: paytokend; Owner: -
--

CREATE FUNCTION paytokend.keep_signed_ahead() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path TO 'paytokend', 'pg_temp'
    AS $$
BEGIN
    RAISE EXCEPTION 'what was released stays' USING ERRCODE = 'P0001';
END $$;


--
-- Name: limit_forgotten(bigint, bigint); Type: FUNCTION; Schema: paytokend; Owner: -
--

CREATE FUNCTION paytokend.limit_forgotten(expected bigint, served_from bigint) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'paytokend', 'pg_temp'
    AS $$
BEGIN
    PERFORM exclude_releases();
    IF served_from < expected AND served_from < earliest_served() THEN
        RAISE EXCEPTION 'payment tokens of the past are not served again' USING ERRCODE = 'P0001';
    END IF;
    UPDATE ledger_state SET forgotten_before = least(forgotten_before, served_from)
    WHERE forgotten_before IS NOT DISTINCT FROM expected;
    RETURN FOUND;
END $$;


--
-- Name: note_key_holder(text, bigint, bytea[]); Type: FUNCTION; Schema: paytokend; Owner: -
--

CREATE FUNCTION paytokend.note_key_holder(named text, held bigint, hashes bytea[]) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'paytokend', 'pg_temp'
    AS $$
BEGIN
    PERFORM require_node(named, held);
    DELETE FROM key_holder WHERE node = named AND public_key_hash <> ALL (hashes);
    INSERT INTO key_holder (node, public_key_hash, seen_at)
    SELECT DISTINCT named, h, present() FROM unnest(hashes) AS h
    ON CONFLICT (node, public_key_hash) DO UPDATE SET seen_at = excluded.seen_at;
END $$;


--
-- Name: notify_administration(); Type: FUNCTION; Schema: paytokend; Owner: -
--

CREATE FUNCTION paytokend.notify_administration() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path TO 'paytokend', 'pg_temp'
    AS $$
BEGIN
    PERFORM pg_notify('paytokend_administration', '');
    RETURN NULL;
END $$;


--
-- Name: number_key_change(); Type: FUNCTION; Schema: paytokend; Owner: -
--

CREATE FUNCTION paytokend.number_key_change() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'paytokend', 'pg_temp'
    AS $$
BEGIN
    NEW.change := nextval('key_change');
    RETURN NEW;
END $$;


--
-- Name: present(); Type: FUNCTION; Schema: paytokend; Owner: -
--

CREATE FUNCTION paytokend.present() RETURNS bigint
    LANGUAGE sql
    SET search_path TO 'paytokend', 'pg_temp'
    AS $$
    SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint
$$;


--
-- Name: prune_claims(bigint, bigint, bigint); Type: FUNCTION; Schema: paytokend; Owner: -
--

CREATE FUNCTION paytokend.prune_claims(horizon bigint, signed bigint, most bigint) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'paytokend', 'pg_temp'
    AS $$
DECLARE
    removed bigint;
BEGIN
    PERFORM exclude_releases();
    IF horizon IS NULL OR signed IS NULL OR signed < horizon + signing_lead()
        OR signed > present() - widest_known_window() THEN
        RAISE EXCEPTION 'claims are not to be forgotten yet' USING ERRCODE = 'P0001';
    END IF;
    DELETE FROM claim WHERE transaction_id IN
        (SELECT transaction_id FROM claim WHERE claimed_at < horizon ORDER BY claimed_at LIMIT most);
    GET DIAGNOSTICS removed = ROW_COUNT;
    IF removed > 0 THEN
        UPDATE ledger_state SET forgotten_before = greatest(forgotten_before, signed);
    END IF;
    RETURN removed;
END $$;


--
-- Name: put_archive(text, bigint, bigint, bigint, bytea, bytea, bigint, bigint); Type: FUNCTION; Schema: paytokend; Owner: -
--

CREATE FUNCTION paytokend.put_archive(named text, held bigint, first_record bigint, last_record bigint, last_hash bytea, file_digest bytea, file_size bigint, recorded_as bigint) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'paytokend', 'pg_temp'
    AS $$
BEGIN
    PERFORM require_node(named, held);
    IF NOT EXISTS (SELECT FROM audit_record AS r WHERE r.node = named AND r.sequence = recorded_as
            AND r.event = 'record_archive' AND r.outcome = 'ok')
        OR NOT EXISTS (SELECT FROM audit_record AS r WHERE r.node = named AND r.sequence = last_record
            AND r.hash = last_hash AND r.time < present() - 393 * 86400000::bigint)
        OR NOT EXISTS (SELECT FROM checkpoint AS c WHERE c.node = named AND c.sequence = last_record
            AND c.time < present() - 393 * 86400000::bigint)
        OR first_record <> (SELECT coalesce(max(a.last), 0) + 1 FROM archive AS a WHERE a.node = named) THEN
        RAISE EXCEPTION 'the record is not to be archived so' USING ERRCODE = 'P0001';
    END IF;
    INSERT INTO archive (node, first, last, hash, digest, size, recorded)
    VALUES (named, first_record, last_record, last_hash, file_digest, file_size, recorded_as);
    RETURN true;
END $$;


--
-- Name: put_hold(text, text, bigint, bigint, bytea, bigint, bytea); Type: FUNCTION; Schema: paytokend; Owner: -
--

CREATE FUNCTION paytokend.put_hold(named text, finding text, ends_with bigint, remembered bigint, hash bytea, moment bigint, key bytea) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'paytokend', 'pg_temp'
    AS $$
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


--
-- Name: remove_archived(text, bigint, bigint); Type: FUNCTION; Schema: paytokend; Owner: -
--

CREATE FUNCTION paytokend.remove_archived(named text, held bigint, most bigint) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'paytokend', 'pg_temp'
    AS $$
DECLARE
    base bigint;
    removed bigint;
BEGIN
    PERFORM require_node(named, held);
    base := archived_through(named);
    DELETE FROM audit_record WHERE node = named AND sequence IN
        (SELECT r.sequence FROM audit_record AS r WHERE r.node = named AND r.sequence < base
        ORDER BY r.sequence LIMIT most);
    GET DIAGNOSTICS removed = ROW_COUNT;
    DELETE FROM checkpoint WHERE node = named AND sequence < least(base,
        (SELECT min(r.sequence) FROM audit_record AS r WHERE r.node = named));
    RETURN removed;
END $$;


--
-- Name: require_node(text, bigint); Type: FUNCTION; Schema: paytokend; Owner: -
--

CREATE FUNCTION paytokend.require_node(named text, held bigint) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'paytokend', 'pg_temp'
    AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM node WHERE name = named AND fence = held) THEN
        RAISE EXCEPTION 'the node is another daemon''s' USING ERRCODE = 'P0001';
    END IF;
END $$;


--
-- Name: signing_lead(); Type: FUNCTION; Schema: paytokend; Owner: -
--

CREATE FUNCTION paytokend.signing_lead() RETURNS bigint
    LANGUAGE sql STABLE
    SET search_path TO 'paytokend', 'pg_temp'
    AS $$
    SELECT greatest(30000, max(signed_ahead)) FROM node
$$;


--
-- Name: this_server(); Type: FUNCTION; Schema: paytokend; Owner: -
--

CREATE FUNCTION paytokend.this_server(OUT system_identifier text, OUT timeline bigint) RETURNS record
    LANGUAGE sql STABLE
    SET search_path TO 'paytokend', 'pg_temp'
    AS $$
    SELECT c.system_identifier::text,
        ('x' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8))::bit(32)::int::bigint
    FROM pg_control_system() AS c
$$;


--
-- Name: widest_known_window(); Type: FUNCTION; Schema: paytokend; Owner: -
--

CREATE FUNCTION paytokend.widest_known_window() RETURNS bigint
    LANGUAGE sql STABLE
    SET search_path TO 'paytokend', 'pg_temp'
    AS $$
    SELECT greatest(30000, max(widest_window)) FROM node
$$;


SET default_tablespace = '';

SET default_table_access_method = heap;

--
-- Name: approval; Type: TABLE; Schema: paytokend; Owner: -
--

CREATE TABLE paytokend.approval (
    identifier bytea NOT NULL,
    operation text NOT NULL,
    parameters bytea NOT NULL,
    public_key_hash bytea,
    key_state text,
    requester bigint NOT NULL,
    requester_name text NOT NULL,
    requester_uid bigint NOT NULL,
    requester_gid bigint NOT NULL,
    requester_groups text NOT NULL,
    reason text NOT NULL,
    requested_at bigint NOT NULL,
    expires_at bigint NOT NULL,
    status text NOT NULL,
    decided_by bigint,
    decided_at bigint,
    node text NOT NULL COLLATE pg_catalog."C",
    requester_account text,
    requester_login_account text,
    CONSTRAINT approval_parameters_check CHECK ((octet_length(parameters) = 32)),
    CONSTRAINT approval_public_key_hash_check CHECK ((octet_length(public_key_hash) = 32))
);


--
-- Name: archive; Type: TABLE; Schema: paytokend; Owner: -
--

CREATE TABLE paytokend.archive (
    node text NOT NULL COLLATE pg_catalog."C",
    first bigint NOT NULL,
    last bigint NOT NULL,
    hash bytea NOT NULL,
    digest bytea NOT NULL,
    size bigint NOT NULL,
    recorded bigint NOT NULL,
    CONSTRAINT archive_check CHECK ((last >= first)),
    CONSTRAINT archive_check1 CHECK ((recorded > last)),
    CONSTRAINT archive_digest_check CHECK ((octet_length(digest) = 32)),
    CONSTRAINT archive_first_check CHECK ((first > 0)),
    CONSTRAINT archive_hash_check CHECK ((octet_length(hash) = 32)),
    CONSTRAINT archive_size_check CHECK ((size > 0))
);


--
-- Name: audit_key; Type: TABLE; Schema: paytokend; Owner: -
--

CREATE TABLE paytokend.audit_key (
    node text NOT NULL COLLATE pg_catalog."C",
    ordinal bigint NOT NULL,
    identifier bytea NOT NULL,
    public_key bytea,
    planned_at bigint NOT NULL,
    CONSTRAINT audit_key_identifier_check CHECK ((octet_length(identifier) = 16)),
    CONSTRAINT audit_key_ordinal_check CHECK ((ordinal > 0)),
    CONSTRAINT audit_key_public_key_check CHECK ((octet_length(public_key) = 65))
);


--
-- Name: audit_record; Type: TABLE; Schema: paytokend; Owner: -
--

CREATE TABLE paytokend.audit_record (
    node text NOT NULL COLLATE pg_catalog."C",
    sequence bigint NOT NULL,
    "time" bigint NOT NULL,
    event text NOT NULL,
    outcome text NOT NULL,
    caller text,
    caller_uid bigint,
    merchant text,
    public_key_hash bytea,
    transaction_id bytea,
    hash bytea NOT NULL,
    line bytea NOT NULL,
    CONSTRAINT audit_record_hash_check CHECK ((octet_length(hash) = 32)),
    CONSTRAINT audit_record_sequence_check CHECK ((sequence > 0))
);


--
-- Name: checkpoint; Type: TABLE; Schema: paytokend; Owner: -
--

CREATE TABLE paytokend.checkpoint (
    node text NOT NULL COLLATE pg_catalog."C",
    sequence bigint NOT NULL,
    "time" bigint NOT NULL,
    line bytea NOT NULL
);


--
-- Name: claim; Type: TABLE; Schema: paytokend; Owner: -
--

CREATE TABLE paytokend.claim (
    transaction_id bytea NOT NULL,
    public_key_hash bytea NOT NULL,
    caller text NOT NULL,
    reference_digest bytea,
    content_digest bytea NOT NULL,
    attempt bytea NOT NULL,
    claimed_at bigint NOT NULL,
    repeats bigint DEFAULT 0 NOT NULL,
    repeat_attempt bytea,
    repeated_at bigint,
    node text NOT NULL COLLATE pg_catalog."C",
    CONSTRAINT claim_transaction_id_check CHECK ((octet_length(transaction_id) = 32))
);


--
-- Name: hold; Type: TABLE; Schema: paytokend; Owner: -
--

CREATE TABLE paytokend.hold (
    node text NOT NULL COLLATE pg_catalog."C",
    kind text NOT NULL,
    ledger_sequence bigint NOT NULL,
    remembered_sequence bigint,
    remembered_hash bytea,
    remembered_at bigint,
    key_id bytea,
    found_at bigint NOT NULL,
    accepted_at bigint,
    accepted_on text COLLATE pg_catalog."C",
    CONSTRAINT hold_key_id_check CHECK ((octet_length(key_id) = 32)),
    CONSTRAINT hold_kind_check CHECK ((kind = ANY (ARRAY['lost'::text, 'rolled_back'::text, 'forked'::text]))),
    CONSTRAINT hold_ledger_sequence_check CHECK ((ledger_sequence >= 0)),
    CONSTRAINT hold_node_check CHECK ((node ~ '^[A-Za-z0-9._-]{1,64}$'::text)),
    CONSTRAINT hold_remembered_hash_check CHECK ((octet_length(remembered_hash) = 32)),
    CONSTRAINT hold_remembered_sequence_check CHECK ((remembered_sequence > 0))
);


--
-- Name: key_change; Type: SEQUENCE; Schema: paytokend; Owner: -
--

CREATE SEQUENCE paytokend.key_change
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;


--
-- Name: key_holder; Type: TABLE; Schema: paytokend; Owner: -
--

CREATE TABLE paytokend.key_holder (
    node text NOT NULL COLLATE pg_catalog."C",
    public_key_hash bytea NOT NULL,
    seen_at bigint NOT NULL,
    CONSTRAINT key_holder_node_check CHECK ((node ~ '^[A-Za-z0-9._-]{1,64}$'::text)),
    CONSTRAINT key_holder_public_key_hash_check CHECK ((octet_length(public_key_hash) = 32))
);


--
-- Name: ledger_state; Type: TABLE; Schema: paytokend; Owner: -
--

CREATE TABLE paytokend.ledger_state (
    only_row boolean DEFAULT true NOT NULL,
    schema_version bigint NOT NULL,
    forgotten_before bigint,
    guard smallint DEFAULT 0 NOT NULL,
    system_identifier text,
    timeline bigint,
    held_since bigint,
    restore_fence bigint,
    identity text DEFAULT (gen_random_uuid())::text NOT NULL,
    CONSTRAINT ledger_state_only_row_check CHECK (only_row)
);


--
-- Name: merchant_key; Type: TABLE; Schema: paytokend; Owner: -
--

CREATE TABLE paytokend.merchant_key (
    public_key_hash bytea NOT NULL,
    merchant_identifier text NOT NULL,
    algorithm text NOT NULL,
    state text NOT NULL,
    cut_off bigint,
    origin text NOT NULL,
    created_at bigint NOT NULL,
    node text NOT NULL COLLATE pg_catalog."C",
    change bigint DEFAULT 0 NOT NULL,
    key_use text DEFAULT 'processing'::text NOT NULL COLLATE pg_catalog."C",
    CONSTRAINT merchant_key_key_use_check CHECK ((key_use = ANY (ARRAY['processing'::text, 'identity'::text]))),
    CONSTRAINT merchant_key_public_key_hash_check CHECK ((octet_length(public_key_hash) = 32))
);


--
-- Name: moved_ledger; Type: TABLE; Schema: paytokend; Owner: -
--

CREATE TABLE paytokend.moved_ledger (
    node text NOT NULL COLLATE pg_catalog."C",
    run bigint NOT NULL,
    begun_at bigint NOT NULL,
    accepted_at bigint,
    last_sequence bigint,
    last_hash bytea,
    CONSTRAINT moved_ledger_last_hash_check CHECK ((octet_length(last_hash) = 32)),
    CONSTRAINT moved_ledger_last_sequence_check CHECK ((last_sequence >= 0)),
    CONSTRAINT moved_ledger_node_check CHECK ((node ~ '^[A-Za-z0-9._-]{1,64}$'::text))
);


--
-- Name: node; Type: TABLE; Schema: paytokend; Owner: -
--

CREATE TABLE paytokend.node (
    name text NOT NULL COLLATE pg_catalog."C",
    fence bigint NOT NULL,
    lease_until timestamp with time zone NOT NULL,
    seen_at timestamp with time zone NOT NULL,
    version text NOT NULL,
    last_batch bytea,
    signed_ahead bigint DEFAULT 0 NOT NULL,
    clock_accepted_after bigint DEFAULT 0 NOT NULL,
    widest_window bigint,
    system_identifier text,
    timeline bigint,
    CONSTRAINT node_last_batch_check CHECK ((octet_length(last_batch) = 16)),
    CONSTRAINT node_name_check CHECK ((name ~ '^[A-Za-z0-9._-]{1,64}$'::text)),
    CONSTRAINT node_widest_window_check CHECK ((widest_window >= 0))
)
WITH (fillfactor='10');


--
-- Data for Name: approval; Type: TABLE DATA; Schema: paytokend; Owner: -
--



--
-- Data for Name: archive; Type: TABLE DATA; Schema: paytokend; Owner: -
--



--
-- Data for Name: audit_key; Type: TABLE DATA; Schema: paytokend; Owner: -
--

INSERT INTO paytokend.audit_key VALUES ('node-1', 1, '\x6e6f6465ce2bbdc6d624634aa8c06854', '\x041d5e59baf465e7bda49fbc669e0806525cbe976d89efe2f71b55e272ee05a55e93221dad9a99bd8bec25fc33bd40ea7fbc29c5bf51ffa490cd1c1a73b8c0276f', 1795580049683);


--
-- Data for Name: audit_record; Type: TABLE DATA; Schema: paytokend; Owner: -
--

INSERT INTO paytokend.audit_record VALUES ('node-1', 1, 1795580049638, 'start', 'ok', NULL, NULL, NULL, NULL, NULL, '\x46a8bfa63dd06f2a336e84bd0ea6876b0b916ba890baf0612f9781428e5699f9', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a312c2274696d65223a22323032362d31312d32355430343a31343a30392e3633385a222c226576656e74223a227374617274222c226f7574636f6d65223a226f6b222c2276657273696f6e223a22302e312e30222c2268617368223a2234366138626661363364643036663261333336653834626430656136383736623062393136626138393062616630363132663937383134323865353639396639227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 2, 1795580049638, 'configuration_load', 'ok', NULL, NULL, NULL, NULL, NULL, '\x773d3dc917828725f8764a0104e57a7e935e0c980813bb2ac55947d8b6deed57', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a322c2274696d65223a22323032362d31312d32355430343a31343a30392e3633385a222c226576656e74223a22636f6e66696775726174696f6e5f6c6f6164222c226f7574636f6d65223a226f6b222c2266696c65536861323536223a2233363161343832393335643435643530636330636137383736663263653861313761383833346138313138366362316136643462373663353130333237343131222c2268617368223a2237373364336463393137383238373235663837363461303130346535376137653933356530633938303831336262326163353539343764386236646565643537227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 3, 1795580049638, 'configuration_values', 'ok', NULL, NULL, NULL, NULL, NULL, '\x5eba18ef150a16eeae4d488d0f8c4c7f7b96aba34ab287b542a373cdfaa021b3', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a332c2274696d65223a22323032362d31312d32355430343a31343a30392e3633385a222c226576656e74223a22636f6e66696775726174696f6e5f76616c756573222c226f7574636f6d65223a226f6b222c2270617274223a312c227061727473223a312c2276616c756573223a7b226163636573732e312e6d65726368616e7473223a222a222c226163636573732e312e6e616d65223a22636865636b6f7574222c226163636573732e312e726571756972655f6578706563746564223a22222c226163636573732e312e726f6c6573223a22646563727970742c2061756469742c2061646d696e222c226163636573732e312e756964223a2230222c226163636573732e312e75736572223a22726f6f74222c22617070726f76616c732e657870697265223a223164222c22617070726f76616c732e70656f706c65223a2232222c226c65646765722e656e67696e65223a22706f737467726573716c222c226c65646765722e6e6f6465223a226e6f64652d31222c226c65646765722e7265706561745f666f72223a223164222c226c65646765722e726571756972655f7374616e646279223a2266616c7365222c226c65646765722e72657461696e5f636c61696d73223a2231383064222c226c65646765722e72657461696e5f7265636f726473223a226f6666222c226c65646765722e736572766572223a222f746d702f706179746f6b656e642d666978747572652e68304d4579492f6c6564676572222c226c65646765722e74696d656f7574223a22313073222c226c65646765722e75736572223a22706179746f6b656e64222c226c697374656e65722e61646d696e5f6d6f6465223a2230363030222c226c697374656e65722e61646d696e5f736f636b6574223a222f746d702f706179746f6b656e642e3173557278422f61646d696e2e736f636b222c226c697374656e65722e69646c655f74696d656f7574223a22316d222c226c697374656e65722e6d61785f636f6e6e656374696f6e73223a22353132222c226c697374656e65722e6d61785f636f6e6e656374696f6e735f7065725f756964223a22313238222c226c697374656e65722e6d61785f726571756573745f6279746573223a223635353336222c226c697374656e65722e6d6f6465223a2230363630222c226c697374656e65722e736f636b6574223a222f746d702f706179746f6b656e642e3173557278422f706179746f6b656e642e736f636b222c226c6f672e666f726d6174223a2274657874222c226c6f672e6c6576656c223a22696e666f222c22746f6b656e732e31223a227072696d617279222c22746f6b656e732e7072696d6172792e616c6c6f775f6578747261637461626c655f736563726574223a2274727565222c22746f6b656e732e7072696d6172792e63616c6c5f74696d656f7574223a22313073222c22746f6b656e732e7072696d6172792e64656e795f73797374656d5f63616c6c73223a22222c22746f6b656e732e7072696d6172792e656e7669726f6e6d656e74223a22534f465448534d325f434f4e46222c22746f6b656e732e7072696d6172792e696e69745f61726773223a22222c22746f6b656e732e7072696d6172792e6d6f64756c65223a222f7573722f6c69622f736f667468736d2f6c6962736f667468736d322e736f222c22746f6b656e732e7072696d6172792e70696e5f66696c65223a222f746d702f706179746f6b656e642e3173557278422f70696e222c22746f6b656e732e7072696d6172792e72656379636c655f6166746572223a2231303030303030222c22746f6b656e732e7072696d6172792e73657373696f6e73223a2232222c22746f6b656e732e7072696d6172792e757269223a22706b637331313a746f6b656e3d73616e64626f78222c22746f6b656e732e7072696d6172792e7573655f6c6f67223a22222c2274727573742e64697374727573746564223a22222c2274727573742e726f6f745f66696c6573223a222f746d702f706179746f6b656e642e3173557278422f617574686f726974792f726f6f742e70656d222c2274727573742e726f6f7473223a2232626163663131333631323138333736653436343032353563613935653630613136363131356364613734346532373962313138313339373137346165666266222c22766572696669636174696f6e2e7369676e696e675f74696d655f77696e646f77223a223164227d2c2268617368223a2235656261313865663135306131366565616534643438386430663863346337663762393661626133346162323837623534326133373363646661613032316233227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 4, 1795580049700, 'audit_key_change', 'ok', NULL, NULL, NULL, NULL, NULL, '\xaba1fab0e4eaee9a74505f2bca7e7637bbb1e49a2e0bff8e6804d9c97a88fc97', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a342c2274696d65223a22323032362d31312d32355430343a31343a30392e3730305a222c226576656e74223a2261756469745f6b65795f6368616e6765222c226f7574636f6d65223a226f6b222c22746f6b656e223a227072696d617279222c22746f223a2264623664356137333666653738313236393737343839623633333764666561643966326532393166653234393263306662383339646362616639373733373533222c2268617368223a2261626131666162306534656165653961373435303566326263613765373633376262623165343961326530626666386536383034643963393761383866633937227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 5, 1795580049892, 'key_import', 'ok', 'checkout', 0, 'merchant.com.example.active', '\xe5dcaad5723adcd9221b6eb1e486c933f24840bdc75dbd88f3de46fcd9b41926', NULL, '\x365216113fef931a2703474b8fa4c6ae124471b43e6f327a730526047e837912', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a352c2274696d65223a22323032362d31312d32355430343a31343a30392e3839325a222c226576656e74223a226b65795f696d706f7274222c226f7574636f6d65223a226f6b222c2263616c6c6572223a7b226e616d65223a22636865636b6f7574222c22756964223a302c22676964223a302c22706964223a32343437392c22636f6d6d223a22706179746f6b656e63746c227d2c226d65726368616e74223a226d65726368616e742e636f6d2e6578616d706c652e616374697665222c227075626c69634b657948617368223a223564797131584936334e6b69473236783549624a4d2f4a49514c334858623249383935472f4e6d304753593d222c22746f6b656e223a227072696d617279222c226365727469666963617465536861323536223a2262626535303665353232646263633437356562346332653531396633376365666436353835646639623564323966373166323038323739313565363034303830222c2268617368223a2233363532313631313366656639333161323730333437346238666134633661653132343437316234336536663332376137333035323630343765383337393132227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 6, 1795580049977, 'decrypt', 'ok', 'checkout', 0, 'merchant.com.example.active', '\xe5dcaad5723adcd9221b6eb1e486c933f24840bdc75dbd88f3de46fcd9b41926', '\xf4959461a6b13244648373abd10540fe532a1ac32298627262113520658cda73', '\xb658ddd9a8e11f78de8452bef5ee45efccde5afcc5604f88aab4a9975568a46c', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a362c2274696d65223a22323032362d31312d32355430343a31343a30392e3937375a222c226576656e74223a2264656372797074222c226f7574636f6d65223a226f6b222c2263616c6c6572223a7b226e616d65223a22636865636b6f7574222c22756964223a302c22676964223a302c22706964223a32343438382c22636f6d6d223a22706179746f6b656e63746c227d2c226d65726368616e74223a226d65726368616e742e636f6d2e6578616d706c652e616374697665222c227075626c69634b657948617368223a223564797131584936334e6b69473236783549624a4d2f4a49514c334858623249383935472f4e6d304753593d222c227472616e73616374696f6e4964223a2266343935393436316136623133323434363438333733616264313035343066653533326131616333323239383632373236323131333532303635386364613733222c2270726f74656374696f6e223a2243222c22746f6b656e223a227072696d617279222c227265666572656e6365223a2230626166653232313536643236393863313433623836303430343436643336366561643836336261363030643563393234663364313563373836656634303537222c2268617368223a2262363538646464396138653131663738646538343532626566356565343565666363646535616663633536303466383861616234613939373535363861343663227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 7, 1795580050059, 'decrypt', 'ok', 'checkout', 0, 'merchant.com.example.active', '\xe5dcaad5723adcd9221b6eb1e486c933f24840bdc75dbd88f3de46fcd9b41926', '\x0c4c077b62d8b4f307c6a0f355dd8249b9bbf43ba0cf92c9b2c41f74d5ef488c', '\x7ef17c6ea7d042b6021feb0c4aba32891e28d21adbe4c898abb8d91229b29bf5', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a372c2274696d65223a22323032362d31312d32355430343a31343a31302e3035395a222c226576656e74223a2264656372797074222c226f7574636f6d65223a226f6b222c2263616c6c6572223a7b226e616d65223a22636865636b6f7574222c22756964223a302c22676964223a302c22706964223a32343439392c22636f6d6d223a22706179746f6b656e63746c227d2c226d65726368616e74223a226d65726368616e742e636f6d2e6578616d706c652e616374697665222c227075626c69634b657948617368223a223564797131584936334e6b69473236783549624a4d2f4a49514c334858623249383935472f4e6d304753593d222c227472616e73616374696f6e4964223a2230633463303737623632643862346633303763366130663335356464383234396239626266343362613063663932633962326334316637346435656634383863222c2270726f74656374696f6e223a2243222c22746f6b656e223a227072696d617279222c227265666572656e6365223a2233643565333130366364373262613033666564656466366462623966633333363765646365626534353365393064623233366561373633616132323862656533222c2268617368223a2237656631376336656137643034326236303231666562306334616261333238393165323864323161646265346338393861626238643931323239623239626635227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 8, 1795580050141, 'decrypt', 'ok', 'checkout', 0, 'merchant.com.example.active', '\xe5dcaad5723adcd9221b6eb1e486c933f24840bdc75dbd88f3de46fcd9b41926', '\xa7fe9af3bc398467472ccc6cf4b8d58d5e70c8801fe4d9b973108a900cb97789', '\x2e2e0d0c64e99b905af065db1fc34b3c06b7b211f9eb207406d78b284dca0363', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a382c2274696d65223a22323032362d31312d32355430343a31343a31302e3134315a222c226576656e74223a2264656372797074222c226f7574636f6d65223a226f6b222c2263616c6c6572223a7b226e616d65223a22636865636b6f7574222c22756964223a302c22676964223a302c22706964223a32343531322c22636f6d6d223a22706179746f6b656e63746c227d2c226d65726368616e74223a226d65726368616e742e636f6d2e6578616d706c652e616374697665222c227075626c69634b657948617368223a223564797131584936334e6b69473236783549624a4d2f4a49514c334858623249383935472f4e6d304753593d222c227472616e73616374696f6e4964223a2261376665396166336263333938343637343732636363366366346238643538643565373063383830316665346439623937333130386139303063623937373839222c2270726f74656374696f6e223a2243222c22746f6b656e223a227072696d617279222c227265666572656e6365223a2232386563396138666632343966643566623239393337333463303236616662626534646561373665633761393939633233643737343233366262623836646537222c2268617368223a2232653265306430633634653939623930356166303635646231666333346233633036623762323131663965623230373430366437386232383464636130333633227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 9, 1795580050184, 'decrypt', 'repeat', 'checkout', 0, 'merchant.com.example.active', '\xe5dcaad5723adcd9221b6eb1e486c933f24840bdc75dbd88f3de46fcd9b41926', '\xf4959461a6b13244648373abd10540fe532a1ac32298627262113520658cda73', '\x14ce98a6e6af78ac83e7faa73d16335d2f934fff63640a52862418f0b66ed77a', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a392c2274696d65223a22323032362d31312d32355430343a31343a31302e3138345a222c226576656e74223a2264656372797074222c226f7574636f6d65223a22726570656174222c2263616c6c6572223a7b226e616d65223a22636865636b6f7574222c22756964223a302c22676964223a302c22706964223a32343532302c22636f6d6d223a22706179746f6b656e63746c227d2c226d65726368616e74223a226d65726368616e742e636f6d2e6578616d706c652e616374697665222c227075626c69634b657948617368223a223564797131584936334e6b69473236783549624a4d2f4a49514c334858623249383935472f4e6d304753593d222c227472616e73616374696f6e4964223a2266343935393436316136623133323434363438333733616264313035343066653533326131616333323239383632373236323131333532303635386364613733222c2270726f74656374696f6e223a2243222c22746f6b656e223a227072696d617279222c227265666572656e6365223a2230626166653232313536643236393863313433623836303430343436643336366561643836336261363030643563393234663364313563373836656634303537222c2268617368223a2231346365393861366536616637386163383365376661613733643136333335643266393334666666363336343061353238363234313866306236366564373761227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 10, 1795580050228, 'decrypt', 'transaction_replayed', 'checkout', 0, 'merchant.com.example.active', '\xe5dcaad5723adcd9221b6eb1e486c933f24840bdc75dbd88f3de46fcd9b41926', '\x0c4c077b62d8b4f307c6a0f355dd8249b9bbf43ba0cf92c9b2c41f74d5ef488c', '\x7c03319fa21dff6aa0b80fcfa5cf9cc20133aea654270d8358f5f616bb22796a', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a31302c2274696d65223a22323032362d31312d32355430343a31343a31302e3232385a222c226576656e74223a2264656372797074222c226f7574636f6d65223a227472616e73616374696f6e5f7265706c61796564222c2263616c6c6572223a7b226e616d65223a22636865636b6f7574222c22756964223a302c22676964223a302c22706964223a32343532372c22636f6d6d223a22706179746f6b656e63746c227d2c226d65726368616e74223a226d65726368616e742e636f6d2e6578616d706c652e616374697665222c227075626c69634b657948617368223a223564797131584936334e6b69473236783549624a4d2f4a49514c334858623249383935472f4e6d304753593d222c227472616e73616374696f6e4964223a2230633463303737623632643862346633303763366130663335356464383234396239626266343362613063663932633962326334316637346435656634383863222c2270726f74656374696f6e223a2243222c22746f6b656e223a227072696d617279222c227265666572656e6365223a2261653434386163383663346538653464656336343537323937303865663431383733616537396336646666383465666637333336303938393438376630386535222c2268617368223a2237633033333139666132316466663661613062383066636661356366396363323031333361656136353432373064383335386635663631366262323237393661227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 23, 1795580052348, 'certificate_import', 'ok', 'checkout', 0, 'merchant.com.example.rotated', '\xd847701521b961b2b66e4e2f2db7e192fae1d71d7259b3b8e262cb010d08122a', NULL, '\xaf94b40666b49aa331965af842163d9572063d16fe4d1d5cd3012d62e23b0c75', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a32332c2274696d65223a22323032362d31312d32355430343a31343a31322e3334385a222c226576656e74223a2263657274696669636174655f696d706f7274222c226f7574636f6d65223a226f6b222c2263616c6c6572223a7b226e616d65223a22636865636b6f7574222c22756964223a302c22676964223a302c22706964223a32343736392c22636f6d6d223a22706179746f6b656e63746c227d2c226d65726368616e74223a226d65726368616e742e636f6d2e6578616d706c652e726f7461746564222c227075626c69634b657948617368223a22324564774653473559624b32626b34764c6266686b7672683178317957624f34346d4c4c4151304945696f3d222c22746f6b656e223a227072696d617279222c226365727469666963617465536861323536223a2266613966636636656365646636626137643136386532313238316464316338643735396361336361366430396430363034633233626235623739376662376633222c2268617368223a2261663934623430363636623439616133333139363561663834323136336439353732303633643136666534643164356364333031326436326532336230633735227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 11, 1795580050315, 'decrypt', 'ok', 'checkout', 0, 'merchant.com.example.active', '\xe5dcaad5723adcd9221b6eb1e486c933f24840bdc75dbd88f3de46fcd9b41926', '\xa609b98a347e9ba9960305d6510ab848fbe1d9b1ca556b9cdc9f87b623e86953', '\x039ae65adbe21e0112eff7183988367ac4f4b082f0b219e99825179535647624', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a31312c2274696d65223a22323032362d31312d32355430343a31343a31302e3331355a222c226576656e74223a2264656372797074222c226f7574636f6d65223a226f6b222c2263616c6c6572223a7b226e616d65223a22636865636b6f7574222c22756964223a302c22676964223a302c22706964223a32343534302c22636f6d6d223a22706179746f6b656e63746c227d2c226d65726368616e74223a226d65726368616e742e636f6d2e6578616d706c652e616374697665222c227075626c69634b657948617368223a223564797131584936334e6b69473236783549624a4d2f4a49514c334858623249383935472f4e6d304753593d222c227472616e73616374696f6e4964223a2261363039623938613334376539626139393630333035643635313061623834386662653164396231636135353662396364633966383762363233653836393533222c2270726f74656374696f6e223a2243222c22746f6b656e223a227072696d617279222c2268617368223a2230333961653635616462653231653031313265666637313833393838333637616334663462303832663062323139653939383235313739353335363437363234227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 12, 1795580050501, 'key_import', 'ok', 'checkout', 0, 'merchant.com.example.suspended', '\x2231f62a03cbdbabb8bc86ac30ce3b2c9036b7727c7c5fbf21a0ce86c3e29bf8', NULL, '\xf4dfe56cbc034cffff8729df337eb6f38d52a16120d61e47bbfa5c89343520e8', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a31322c2274696d65223a22323032362d31312d32355430343a31343a31302e3530315a222c226576656e74223a226b65795f696d706f7274222c226f7574636f6d65223a226f6b222c2263616c6c6572223a7b226e616d65223a22636865636b6f7574222c22756964223a302c22676964223a302c22706964223a32343535302c22636f6d6d223a22706179746f6b656e63746c227d2c226d65726368616e74223a226d65726368616e742e636f6d2e6578616d706c652e73757370656e646564222c227075626c69634b657948617368223a22496a48324b67504c32367534764961734d4d34374c4a413274334a3866462b2f4961444f687350696d2f673d222c22746f6b656e223a227072696d617279222c226365727469666963617465536861323536223a2232316235616538616230343461613831306261333662346364663630313932623538393138626162626436336664646439626338656464633265666532633334222c2268617368223a2266346466653536636263303334636666666638373239646633333765623666333864353261313631323064363165343762626661356338393334333532306538227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 13, 1795580050584, 'decrypt', 'ok', 'checkout', 0, 'merchant.com.example.suspended', '\x2231f62a03cbdbabb8bc86ac30ce3b2c9036b7727c7c5fbf21a0ce86c3e29bf8', '\x3e1281bb02657b0f3a47c09ce263772308a28751d014a65ddb6635c50ae2b022', '\x8aa935f7b2e994253ff7e7713ad6a887ab4759387b7a58e08a1369f168f76887', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a31332c2274696d65223a22323032362d31312d32355430343a31343a31302e3538345a222c226576656e74223a2264656372797074222c226f7574636f6d65223a226f6b222c2263616c6c6572223a7b226e616d65223a22636865636b6f7574222c22756964223a302c22676964223a302c22706964223a32343535392c22636f6d6d223a22706179746f6b656e63746c227d2c226d65726368616e74223a226d65726368616e742e636f6d2e6578616d706c652e73757370656e646564222c227075626c69634b657948617368223a22496a48324b67504c32367534764961734d4d34374c4a413274334a3866462b2f4961444f687350696d2f673d222c227472616e73616374696f6e4964223a2233653132383162623032363537623066336134376330396365323633373732333038613238373531643031346136356464623636333563353061653262303232222c2270726f74656374696f6e223a2243222c22746f6b656e223a227072696d617279222c227265666572656e6365223a2266373164663635363730643632333231313334376633343139333033326236616463393135656261336362313464343431366538633731393433656537633966222c2268617368223a2238616139333566376232653939343235336666376537373133616436613838376162343735393338376237613538653038613133363966313638663736383837227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 14, 1795580050847, 'key_state_change', 'ok', 'checkout', 0, 'merchant.com.example.suspended', '\x2231f62a03cbdbabb8bc86ac30ce3b2c9036b7727c7c5fbf21a0ce86c3e29bf8', NULL, '\x7ef420446959b1ea89fcac0e8aff774ee5823d9db5b9a5993adee76dd307e1f2', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a31342c2274696d65223a22323032362d31312d32355430343a31343a31302e3834375a222c226576656e74223a226b65795f73746174655f6368616e6765222c226f7574636f6d65223a226f6b222c2263616c6c6572223a7b226e616d65223a22636865636b6f7574222c22756964223a302c22676964223a302c22706964223a32343631362c22636f6d6d223a22706179746f6b656e63746c227d2c226d65726368616e74223a226d65726368616e742e636f6d2e6578616d706c652e73757370656e646564222c227075626c69634b657948617368223a22496a48324b67504c32367534764961734d4d34374c4a413274334a3866462b2f4961444f687350696d2f673d222c2266726f6d223a22616374697665222c22746f223a2273757370656e646564222c22726561736f6e223a22612066697874757265222c2268617368223a2237656634323034343639353962316561383966636163306538616666373734656535383233643964623562396135393933616465653736646433303765316632227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 15, 1795580050931, 'decrypt', 'key_not_active', 'checkout', 0, 'merchant.com.example.suspended', '\x2231f62a03cbdbabb8bc86ac30ce3b2c9036b7727c7c5fbf21a0ce86c3e29bf8', '\xb5b6381fc13866a7ca0da118813e6f0e4ec256c40c74174e6d72ae6095f31aad', '\x421b9558fba67068e79d76a5fdde920d99c908b2eaf91f9efd65699f791521ae', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a31352c2274696d65223a22323032362d31312d32355430343a31343a31302e3933315a222c226576656e74223a2264656372797074222c226f7574636f6d65223a226b65795f6e6f745f616374697665222c2263616c6c6572223a7b226e616d65223a22636865636b6f7574222c22756964223a302c22676964223a302c22706964223a32343632342c22636f6d6d223a22706179746f6b656e63746c227d2c226d65726368616e74223a226d65726368616e742e636f6d2e6578616d706c652e73757370656e646564222c227075626c69634b657948617368223a22496a48324b67504c32367534764961734d4d34374c4a413274334a3866462b2f4961444f687350696d2f673d222c227472616e73616374696f6e4964223a2262356236333831666331333836366137636130646131313838313365366630653465633235366334306337343137346536643732616536303935663331616164222c2268617368223a2234323162393535386662613637303638653739643736613566646465393230643939633930386232656166393166396566643635363939663739313532316165227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 16, 1795580051046, 'key_import', 'ok', 'checkout', 0, 'merchant.com.example.compromised', '\x9582ee8ebc0ad735671f262a2a581468cf663372527c11cee56018d51a33fdbf', NULL, '\xce5f52ac04959f0e1ba11068957c159155b767eeed45b8541dcd5cfaf148fbe3', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a31362c2274696d65223a22323032362d31312d32355430343a31343a31312e3034365a222c226576656e74223a226b65795f696d706f7274222c226f7574636f6d65223a226f6b222c2263616c6c6572223a7b226e616d65223a22636865636b6f7574222c22756964223a302c22676964223a302c22706964223a32343633342c22636f6d6d223a22706179746f6b656e63746c227d2c226d65726368616e74223a226d65726368616e742e636f6d2e6578616d706c652e636f6d70726f6d69736564222c227075626c69634b657948617368223a226c594c756a72774b317a566e487959714b6c6755614d396d4d334a536642484f3557415931526f7a2f62383d222c22746f6b656e223a227072696d617279222c226365727469666963617465536861323536223a2232643434313362333439646533356338386232356563326362613535333063393561656538613237623039323632396564343132326163663562653864656566222c2268617368223a2263653566353261633034393539663065316261313130363839353763313539313535623736376565656434356238353431646364356366616631343866626533227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 17, 1795580051349, 'key_state_change', 'ok', 'checkout', 0, 'merchant.com.example.compromised', '\x9582ee8ebc0ad735671f262a2a581468cf663372527c11cee56018d51a33fdbf', NULL, '\x3bfc0957dc3a9e6cc43f9fce067933a7f3b0c2ec0a3bcfa7ef7d371b971ccfea', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a31372c2274696d65223a22323032362d31312d32355430343a31343a31312e3334395a222c226576656e74223a226b65795f73746174655f6368616e6765222c226f7574636f6d65223a226f6b222c2263616c6c6572223a7b226e616d65223a22636865636b6f7574222c22756964223a302c22676964223a302c22706964223a32343730352c22636f6d6d223a22706179746f6b656e63746c227d2c226d65726368616e74223a226d65726368616e742e636f6d2e6578616d706c652e636f6d70726f6d69736564222c227075626c69634b657948617368223a226c594c756a72774b317a566e487959714b6c6755614d396d4d334a536642484f3557415931526f7a2f62383d222c2266726f6d223a22616374697665222c22746f223a22636f6d70726f6d69736564222c22726561736f6e223a22612066697874757265222c2268617368223a2233626663303935376463336139653663633433663966636530363739333361376633623063326563306133626366613765663764333731623937316363666561227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 18, 1795580051600, 'key_generate', 'ok', 'checkout', 0, 'merchant.com.example.generated', '\xc3bad991c21d73a69249e029d5eeae83e8335ea029f0f7eed4fadcef57f3ad86', NULL, '\x7067b4a748c109b1204f4239a65d20ad04040c1cb2052e0e9dbc43403e75299e', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a31382c2274696d65223a22323032362d31312d32355430343a31343a31312e3630305a222c226576656e74223a226b65795f67656e6572617465222c226f7574636f6d65223a226f6b222c2263616c6c6572223a7b226e616d65223a22636865636b6f7574222c22756964223a302c22676964223a302c22706964223a32343731372c22636f6d6d223a22706179746f6b656e63746c227d2c226d65726368616e74223a226d65726368616e742e636f6d2e6578616d706c652e67656e657261746564222c227075626c69634b657948617368223a227737725a6b634964633661535365417031653675672b677a5871417038506675315072633731667a7259593d222c22746f6b656e223a227072696d617279222c2268617368223a2237303637623461373438633130396231323034663432333961363564323061643034303430633163623230353265306539646263343334303365373532393965227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 19, 1795580051947, 'key_import', 'ok', 'checkout', 0, 'merchant.com.example.rotated', '\xc2b2adc3a01665690eb9b56e6f2167c34530adb8772ff552062b3a191e57e71f', NULL, '\xd9d89e4ae08bc86eab90ee129d4f5b19a28175672369b32d7c148e21d266b8d8', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a31392c2274696d65223a22323032362d31312d32355430343a31343a31312e3934375a222c226576656e74223a226b65795f696d706f7274222c226f7574636f6d65223a226f6b222c2263616c6c6572223a7b226e616d65223a22636865636b6f7574222c22756964223a302c22676964223a302c22706964223a32343732372c22636f6d6d223a22706179746f6b656e63746c227d2c226d65726368616e74223a226d65726368616e742e636f6d2e6578616d706c652e726f7461746564222c227075626c69634b657948617368223a2277724b74773641575a576b4f756256756279466e77305577726268334c2f565342697336475235583578383d222c22746f6b656e223a227072696d617279222c226365727469666963617465536861323536223a2234363037663237313463373138323366363433656635336265323166316634373437383663383539616630613334653266303764343564663636626461366338222c2268617368223a2264396438396534616530386263383665616239306565313239643466356231396132383137353637323336396233326437633134386532316432363662386438227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 20, 1795580052054, 'decrypt', 'ok', 'checkout', 0, 'merchant.com.example.rotated', '\xc2b2adc3a01665690eb9b56e6f2167c34530adb8772ff552062b3a191e57e71f', '\x702839f45b04da27863e0bb4b71dab7d0da3826f0602eb4c764a805ae5ca6e60', '\xee6032a85d1e46ad0465e3f8c60314caa328cbcc8c9093e9c385f415efd2b3e4', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a32302c2274696d65223a22323032362d31312d32355430343a31343a31322e3035345a222c226576656e74223a2264656372797074222c226f7574636f6d65223a226f6b222c2263616c6c6572223a7b226e616d65223a22636865636b6f7574222c22756964223a302c22676964223a302c22706964223a32343733362c22636f6d6d223a22706179746f6b656e63746c227d2c226d65726368616e74223a226d65726368616e742e636f6d2e6578616d706c652e726f7461746564222c227075626c69634b657948617368223a2277724b74773641575a576b4f756256756279466e77305577726268334c2f565342697336475235583578383d222c227472616e73616374696f6e4964223a2237303238333966343562303464613237383633653062623462373164616237643064613338323666303630326562346337363461383035616535636136653630222c2270726f74656374696f6e223a2243222c22746f6b656e223a227072696d617279222c227265666572656e6365223a2264663863663830323237656333323337393232646630656364383833383563353436653461333162646238313237623033336630316536663231663137356466222c2268617368223a2265653630333261383564316534366164303436356533663863363033313463616133323863626363386339303933653963333835663431356566643262336534227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 21, 1795580052163, 'key_generate', 'ok', 'checkout', 0, 'merchant.com.example.rotated', '\xd847701521b961b2b66e4e2f2db7e192fae1d71d7259b3b8e262cb010d08122a', NULL, '\xfd95bbab25adb11f14935dc2061afb82230cdf0e6a696f35cdc8711234781d82', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a32312c2274696d65223a22323032362d31312d32355430343a31343a31322e3136335a222c226576656e74223a226b65795f67656e6572617465222c226f7574636f6d65223a226f6b222c2263616c6c6572223a7b226e616d65223a22636865636b6f7574222c22756964223a302c22676964223a302c22706964223a32343734382c22636f6d6d223a22706179746f6b656e63746c227d2c226d65726368616e74223a226d65726368616e742e636f6d2e6578616d706c652e726f7461746564222c227075626c69634b657948617368223a22324564774653473559624b32626b34764c6266686b7672683178317957624f34346d4c4c4151304945696f3d222c22746f6b656e223a227072696d617279222c2268617368223a2266643935626261623235616462313166313439333564633230363161666238323233306364663065366136393666333563646338373131323334373831643832227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 22, 1795580052174, 'csr_create', 'ok', 'checkout', 0, 'merchant.com.example.rotated', '\xd847701521b961b2b66e4e2f2db7e192fae1d71d7259b3b8e262cb010d08122a', NULL, '\xa0b2c67f312d4890d48c4b1c4b5a955a7c5a2fffe6721735fba08d6595690259', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a32322c2274696d65223a22323032362d31312d32355430343a31343a31322e3137345a222c226576656e74223a226373725f637265617465222c226f7574636f6d65223a226f6b222c2263616c6c6572223a7b226e616d65223a22636865636b6f7574222c22756964223a302c22676964223a302c22706964223a32343734382c22636f6d6d223a22706179746f6b656e63746c227d2c226d65726368616e74223a226d65726368616e742e636f6d2e6578616d706c652e726f7461746564222c227075626c69634b657948617368223a22324564774653473559624b32626b34764c6266686b7672683178317957624f34346d4c4c4151304945696f3d222c22746f6b656e223a227072696d617279222c2268617368223a2261306232633637663331326434383930643438633462316334623561393535613763356132666666653637323137333566626130386436353935363930323539227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 24, 1795580052488, 'decrypt', 'ok', 'checkout', 0, 'merchant.com.example.rotated', '\xd847701521b961b2b66e4e2f2db7e192fae1d71d7259b3b8e262cb010d08122a', '\x25b007cdda75aed034b8e9097470cb6dfce840d129265ce3ec7068039d51535f', '\x8111754542d39a717a0eb05e25b617055d472d6147ac53508a692f932ca369ac', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a32342c2274696d65223a22323032362d31312d32355430343a31343a31322e3438385a222c226576656e74223a2264656372797074222c226f7574636f6d65223a226f6b222c2263616c6c6572223a7b226e616d65223a22636865636b6f7574222c22756964223a302c22676964223a302c22706964223a32343738332c22636f6d6d223a22706179746f6b656e63746c227d2c226d65726368616e74223a226d65726368616e742e636f6d2e6578616d706c652e726f7461746564222c227075626c69634b657948617368223a22324564774653473559624b32626b34764c6266686b7672683178317957624f34346d4c4c4151304945696f3d222c227472616e73616374696f6e4964223a2232356230303763646461373561656430333462386539303937343730636236646663653834306431323932363563653365633730363830333964353135333566222c2270726f74656374696f6e223a2243222c22746f6b656e223a227072696d617279222c227265666572656e6365223a2233323966373564323461636139313338393264396537333432323332653132633962616666376235643864623639373033326431666139353830653736313734222c2268617368223a2238313131373534353432643339613731376130656230356532356236313730353564343732643631343761633533353038613639326639333263613336396163227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 25, 1795580052564, 'key_state_change', 'ok', 'checkout', 0, 'merchant.com.example.rotated', '\xc2b2adc3a01665690eb9b56e6f2167c34530adb8772ff552062b3a191e57e71f', NULL, '\x04d5b3384773d636e0a5ae0e4f4afec9b97b8952ba95320b37ef132ae301c2a8', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a32352c2274696d65223a22323032362d31312d32355430343a31343a31322e3536345a222c226576656e74223a226b65795f73746174655f6368616e6765222c226f7574636f6d65223a226f6b222c2263616c6c6572223a7b226e616d65223a22636865636b6f7574222c22756964223a302c22676964223a302c22706964223a32343739312c22636f6d6d223a22706179746f6b656e63746c227d2c226d65726368616e74223a226d65726368616e742e636f6d2e6578616d706c652e726f7461746564222c227075626c69634b657948617368223a2277724b74773641575a576b4f756256756279466e77305577726268334c2f565342697336475235583578383d222c2266726f6d223a22616374697665222c22746f223a226465616374697661746564222c22726561736f6e223a22726f7461746564222c2268617368223a2230346435623333383437373364363336653061356165306534663461666563396239376238393532626139353332306233376566313332616533303163326138227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 26, 1795580052619, 'audit_export', 'ok', 'checkout', 0, NULL, NULL, NULL, '\xaf2ec6213e0b1efb354bb1ab036fff12bd4e450a19a37d2db1f89291f9044615', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a32362c2274696d65223a22323032362d31312d32355430343a31343a31322e3631395a222c226576656e74223a2261756469745f6578706f7274222c226f7574636f6d65223a226f6b222c2263616c6c6572223a7b226e616d65223a22636865636b6f7574222c22756964223a302c22676964223a302c22706964223a32343739392c22636f6d6d223a22706179746f6b656e63746c227d2c22666f726d6174223a226a736f6e6c222c226669727374223a312c226c617374223a32352c2268617368223a2261663265633632313365306231656662333534626231616230333666666631326264346534353061313961333764326462316638393239316639303434363135227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 27, 1795580052764, 'decrypt', 'ok', 'checkout', 0, 'merchant.com.example.active', '\xe5dcaad5723adcd9221b6eb1e486c933f24840bdc75dbd88f3de46fcd9b41926', '\xf4a58c3dda6e690d4444a1ff40f041a047160387862bbbbbae6d195d80be5067', '\xc9197080495b38a2f0cfaf0cb7afe9a47bcbe6ec63479cc1ee170dc3e825f669', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a32372c2274696d65223a22323032362d31312d32355430343a31343a31322e3736345a222c226576656e74223a2264656372797074222c226f7574636f6d65223a226f6b222c2263616c6c6572223a7b226e616d65223a22636865636b6f7574222c22756964223a302c22676964223a302c22706964223a32343830392c22636f6d6d223a22706179746f6b656e63746c227d2c226d65726368616e74223a226d65726368616e742e636f6d2e6578616d706c652e616374697665222c227075626c69634b657948617368223a223564797131584936334e6b69473236783549624a4d2f4a49514c334858623249383935472f4e6d304753593d222c227472616e73616374696f6e4964223a2266346135386333646461366536393064343434346131666634306630343161303437313630333837383632626262626261653664313935643830626535303637222c2270726f74656374696f6e223a2243222c22746f6b656e223a227072696d617279222c227265666572656e6365223a2264643465623531373635336536306539313863643138363838353064383062343565343439656139396563646662396339303762373935346530313462316366222c2268617368223a2263393139373038303439356233386132663063666166306362376166653961343762636265366563363334373963633165653137306463336538323566363639227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 28, 1795580052787, 'stop', 'ok', NULL, NULL, NULL, NULL, NULL, '\x42a832a86e2bb83e7a074b3ec73d7e34dbf694a896adccc964ee5a22df6091a7', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a32382c2274696d65223a22323032362d31312d32355430343a31343a31322e3738375a222c226576656e74223a2273746f70222c226f7574636f6d65223a226f6b222c2268617368223a2234326138333261383665326262383365376130373462336563373364376533346462663639346138393661646363633936346565356132326466363039316137227d');


--
-- Data for Name: checkpoint; Type: TABLE DATA; Schema: paytokend; Owner: -
--

INSERT INTO paytokend.checkpoint VALUES ('node-1', 4, 1795580049702, '\x7b22636865636b706f696e74223a7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a342c2268617368223a2261626131666162306534656165653961373435303566326263613765373633376262623165343961326530626666386536383034643963393761383866633937222c2274696d65223a22323032362d31312d32355430343a31343a30392e3730325a222c226b65794964223a2264623664356137333666653738313236393737343839623633333764666561643966326532393166653234393263306662383339646362616639373733373533227d2c227369676e6174757265223a224d4559434951444734337662756570537950786b39627630586876344e6c454b552f6e43437374664c392b71655373356e67496841494933467a58536e4f7048467257364b756465433630507276503259534736703654673138455732536253227d');
INSERT INTO paytokend.checkpoint VALUES ('node-1', 26, 1795580052621, '\x7b22636865636b706f696e74223a7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a32362c2268617368223a2261663265633632313365306231656662333534626231616230333666666631326264346534353061313961333764326462316638393239316639303434363135222c2274696d65223a22323032362d31312d32355430343a31343a31322e3632315a222c226b65794964223a2264623664356137333666653738313236393737343839623633333764666561643966326532393166653234393263306662383339646362616639373733373533227d2c227369676e6174757265223a224d4555434944335a36616b387a4b5a74614872484c2f315a52684d4d565955794e6e745630474769347162465166373341694541695931567632526367353479566b30576e4e4d556f6c3368372f51734a59365a72614846737775427470593d227d');
INSERT INTO paytokend.checkpoint VALUES ('node-1', 28, 1795580052789, '\x7b22636865636b706f696e74223a7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a32382c2268617368223a2234326138333261383665326262383365376130373462336563373364376533346462663639346138393661646363633936346565356132326466363039316137222c2274696d65223a22323032362d31312d32355430343a31343a31322e3738395a222c226b65794964223a2264623664356137333666653738313236393737343839623633333764666561643966326532393166653234393263306662383339646362616639373733373533227d2c227369676e6174757265223a224d45594349514456427245764a61744a745259486d786653673346632f2b317339504b714e4f556d6732727a524f46456e4149684149654e78504a64717855503967686a674d44383977336b5a524c34675761515868374635695a5753573357227d');


--
-- Data for Name: claim; Type: TABLE DATA; Schema: paytokend; Owner: -
--

INSERT INTO paytokend.claim VALUES ('\x0c4c077b62d8b4f307c6a0f355dd8249b9bbf43ba0cf92c9b2c41f74d5ef488c', '\xe5dcaad5723adcd9221b6eb1e486c933f24840bdc75dbd88f3de46fcd9b41926', 'checkout', '\x3d5e3106cd72ba03fededf6dbb9fc3367edcebe453e90db236ea763aa228bee3', '\x9dd9fb7d64875560fdfab7e0a2c6784016f0cb901cbdebb9172764fae032b922', '\x00000000000000002464ea55c287ba32', 1795580050057, 0, NULL, NULL, 'node-1');
INSERT INTO paytokend.claim VALUES ('\xa7fe9af3bc398467472ccc6cf4b8d58d5e70c8801fe4d9b973108a900cb97789', '\xe5dcaad5723adcd9221b6eb1e486c933f24840bdc75dbd88f3de46fcd9b41926', 'checkout', '\x28ec9a8ff249fd5fb2993734c026afbbe4dea76ec7a999c23d774236bbb86de7', '\x7adf460534c753dfe49713c1eaffa91dd226f6cd0d7e8c0faec6ff01b79e3e46', '\x0000000000000000b362b23982232e03', 1795580050140, 0, NULL, NULL, 'node-1');
INSERT INTO paytokend.claim VALUES ('\xf4959461a6b13244648373abd10540fe532a1ac32298627262113520658cda73', '\xe5dcaad5723adcd9221b6eb1e486c933f24840bdc75dbd88f3de46fcd9b41926', 'checkout', '\x0bafe22156d2698c143b86040446d366ead863ba600d5c924f3d15c786ef4057', '\x130935bf769dd287e684efb7c97a9a3de67a0e54423759161e707d74022a7b85', '\x00000000000000000ca1d0e86add876b', 1795580049971, 1, '\x00000000000000007e11d5800d667ac2', 1795580050182, 'node-1');
INSERT INTO paytokend.claim VALUES ('\xa609b98a347e9ba9960305d6510ab848fbe1d9b1ca556b9cdc9f87b623e86953', '\xe5dcaad5723adcd9221b6eb1e486c933f24840bdc75dbd88f3de46fcd9b41926', 'checkout', NULL, '\x8415a95df079ce618cefd503c35bd62f675fd095267b87f3bef4ceefe25404ab', '\x0000000000000000fc6cffb3c421be1d', 1795580050313, 0, NULL, NULL, 'node-1');
INSERT INTO paytokend.claim VALUES ('\x3e1281bb02657b0f3a47c09ce263772308a28751d014a65ddb6635c50ae2b022', '\x2231f62a03cbdbabb8bc86ac30ce3b2c9036b7727c7c5fbf21a0ce86c3e29bf8', 'checkout', '\xf71df65670d623211347f34193032b6adc915eba3cb14d4416e8c71943ee7c9f', '\x245589c5eae13bbcb83e016846ce80b7d7a1586bc2336abe6ca05476c4895ef8', '\x0000000000000000be58257567889b68', 1795580050579, 0, NULL, NULL, 'node-1');
INSERT INTO paytokend.claim VALUES ('\x702839f45b04da27863e0bb4b71dab7d0da3826f0602eb4c764a805ae5ca6e60', '\xc2b2adc3a01665690eb9b56e6f2167c34530adb8772ff552062b3a191e57e71f', 'checkout', '\xdf8cf80227ec3237922df0ecd88385c546e4a31bdb8127b033f01e6f21f175df', '\x4115755ad1d32053feb99f23a955990332268201045fdaa74370db16a5362320', '\x0000000000000000ba93e97950495515', 1795580052040, 0, NULL, NULL, 'node-1');
INSERT INTO paytokend.claim VALUES ('\x25b007cdda75aed034b8e9097470cb6dfce840d129265ce3ec7068039d51535f', '\xd847701521b961b2b66e4e2f2db7e192fae1d71d7259b3b8e262cb010d08122a', 'checkout', '\x329f75d24aca913892d9e7342232e12c9baff7b5d8db697032d1fa9580e76174', '\xd69a1af67f925e9a9d97c99d210dd61d3bb6925f70a454640424a913e8af59ae', '\x0000000000000000fe4b40206288b079', 1795580052486, 0, NULL, NULL, 'node-1');
INSERT INTO paytokend.claim VALUES ('\xf4a58c3dda6e690d4444a1ff40f041a047160387862bbbbbae6d195d80be5067', '\xe5dcaad5723adcd9221b6eb1e486c933f24840bdc75dbd88f3de46fcd9b41926', 'checkout', '\xdd4eb517653e60e918cd1868850d80b45e449ea99ecdfb9c907b7954e014b1cf', '\x3ae7d8294aede60403a29d3a89717ce4a1cc6660557362dd65c41eee3575819b', '\x00000000000000001ee2be3aeb6504e9', 1795580052762, 0, NULL, NULL, 'node-1');


--
-- Data for Name: hold; Type: TABLE DATA; Schema: paytokend; Owner: -
--



--
-- Data for Name: key_holder; Type: TABLE DATA; Schema: paytokend; Owner: -
--

INSERT INTO paytokend.key_holder VALUES ('node-1', '\x2231f62a03cbdbabb8bc86ac30ce3b2c9036b7727c7c5fbf21a0ce86c3e29bf8', 1795580052684);
INSERT INTO paytokend.key_holder VALUES ('node-1', '\x9582ee8ebc0ad735671f262a2a581468cf663372527c11cee56018d51a33fdbf', 1795580052684);
INSERT INTO paytokend.key_holder VALUES ('node-1', '\xc2b2adc3a01665690eb9b56e6f2167c34530adb8772ff552062b3a191e57e71f', 1795580052684);
INSERT INTO paytokend.key_holder VALUES ('node-1', '\xc3bad991c21d73a69249e029d5eeae83e8335ea029f0f7eed4fadcef57f3ad86', 1795580052684);
INSERT INTO paytokend.key_holder VALUES ('node-1', '\xd847701521b961b2b66e4e2f2db7e192fae1d71d7259b3b8e262cb010d08122a', 1795580052684);
INSERT INTO paytokend.key_holder VALUES ('node-1', '\xe5dcaad5723adcd9221b6eb1e486c933f24840bdc75dbd88f3de46fcd9b41926', 1795580052684);


--
-- Data for Name: ledger_state; Type: TABLE DATA; Schema: paytokend; Owner: -
--

INSERT INTO paytokend.ledger_state VALUES (true, 7, NULL, 0, '7711957585746415438', 1, NULL, NULL, 'cb66b238-49e2-4d66-9edb-74919847aaa9');


--
-- Data for Name: merchant_key; Type: TABLE DATA; Schema: paytokend; Owner: -
--

INSERT INTO paytokend.merchant_key VALUES ('\xe5dcaad5723adcd9221b6eb1e486c933f24840bdc75dbd88f3de46fcd9b41926', 'merchant.com.example.active', 'EC', 'active', NULL, 'imported', 1795580049892, 'node-1', 1, 'processing');
INSERT INTO paytokend.merchant_key VALUES ('\x2231f62a03cbdbabb8bc86ac30ce3b2c9036b7727c7c5fbf21a0ce86c3e29bf8', 'merchant.com.example.suspended', 'RSA', 'suspended', NULL, 'imported', 1795580050501, 'node-1', 4, 'processing');
INSERT INTO paytokend.merchant_key VALUES ('\x9582ee8ebc0ad735671f262a2a581468cf663372527c11cee56018d51a33fdbf', 'merchant.com.example.compromised', 'EC', 'compromised', NULL, 'imported', 1795580051046, 'node-1', 7, 'processing');
INSERT INTO paytokend.merchant_key VALUES ('\xc3bad991c21d73a69249e029d5eeae83e8335ea029f0f7eed4fadcef57f3ad86', 'merchant.com.example.generated', 'EC', 'pre-activation', NULL, 'generated', 1795580051600, 'node-1', 8, 'processing');
INSERT INTO paytokend.merchant_key VALUES ('\xd847701521b961b2b66e4e2f2db7e192fae1d71d7259b3b8e262cb010d08122a', 'merchant.com.example.rotated', 'EC', 'active', NULL, 'generated', 1795580052163, 'node-1', 12, 'processing');
INSERT INTO paytokend.merchant_key VALUES ('\xc2b2adc3a01665690eb9b56e6f2167c34530adb8772ff552062b3a191e57e71f', 'merchant.com.example.rotated', 'EC', 'deactivated', 1796184852000, 'imported', 1795580051947, 'node-1', 14, 'processing');


--
-- Data for Name: moved_ledger; Type: TABLE DATA; Schema: paytokend; Owner: -
--



--
-- Data for Name: node; Type: TABLE DATA; Schema: paytokend; Owner: -
--

INSERT INTO paytokend.node VALUES ('node-1', 1, '-infinity', '2026-11-25 04:14:12.792183+00', '0.1.0', '\x82242e895cdc420fc30c8ac53f4f5a04', 0, 0, 86400000, '7711957585746415438', 1);


--
-- Name: key_change; Type: SEQUENCE SET; Schema: paytokend; Owner: -
--

SELECT pg_catalog.setval('paytokend.key_change', 14, true);


--
-- Name: approval approval_pkey; Type: CONSTRAINT; Schema: paytokend; Owner: -
--

ALTER TABLE ONLY paytokend.approval
    ADD CONSTRAINT approval_pkey PRIMARY KEY (identifier);


--
-- Name: archive archive_pkey; Type: CONSTRAINT; Schema: paytokend; Owner: -
--

ALTER TABLE ONLY paytokend.archive
    ADD CONSTRAINT archive_pkey PRIMARY KEY (node, last);


--
-- Name: audit_key audit_key_node_identifier_key; Type: CONSTRAINT; Schema: paytokend; Owner: -
--

ALTER TABLE ONLY paytokend.audit_key
    ADD CONSTRAINT audit_key_node_identifier_key UNIQUE (node, identifier);


--
-- Name: audit_key audit_key_pkey; Type: CONSTRAINT; Schema: paytokend; Owner: -
--

ALTER TABLE ONLY paytokend.audit_key
    ADD CONSTRAINT audit_key_pkey PRIMARY KEY (node, ordinal);


--
-- Name: audit_record audit_record_pkey; Type: CONSTRAINT; Schema: paytokend; Owner: -
--

ALTER TABLE ONLY paytokend.audit_record
    ADD CONSTRAINT audit_record_pkey PRIMARY KEY (node, sequence);


--
-- Name: checkpoint checkpoint_pkey; Type: CONSTRAINT; Schema: paytokend; Owner: -
--

ALTER TABLE ONLY paytokend.checkpoint
    ADD CONSTRAINT checkpoint_pkey PRIMARY KEY (node, sequence);


--
-- Name: claim claim_pkey; Type: CONSTRAINT; Schema: paytokend; Owner: -
--

ALTER TABLE ONLY paytokend.claim
    ADD CONSTRAINT claim_pkey PRIMARY KEY (transaction_id);


--
-- Name: hold hold_pkey; Type: CONSTRAINT; Schema: paytokend; Owner: -
--

ALTER TABLE ONLY paytokend.hold
    ADD CONSTRAINT hold_pkey PRIMARY KEY (node);


--
-- Name: key_holder key_holder_pkey; Type: CONSTRAINT; Schema: paytokend; Owner: -
--

ALTER TABLE ONLY paytokend.key_holder
    ADD CONSTRAINT key_holder_pkey PRIMARY KEY (node, public_key_hash);


--
-- Name: ledger_state ledger_state_pkey; Type: CONSTRAINT; Schema: paytokend; Owner: -
--

ALTER TABLE ONLY paytokend.ledger_state
    ADD CONSTRAINT ledger_state_pkey PRIMARY KEY (only_row);


--
-- Name: merchant_key merchant_key_pkey; Type: CONSTRAINT; Schema: paytokend; Owner: -
--

ALTER TABLE ONLY paytokend.merchant_key
    ADD CONSTRAINT merchant_key_pkey PRIMARY KEY (public_key_hash);


--
-- Name: moved_ledger moved_ledger_pkey; Type: CONSTRAINT; Schema: paytokend; Owner: -
--

ALTER TABLE ONLY paytokend.moved_ledger
    ADD CONSTRAINT moved_ledger_pkey PRIMARY KEY (node);


--
-- Name: node node_pkey; Type: CONSTRAINT; Schema: paytokend; Owner: -
--

ALTER TABLE ONLY paytokend.node
    ADD CONSTRAINT node_pkey PRIMARY KEY (name);


--
-- Name: approval_by_expiry; Type: INDEX; Schema: paytokend; Owner: -
--

CREATE INDEX approval_by_expiry ON paytokend.approval USING btree (status, expires_at);


--
-- Name: audit_record_by_outcome; Type: INDEX; Schema: paytokend; Owner: -
--

CREATE INDEX audit_record_by_outcome ON paytokend.audit_record USING btree (outcome, node, sequence) WHERE (outcome <> 'ok'::text);


--
-- Name: audit_record_by_signature; Type: INDEX; Schema: paytokend; Owner: -
--

CREATE INDEX audit_record_by_signature ON paytokend.audit_record USING btree (public_key_hash, "time") WHERE ((event = 'tls_signature'::text) AND (outcome = 'ok'::text));


--
-- Name: audit_record_by_time; Type: INDEX; Schema: paytokend; Owner: -
--

CREATE INDEX audit_record_by_time ON paytokend.audit_record USING btree (node, "time", sequence);


--
-- Name: audit_record_by_transaction; Type: INDEX; Schema: paytokend; Owner: -
--

CREATE INDEX audit_record_by_transaction ON paytokend.audit_record USING btree (transaction_id, node, sequence) WHERE (transaction_id IS NOT NULL);


--
-- Name: audit_record_of_keys; Type: INDEX; Schema: paytokend; Owner: -
--

CREATE INDEX audit_record_of_keys ON paytokend.audit_record USING btree (node, sequence) WHERE (event = ANY (ARRAY['audit_key_prepare'::text, 'audit_key_pinned'::text, 'audit_key_conflict'::text]));


--
-- Name: claim_by_age; Type: INDEX; Schema: paytokend; Owner: -
--

CREATE INDEX claim_by_age ON paytokend.claim USING btree (claimed_at);


--
-- Name: merchant_key_by_change; Type: INDEX; Schema: paytokend; Owner: -
--

CREATE INDEX merchant_key_by_change ON paytokend.merchant_key USING btree (change);


--
-- Name: merchant_key keep_ended; Type: TRIGGER; Schema: paytokend; Owner: -
--

CREATE TRIGGER keep_ended BEFORE UPDATE ON paytokend.merchant_key FOR EACH ROW EXECUTE FUNCTION paytokend.keep_key_ended();


--
-- Name: node keep_moving_out; Type: TRIGGER; Schema: paytokend; Owner: -
--

CREATE TRIGGER keep_moving_out BEFORE INSERT OR UPDATE OF fence ON paytokend.node FOR EACH ROW EXECUTE FUNCTION paytokend.keep_moving_node_out();


--
-- Name: claim keep_repeats; Type: TRIGGER; Schema: paytokend; Owner: -
--

CREATE TRIGGER keep_repeats BEFORE UPDATE ON paytokend.claim FOR EACH ROW EXECUTE FUNCTION paytokend.keep_repeats();


--
-- Name: node keep_signed_ahead; Type: TRIGGER; Schema: paytokend; Owner: -
--

CREATE TRIGGER keep_signed_ahead BEFORE UPDATE ON paytokend.node FOR EACH ROW WHEN ((new.signed_ahead < old.signed_ahead)) EXECUTE FUNCTION paytokend.keep_signed_ahead();


--
-- Name: approval notify_change; Type: TRIGGER; Schema: paytokend; Owner: -
--

CREATE TRIGGER notify_change AFTER INSERT OR UPDATE ON paytokend.approval FOR EACH STATEMENT EXECUTE FUNCTION paytokend.notify_administration();


--
-- Name: merchant_key notify_change; Type: TRIGGER; Schema: paytokend; Owner: -
--

CREATE TRIGGER notify_change AFTER INSERT OR UPDATE ON paytokend.merchant_key FOR EACH STATEMENT EXECUTE FUNCTION paytokend.notify_administration();


--
-- Name: merchant_key number_change; Type: TRIGGER; Schema: paytokend; Owner: -
--

CREATE TRIGGER number_change BEFORE INSERT OR UPDATE ON paytokend.merchant_key FOR EACH ROW EXECUTE FUNCTION paytokend.number_key_change();


--
-- PostgreSQL database dump complete
--


