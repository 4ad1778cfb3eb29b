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
    hsm_token text,
    CONSTRAINT audit_key_identifier_check CHECK ((octet_length(identifier) = 16)),
    CONSTRAINT audit_key_ordinal_check CHECK ((ordinal > 0)),
    CONSTRAINT audit_key_public_key_check CHECK ((octet_length(public_key) = ANY (ARRAY[65, 294])))
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

INSERT INTO paytokend.audit_key VALUES ('node-1', 1, '\x6e6f64657bf8a951d624634aa8c06854', '\x04661aa8a850bd7131b3b44e97cd35a475462abd2feaaffe0b33b0ea805c59e4513a8e323ad9bc68cb6bf2ae62821a3482b2862f2013989e29c793d5eae6652a34', 1795682991371, 'primary');


--
-- Data for Name: audit_record; Type: TABLE DATA; Schema: paytokend; Owner: -
--

INSERT INTO paytokend.audit_record VALUES ('node-1', 1, 1795682990977, 'start', 'ok', NULL, NULL, NULL, NULL, NULL, '\x8cfa8202fb2ae30d8b59f067fd9c0cd21070449a2d54ac65e017c92499d60bee', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a312c2274696d65223a22323032362d31312d32365430383a34393a35302e3937375a222c226576656e74223a227374617274222c226f7574636f6d65223a226f6b222c2276657273696f6e223a22302e312e30222c22706179746f6b656e64536861323536223a2236636661396236343863323463663963636233646532663264323666326162383565643964363733393139386336663136393534303166626438303330353035222c22776f726b6572536861323536223a2265333266356465373536613037343330633137623161323731363332336264353634636536326561386632643631656637616663633731383065656364336136222c226d6f64756c6573223a7b227072696d617279223a2231306132336631376263373565363661353563336137623732376164303062366135663335373364613838343161623739396536646139636332303164623765227d2c2268617368223a2238636661383230326662326165333064386235396630363766643963306364323130373034343961326435346163363565303137633932343939643630626565227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 2, 1795682990977, 'configuration_load', 'ok', NULL, NULL, NULL, NULL, NULL, '\xdb1341f4485c3ec1fdcd22462b835f78debd8e9ff58838b6774eaced17dfbbc9', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a322c2274696d65223a22323032362d31312d32365430383a34393a35302e3937375a222c226576656e74223a22636f6e66696775726174696f6e5f6c6f6164222c226f7574636f6d65223a226f6b222c2266696c65536861323536223a2238656339323631306632323230326437656338623435353138303335633864313264623938336163366537616130393263663737326135313762393830646636222c2268617368223a2264623133343166343438356333656331666463643232343632623833356637386465626438653966663538383338623637373465616365643137646662626339227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 3, 1795682990977, 'configuration_values', 'ok', NULL, NULL, NULL, NULL, NULL, '\x821a477917ab7214cd2e4be680bfaacf245fd6df86603ff5a6ac83b9d599d5e4', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a332c2274696d65223a22323032362d31312d32365430383a34393a35302e3937375a222c226576656e74223a22636f6e66696775726174696f6e5f76616c756573222c226f7574636f6d65223a226f6b222c2270617274223a312c227061727473223a312c2276616c756573223a7b226163636573732e312e6d65726368616e7473223a222a222c226163636573732e312e6e616d65223a22636865636b6f7574222c226163636573732e312e726571756972655f6578706563746564223a22222c226163636573732e312e726f6c6573223a22646563727970742c2061756469742c2061646d696e222c226163636573732e312e756964223a2230222c226163636573732e312e75736572223a22726f6f74222c22617070726f76616c732e657870697265223a223164222c22617070726f76616c732e70656f706c65223a2232222c226c65646765722e656e67696e65223a22706f737467726573716c222c226c65646765722e6e6f6465223a226e6f64652d31222c226c65646765722e7265706561745f666f72223a223164222c226c65646765722e726571756972655f7374616e646279223a2266616c7365222c226c65646765722e72657461696e5f636c61696d73223a2231383064222c226c65646765722e72657461696e5f7265636f726473223a226f6666222c226c65646765722e736572766572223a222f746d702f706179746f6b656e642d666978747572652e31776b4176642f6c6564676572222c226c65646765722e74696d656f7574223a22313073222c226c65646765722e75736572223a22706179746f6b656e64222c226c697374656e65722e61646d696e5f6d6f6465223a2230363030222c226c697374656e65722e61646d696e5f736f636b6574223a222f746d702f706179746f6b656e642e6865356f36522f61646d696e2e736f636b222c226c697374656e65722e69646c655f74696d656f7574223a22316d222c226c697374656e65722e6d61785f636f6e6e656374696f6e73223a22353132222c226c697374656e65722e6d61785f636f6e6e656374696f6e735f7065725f756964223a22313238222c226c697374656e65722e6d61785f726571756573745f6279746573223a223635353336222c226c697374656e65722e6d6f6465223a2230363630222c226c697374656e65722e736f636b6574223a222f746d702f706179746f6b656e642e6865356f36522f706179746f6b656e642e736f636b222c226c6f672e666f726d6174223a2274657874222c226c6f672e6c6576656c223a22696e666f222c22746f6b656e732e31223a227072696d617279222c22746f6b656e732e7072696d6172792e616c6c6f775f6578747261637461626c655f736563726574223a2274727565222c22746f6b656e732e7072696d6172792e63616c6c5f74696d656f7574223a22313073222c22746f6b656e732e7072696d6172792e64656e795f73797374656d5f63616c6c73223a22222c22746f6b656e732e7072696d6172792e656e7669726f6e6d656e74223a22534f465448534d325f434f4e46222c22746f6b656e732e7072696d6172792e696e69745f61726773223a22222c22746f6b656e732e7072696d6172792e6d6f64756c65223a222f7573722f6c69622f736f667468736d2f6c6962736f667468736d322e736f222c22746f6b656e732e7072696d6172792e70696e5f66696c65223a222f746d702f706179746f6b656e642e6865356f36522f70696e222c22746f6b656e732e7072696d6172792e72656379636c655f6166746572223a2231303030303030222c22746f6b656e732e7072696d6172792e73657373696f6e73223a2232222c22746f6b656e732e7072696d6172792e757269223a22706b637331313a746f6b656e3d73616e64626f78222c22746f6b656e732e7072696d6172792e7573655f6c6f67223a22222c2274727573742e64697374727573746564223a22222c2274727573742e726f6f745f66696c6573223a222f746d702f706179746f6b656e642e6865356f36522f617574686f726974792f726f6f742e70656d222c2274727573742e726f6f7473223a2265346236653331363738363932323063666265323362306161306365393066636365393739643264326531333131656263386134353838346166623336303539222c22766572696669636174696f6e2e7369676e696e675f74696d655f77696e646f77223a223164227d2c2268617368223a2238323161343737393137616237323134636432653462653638306266616163663234356664366466383636303366663561366163383362396435393964356534227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 4, 1795682991740, 'audit_key_change', 'ok', NULL, NULL, NULL, NULL, NULL, '\xde7dc0b9947a07a6417766bfbc7e4758cecb692b67ad423a5884430333502368', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a342c2274696d65223a22323032362d31312d32365430383a34393a35312e3734305a222c226576656e74223a2261756469745f6b65795f6368616e6765222c226f7574636f6d65223a226f6b222c22746f6b656e223a227072696d617279222c22746f223a2264666638323161666533393739313436346562336661323939656562386562393935363263303437626666613537313065616164303234323638666263643763222c2268617368223a2264653764633062393934376130376136343137373636626662633765343735386365636236393262363761643432336135383834343330333333353032333638227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 5, 1795682993058, 'key_import', 'ok', 'checkout', 0, 'merchant.com.example.active', '\x7f007b89de8a4913ab1a72b50c7eaf209f9c0a34b39e3c2958cb74b42aea5592', NULL, '\xcad61447d712adddb78c4a8042943c26a925d1bc48f64fcf4eb164e2c740b93b', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a352c2274696d65223a22323032362d31312d32365430383a34393a35332e3035385a222c226576656e74223a226b65795f696d706f7274222c226f7574636f6d65223a226f6b222c2263616c6c6572223a7b226e616d65223a22636865636b6f7574222c22756964223a302c22676964223a302c22706964223a31313936332c22636f6d6d223a22706179746f6b656e63746c227d2c226d65726368616e74223a226d65726368616e742e636f6d2e6578616d706c652e616374697665222c227075626c69634b657948617368223a22667742376964364b53524f72476e4b3144483676494a2b63436a537a6e6a7770574d743074437271565a493d222c22746f6b656e223a227072696d617279222c226365727469666963617465536861323536223a2231633737386233333562316532323665333431656139383837333063666231636239393163376336376365346364306464313261363362303031366536343465222c2268617368223a2263616436313434376437313261646464623738633461383034323934336332366139323564316263343866363466636634656231363465326337343062393362227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 6, 1795682993426, 'decrypt', 'ok', 'checkout', 0, 'merchant.com.example.active', '\x7f007b89de8a4913ab1a72b50c7eaf209f9c0a34b39e3c2958cb74b42aea5592', '\x55491fa067c8386ac571ad37260f98483ab80f4ea9ba76e69a37d48727bbdb61', '\x5140c1d3bbc3d04461aa989717a98630dbe3da95e7036c1bc36e3c6c66ae417c', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a362c2274696d65223a22323032362d31312d32365430383a34393a35332e3432365a222c226576656e74223a2264656372797074222c226f7574636f6d65223a226f6b222c2263616c6c6572223a7b226e616d65223a22636865636b6f7574222c22756964223a302c22676964223a302c22706964223a31323033332c22636f6d6d223a22706179746f6b656e63746c227d2c226d65726368616e74223a226d65726368616e742e636f6d2e6578616d706c652e616374697665222c227075626c69634b657948617368223a22667742376964364b53524f72476e4b3144483676494a2b63436a537a6e6a7770574d743074437271565a493d222c227472616e73616374696f6e4964223a2235353439316661303637633833383661633537316164333732363066393834383361623830663465613962613736653639613337643438373237626264623631222c2270726f74656374696f6e223a2243222c22746f6b656e223a227072696d617279222c227265666572656e6365223a2230626166653232313536643236393863313433623836303430343436643336366561643836336261363030643563393234663364313563373836656634303537222c2268617368223a2235313430633164336262633364303434363161613938393731376139383633306462653364613935653730333663316263333665336336633636616534313763227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 7, 1795682993786, 'decrypt', 'ok', 'checkout', 0, 'merchant.com.example.active', '\x7f007b89de8a4913ab1a72b50c7eaf209f9c0a34b39e3c2958cb74b42aea5592', '\x68258b39570a971f6c2dbc93ef0010bf2123e3a55f49d0114a9e22e1062a5ca3', '\x7142eaec6e42a6080b996d9d262d3521dcd54e06173e31eda177db6588f9c409', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a372c2274696d65223a22323032362d31312d32365430383a34393a35332e3738365a222c226576656e74223a2264656372797074222c226f7574636f6d65223a226f6b222c2263616c6c6572223a7b226e616d65223a22636865636b6f7574222c22756964223a302c22676964223a302c22706964223a31323039342c22636f6d6d223a22706179746f6b656e63746c227d2c226d65726368616e74223a226d65726368616e742e636f6d2e6578616d706c652e616374697665222c227075626c69634b657948617368223a22667742376964364b53524f72476e4b3144483676494a2b63436a537a6e6a7770574d743074437271565a493d222c227472616e73616374696f6e4964223a2236383235386233393537306139373166366332646263393365663030313062663231323365336135356634396430313134613965323265313036326135636133222c2270726f74656374696f6e223a2243222c22746f6b656e223a227072696d617279222c227265666572656e6365223a2233643565333130366364373262613033666564656466366462623966633333363765646365626534353365393064623233366561373633616132323862656533222c2268617368223a2237313432656165633665343261363038306239393664396432363264333532316463643534653036313733653331656461313737646236353838663963343039227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 8, 1795682994197, 'decrypt', 'ok', 'checkout', 0, 'merchant.com.example.active', '\x7f007b89de8a4913ab1a72b50c7eaf209f9c0a34b39e3c2958cb74b42aea5592', '\x85d91db504b725406024c4cd13c2bf1b2a038ca897b22a3dded6e92e138ec9cf', '\xcc963925e91462846b2ed00f4200cd8546472d303802d433dcc2cf50e7b25ee1', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a382c2274696d65223a22323032362d31312d32365430383a34393a35342e3139375a222c226576656e74223a2264656372797074222c226f7574636f6d65223a226f6b222c2263616c6c6572223a7b226e616d65223a22636865636b6f7574222c22756964223a302c22676964223a302c22706964223a31323133362c22636f6d6d223a22706179746f6b656e63746c227d2c226d65726368616e74223a226d65726368616e742e636f6d2e6578616d706c652e616374697665222c227075626c69634b657948617368223a22667742376964364b53524f72476e4b3144483676494a2b63436a537a6e6a7770574d743074437271565a493d222c227472616e73616374696f6e4964223a2238356439316462353034623732353430363032346334636431336332626631623261303338636138393762323261336464656436653932653133386563396366222c2270726f74656374696f6e223a2243222c22746f6b656e223a227072696d617279222c227265666572656e6365223a2232386563396138666632343966643566623239393337333463303236616662626534646561373665633761393939633233643737343233366262623836646537222c2268617368223a2263633936333932356539313436323834366232656430306634323030636438353436343732643330333830326434333364636332636635306537623235656531227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 9, 1795682994343, 'decrypt', 'repeat', 'checkout', 0, 'merchant.com.example.active', '\x7f007b89de8a4913ab1a72b50c7eaf209f9c0a34b39e3c2958cb74b42aea5592', '\x55491fa067c8386ac571ad37260f98483ab80f4ea9ba76e69a37d48727bbdb61', '\x71f0b8b854c809c1c77b51cdc241fe28f554785bc15e786903a2569b1ad481a2', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a392c2274696d65223a22323032362d31312d32365430383a34393a35342e3334335a222c226576656e74223a2264656372797074222c226f7574636f6d65223a22726570656174222c2263616c6c6572223a7b226e616d65223a22636865636b6f7574222c22756964223a302c22676964223a302c22706964223a31323137322c22636f6d6d223a22706179746f6b656e63746c227d2c226d65726368616e74223a226d65726368616e742e636f6d2e6578616d706c652e616374697665222c227075626c69634b657948617368223a22667742376964364b53524f72476e4b3144483676494a2b63436a537a6e6a7770574d743074437271565a493d222c227472616e73616374696f6e4964223a2235353439316661303637633833383661633537316164333732363066393834383361623830663465613962613736653639613337643438373237626264623631222c2270726f74656374696f6e223a2243222c22746f6b656e223a227072696d617279222c227265666572656e6365223a2230626166653232313536643236393863313433623836303430343436643336366561643836336261363030643563393234663364313563373836656634303537222c2268617368223a2237316630623862383534633830396331633737623531636463323431666532386635353437383562633135653738363930336132353639623161643438316132227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 10, 1795682994455, 'decrypt', 'transaction_replayed', 'checkout', 0, 'merchant.com.example.active', '\x7f007b89de8a4913ab1a72b50c7eaf209f9c0a34b39e3c2958cb74b42aea5592', '\x68258b39570a971f6c2dbc93ef0010bf2123e3a55f49d0114a9e22e1062a5ca3', '\xa324581fb8531a236e5ffe41c2cd92cffad74594990515a0ed2a78582bd99b97', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a31302c2274696d65223a22323032362d31312d32365430383a34393a35342e3435355a222c226576656e74223a2264656372797074222c226f7574636f6d65223a227472616e73616374696f6e5f7265706c61796564222c2263616c6c6572223a7b226e616d65223a22636865636b6f7574222c22756964223a302c22676964223a302c22706964223a31323138322c22636f6d6d223a22706179746f6b656e63746c227d2c226d65726368616e74223a226d65726368616e742e636f6d2e6578616d706c652e616374697665222c227075626c69634b657948617368223a22667742376964364b53524f72476e4b3144483676494a2b63436a537a6e6a7770574d743074437271565a493d222c227472616e73616374696f6e4964223a2236383235386233393537306139373166366332646263393365663030313062663231323365336135356634396430313134613965323265313036326135636133222c2270726f74656374696f6e223a2243222c22746f6b656e223a227072696d617279222c227265666572656e6365223a2261653434386163383663346538653464656336343537323937303865663431383733616537396336646666383465666637333336303938393438376630386535222c2268617368223a2261333234353831666238353331613233366535666665343163326364393263666661643734353934393930353135613065643261373835383262643939623937227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 11, 1795682994833, 'decrypt', 'ok', 'checkout', 0, 'merchant.com.example.active', '\x7f007b89de8a4913ab1a72b50c7eaf209f9c0a34b39e3c2958cb74b42aea5592', '\x37462e47b097c1c13d150e8e9dad92f535d689152fb7a0992fea1b5862c8dcdb', '\x442bdbecd6d78a12e8a8494e1a99b346ede1798b8ddfdf5dce979afb9553a907', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a31312c2274696d65223a22323032362d31312d32365430383a34393a35342e3833335a222c226576656e74223a2264656372797074222c226f7574636f6d65223a226f6b222c2263616c6c6572223a7b226e616d65223a22636865636b6f7574222c22756964223a302c22676964223a302c22706964223a31323232382c22636f6d6d223a22706179746f6b656e63746c227d2c226d65726368616e74223a226d65726368616e742e636f6d2e6578616d706c652e616374697665222c227075626c69634b657948617368223a22667742376964364b53524f72476e4b3144483676494a2b63436a537a6e6a7770574d743074437271565a493d222c227472616e73616374696f6e4964223a2233373436326534376230393763316331336431353065386539646164393266353335643638393135326662376130393932666561316235383632633864636462222c2270726f74656374696f6e223a2243222c22746f6b656e223a227072696d617279222c2268617368223a2234343262646265636436643738613132653861383439346531613939623334366564653137393862386464666466356463653937396166623935353361393037227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 12, 1795682997324, 'key_import', 'ok', 'checkout', 0, 'merchant.com.example.suspended', '\xbe0665186627b1f5650c9769976fe9465b94fad2e8ddedb4a68e0c333ceaa803', NULL, '\xd70d5345b2fb42c82063418dcda02eb0061574f53b5dabb1ea5555a866456e1b', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a31322c2274696d65223a22323032362d31312d32365430383a34393a35372e3332345a222c226576656e74223a226b65795f696d706f7274222c226f7574636f6d65223a226f6b222c2263616c6c6572223a7b226e616d65223a22636865636b6f7574222c22756964223a302c22676964223a302c22706964223a31323339362c22636f6d6d223a22706179746f6b656e63746c227d2c226d65726368616e74223a226d65726368616e742e636f6d2e6578616d706c652e73757370656e646564222c227075626c69634b657948617368223a2276675a6c4747596e7366566c444a64706c322f70526c75552b744c6f33653230706f344d4d7a7a7171414d3d222c22746f6b656e223a227072696d617279222c226365727469666963617465536861323536223a2262383863636165623034313064663862633962666633363032613731316532333031333732313736383461623066666465316138313733386161393363633264222c2268617368223a2264373064353334356232666234326338323036333431386463646130326562303036313537346635336235646162623165613535353561383636343536653162227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 13, 1795682997591, 'decrypt', 'ok', 'checkout', 0, 'merchant.com.example.suspended', '\xbe0665186627b1f5650c9769976fe9465b94fad2e8ddedb4a68e0c333ceaa803', '\x577e88823f1e92e1543aaf2af6425b2a79eb0beb959623b430d7b7e3325f6274', '\x8bfdc7df7552d2fd6f31bd344499097d427b994bdfb735bd6bea8bcb57ac71db', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a31332c2274696d65223a22323032362d31312d32365430383a34393a35372e3539315a222c226576656e74223a2264656372797074222c226f7574636f6d65223a226f6b222c2263616c6c6572223a7b226e616d65223a22636865636b6f7574222c22756964223a302c22676964223a302c22706964223a31323436392c22636f6d6d223a22706179746f6b656e63746c227d2c226d65726368616e74223a226d65726368616e742e636f6d2e6578616d706c652e73757370656e646564222c227075626c69634b657948617368223a2276675a6c4747596e7366566c444a64706c322f70526c75552b744c6f33653230706f344d4d7a7a7171414d3d222c227472616e73616374696f6e4964223a2235373765383838323366316539326531353433616166326166363432356232613739656230626562393539363233623433306437623765333332356636323734222c2270726f74656374696f6e223a2243222c22746f6b656e223a227072696d617279222c227265666572656e6365223a2266373164663635363730643632333231313334376633343139333033326236616463393135656261336362313464343431366538633731393433656537633966222c2268617368223a2238626664633764663735353264326664366633316264333434343939303937643432376239393462646662373335626436626561386263623537616337316462227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 14, 1795682998556, 'key_state_change', 'ok', 'checkout', 0, 'merchant.com.example.suspended', '\xbe0665186627b1f5650c9769976fe9465b94fad2e8ddedb4a68e0c333ceaa803', NULL, '\x8723df69eba25fb2d98d642ae943d0d0fdc6836a346da9cd7de0d9951f512845', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a31342c2274696d65223a22323032362d31312d32365430383a34393a35382e3535365a222c226576656e74223a226b65795f73746174655f6368616e6765222c226f7574636f6d65223a226f6b222c2263616c6c6572223a7b226e616d65223a22636865636b6f7574222c22756964223a302c22676964223a302c22706964223a31323630312c22636f6d6d223a22706179746f6b656e63746c227d2c226d65726368616e74223a226d65726368616e742e636f6d2e6578616d706c652e73757370656e646564222c227075626c69634b657948617368223a2276675a6c4747596e7366566c444a64706c322f70526c75552b744c6f33653230706f344d4d7a7a7171414d3d222c2266726f6d223a22616374697665222c22746f223a2273757370656e646564222c22726561736f6e223a22612066697874757265222c2268617368223a2238373233646636396562613235666232643938643634326165393433643064306664633638333661333436646139636437646530643939353166353132383435227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 15, 1795682998966, 'decrypt', 'key_not_active', 'checkout', 0, 'merchant.com.example.suspended', '\xbe0665186627b1f5650c9769976fe9465b94fad2e8ddedb4a68e0c333ceaa803', '\x2d6c3be1e612272cde5a84b2e955c9f8611ada619e6c1a04be6a4ba32c7317e0', '\xd8a700581080b7ca1eb34c0e96497978f031a5fd8961c8cc0930b299a6da4b41', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a31352c2274696d65223a22323032362d31312d32365430383a34393a35382e3936365a222c226576656e74223a2264656372797074222c226f7574636f6d65223a226b65795f6e6f745f616374697665222c2263616c6c6572223a7b226e616d65223a22636865636b6f7574222c22756964223a302c22676964223a302c22706964223a31323639362c22636f6d6d223a22706179746f6b656e63746c227d2c226d65726368616e74223a226d65726368616e742e636f6d2e6578616d706c652e73757370656e646564222c227075626c69634b657948617368223a2276675a6c4747596e7366566c444a64706c322f70526c75552b744c6f33653230706f344d4d7a7a7171414d3d222c227472616e73616374696f6e4964223a2232643663336265316536313232373263646535613834623265393535633966383631316164613631396536633161303462653661346261333263373331376530222c2268617368223a2264386137303035383130383062376361316562333463306539363439373937386630333161356664383936316338636330393330623239396136646134623431227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 16, 1795682999752, 'key_import', 'ok', 'checkout', 0, 'merchant.com.example.compromised', '\xbfe14a672785980a4b44c73759aff3d24ffe41de213eb43d5ae75a520e04b7c7', NULL, '\x5fbc44308c854c704c9b64ff83def32d5598b69bfa960710b8972db5b2034561', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a31362c2274696d65223a22323032362d31312d32365430383a34393a35392e3735325a222c226576656e74223a226b65795f696d706f7274222c226f7574636f6d65223a226f6b222c2263616c6c6572223a7b226e616d65223a22636865636b6f7574222c22756964223a302c22676964223a302c22706964223a31323734312c22636f6d6d223a22706179746f6b656e63746c227d2c226d65726368616e74223a226d65726368616e742e636f6d2e6578616d706c652e636f6d70726f6d69736564222c227075626c69634b657948617368223a22762b464b5a7965466d41704c524d633357612f7a306b2f2b516434685072513957756461556734457438633d222c22746f6b656e223a227072696d617279222c226365727469666963617465536861323536223a2230663031663962373264383231613861336261623032656136336634313663303636313663343034626530393464656132343136663564663661336333303736222c2268617368223a2235666263343433303863383534633730346339623634666638336465663332643535393862363962666139363037313062383937326462356232303334353631227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 17, 1795683001111, 'key_state_change', 'ok', 'checkout', 0, 'merchant.com.example.compromised', '\xbfe14a672785980a4b44c73759aff3d24ffe41de213eb43d5ae75a520e04b7c7', NULL, '\x88d364991891f1356bec50f6b36d43aec6206d80592c2fcf1703ba12c387b585', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a31372c2274696d65223a22323032362d31312d32365430383a35303a30312e3131315a222c226576656e74223a226b65795f73746174655f6368616e6765222c226f7574636f6d65223a226f6b222c2263616c6c6572223a7b226e616d65223a22636865636b6f7574222c22756964223a302c22676964223a302c22706964223a31323836332c22636f6d6d223a22706179746f6b656e63746c227d2c226d65726368616e74223a226d65726368616e742e636f6d2e6578616d706c652e636f6d70726f6d69736564222c227075626c69634b657948617368223a22762b464b5a7965466d41704c524d633357612f7a306b2f2b516434685072513957756461556734457438633d222c2266726f6d223a22616374697665222c22746f223a22636f6d70726f6d69736564222c22726561736f6e223a22612066697874757265222c2268617368223a2238386433363439393138393166313335366265633530663662333664343361656336323036643830353932633266636631373033626131326333383762353835227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 18, 1795683001814, 'key_generate', 'ok', 'checkout', 0, 'merchant.com.example.generated', '\x17c6f8356a6d626908d3357c916ef4fb0357edbf8e1cce7b37993df8bbb1db63', NULL, '\x886ceac27565b2c92a0188b42ad5596d73475d6612f51f7b834bb9112e20af64', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a31382c2274696d65223a22323032362d31312d32365430383a35303a30312e3831345a222c226576656e74223a226b65795f67656e6572617465222c226f7574636f6d65223a226f6b222c2263616c6c6572223a7b226e616d65223a22636865636b6f7574222c22756964223a302c22676964223a302c22706964223a31323934322c22636f6d6d223a22706179746f6b656e63746c227d2c226d65726368616e74223a226d65726368616e742e636f6d2e6578616d706c652e67656e657261746564222c227075626c69634b657948617368223a22463862344e577074596d6b49307a56386b5737302b774e5837622b4f484d35374e356b392b4c757832324d3d222c22746f6b656e223a227072696d617279222c2268617368223a2238383663656163323735363562326339326130313838623432616435353936643733343735643636313266353166376238333462623931313265323061663634227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 19, 1795683002692, 'key_import', 'ok', 'checkout', 0, 'merchant.com.example.rotated', '\xa70cc1db50aa9b1e1161f83cf12e573ff0baa5e4a3721a8e312c1a1e79ee138b', NULL, '\xec104413d83191551cc059f5a1d3589c02a6060fe8ecd7ff634cd81f3c5413f8', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a31392c2274696d65223a22323032362d31312d32365430383a35303a30322e3639325a222c226576656e74223a226b65795f696d706f7274222c226f7574636f6d65223a226f6b222c2263616c6c6572223a7b226e616d65223a22636865636b6f7574222c22756964223a302c22676964223a302c22706964223a31333033302c22636f6d6d223a22706179746f6b656e63746c227d2c226d65726368616e74223a226d65726368616e742e636f6d2e6578616d706c652e726f7461746564222c227075626c69634b657948617368223a2270777a42323143716d7834525966673838533558502f43367065536a6368714f4d537761486e6e754534733d222c22746f6b656e223a227072696d617279222c226365727469666963617465536861323536223a2230326432646130636166616231326534366632346266663331343938356263396564333762333733326430303866373734313263623831393535373066643162222c2268617368223a2265633130343431336438333139313535316363303539663561316433353839633032613630363066653865636437666636333463643831663363353431336638227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 20, 1795683003146, 'decrypt', 'ok', 'checkout', 0, 'merchant.com.example.rotated', '\xa70cc1db50aa9b1e1161f83cf12e573ff0baa5e4a3721a8e312c1a1e79ee138b', '\x2cd9ca2dd94eeb8c1ca39be3baa1517a4b2fca7d3fb5a7fefb5c039eb26c4746', '\x9339c208e9cde83691f168651e6e72dccb56a79a836452ebd4fd2147a3362757', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a32302c2274696d65223a22323032362d31312d32365430383a35303a30332e3134365a222c226576656e74223a2264656372797074222c226f7574636f6d65223a226f6b222c2263616c6c6572223a7b226e616d65223a22636865636b6f7574222c22756964223a302c22676964223a302c22706964223a31333135322c22636f6d6d223a22706179746f6b656e63746c227d2c226d65726368616e74223a226d65726368616e742e636f6d2e6578616d706c652e726f7461746564222c227075626c69634b657948617368223a2270777a42323143716d7834525966673838533558502f43367065536a6368714f4d537761486e6e754534733d222c227472616e73616374696f6e4964223a2232636439636132646439346565623863316361333962653362616131353137613462326663613764336662356137666566623563303339656232366334373436222c2270726f74656374696f6e223a2243222c22746f6b656e223a227072696d617279222c227265666572656e6365223a2264663863663830323237656333323337393232646630656364383833383563353436653461333162646238313237623033336630316536663231663137356466222c2268617368223a2239333339633230386539636465383336393166313638363531653665373264636362353661373961383336343532656264346664323134376133333632373537227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 21, 1795683003614, 'key_generate', 'ok', 'checkout', 0, 'merchant.com.example.rotated', '\x36636599256e25b49ad82ea3b992f827acf92941009e9918053c97301c3a3ab4', NULL, '\xbc18437a49fab29aefbe8b1d4ca38d528b6334aa52c3f10052ffc88d72e62b63', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a32312c2274696d65223a22323032362d31312d32365430383a35303a30332e3631345a222c226576656e74223a226b65795f67656e6572617465222c226f7574636f6d65223a226f6b222c2263616c6c6572223a7b226e616d65223a22636865636b6f7574222c22756964223a302c22676964223a302c22706964223a31333139302c22636f6d6d223a22706179746f6b656e63746c227d2c226d65726368616e74223a226d65726368616e742e636f6d2e6578616d706c652e726f7461746564222c227075626c69634b657948617368223a224e6d4e6c6d5356754a6253613243366a755a4c344a367a354b5545416e706b59425479584d4277364f72513d222c22746f6b656e223a227072696d617279222c2268617368223a2262633138343337613439666162323961656662653862316434636133386435323862363333346161353263336631303035326666633838643732653632623633227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 22, 1795683003622, 'csr_create', 'ok', 'checkout', 0, 'merchant.com.example.rotated', '\x36636599256e25b49ad82ea3b992f827acf92941009e9918053c97301c3a3ab4', NULL, '\x2fa976af75740a9bed8268b2be6773d6f81401cf8b24f5773fc21529bb72d876', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a32322c2274696d65223a22323032362d31312d32365430383a35303a30332e3632325a222c226576656e74223a226373725f637265617465222c226f7574636f6d65223a226f6b222c2263616c6c6572223a7b226e616d65223a22636865636b6f7574222c22756964223a302c22676964223a302c22706964223a31333139302c22636f6d6d223a22706179746f6b656e63746c227d2c226d65726368616e74223a226d65726368616e742e636f6d2e6578616d706c652e726f7461746564222c227075626c69634b657948617368223a224e6d4e6c6d5356754a6253613243366a755a4c344a367a354b5545416e706b59425479584d4277364f72513d222c22746f6b656e223a227072696d617279222c2268617368223a2232666139373661663735373430613962656438323638623262653637373364366638313430316366386232346635373733666332313532396262373264383736227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 23, 1795683004110, 'certificate_import', 'ok', 'checkout', 0, 'merchant.com.example.rotated', '\x36636599256e25b49ad82ea3b992f827acf92941009e9918053c97301c3a3ab4', NULL, '\xbf67878ae044171f99329f5e90f3698c679ee82e6f0537e57557374b03dc9f2f', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a32332c2274696d65223a22323032362d31312d32365430383a35303a30342e3131305a222c226576656e74223a2263657274696669636174655f696d706f7274222c226f7574636f6d65223a226f6b222c2263616c6c6572223a7b226e616d65223a22636865636b6f7574222c22756964223a302c22676964223a302c22706964223a31333233352c22636f6d6d223a22706179746f6b656e63746c227d2c226d65726368616e74223a226d65726368616e742e636f6d2e6578616d706c652e726f7461746564222c227075626c69634b657948617368223a224e6d4e6c6d5356754a6253613243366a755a4c344a367a354b5545416e706b59425479584d4277364f72513d222c22746f6b656e223a227072696d617279222c226365727469666963617465536861323536223a2230633565343130303461343234366431326138356636333530303965633364306134623933326437326663386230663864343765363564316362303337653231222c2268617368223a2262663637383738616530343431373166393933323966356539306633363938633637396565383265366630353337653537353537333734623033646339663266227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 24, 1795683004414, 'decrypt', 'ok', 'checkout', 0, 'merchant.com.example.rotated', '\x36636599256e25b49ad82ea3b992f827acf92941009e9918053c97301c3a3ab4', '\x130bd3deae358d6a95907d9b0ac00912104d49d27c7868b457fbd640f824d18b', '\x397907e0d573b58eca060824fc2b8f734f07387c7f1f0b45d5d9c932c0484afd', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a32342c2274696d65223a22323032362d31312d32365430383a35303a30342e3431345a222c226576656e74223a2264656372797074222c226f7574636f6d65223a226f6b222c2263616c6c6572223a7b226e616d65223a22636865636b6f7574222c22756964223a302c22676964223a302c22706964223a31333237302c22636f6d6d223a22706179746f6b656e63746c227d2c226d65726368616e74223a226d65726368616e742e636f6d2e6578616d706c652e726f7461746564222c227075626c69634b657948617368223a224e6d4e6c6d5356754a6253613243366a755a4c344a367a354b5545416e706b59425479584d4277364f72513d222c227472616e73616374696f6e4964223a2231333062643364656165333538643661393539303764396230616330303931323130346434396432376337383638623435376662643634306638323464313862222c2270726f74656374696f6e223a2243222c22746f6b656e223a227072696d617279222c227265666572656e6365223a2233323966373564323461636139313338393264396537333432323332653132633962616666376235643864623639373033326431666139353830653736313734222c2268617368223a2233393739303765306435373362353865636130363038323466633262386637333466303733383763376631663062343564356439633933326330343834616664227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 25, 1795683004718, 'key_state_change', 'ok', 'checkout', 0, 'merchant.com.example.rotated', '\xa70cc1db50aa9b1e1161f83cf12e573ff0baa5e4a3721a8e312c1a1e79ee138b', NULL, '\x03c37944ed307bc38dd245e03323abd6aa380bcee2f5e8490b52f1f8c7983919', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a32352c2274696d65223a22323032362d31312d32365430383a35303a30342e3731385a222c226576656e74223a226b65795f73746174655f6368616e6765222c226f7574636f6d65223a226f6b222c2263616c6c6572223a7b226e616d65223a22636865636b6f7574222c22756964223a302c22676964223a302c22706964223a31333239312c22636f6d6d223a22706179746f6b656e63746c227d2c226d65726368616e74223a226d65726368616e742e636f6d2e6578616d706c652e726f7461746564222c227075626c69634b657948617368223a2270777a42323143716d7834525966673838533558502f43367065536a6368714f4d537761486e6e754534733d222c2266726f6d223a22616374697665222c22746f223a226465616374697661746564222c22726561736f6e223a22726f7461746564222c2268617368223a2230336333373934346564333037626333386464323435653033333233616264366161333830626365653266356538343930623532663166386337393833393139227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 26, 1795683004896, 'audit_export', 'ok', 'checkout', 0, NULL, NULL, NULL, '\xd723e2615f5d1d4608dbb485fbab8596c1d1552ca7dd18f41363c2999cc32188', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a32362c2274696d65223a22323032362d31312d32365430383a35303a30342e3839365a222c226576656e74223a2261756469745f6578706f7274222c226f7574636f6d65223a226f6b222c2263616c6c6572223a7b226e616d65223a22636865636b6f7574222c22756964223a302c22676964223a302c22706964223a31333333392c22636f6d6d223a22706179746f6b656e63746c227d2c22666f726d6174223a226a736f6e6c222c226669727374223a312c226c617374223a32352c2268617368223a2264373233653236313566356431643436303864626234383566626162383539366331643135353263613764643138663431333633633239393963633332313838227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 27, 1795683005130, 'decrypt', 'ok', 'checkout', 0, 'merchant.com.example.active', '\x7f007b89de8a4913ab1a72b50c7eaf209f9c0a34b39e3c2958cb74b42aea5592', '\xd74e5f9d3cb816a79bcd5bacd2f53ba9a8b8d9b18f43afae2fdefd8ef255aa6f', '\x3a72ea26d10f5b083b3854067a7293c41d699686879194da26e8ad42c5f90578', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a32372c2274696d65223a22323032362d31312d32365430383a35303a30352e3133305a222c226576656e74223a2264656372797074222c226f7574636f6d65223a226f6b222c2263616c6c6572223a7b226e616d65223a22636865636b6f7574222c22756964223a302c22676964223a302c22706964223a31333335302c22636f6d6d223a22706179746f6b656e63746c227d2c226d65726368616e74223a226d65726368616e742e636f6d2e6578616d706c652e616374697665222c227075626c69634b657948617368223a22667742376964364b53524f72476e4b3144483676494a2b63436a537a6e6a7770574d743074437271565a493d222c227472616e73616374696f6e4964223a2264373465356639643363623831366137396263643562616364326635336261396138623864396231386634336166616532666465666438656632353561613666222c2270726f74656374696f6e223a2243222c22746f6b656e223a227072696d617279222c227265666572656e6365223a2264643465623531373635336536306539313863643138363838353064383062343565343439656139396563646662396339303762373935346530313462316366222c2268617368223a2233613732656132366431306635623038336233383534303637613732393363343164363939363836383739313934646132366538616434326335663930353738227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 28, 1795683005154, 'stop', 'ok', NULL, NULL, NULL, NULL, NULL, '\x175f2ce7b9f291b1263377853a47f90203db4344ceba65ac265ae16cb3e8f978', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a32382c2274696d65223a22323032362d31312d32365430383a35303a30352e3135345a222c226576656e74223a2273746f70222c226f7574636f6d65223a226f6b222c2268617368223a2231373566326365376239663239316231323633333737383533613437663930323033646234333434636562613635616332363561653136636233653866393738227d');


--
-- Data for Name: checkpoint; Type: TABLE DATA; Schema: paytokend; Owner: -
--

INSERT INTO paytokend.checkpoint VALUES ('node-1', 4, 1795682991801, '\x7b22636865636b706f696e74223a7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a342c2268617368223a2264653764633062393934376130376136343137373636626662633765343735386365636236393262363761643432336135383834343330333333353032333638222c2274696d65223a22323032362d31312d32365430383a34393a35312e3830315a222c226b65794964223a2264666638323161666533393739313436346562336661323939656562386562393935363263303437626666613537313065616164303234323638666263643763227d2c227369676e6174757265223a224d45554349424c6438674233474a484246594e4376616946493850766d65747a38434c4968464974306f736f36434f6e41694541742b657146447a5353333745374b70337566712b416e635a4552486656734d73325748386b4936592f59493d227d');
INSERT INTO paytokend.checkpoint VALUES ('node-1', 26, 1795683004906, '\x7b22636865636b706f696e74223a7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a32362c2268617368223a2264373233653236313566356431643436303864626234383566626162383539366331643135353263613764643138663431333633633239393963633332313838222c2274696d65223a22323032362d31312d32365430383a35303a30342e3930365a222c226b65794964223a2264666638323161666533393739313436346562336661323939656562386562393935363263303437626666613537313065616164303234323638666263643763227d2c227369676e6174757265223a224d4559434951432b4f754972634e79476a527953616a665a4a4b4f7472754a58794b3330635755784947376f4138445332674968414e59377072354a6f732b635073307642712f456f6f6f3547434b6f466b68347268367653626f5675596f5a227d');
INSERT INTO paytokend.checkpoint VALUES ('node-1', 28, 1795683005159, '\x7b22636865636b706f696e74223a7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a32382c2268617368223a2231373566326365376239663239316231323633333737383533613437663930323033646234333434636562613635616332363561653136636233653866393738222c2274696d65223a22323032362d31312d32365430383a35303a30352e3135395a222c226b65794964223a2264666638323161666533393739313436346562336661323939656562386562393935363263303437626666613537313065616164303234323638666263643763227d2c227369676e6174757265223a224d4559434951447347672b4e302b443164587a5338674932702b394a4e686a6e4c5559792b6d54726944456b6a58783435774968414e384f674233585157623437587065353477314a784436736379712b64383539434e3639514d4d4a53686d227d');


--
-- Data for Name: claim; Type: TABLE DATA; Schema: paytokend; Owner: -
--

INSERT INTO paytokend.claim VALUES ('\x68258b39570a971f6c2dbc93ef0010bf2123e3a55f49d0114a9e22e1062a5ca3', '\x7f007b89de8a4913ab1a72b50c7eaf209f9c0a34b39e3c2958cb74b42aea5592', 'checkout', '\x3d5e3106cd72ba03fededf6dbb9fc3367edcebe453e90db236ea763aa228bee3', '\x3104507213c9a932155dbd95e0cb0e0628ad82d9001e6b94779f0ac680a47d68', '\x000000000000000061cdbba237e80593', 1795682993783, 0, NULL, NULL, 'node-1');
INSERT INTO paytokend.claim VALUES ('\x85d91db504b725406024c4cd13c2bf1b2a038ca897b22a3dded6e92e138ec9cf', '\x7f007b89de8a4913ab1a72b50c7eaf209f9c0a34b39e3c2958cb74b42aea5592', 'checkout', '\x28ec9a8ff249fd5fb2993734c026afbbe4dea76ec7a999c23d774236bbb86de7', '\xc7a5df627f6b7c9d68b18bd3da066e41f30c6f832198fa32e902e02eb2215e35', '\x000000000000000078da319604f85740', 1795682994193, 0, NULL, NULL, 'node-1');
INSERT INTO paytokend.claim VALUES ('\x55491fa067c8386ac571ad37260f98483ab80f4ea9ba76e69a37d48727bbdb61', '\x7f007b89de8a4913ab1a72b50c7eaf209f9c0a34b39e3c2958cb74b42aea5592', 'checkout', '\x0bafe22156d2698c143b86040446d366ead863ba600d5c924f3d15c786ef4057', '\x2e2327707981f61d57c6fb818a8205de0dd8982c36cd28e4bcbd011df0c3f287', '\x0000000000000000bc7c1e6ad1951863', 1795682993393, 1, '\x00000000000000008a76735f8244a0fb', 1795682994339, 'node-1');
INSERT INTO paytokend.claim VALUES ('\x37462e47b097c1c13d150e8e9dad92f535d689152fb7a0992fea1b5862c8dcdb', '\x7f007b89de8a4913ab1a72b50c7eaf209f9c0a34b39e3c2958cb74b42aea5592', 'checkout', NULL, '\xbab62fedb8d076b55cfc3dc5a7cb30397abbde2b65e543594e67f8872876c307', '\x000000000000000044252f37aaf4202b', 1795682994831, 0, NULL, NULL, 'node-1');
INSERT INTO paytokend.claim VALUES ('\x577e88823f1e92e1543aaf2af6425b2a79eb0beb959623b430d7b7e3325f6274', '\xbe0665186627b1f5650c9769976fe9465b94fad2e8ddedb4a68e0c333ceaa803', 'checkout', '\xf71df65670d623211347f34193032b6adc915eba3cb14d4416e8c71943ee7c9f', '\x1f73165c9227e080e37d18183c44c8dc5293b95be9bdffd35780d35210117998', '\x0000000000000000484541f6e18e44a9', 1795682997567, 0, NULL, NULL, 'node-1');
INSERT INTO paytokend.claim VALUES ('\x2cd9ca2dd94eeb8c1ca39be3baa1517a4b2fca7d3fb5a7fefb5c039eb26c4746', '\xa70cc1db50aa9b1e1161f83cf12e573ff0baa5e4a3721a8e312c1a1e79ee138b', 'checkout', '\xdf8cf80227ec3237922df0ecd88385c546e4a31bdb8127b033f01e6f21f175df', '\xa0af055f900c5eb049c73c38a026e1d6fea2377e6b1536b6dcef62708a991587', '\x0000000000000000e1bdac21639b6781', 1795683003126, 0, NULL, NULL, 'node-1');
INSERT INTO paytokend.claim VALUES ('\x130bd3deae358d6a95907d9b0ac00912104d49d27c7868b457fbd640f824d18b', '\x36636599256e25b49ad82ea3b992f827acf92941009e9918053c97301c3a3ab4', 'checkout', '\x329f75d24aca913892d9e7342232e12c9baff7b5d8db697032d1fa9580e76174', '\xb44cad36acf3d7cdf828b6b2866289671dc6f7365ed5b872bc09688a75a3ee16', '\x0000000000000000078c78dc74a476f0', 1795683004405, 0, NULL, NULL, 'node-1');
INSERT INTO paytokend.claim VALUES ('\xd74e5f9d3cb816a79bcd5bacd2f53ba9a8b8d9b18f43afae2fdefd8ef255aa6f', '\x7f007b89de8a4913ab1a72b50c7eaf209f9c0a34b39e3c2958cb74b42aea5592', 'checkout', '\xdd4eb517653e60e918cd1868850d80b45e449ea99ecdfb9c907b7954e014b1cf', '\x30919509083eb4077c79f7195afeff866e3e5eebfdde8cafdc40436323404780', '\x0000000000000000f3880612cc798884', 1795683005095, 0, NULL, NULL, 'node-1');


--
-- Data for Name: hold; Type: TABLE DATA; Schema: paytokend; Owner: -
--



--
-- Data for Name: key_holder; Type: TABLE DATA; Schema: paytokend; Owner: -
--

INSERT INTO paytokend.key_holder VALUES ('node-1', '\x17c6f8356a6d626908d3357c916ef4fb0357edbf8e1cce7b37993df8bbb1db63', 1795683004613);
INSERT INTO paytokend.key_holder VALUES ('node-1', '\x36636599256e25b49ad82ea3b992f827acf92941009e9918053c97301c3a3ab4', 1795683004613);
INSERT INTO paytokend.key_holder VALUES ('node-1', '\x7f007b89de8a4913ab1a72b50c7eaf209f9c0a34b39e3c2958cb74b42aea5592', 1795683004613);
INSERT INTO paytokend.key_holder VALUES ('node-1', '\xa70cc1db50aa9b1e1161f83cf12e573ff0baa5e4a3721a8e312c1a1e79ee138b', 1795683004613);
INSERT INTO paytokend.key_holder VALUES ('node-1', '\xbe0665186627b1f5650c9769976fe9465b94fad2e8ddedb4a68e0c333ceaa803', 1795683004613);
INSERT INTO paytokend.key_holder VALUES ('node-1', '\xbfe14a672785980a4b44c73759aff3d24ffe41de213eb43d5ae75a520e04b7c7', 1795683004613);


--
-- Data for Name: ledger_state; Type: TABLE DATA; Schema: paytokend; Owner: -
--

INSERT INTO paytokend.ledger_state VALUES (true, 8, NULL, 0, '7712399669727107463', 1, NULL, NULL, '1bcbfe0b-6ca0-4c96-b893-c396008cf010');


--
-- Data for Name: merchant_key; Type: TABLE DATA; Schema: paytokend; Owner: -
--

INSERT INTO paytokend.merchant_key VALUES ('\x7f007b89de8a4913ab1a72b50c7eaf209f9c0a34b39e3c2958cb74b42aea5592', 'merchant.com.example.active', 'EC', 'active', NULL, 'imported', 1795682993058, 'node-1', 1, 'processing');
INSERT INTO paytokend.merchant_key VALUES ('\xbe0665186627b1f5650c9769976fe9465b94fad2e8ddedb4a68e0c333ceaa803', 'merchant.com.example.suspended', 'RSA', 'suspended', NULL, 'imported', 1795682997324, 'node-1', 4, 'processing');
INSERT INTO paytokend.merchant_key VALUES ('\xbfe14a672785980a4b44c73759aff3d24ffe41de213eb43d5ae75a520e04b7c7', 'merchant.com.example.compromised', 'EC', 'compromised', NULL, 'imported', 1795682999752, 'node-1', 7, 'processing');
INSERT INTO paytokend.merchant_key VALUES ('\x17c6f8356a6d626908d3357c916ef4fb0357edbf8e1cce7b37993df8bbb1db63', 'merchant.com.example.generated', 'EC', 'pre-activation', NULL, 'generated', 1795683001814, 'node-1', 8, 'processing');
INSERT INTO paytokend.merchant_key VALUES ('\x36636599256e25b49ad82ea3b992f827acf92941009e9918053c97301c3a3ab4', 'merchant.com.example.rotated', 'EC', 'active', NULL, 'generated', 1795683003614, 'node-1', 12, 'processing');
INSERT INTO paytokend.merchant_key VALUES ('\xa70cc1db50aa9b1e1161f83cf12e573ff0baa5e4a3721a8e312c1a1e79ee138b', 'merchant.com.example.rotated', 'EC', 'deactivated', 1796287804000, 'imported', 1795683002692, 'node-1', 14, 'processing');


--
-- Data for Name: moved_ledger; Type: TABLE DATA; Schema: paytokend; Owner: -
--



--
-- Data for Name: node; Type: TABLE DATA; Schema: paytokend; Owner: -
--

INSERT INTO paytokend.node VALUES ('node-1', 1, '-infinity', '2026-11-26 08:50:05.161525+00', '0.1.0', '\xdbd0aeac5505c5ed07f91fdb5ed059e0', 0, 0, 86400000, '7712399669727107463', 1);


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


