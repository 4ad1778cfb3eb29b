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
    LANGUAGE sql STABLE
    SET search_path TO 'paytokend', 'pg_temp'
    AS $$
    SELECT floor(extract(epoch FROM transaction_timestamp()) * 1000)::bigint + max(widest_window)
    FROM node HAVING bool_and(widest_window IS NOT NULL)
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
-- Name: limit_forgotten(bigint, bigint); Type: FUNCTION; Schema: paytokend; Owner: -
--

CREATE FUNCTION paytokend.limit_forgotten(expected bigint, served_from bigint) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'paytokend', 'pg_temp'
    AS $$
BEGIN
    IF served_from < floor(extract(epoch FROM transaction_timestamp()) * 1000) THEN
        RAISE EXCEPTION 'payment tokens of the past are not served again' USING ERRCODE = 'P0001';
    END IF;
    PERFORM exclude_releases();
    UPDATE ledger_state SET forgotten_before = coalesce(served_from, forgotten_before)
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

INSERT INTO paytokend.audit_key VALUES ('node-1', 1, '\x6e6f6465b11ef354d624634aa8c06854', '\x041262940a4416de0c0e561f729bf5c9839d24552e1c2db31b1a63057d3483ef2d3e190599bb0d94e522b5137d8bf73d71f535ae5b36e99b9e64dd159fcc01660b', 1795492167446);


--
-- Data for Name: audit_record; Type: TABLE DATA; Schema: paytokend; Owner: -
--

INSERT INTO paytokend.audit_record VALUES ('node-1', 1, 1795492167409, 'start', 'ok', NULL, NULL, NULL, NULL, NULL, '\x548db4c0f726d11d6308ad62da500b38f681ee6a9d7c0ae9be798ddd09c37500', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a312c2274696d65223a22323032362d31312d32345430333a34393a32372e3430395a222c226576656e74223a227374617274222c226f7574636f6d65223a226f6b222c2276657273696f6e223a22302e312e30222c2268617368223a2235343864623463306637323664313164363330386164363264613530306233386636383165653661396437633061653962653739386464643039633337353030227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 2, 1795492167409, 'configuration_load', 'ok', NULL, NULL, NULL, NULL, NULL, '\x692627fa62b14530493e0a05f1ace92cee6547fa867ae6169521c15f0983894b', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a322c2274696d65223a22323032362d31312d32345430333a34393a32372e3430395a222c226576656e74223a22636f6e66696775726174696f6e5f6c6f6164222c226f7574636f6d65223a226f6b222c2266696c65536861323536223a2235366632336335333333376463643065393565396535313838353561626239633330343939343736346361366138653538636463363732333633326166316462222c2268617368223a2236393236323766613632623134353330343933653061303566316163653932636565363534376661383637616536313639353231633135663039383338393462227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 3, 1795492167409, 'configuration_values', 'ok', NULL, NULL, NULL, NULL, NULL, '\xc6d5e22c0601bf04858aef7eb519eb7d76ac8b31f06ee969295dc54454ad3e9b', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a332c2274696d65223a22323032362d31312d32345430333a34393a32372e3430395a222c226576656e74223a22636f6e66696775726174696f6e5f76616c756573222c226f7574636f6d65223a226f6b222c2270617274223a312c227061727473223a312c2276616c756573223a7b226163636573732e312e6d65726368616e7473223a222a222c226163636573732e312e6e616d65223a22636865636b6f7574222c226163636573732e312e726571756972655f6578706563746564223a22222c226163636573732e312e726f6c6573223a22646563727970742c2061756469742c2061646d696e222c226163636573732e312e756964223a2230222c226163636573732e312e75736572223a22726f6f74222c22617070726f76616c732e657870697265223a223164222c22617070726f76616c732e70656f706c65223a2232222c226c65646765722e656e67696e65223a22706f737467726573716c222c226c65646765722e6e6f6465223a226e6f64652d31222c226c65646765722e7265706561745f666f72223a223164222c226c65646765722e726571756972655f7374616e646279223a2266616c7365222c226c65646765722e72657461696e5f636c61696d73223a2231383064222c226c65646765722e72657461696e5f7265636f726473223a226f6666222c226c65646765722e736572766572223a222f746d702f706179746f6b656e642d666978747572652e6e5a4b46664a2f6c6564676572222c226c65646765722e74696d656f7574223a22313073222c226c65646765722e75736572223a22706179746f6b656e64222c226c697374656e65722e61646d696e5f6d6f6465223a2230363030222c226c697374656e65722e61646d696e5f736f636b6574223a222f746d702f706179746f6b656e642e4e4b755032442f61646d696e2e736f636b222c226c697374656e65722e69646c655f74696d656f7574223a22316d222c226c697374656e65722e6d61785f636f6e6e656374696f6e73223a22353132222c226c697374656e65722e6d61785f636f6e6e656374696f6e735f7065725f756964223a22313238222c226c697374656e65722e6d61785f726571756573745f6279746573223a223635353336222c226c697374656e65722e6d6f6465223a2230363630222c226c697374656e65722e736f636b6574223a222f746d702f706179746f6b656e642e4e4b755032442f706179746f6b656e642e736f636b222c226c6f672e666f726d6174223a2274657874222c226c6f672e6c6576656c223a22696e666f222c22746f6b656e732e31223a227072696d617279222c22746f6b656e732e7072696d6172792e616c6c6f775f6578747261637461626c655f736563726574223a2274727565222c22746f6b656e732e7072696d6172792e63616c6c5f74696d656f7574223a22313073222c22746f6b656e732e7072696d6172792e64656e795f73797374656d5f63616c6c73223a22222c22746f6b656e732e7072696d6172792e656e7669726f6e6d656e74223a22534f465448534d325f434f4e46222c22746f6b656e732e7072696d6172792e696e69745f61726773223a22222c22746f6b656e732e7072696d6172792e6d6f64756c65223a222f7573722f6c69622f736f667468736d2f6c6962736f667468736d322e736f222c22746f6b656e732e7072696d6172792e70696e5f66696c65223a222f746d702f706179746f6b656e642e4e4b755032442f70696e222c22746f6b656e732e7072696d6172792e72656379636c655f6166746572223a2231303030303030222c22746f6b656e732e7072696d6172792e73657373696f6e73223a2232222c22746f6b656e732e7072696d6172792e757269223a22706b637331313a746f6b656e3d73616e64626f78222c2274727573742e64697374727573746564223a22222c2274727573742e726f6f745f66696c6573223a222f746d702f706179746f6b656e642e4e4b755032442f617574686f726974792f726f6f742e70656d222c2274727573742e726f6f7473223a2261393138366131343363626133373063306662306631336165363632363663393737336363356633333266356530336138653464313238356430653333313663222c22766572696669636174696f6e2e7369676e696e675f74696d655f77696e646f77223a223164227d2c2268617368223a2263366435653232633036303162663034383538616566376562353139656237643736616338623331663036656539363932393564633534343534616433653962227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 4, 1795492167461, 'audit_key_change', 'ok', NULL, NULL, NULL, NULL, NULL, '\x1061033f36805e7be75f576070bc9f8362d361df9841f9edfe7e57d854379e60', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a342c2274696d65223a22323032362d31312d32345430333a34393a32372e3436315a222c226576656e74223a2261756469745f6b65795f6368616e6765222c226f7574636f6d65223a226f6b222c22746f6b656e223a227072696d617279222c22746f223a2261663530346534333966373337386532626337363839373137653034383533316461623933333265363633336131336366363639363664343132626335393837222c2268617368223a2231303631303333663336383035653762653735663537363037306263396638333632643336316466393834316639656466653765353764383534333739653630227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 5, 1795492167648, 'key_import', 'ok', 'checkout', 0, 'merchant.com.example.active', '\x9726671585114e6090da048a38aac98bb8bb102dfb5c0ac99cf2265aef08cf09', NULL, '\x5df641a277191ffffdc7f722df86901895cb3856ecf9e349132d446c279c98e8', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a352c2274696d65223a22323032362d31312d32345430333a34393a32372e3634385a222c226576656e74223a226b65795f696d706f7274222c226f7574636f6d65223a226f6b222c2263616c6c6572223a7b226e616d65223a22636865636b6f7574222c22756964223a302c22676964223a302c22706964223a363636372c22636f6d6d223a22706179746f6b656e63746c227d2c226d65726368616e74223a226d65726368616e742e636f6d2e6578616d706c652e616374697665222c227075626c69634b657948617368223a226c795a6e46595552546d43513267534b4f4b724a69376937454333375841724a6e50496d577538497a776b3d222c22746f6b656e223a227072696d617279222c226365727469666963617465536861323536223a2239376134613935396537636663316466303837366530393035373832633164366365653935383736613366343331336632363861353437663436313337656434222c2268617368223a2235646636343161323737313931666666666463376637323264663836393031383935636233383536656366396533343931333264343436633237396339386538227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 6, 1795492167727, 'decrypt', 'ok', 'checkout', 0, 'merchant.com.example.active', '\x9726671585114e6090da048a38aac98bb8bb102dfb5c0ac99cf2265aef08cf09', '\xcb03e2ae7c8da20752026427c8b0c9a09408053efa5c1e2360032c6200de3b4d', '\x1a78e780dfa2b38af2c64a34e5f1b3c3fc26eb2720c933eefd59a01ac5a2c642', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a362c2274696d65223a22323032362d31312d32345430333a34393a32372e3732375a222c226576656e74223a2264656372797074222c226f7574636f6d65223a226f6b222c2263616c6c6572223a7b226e616d65223a22636865636b6f7574222c22756964223a302c22676964223a302c22706964223a363637362c22636f6d6d223a22706179746f6b656e63746c227d2c226d65726368616e74223a226d65726368616e742e636f6d2e6578616d706c652e616374697665222c227075626c69634b657948617368223a226c795a6e46595552546d43513267534b4f4b724a69376937454333375841724a6e50496d577538497a776b3d222c227472616e73616374696f6e4964223a2263623033653261653763386461323037353230323634323763386230633961303934303830353365666135633165323336303033326336323030646533623464222c2270726f74656374696f6e223a2243222c22746f6b656e223a227072696d617279222c227265666572656e6365223a2230626166653232313536643236393863313433623836303430343436643336366561643836336261363030643563393234663364313563373836656634303537222c2268617368223a2231613738653738306466613262333861663263363461333465356631623363336663323665623237323063393333656566643539613031616335613263363432227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 7, 1795492167809, 'decrypt', 'ok', 'checkout', 0, 'merchant.com.example.active', '\x9726671585114e6090da048a38aac98bb8bb102dfb5c0ac99cf2265aef08cf09', '\x60ff987083ae11977a1e630ed143d3c6101ba123b6a6e477ea43ae10c9c0edf1', '\xb6fed4f7ea8677f98b92eac3177b317596846231c890742512022b646fb4c1e0', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a372c2274696d65223a22323032362d31312d32345430333a34393a32372e3830395a222c226576656e74223a2264656372797074222c226f7574636f6d65223a226f6b222c2263616c6c6572223a7b226e616d65223a22636865636b6f7574222c22756964223a302c22676964223a302c22706964223a363638372c22636f6d6d223a22706179746f6b656e63746c227d2c226d65726368616e74223a226d65726368616e742e636f6d2e6578616d706c652e616374697665222c227075626c69634b657948617368223a226c795a6e46595552546d43513267534b4f4b724a69376937454333375841724a6e50496d577538497a776b3d222c227472616e73616374696f6e4964223a2236306666393837303833616531313937376131653633306564313433643363363130316261313233623661366534373765613433616531306339633065646631222c2270726f74656374696f6e223a2243222c22746f6b656e223a227072696d617279222c227265666572656e6365223a2233643565333130366364373262613033666564656466366462623966633333363765646365626534353365393064623233366561373633616132323862656533222c2268617368223a2262366665643466376561383637376639386239326561633331373762333137353936383436323331633839303734323531323032326236343666623463316530227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 8, 1795492167878, 'decrypt', 'ok', 'checkout', 0, 'merchant.com.example.active', '\x9726671585114e6090da048a38aac98bb8bb102dfb5c0ac99cf2265aef08cf09', '\xda7b5bb258385e729edc5188d3c43469f1c03f7086cb3ee7ebbf5fc54eedfc67', '\xa270a332dc16e96f4af0f785ee071d0c848013d905819a3f59b59497feaefe6a', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a382c2274696d65223a22323032362d31312d32345430333a34393a32372e3837385a222c226576656e74223a2264656372797074222c226f7574636f6d65223a226f6b222c2263616c6c6572223a7b226e616d65223a22636865636b6f7574222c22756964223a302c22676964223a302c22706964223a363639362c22636f6d6d223a22706179746f6b656e63746c227d2c226d65726368616e74223a226d65726368616e742e636f6d2e6578616d706c652e616374697665222c227075626c69634b657948617368223a226c795a6e46595552546d43513267534b4f4b724a69376937454333375841724a6e50496d577538497a776b3d222c227472616e73616374696f6e4964223a2264613762356262323538333835653732396564633531383864336334333436396631633033663730383663623365653765626266356663353465656466633637222c2270726f74656374696f6e223a2243222c22746f6b656e223a227072696d617279222c227265666572656e6365223a2232386563396138666632343966643566623239393337333463303236616662626534646561373665633761393939633233643737343233366262623836646537222c2268617368223a2261323730613333326463313665393666346166306637383565653037316430633834383031336439303538313961336635396235393439376665616566653661227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 9, 1795492167915, 'decrypt', 'repeat', 'checkout', 0, 'merchant.com.example.active', '\x9726671585114e6090da048a38aac98bb8bb102dfb5c0ac99cf2265aef08cf09', '\xcb03e2ae7c8da20752026427c8b0c9a09408053efa5c1e2360032c6200de3b4d', '\x363537c032896df4026a107157c996063ba98605def8cfb2a64a83133ca13e2d', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a392c2274696d65223a22323032362d31312d32345430333a34393a32372e3931355a222c226576656e74223a2264656372797074222c226f7574636f6d65223a22726570656174222c2263616c6c6572223a7b226e616d65223a22636865636b6f7574222c22756964223a302c22676964223a302c22706964223a363730342c22636f6d6d223a22706179746f6b656e63746c227d2c226d65726368616e74223a226d65726368616e742e636f6d2e6578616d706c652e616374697665222c227075626c69634b657948617368223a226c795a6e46595552546d43513267534b4f4b724a69376937454333375841724a6e50496d577538497a776b3d222c227472616e73616374696f6e4964223a2263623033653261653763386461323037353230323634323763386230633961303934303830353365666135633165323336303033326336323030646533623464222c2270726f74656374696f6e223a2243222c22746f6b656e223a227072696d617279222c227265666572656e6365223a2230626166653232313536643236393863313433623836303430343436643336366561643836336261363030643563393234663364313563373836656634303537222c2268617368223a2233363335333763303332383936646634303236613130373135376339393630363362613938363035646566386366623261363461383331333363613133653264227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 10, 1795492167953, 'decrypt', 'transaction_replayed', 'checkout', 0, 'merchant.com.example.active', '\x9726671585114e6090da048a38aac98bb8bb102dfb5c0ac99cf2265aef08cf09', '\x60ff987083ae11977a1e630ed143d3c6101ba123b6a6e477ea43ae10c9c0edf1', '\x75d25734bb05e1418879276371995a00ff71625c1905b995fc615840b46b29dc', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a31302c2274696d65223a22323032362d31312d32345430333a34393a32372e3935335a222c226576656e74223a2264656372797074222c226f7574636f6d65223a227472616e73616374696f6e5f7265706c61796564222c2263616c6c6572223a7b226e616d65223a22636865636b6f7574222c22756964223a302c22676964223a302c22706964223a363731312c22636f6d6d223a22706179746f6b656e63746c227d2c226d65726368616e74223a226d65726368616e742e636f6d2e6578616d706c652e616374697665222c227075626c69634b657948617368223a226c795a6e46595552546d43513267534b4f4b724a69376937454333375841724a6e50496d577538497a776b3d222c227472616e73616374696f6e4964223a2236306666393837303833616531313937376131653633306564313433643363363130316261313233623661366534373765613433616531306339633065646631222c2270726f74656374696f6e223a2243222c22746f6b656e223a227072696d617279222c227265666572656e6365223a2261653434386163383663346538653464656336343537323937303865663431383733616537396336646666383465666637333336303938393438376630386535222c2268617368223a2237356432353733346262303565313431383837393237363337313939356130306666373136323563313930356239393566633631353834306234366232396463227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 11, 1795492168020, 'decrypt', 'ok', 'checkout', 0, 'merchant.com.example.active', '\x9726671585114e6090da048a38aac98bb8bb102dfb5c0ac99cf2265aef08cf09', '\x3e51315f2aefe9b2824a5c8fe8924862eb5719b48f0363fd3c98322eb1fdf661', '\x3eb400b3745d89a71f3ae5e139136de86dca0d86d04ca483734e822c29e46798', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a31312c2274696d65223a22323032362d31312d32345430333a34393a32382e3032305a222c226576656e74223a2264656372797074222c226f7574636f6d65223a226f6b222c2263616c6c6572223a7b226e616d65223a22636865636b6f7574222c22756964223a302c22676964223a302c22706964223a363732302c22636f6d6d223a22706179746f6b656e63746c227d2c226d65726368616e74223a226d65726368616e742e636f6d2e6578616d706c652e616374697665222c227075626c69634b657948617368223a226c795a6e46595552546d43513267534b4f4b724a69376937454333375841724a6e50496d577538497a776b3d222c227472616e73616374696f6e4964223a2233653531333135663261656665396232383234613563386665383932343836326562353731396234386630333633666433633938333232656231666466363631222c2270726f74656374696f6e223a2243222c22746f6b656e223a227072696d617279222c2268617368223a2233656234303062333734356438396137316633616535653133393133366465383664636130643836643034636134383337333465383232633239653436373938227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 12, 1795492168391, 'key_import', 'ok', 'checkout', 0, 'merchant.com.example.suspended', '\xaad6e5a7ee376778f027b376c7a086711bded8fd29ce4324ad8fe890e756bc26', NULL, '\x09103a03f687ea2071619aa116d7effbc76c68ec44c454d4125e233d048bebeb', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a31322c2274696d65223a22323032362d31312d32345430333a34393a32382e3339315a222c226576656e74223a226b65795f696d706f7274222c226f7574636f6d65223a226f6b222c2263616c6c6572223a7b226e616d65223a22636865636b6f7574222c22756964223a302c22676964223a302c22706964223a363733302c22636f6d6d223a22706179746f6b656e63746c227d2c226d65726368616e74223a226d65726368616e742e636f6d2e6578616d706c652e73757370656e646564222c227075626c69634b657948617368223a227174626c702b34335a336a774a374e327836434763527665325030707a6b4d6b72592f6f6b4f64577643593d222c22746f6b656e223a227072696d617279222c226365727469666963617465536861323536223a2230386232393832383338306531363766626230623165633366373435636339383561663664343737373562363732326539623638326462653334323034386437222c2268617368223a2230393130336130336636383765613230373136313961613131366437656666626337366336386563343463343534643431323565323333643034386265626562227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 13, 1795492168465, 'decrypt', 'ok', 'checkout', 0, 'merchant.com.example.suspended', '\xaad6e5a7ee376778f027b376c7a086711bded8fd29ce4324ad8fe890e756bc26', '\x173c2dd02ce9af6acb777cd164936bc9d89dbbae4da80cf29fc9fb2ef52f1713', '\x66733f29cc1a9d7f9fcaf24801261bf6a37108741fb794ed56cdc8593eec48db', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a31332c2274696d65223a22323032362d31312d32345430333a34393a32382e3436355a222c226576656e74223a2264656372797074222c226f7574636f6d65223a226f6b222c2263616c6c6572223a7b226e616d65223a22636865636b6f7574222c22756964223a302c22676964223a302c22706964223a363733392c22636f6d6d223a22706179746f6b656e63746c227d2c226d65726368616e74223a226d65726368616e742e636f6d2e6578616d706c652e73757370656e646564222c227075626c69634b657948617368223a227174626c702b34335a336a774a374e327836434763527665325030707a6b4d6b72592f6f6b4f64577643593d222c227472616e73616374696f6e4964223a2231373363326464303263653961663661636237373763643136343933366263396438396462626165346461383063663239666339666232656635326631373133222c2270726f74656374696f6e223a2243222c22746f6b656e223a227072696d617279222c227265666572656e6365223a2266373164663635363730643632333231313334376633343139333033326236616463393135656261336362313464343431366538633731393433656537633966222c2268617368223a2236363733336632396363316139643766396663616632343830313236316266366133373130383734316662373934656435366364633835393365656334386462227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 14, 1795492168669, 'key_state_change', 'ok', 'checkout', 0, 'merchant.com.example.suspended', '\xaad6e5a7ee376778f027b376c7a086711bded8fd29ce4324ad8fe890e756bc26', NULL, '\x3dfb792d77e08d49f030d2033e76384bc07f1fcc62f688ff56287469301e79c9', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a31342c2274696d65223a22323032362d31312d32345430333a34393a32382e3636395a222c226576656e74223a226b65795f73746174655f6368616e6765222c226f7574636f6d65223a226f6b222c2263616c6c6572223a7b226e616d65223a22636865636b6f7574222c22756964223a302c22676964223a302c22706964223a363739362c22636f6d6d223a22706179746f6b656e63746c227d2c226d65726368616e74223a226d65726368616e742e636f6d2e6578616d706c652e73757370656e646564222c227075626c69634b657948617368223a227174626c702b34335a336a774a374e327836434763527665325030707a6b4d6b72592f6f6b4f64577643593d222c2266726f6d223a22616374697665222c22746f223a2273757370656e646564222c22726561736f6e223a22612066697874757265222c2268617368223a2233646662373932643737653038643439663033306432303333653736333834626330376631666363363266363838666635363238373436393330316537396339227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 15, 1795492168738, 'decrypt', 'key_not_active', 'checkout', 0, 'merchant.com.example.suspended', '\xaad6e5a7ee376778f027b376c7a086711bded8fd29ce4324ad8fe890e756bc26', '\x5221f65b483b45ea1bb20da2c5829a49ade5d46187941c2b627c8b8c714b0be1', '\xca7799a945dc82c1fc1a632eb3e92ad8bea9a6a34fdf7f53c926d31d6fb0f03c', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a31352c2274696d65223a22323032362d31312d32345430333a34393a32382e3733385a222c226576656e74223a2264656372797074222c226f7574636f6d65223a226b65795f6e6f745f616374697665222c2263616c6c6572223a7b226e616d65223a22636865636b6f7574222c22756964223a302c22676964223a302c22706964223a363830342c22636f6d6d223a22706179746f6b656e63746c227d2c226d65726368616e74223a226d65726368616e742e636f6d2e6578616d706c652e73757370656e646564222c227075626c69634b657948617368223a227174626c702b34335a336a774a374e327836434763527665325030707a6b4d6b72592f6f6b4f64577643593d222c227472616e73616374696f6e4964223a2235323231663635623438336234356561316262323064613263353832396134396164653564343631383739343163326236323763386238633731346230626531222c2268617368223a2263613737393961393435646338326331666331613633326562336539326164386265613961366133346664663766353363393236643331643666623066303363227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 16, 1795492168853, 'key_import', 'ok', 'checkout', 0, 'merchant.com.example.compromised', '\x6ea595aa80f550fa23aef4bd29ab47eae1c7f4d6c1f6c29c6aefe4a9efaf99c3', NULL, '\xaf90cd0722c6b4680a8780e60c5100bdf4d5fe12c68c579c7fd3d33d66e810be', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a31362c2274696d65223a22323032362d31312d32345430333a34393a32382e3835335a222c226576656e74223a226b65795f696d706f7274222c226f7574636f6d65223a226f6b222c2263616c6c6572223a7b226e616d65223a22636865636b6f7574222c22756964223a302c22676964223a302c22706964223a363831342c22636f6d6d223a22706179746f6b656e63746c227d2c226d65726368616e74223a226d65726368616e742e636f6d2e6578616d706c652e636f6d70726f6d69736564222c227075626c69634b657948617368223a2262715756716f443155506f6a727653394b61744836754848394e624239734b6361752f6b71652b766d634d3d222c22746f6b656e223a227072696d617279222c226365727469666963617465536861323536223a2238353862613465343237393039343063383137613938356265306137386662396565323637376630653830346463636263646465653334316163653562343935222c2268617368223a2261663930636430373232633662343638306138373830653630633531303062646634643566653132633638633537396337666433643333643636653831306265227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 17, 1795492169065, 'key_state_change', 'ok', 'checkout', 0, 'merchant.com.example.compromised', '\x6ea595aa80f550fa23aef4bd29ab47eae1c7f4d6c1f6c29c6aefe4a9efaf99c3', NULL, '\x1aaad0167431dbe556ae2f211f54ba1a326a7aad833eefb582bcaa5486ffaa6b', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a31372c2274696d65223a22323032362d31312d32345430333a34393a32392e3036355a222c226576656e74223a226b65795f73746174655f6368616e6765222c226f7574636f6d65223a226f6b222c2263616c6c6572223a7b226e616d65223a22636865636b6f7574222c22756964223a302c22676964223a302c22706964223a363837312c22636f6d6d223a22706179746f6b656e63746c227d2c226d65726368616e74223a226d65726368616e742e636f6d2e6578616d706c652e636f6d70726f6d69736564222c227075626c69634b657948617368223a2262715756716f443155506f6a727653394b61744836754848394e624239734b6361752f6b71652b766d634d3d222c2266726f6d223a22616374697665222c22746f223a22636f6d70726f6d69736564222c22726561736f6e223a22612066697874757265222c2268617368223a2231616161643031363734333164626535353661653266323131663534626131613332366137616164383333656566623538326263616135343836666661613662227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 18, 1795492169129, 'key_generate', 'ok', 'checkout', 0, 'merchant.com.example.generated', '\x24d35166b5bc06697a343c07936ab9bd27e987915686c015e9fdfabd08ffc1af', NULL, '\x5976cc017a0e3d40881c0aab964a842e47252f86d6a8470d3a4e1a584e516fb4', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a31382c2274696d65223a22323032362d31312d32345430333a34393a32392e3132395a222c226576656e74223a226b65795f67656e6572617465222c226f7574636f6d65223a226f6b222c2263616c6c6572223a7b226e616d65223a22636865636b6f7574222c22756964223a302c22676964223a302c22706964223a363837392c22636f6d6d223a22706179746f6b656e63746c227d2c226d65726368616e74223a226d65726368616e742e636f6d2e6578616d706c652e67656e657261746564222c227075626c69634b657948617368223a224a4e4e525a725738426d6c364e4477486b3271357653667068354657687341563666333676516a2f7761383d222c22746f6b656e223a227072696d617279222c2268617368223a2235393736636330313761306533643430383831633061616239363461383432653437323532663836643661383437306433613465316135383465353136666234227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 19, 1795492169237, 'key_import', 'ok', 'checkout', 0, 'merchant.com.example.rotated', '\xd3b826c0054b1d200147c75f95a07ec1941cf44b9fe4054595f1ea146e973797', NULL, '\x5b44d1a3e51914279c2bc6e147fc0d43d5bd35ad3b364c6038f896759e95397e', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a31392c2274696d65223a22323032362d31312d32345430333a34393a32392e3233375a222c226576656e74223a226b65795f696d706f7274222c226f7574636f6d65223a226f6b222c2263616c6c6572223a7b226e616d65223a22636865636b6f7574222c22756964223a302c22676964223a302c22706964223a363838392c22636f6d6d223a22706179746f6b656e63746c227d2c226d65726368616e74223a226d65726368616e742e636f6d2e6578616d706c652e726f7461746564222c227075626c69634b657948617368223a223037676d7741564c48534142523864666c61422b775a516339457566354156466c664871464736584e35633d222c22746f6b656e223a227072696d617279222c226365727469666963617465536861323536223a2233373265643765663564336238363134626134356532663337306138336436383034626165323836353661323465653536326666363534616134383738336132222c2268617368223a2235623434643161336535313931343237396332626336653134376663306434336435626433356164336233363463363033386638393637353965393533393765227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 20, 1795492169321, 'decrypt', 'ok', 'checkout', 0, 'merchant.com.example.rotated', '\xd3b826c0054b1d200147c75f95a07ec1941cf44b9fe4054595f1ea146e973797', '\x927eab6ecbb28fe74f95363d3c68c4c8f5dbe182c1cf98b363f0fed6ca1f207d', '\x28810415a7378cbe787f819ecdc53902084c309a5d33a3faf006e3567ac3660d', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a32302c2274696d65223a22323032362d31312d32345430333a34393a32392e3332315a222c226576656e74223a2264656372797074222c226f7574636f6d65223a226f6b222c2263616c6c6572223a7b226e616d65223a22636865636b6f7574222c22756964223a302c22676964223a302c22706964223a363839382c22636f6d6d223a22706179746f6b656e63746c227d2c226d65726368616e74223a226d65726368616e742e636f6d2e6578616d706c652e726f7461746564222c227075626c69634b657948617368223a223037676d7741564c48534142523864666c61422b775a516339457566354156466c664871464736584e35633d222c227472616e73616374696f6e4964223a2239323765616236656362623238666537346639353336336433633638633463386635646265313832633163663938623336336630666564366361316632303764222c2270726f74656374696f6e223a2243222c22746f6b656e223a227072696d617279222c227265666572656e6365223a2264663863663830323237656333323337393232646630656364383833383563353436653461333162646238313237623033336630316536663231663137356466222c2268617368223a2232383831303431356137333738636265373837663831396563646335333930323038346333303961356433336133666166303036653335363761633336363064227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 21, 1795492169389, 'key_generate', 'ok', 'checkout', 0, 'merchant.com.example.rotated', '\x7e5a041f7de19de45c5a09232bb2d95f8ee423a591dadebd8ef237d682c2f682', NULL, '\x49f35af0129208c8c0c233907edfb844b92528f4820082e4f2ab9ce23f3d3552', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a32312c2274696d65223a22323032362d31312d32345430333a34393a32392e3338395a222c226576656e74223a226b65795f67656e6572617465222c226f7574636f6d65223a226f6b222c2263616c6c6572223a7b226e616d65223a22636865636b6f7574222c22756964223a302c22676964223a302c22706964223a363930362c22636f6d6d223a22706179746f6b656e63746c227d2c226d65726368616e74223a226d65726368616e742e636f6d2e6578616d706c652e726f7461746564222c227075626c69634b657948617368223a22666c6f45483333686e65526357676b6a4b374c5a5834376b49365752327436396a764933316f4c43396f493d222c22746f6b656e223a227072696d617279222c2268617368223a2234396633356166303132393230386338633063323333393037656466623834346239323532386634383230303832653466326162396365323366336433353532227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 22, 1795492169395, 'csr_create', 'ok', 'checkout', 0, 'merchant.com.example.rotated', '\x7e5a041f7de19de45c5a09232bb2d95f8ee423a591dadebd8ef237d682c2f682', NULL, '\x53b44fd72423bb68418ba47d4df6e300c491f4c3eecd420a84cd2026c8dbe4b7', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a32322c2274696d65223a22323032362d31312d32345430333a34393a32392e3339355a222c226576656e74223a226373725f637265617465222c226f7574636f6d65223a226f6b222c2263616c6c6572223a7b226e616d65223a22636865636b6f7574222c22756964223a302c22676964223a302c22706964223a363930362c22636f6d6d223a22706179746f6b656e63746c227d2c226d65726368616e74223a226d65726368616e742e636f6d2e6578616d706c652e726f7461746564222c227075626c69634b657948617368223a22666c6f45483333686e65526357676b6a4b374c5a5834376b49365752327436396a764933316f4c43396f493d222c22746f6b656e223a227072696d617279222c2268617368223a2235336234346664373234323362623638343138626134376434646636653330306334393166346333656563643432306138346364323032366338646265346237227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 23, 1795492169483, 'certificate_import', 'ok', 'checkout', 0, 'merchant.com.example.rotated', '\x7e5a041f7de19de45c5a09232bb2d95f8ee423a591dadebd8ef237d682c2f682', NULL, '\x1bca47941a08e5308ab6583b61758893d62673cde62f31784f847e3aa52db785', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a32332c2274696d65223a22323032362d31312d32345430333a34393a32392e3438335a222c226576656e74223a2263657274696669636174655f696d706f7274222c226f7574636f6d65223a226f6b222c2263616c6c6572223a7b226e616d65223a22636865636b6f7574222c22756964223a302c22676964223a302c22706964223a363931362c22636f6d6d223a22706179746f6b656e63746c227d2c226d65726368616e74223a226d65726368616e742e636f6d2e6578616d706c652e726f7461746564222c227075626c69634b657948617368223a22666c6f45483333686e65526357676b6a4b374c5a5834376b49365752327436396a764933316f4c43396f493d222c22746f6b656e223a227072696d617279222c226365727469666963617465536861323536223a2231346664613833353930666230303637336234333163336136316637616366343732613637653437613731386661653765633063333934386237313663643666222c2268617368223a2231626361343739343161303865353330386162363538336236313735383839336436323637336364653632663331373834663834376533616135326462373835227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 24, 1795492169553, 'decrypt', 'ok', 'checkout', 0, 'merchant.com.example.rotated', '\x7e5a041f7de19de45c5a09232bb2d95f8ee423a591dadebd8ef237d682c2f682', '\x17550edca8a40fe818e746bbe1f51aaf3e55348a062a16d53eae12278d27248b', '\x139294a45cddc62f86a3c6e525b862e585af6bbb3c9a543bb87d35f30f7fb895', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a32342c2274696d65223a22323032362d31312d32345430333a34393a32392e3535335a222c226576656e74223a2264656372797074222c226f7574636f6d65223a226f6b222c2263616c6c6572223a7b226e616d65223a22636865636b6f7574222c22756964223a302c22676964223a302c22706964223a363932352c22636f6d6d223a22706179746f6b656e63746c227d2c226d65726368616e74223a226d65726368616e742e636f6d2e6578616d706c652e726f7461746564222c227075626c69634b657948617368223a22666c6f45483333686e65526357676b6a4b374c5a5834376b49365752327436396a764933316f4c43396f493d222c227472616e73616374696f6e4964223a2231373535306564636138613430666538313865373436626265316635316161663365353533343861303632613136643533656165313232373864323732343862222c2270726f74656374696f6e223a2243222c22746f6b656e223a227072696d617279222c227265666572656e6365223a2233323966373564323461636139313338393264396537333432323332653132633962616666376235643864623639373033326431666139353830653736313734222c2268617368223a2231333932393461343563646463363266383661336336653532356238363265353835616636626262336339613534336262383764333566333066376662383935227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 25, 1795492169603, 'key_state_change', 'ok', 'checkout', 0, 'merchant.com.example.rotated', '\xd3b826c0054b1d200147c75f95a07ec1941cf44b9fe4054595f1ea146e973797', NULL, '\xe95b4220a47b28b19cc932db57fb315cd82a7d355ada015ddbceb6e4355a567d', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a32352c2274696d65223a22323032362d31312d32345430333a34393a32392e3630335a222c226576656e74223a226b65795f73746174655f6368616e6765222c226f7574636f6d65223a226f6b222c2263616c6c6572223a7b226e616d65223a22636865636b6f7574222c22756964223a302c22676964223a302c22706964223a363933332c22636f6d6d223a22706179746f6b656e63746c227d2c226d65726368616e74223a226d65726368616e742e636f6d2e6578616d706c652e726f7461746564222c227075626c69634b657948617368223a223037676d7741564c48534142523864666c61422b775a516339457566354156466c664871464736584e35633d222c2266726f6d223a22616374697665222c22746f223a226465616374697661746564222c22726561736f6e223a22726f7461746564222c2268617368223a2265393562343232306134376232386231396363393332646235376662333135636438326137643335356164613031356464626365623665343335356135363764227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 26, 1795492169650, 'audit_export', 'ok', 'checkout', 0, NULL, NULL, NULL, '\x7fa0b8b640d939fc141f6cfa980cbe39ecb1adb6a58e4e5c0a5405bf06feb607', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a32362c2274696d65223a22323032362d31312d32345430333a34393a32392e3635305a222c226576656e74223a2261756469745f6578706f7274222c226f7574636f6d65223a226f6b222c2263616c6c6572223a7b226e616d65223a22636865636b6f7574222c22756964223a302c22676964223a302c22706964223a363934312c22636f6d6d223a22706179746f6b656e63746c227d2c22666f726d6174223a226a736f6e6c222c226669727374223a312c226c617374223a32352c2268617368223a2237666130623862363430643933396663313431663663666139383063626533396563623161646236613538653465356330613534303562663036666562363037227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 27, 1795492169722, 'decrypt', 'ok', 'checkout', 0, 'merchant.com.example.active', '\x9726671585114e6090da048a38aac98bb8bb102dfb5c0ac99cf2265aef08cf09', '\xb938b1cad6af114ae5d59c27e4378f9d28404903b08551bdedb52650ecb4ba51', '\x3535b8e0b70a9912b3bf17fcf2a7f1c0d12a9d83bc5a4c65ff864c07727723e2', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a32372c2274696d65223a22323032362d31312d32345430333a34393a32392e3732325a222c226576656e74223a2264656372797074222c226f7574636f6d65223a226f6b222c2263616c6c6572223a7b226e616d65223a22636865636b6f7574222c22756964223a302c22676964223a302c22706964223a363935312c22636f6d6d223a22706179746f6b656e63746c227d2c226d65726368616e74223a226d65726368616e742e636f6d2e6578616d706c652e616374697665222c227075626c69634b657948617368223a226c795a6e46595552546d43513267534b4f4b724a69376937454333375841724a6e50496d577538497a776b3d222c227472616e73616374696f6e4964223a2262393338623163616436616631313461653564353963323765343337386639643238343034393033623038353531626465646235323635306563623462613531222c2270726f74656374696f6e223a2243222c22746f6b656e223a227072696d617279222c227265666572656e6365223a2264643465623531373635336536306539313863643138363838353064383062343565343439656139396563646662396339303762373935346530313462316366222c2268617368223a2233353335623865306237306139393132623362663137666366326137663163306431326139643833626335613463363566663836346330373732373732336532227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 28, 1795492169730, 'stop', 'ok', NULL, NULL, NULL, NULL, NULL, '\xb651e6c6a71f9533c22ff8eb0b773bf12f7c1a0f4f95d5b71e79fe82338851d4', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a32382c2274696d65223a22323032362d31312d32345430333a34393a32392e3733305a222c226576656e74223a2273746f70222c226f7574636f6d65223a226f6b222c2268617368223a2262363531653663366137316639353333633232666638656230623737336266313266376331613066346639356435623731653739666538323333383835316434227d');


--
-- Data for Name: checkpoint; Type: TABLE DATA; Schema: paytokend; Owner: -
--

INSERT INTO paytokend.checkpoint VALUES ('node-1', 4, 1795492167463, '\x7b22636865636b706f696e74223a7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a342c2268617368223a2231303631303333663336383035653762653735663537363037306263396638333632643336316466393834316639656466653765353764383534333739653630222c2274696d65223a22323032362d31312d32345430333a34393a32372e3436335a222c226b65794964223a2261663530346534333966373337386532626337363839373137653034383533316461623933333265363633336131336366363639363664343132626335393837227d2c227369676e6174757265223a224d45554349514366514c52317868306c474858376d4a2b5a364b6d6e6f6f7a2f43524c6c454959375a476f44492f7a6f64514967516d66792f7a4b5552684d752b4a34426c793058665a4165383636754d484e73696a62655074426a7266413d227d');
INSERT INTO paytokend.checkpoint VALUES ('node-1', 26, 1795492169652, '\x7b22636865636b706f696e74223a7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a32362c2268617368223a2237666130623862363430643933396663313431663663666139383063626533396563623161646236613538653465356330613534303562663036666562363037222c2274696d65223a22323032362d31312d32345430333a34393a32392e3635325a222c226b65794964223a2261663530346534333966373337386532626337363839373137653034383533316461623933333265363633336131336366363639363664343132626335393837227d2c227369676e6174757265223a224d455143494630325276502b796e416c7a69487561366c66793544506467446b66307a67546b554547624a4c6d776474416942514670687449533647684d65746a2b742b446f364e3632316663785a346e4c6f4731516d394f71644e65673d3d227d');
INSERT INTO paytokend.checkpoint VALUES ('node-1', 28, 1795492169732, '\x7b22636865636b706f696e74223a7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a32382c2268617368223a2262363531653663366137316639353333633232666638656230623737336266313266376331613066346639356435623731653739666538323333383835316434222c2274696d65223a22323032362d31312d32345430333a34393a32392e3733325a222c226b65794964223a2261663530346534333966373337386532626337363839373137653034383533316461623933333265363633336131336366363639363664343132626335393837227d2c227369676e6174757265223a224d45554349426b69593067795848626d524e466f356a6b59565777624d6241534a4459436c42524b4a63615a4465706f416945416e5678755852304b443554454f326377666f6e5237466445462f393377515277745a4363316a496e3273343d227d');


--
-- Data for Name: claim; Type: TABLE DATA; Schema: paytokend; Owner: -
--

INSERT INTO paytokend.claim VALUES ('\x60ff987083ae11977a1e630ed143d3c6101ba123b6a6e477ea43ae10c9c0edf1', '\x9726671585114e6090da048a38aac98bb8bb102dfb5c0ac99cf2265aef08cf09', 'checkout', '\x3d5e3106cd72ba03fededf6dbb9fc3367edcebe453e90db236ea763aa228bee3', '\x4d3a94575d43d268f8e42ee872c377f1781a34ddc2c2881109848f81782dfc8d', '\x0000000000000000eec670eb959b1585', 1795492167807, 0, NULL, NULL, 'node-1');
INSERT INTO paytokend.claim VALUES ('\xda7b5bb258385e729edc5188d3c43469f1c03f7086cb3ee7ebbf5fc54eedfc67', '\x9726671585114e6090da048a38aac98bb8bb102dfb5c0ac99cf2265aef08cf09', 'checkout', '\x28ec9a8ff249fd5fb2993734c026afbbe4dea76ec7a999c23d774236bbb86de7', '\xc0abd59f300c7fd5d3d2a04a78dde3ba57db49c009679694186019b9bc931891', '\x00000000000000001e09de2d601384a5', 1795492167877, 0, NULL, NULL, 'node-1');
INSERT INTO paytokend.claim VALUES ('\xcb03e2ae7c8da20752026427c8b0c9a09408053efa5c1e2360032c6200de3b4d', '\x9726671585114e6090da048a38aac98bb8bb102dfb5c0ac99cf2265aef08cf09', 'checkout', '\x0bafe22156d2698c143b86040446d366ead863ba600d5c924f3d15c786ef4057', '\x11dcacd4eaa492b3c0d13129deedbd345f1f6037351f404b613e13ebeab5f9c0', '\x0000000000000000a92149a00324e083', 1795492167722, 1, '\x0000000000000000c71972e8fdc21d7e', 1795492167914, 'node-1');
INSERT INTO paytokend.claim VALUES ('\x3e51315f2aefe9b2824a5c8fe8924862eb5719b48f0363fd3c98322eb1fdf661', '\x9726671585114e6090da048a38aac98bb8bb102dfb5c0ac99cf2265aef08cf09', 'checkout', NULL, '\xa1b1022b82cc11cbc6f01a1e80cec7eeb120483c997f460353ed0e9378f069f8', '\x000000000000000077718c7f20d963d4', 1795492168019, 0, NULL, NULL, 'node-1');
INSERT INTO paytokend.claim VALUES ('\x173c2dd02ce9af6acb777cd164936bc9d89dbbae4da80cf29fc9fb2ef52f1713', '\xaad6e5a7ee376778f027b376c7a086711bded8fd29ce4324ad8fe890e756bc26', 'checkout', '\xf71df65670d623211347f34193032b6adc915eba3cb14d4416e8c71943ee7c9f', '\x7d638e317e8a8cf1a3a3d67116773c712683869d42c218d03670d8321d63f974', '\x0000000000000000ebfe3d6fc9e0432b', 1795492168460, 0, NULL, NULL, 'node-1');
INSERT INTO paytokend.claim VALUES ('\x927eab6ecbb28fe74f95363d3c68c4c8f5dbe182c1cf98b363f0fed6ca1f207d', '\xd3b826c0054b1d200147c75f95a07ec1941cf44b9fe4054595f1ea146e973797', 'checkout', '\xdf8cf80227ec3237922df0ecd88385c546e4a31bdb8127b033f01e6f21f175df', '\x34c9fbc445b7cc06a2e27ebc457563ca83c8f9d8bddfc466b57664a4cc4cf1ae', '\x0000000000000000c99a4f5b9ee50ffb', 1795492169319, 0, NULL, NULL, 'node-1');
INSERT INTO paytokend.claim VALUES ('\x17550edca8a40fe818e746bbe1f51aaf3e55348a062a16d53eae12278d27248b', '\x7e5a041f7de19de45c5a09232bb2d95f8ee423a591dadebd8ef237d682c2f682', 'checkout', '\x329f75d24aca913892d9e7342232e12c9baff7b5d8db697032d1fa9580e76174', '\x3c64e0840ab994afb771ae4befa962ec0f0cdea38b2fb02be05181de56c3a651', '\x00000000000000000767e8a350f949e9', 1795492169552, 0, NULL, NULL, 'node-1');
INSERT INTO paytokend.claim VALUES ('\xb938b1cad6af114ae5d59c27e4378f9d28404903b08551bdedb52650ecb4ba51', '\x9726671585114e6090da048a38aac98bb8bb102dfb5c0ac99cf2265aef08cf09', 'checkout', '\xdd4eb517653e60e918cd1868850d80b45e449ea99ecdfb9c907b7954e014b1cf', '\x4a28aa3e8ca7098ea623350ec548cb5fda3ce14c4b7e8c66c7b7fe15027b8388', '\x00000000000000001b8f8075a2631cb2', 1795492169721, 0, NULL, NULL, 'node-1');


--
-- Data for Name: hold; Type: TABLE DATA; Schema: paytokend; Owner: -
--



--
-- Data for Name: key_holder; Type: TABLE DATA; Schema: paytokend; Owner: -
--

INSERT INTO paytokend.key_holder VALUES ('node-1', '\x24d35166b5bc06697a343c07936ab9bd27e987915686c015e9fdfabd08ffc1af', 1795492169425);
INSERT INTO paytokend.key_holder VALUES ('node-1', '\x6ea595aa80f550fa23aef4bd29ab47eae1c7f4d6c1f6c29c6aefe4a9efaf99c3', 1795492169425);
INSERT INTO paytokend.key_holder VALUES ('node-1', '\x7e5a041f7de19de45c5a09232bb2d95f8ee423a591dadebd8ef237d682c2f682', 1795492169425);
INSERT INTO paytokend.key_holder VALUES ('node-1', '\x9726671585114e6090da048a38aac98bb8bb102dfb5c0ac99cf2265aef08cf09', 1795492169425);
INSERT INTO paytokend.key_holder VALUES ('node-1', '\xaad6e5a7ee376778f027b376c7a086711bded8fd29ce4324ad8fe890e756bc26', 1795492169425);
INSERT INTO paytokend.key_holder VALUES ('node-1', '\xd3b826c0054b1d200147c75f95a07ec1941cf44b9fe4054595f1ea146e973797', 1795492169425);


--
-- Data for Name: ledger_state; Type: TABLE DATA; Schema: paytokend; Owner: -
--

INSERT INTO paytokend.ledger_state VALUES (true, 6, NULL, 0, '7711580135041980872', 1, NULL, NULL, '0718a540-2700-4423-bc57-81c444fe06a1');


--
-- Data for Name: merchant_key; Type: TABLE DATA; Schema: paytokend; Owner: -
--

INSERT INTO paytokend.merchant_key VALUES ('\x9726671585114e6090da048a38aac98bb8bb102dfb5c0ac99cf2265aef08cf09', 'merchant.com.example.active', 'EC', 'active', NULL, 'imported', 1795492167648, 'node-1', 1, 'processing');
INSERT INTO paytokend.merchant_key VALUES ('\xaad6e5a7ee376778f027b376c7a086711bded8fd29ce4324ad8fe890e756bc26', 'merchant.com.example.suspended', 'RSA', 'suspended', NULL, 'imported', 1795492168391, 'node-1', 4, 'processing');
INSERT INTO paytokend.merchant_key VALUES ('\x6ea595aa80f550fa23aef4bd29ab47eae1c7f4d6c1f6c29c6aefe4a9efaf99c3', 'merchant.com.example.compromised', 'EC', 'compromised', NULL, 'imported', 1795492168853, 'node-1', 7, 'processing');
INSERT INTO paytokend.merchant_key VALUES ('\x24d35166b5bc06697a343c07936ab9bd27e987915686c015e9fdfabd08ffc1af', 'merchant.com.example.generated', 'EC', 'pre-activation', NULL, 'generated', 1795492169129, 'node-1', 8, 'processing');
INSERT INTO paytokend.merchant_key VALUES ('\x7e5a041f7de19de45c5a09232bb2d95f8ee423a591dadebd8ef237d682c2f682', 'merchant.com.example.rotated', 'EC', 'active', NULL, 'generated', 1795492169389, 'node-1', 12, 'processing');
INSERT INTO paytokend.merchant_key VALUES ('\xd3b826c0054b1d200147c75f95a07ec1941cf44b9fe4054595f1ea146e973797', 'merchant.com.example.rotated', 'EC', 'deactivated', 1796096969000, 'imported', 1795492169237, 'node-1', 14, 'processing');


--
-- Data for Name: moved_ledger; Type: TABLE DATA; Schema: paytokend; Owner: -
--



--
-- Data for Name: node; Type: TABLE DATA; Schema: paytokend; Owner: -
--

INSERT INTO paytokend.node VALUES ('node-1', 1, '-infinity', '2026-11-24 03:49:29.734051+00', '0.1.0', '\xc9fe782e4477eb604383676c799b1cf7', 0, 0, 86400000, '7711580135041980872', 1);


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


