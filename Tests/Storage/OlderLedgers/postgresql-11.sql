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
-- Name: keep_attempt(); Type: FUNCTION; Schema: paytokend; Owner: -
--

CREATE FUNCTION paytokend.keep_attempt() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path TO 'paytokend', 'pg_temp'
    AS $$
BEGIN
    IF OLD.outcome NOT IN ('intended', 'unknown') THEN
        RAISE EXCEPTION 'the attempt was answered' USING ERRCODE = 'P0001';
    END IF;
    RETURN NEW;
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
    CONSTRAINT merchant_key_key_use_check CHECK ((key_use = ANY (ARRAY['processing'::text, 'identity'::text, 'service'::text]))),
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
-- Name: renewal; Type: TABLE; Schema: paytokend; Owner: -
--

CREATE TABLE paytokend.renewal (
    identifier bytea NOT NULL,
    merchant_identifier text NOT NULL COLLATE pg_catalog."C",
    key_use text NOT NULL COLLATE pg_catalog."C",
    algorithm text NOT NULL COLLATE pg_catalog."C",
    public_key_hash bytea NOT NULL,
    state text NOT NULL COLLATE pg_catalog."C",
    certificate_id text COLLATE pg_catalog."C",
    previous_certificate_id text COLLATE pg_catalog."C",
    request bytea,
    certificate bytea,
    requester_uid bigint NOT NULL,
    requester_name text NOT NULL COLLATE pg_catalog."C",
    started_at bigint NOT NULL,
    ended_at bigint,
    node text NOT NULL COLLATE pg_catalog."C",
    CONSTRAINT renewal_identifier_check CHECK ((length(identifier) = 8)),
    CONSTRAINT renewal_state_check CHECK ((state = ANY (ARRAY['open'::text, 'finished'::text, 'abandoned'::text])))
);


--
-- Name: renewal_attempt; Type: TABLE; Schema: paytokend; Owner: -
--

CREATE TABLE paytokend.renewal_attempt (
    identifier bytea NOT NULL,
    renewal bytea NOT NULL,
    change text NOT NULL COLLATE pg_catalog."C",
    number bigint NOT NULL,
    target text COLLATE pg_catalog."C",
    approval bytea,
    excluded_nodes text NOT NULL COLLATE pg_catalog."C",
    intended_at bigint NOT NULL,
    answered_at bigint,
    outcome text NOT NULL COLLATE pg_catalog."C",
    code text COLLATE pg_catalog."C",
    node text NOT NULL COLLATE pg_catalog."C",
    CONSTRAINT renewal_attempt_change_check CHECK ((change = ANY (ARRAY['create'::text, 'activate'::text, 'revoke'::text]))),
    CONSTRAINT renewal_attempt_identifier_check CHECK ((length(identifier) = 8)),
    CONSTRAINT renewal_attempt_number_check CHECK ((number > 0))
);


--
-- Data for Name: approval; Type: TABLE DATA; Schema: paytokend; Owner: -
--



--
-- Data for Name: archive; Type: TABLE DATA; Schema: paytokend; Owner: -
--



--
-- Data for Name: audit_key; Type: TABLE DATA; Schema: paytokend; Owner: -
--

INSERT INTO paytokend.audit_key VALUES ('node-1', 1, '\x6e6f6465744308fad624634aa8c06854', '\x040a873f18b3f8548c7bf78de6c3826331a9251179ea419b7fb6c8999c93717e42deccebfa6f5c922fa882d63c42bae09663544cd9237d578d0d5d3d52de2dcd0e', 1795767209706, 'primary');


--
-- Data for Name: audit_record; Type: TABLE DATA; Schema: paytokend; Owner: -
--

INSERT INTO paytokend.audit_record VALUES ('node-1', 1, 1795767209406, 'start', 'ok', NULL, NULL, NULL, NULL, NULL, '\xe9916df22ea94cf58b61c85e91257c88cff32f2bfcdb62914beafea0f8da5466', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a312c2274696d65223a22323032362d31312d32375430383a31333a32392e3430365a222c226576656e74223a227374617274222c226f7574636f6d65223a226f6b222c2276657273696f6e223a22302e312e30222c22706179746f6b656e64536861323536223a2236373237383164633065306439336438646134636666373538653435383530326436626637396434313761326336396134623662376230646338396331343038222c22776f726b6572536861323536223a2237313965633864363163653634346666326237366265663364616234353962643736363664653033353034373437386434383162653738313962356137653638222c226d6f64756c6573223a7b227072696d617279223a2231306132336631376263373565363661353563336137623732376164303062366135663335373364613838343161623739396536646139636332303164623765227d2c2268617368223a2265393931366466323265613934636635386236316338356539313235376338386366663332663262666364623632393134626561666561306638646135343636227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 2, 1795767209406, 'configuration_load', 'ok', NULL, NULL, NULL, NULL, NULL, '\x391ef26afdedc6e8b11a470d131a7235307a7ba600693c955784168d8569e6cf', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a322c2274696d65223a22323032362d31312d32375430383a31333a32392e3430365a222c226576656e74223a22636f6e66696775726174696f6e5f6c6f6164222c226f7574636f6d65223a226f6b222c2266696c65536861323536223a2230663464653330636334346537373435373330376163363731393030646233633638393138626335356366643232656662636166636138383738613163396561222c2268617368223a2233393165663236616664656463366538623131613437306431333161373233353330376137626136303036393363393535373834313638643835363965366366227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 3, 1795767209406, 'configuration_values', 'ok', NULL, NULL, NULL, NULL, NULL, '\x91bf45ed5d16ea88623d664f5046dfe8837908437e40881016c81e8d35cf878a', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a332c2274696d65223a22323032362d31312d32375430383a31333a32392e3430365a222c226576656e74223a22636f6e66696775726174696f6e5f76616c756573222c226f7574636f6d65223a226f6b222c2270617274223a312c227061727473223a312c2276616c756573223a7b226163636573732e312e6d65726368616e7473223a222a222c226163636573732e312e6e616d65223a22636865636b6f7574222c226163636573732e312e726571756972655f6578706563746564223a22222c226163636573732e312e726f6c6573223a22646563727970742c2061756469742c2061646d696e222c226163636573732e312e756964223a2230222c226163636573732e312e75736572223a22726f6f74222c22617070726f76616c732e657870697265223a223164222c22617070726f76616c732e70656f706c65223a2232222c226c65646765722e656e67696e65223a22706f737467726573716c222c226c65646765722e6e6f6465223a226e6f64652d31222c226c65646765722e7265706561745f666f72223a223164222c226c65646765722e726571756972655f7374616e646279223a2266616c7365222c226c65646765722e72657461696e5f636c61696d73223a2231383064222c226c65646765722e72657461696e5f7265636f726473223a226f6666222c226c65646765722e736572766572223a222f746d702f706179746f6b656e642d666978747572652e6139734867442f6c6564676572222c226c65646765722e74696d656f7574223a22313073222c226c65646765722e75736572223a22706179746f6b656e64222c226c697374656e65722e61646d696e5f6d6f6465223a2230363030222c226c697374656e65722e61646d696e5f736f636b6574223a222f746d702f706179746f6b656e642e64596f6979732f61646d696e2e736f636b222c226c697374656e65722e69646c655f74696d656f7574223a22316d222c226c697374656e65722e6d61785f636f6e6e656374696f6e73223a22353132222c226c697374656e65722e6d61785f636f6e6e656374696f6e735f7065725f756964223a22313238222c226c697374656e65722e6d61785f726571756573745f6279746573223a223635353336222c226c697374656e65722e6d6f6465223a2230363630222c226c697374656e65722e736f636b6574223a222f746d702f706179746f6b656e642e64596f6979732f706179746f6b656e642e736f636b222c226c6f672e666f726d6174223a2274657874222c226c6f672e6c6576656c223a22696e666f222c2272656e6577616c2e697373756572223a2235373234363534322d393666652d316136332d653035332d303832346430313130373261222c2272656e6577616c2e6b65795f6964223a2232583952344858463334222c22746f6b656e732e31223a227072696d617279222c22746f6b656e732e7072696d6172792e616c6c6f775f6578747261637461626c655f736563726574223a2274727565222c22746f6b656e732e7072696d6172792e63616c6c5f74696d656f7574223a22313073222c22746f6b656e732e7072696d6172792e64656e795f73797374656d5f63616c6c73223a22222c22746f6b656e732e7072696d6172792e656e7669726f6e6d656e74223a22534f465448534d325f434f4e46222c22746f6b656e732e7072696d6172792e696e69745f61726773223a22222c22746f6b656e732e7072696d6172792e6d6f64756c65223a222f7573722f6c69622f736f667468736d2f6c6962736f667468736d322e736f222c22746f6b656e732e7072696d6172792e70696e5f66696c65223a222f746d702f706179746f6b656e642e64596f6979732f70696e222c22746f6b656e732e7072696d6172792e72656379636c655f6166746572223a2231303030303030222c22746f6b656e732e7072696d6172792e73657373696f6e73223a2232222c22746f6b656e732e7072696d6172792e757269223a22706b637331313a746f6b656e3d73616e64626f78222c22746f6b656e732e7072696d6172792e7573655f6c6f67223a22222c22746f6b656e732e7072696d6172792e76616c69646174696f6e223a22222c2274727573742e64697374727573746564223a22222c2274727573742e676f6f676c655f706179223a22222c2274727573742e726f6f745f66696c6573223a222f746d702f706179746f6b656e642e64596f6979732f617574686f726974792f726f6f742e70656d222c2274727573742e726f6f7473223a2264663730386164303665386435303438396434383765326136303763326537643763373462646262343636663963346635373334623266326264626231636533222c22766572696669636174696f6e2e7369676e696e675f74696d655f77696e646f77223a223164227d2c2268617368223a2239316266343565643564313665613838363233643636346635303436646665383833373930383433376534303838313031366338316538643335636638373861227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 4, 1795767209924, 'audit_key_change', 'ok', NULL, NULL, NULL, NULL, NULL, '\xc8fda5c7bfb4a416ab8f35060dd08f2665563eb4f1ecdacb4daed7f38a721f0d', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a342c2274696d65223a22323032362d31312d32375430383a31333a32392e3932345a222c226576656e74223a2261756469745f6b65795f6368616e6765222c226f7574636f6d65223a226f6b222c22746f6b656e223a227072696d617279222c22746f223a2232663766313564303937653165666639353261613034323930333434393538626661616332363631393536633936343465353434616237303231326631353931222c2268617368223a2263386664613563376266623461343136616238663335303630646430386632363635353633656234663165636461636234646165643766333861373231663064227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 5, 1795767210447, 'token_attributes', 'ok', NULL, NULL, NULL, NULL, NULL, '\x5b0e4d9edf82f5a394d7bf8169d1095dc604ca99676dbe095d783cef44c43456', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a352c2274696d65223a22323032362d31312d32375430383a31333a33302e3434375a222c226576656e74223a22746f6b656e5f61747472696275746573222c226f7574636f6d65223a226f6b222c22746f6b656e223a227072696d617279222c226c6162656c223a2273616e64626f78222c2273657269616c4e756d626572223a2264616130313638383438633237633338222c226d616e756661637475726572223a22536f667448534d2070726f6a656374222c226d6f64656c223a22536f667448534d207632222c22686172647761726556657273696f6e223a22322e36222c226669726d7761726556657273696f6e223a22322e36222c226c696272617279223a22496d706c656d656e746174696f6e206f6620504b4353313120322e36222c227469657245437631223a2243222c22746965725253417631223a2243222c2268617368223a2235623065346439656466383266356133393464376266383136396431303935646336303463613939363736646265303935643738336365663434633433343536227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 6, 1795767211434, 'key_import', 'ok', 'checkout', 0, 'merchant.com.example.active', '\xef760b4ae35f6bc867954d7c67c3f907f6279785153c3f4abac3be752fe27d13', NULL, '\x4f78b18178f21a29aa1451b5290c4462b4f3d09ca61f6a4b68afa64b0ec4085e', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a362c2274696d65223a22323032362d31312d32375430383a31333a33312e3433345a222c226576656e74223a226b65795f696d706f7274222c226f7574636f6d65223a226f6b222c2263616c6c6572223a7b226e616d65223a22636865636b6f7574222c22756964223a302c22676964223a302c22706964223a333337392c22636f6d6d223a22706179746f6b656e63746c227d2c226d65726368616e74223a226d65726368616e742e636f6d2e6578616d706c652e616374697665222c227075626c69634b657948617368223a223733594c53754e666138686e6c5531385a385035422f596e6c3455565044394b75734f2b64532f6966524d3d222c22746f6b656e223a227072696d617279222c226365727469666963617465536861323536223a2265386134653466653465316338663738383063306566333165633465616263653733633438313438393233363039303363326561613232663131666666366163222c22616c676f726974686d223a224543222c2262697473223a3235362c226f726967696e223a22696d706f72746564222c226365727469666963617465456e64223a22323032382d31322d32355430383a31333a33302e3030305a222c22697373756572223a22433d55532c4f3d546f6b656e20466f7267652c4f553d466f7267652043657274696669636174696f6e20417574686f726974792c434e3d466f72676520576f726c647769646520446576656c6f7065722052656c6174696f6e73204341202d204732222c2268617368223a2234663738623138313738663231613239616131343531623532393063343436326234663364303963613631663661346236386166613634623065633430383565227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 7, 1795767211461, 'key_attributes', 'ok', NULL, NULL, 'merchant.com.example.active', '\xef760b4ae35f6bc867954d7c67c3f907f6279785153c3f4abac3be752fe27d13', NULL, '\xe965c2e5cac757221d893e7368731fdaaf99dba119f874ef6de0e31be7116746', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a372c2274696d65223a22323032362d31312d32375430383a31333a33312e3436315a222c226576656e74223a226b65795f61747472696275746573222c226f7574636f6d65223a226f6b222c226d65726368616e74223a226d65726368616e742e636f6d2e6578616d706c652e616374697665222c227075626c69634b657948617368223a223733594c53754e666138686e6c5531385a385035422f596e6c3455565044394b75734f2b64532f6966524d3d222c22746f6b656e223a227072696d617279222c226b657973223a5b7b22616c676f726974686d223a224543222c2262697473223a3235362c2273656e736974697665223a747275652c226578747261637461626c65223a66616c73652c22616c7761797353656e736974697665223a66616c73652c226e657665724578747261637461626c65223a66616c73652c226c6f63616c223a66616c73652c2273746f726564223a747275652c2270726976617465223a747275652c226d6f6469666961626c65223a747275652c2275736573223a5b22646572697665225d7d5d2c2268617368223a2265393635633265356361633735373232316438393365373336383733316664616166393964626131313966383734656636646530653331626537313136373436227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 8, 1795767211962, 'decrypt', 'ok', 'checkout', 0, 'merchant.com.example.active', '\xef760b4ae35f6bc867954d7c67c3f907f6279785153c3f4abac3be752fe27d13', '\x88877880c61f9e4bbe9458fe733521621b33860e92208b3b29e5003e7f44fa50', '\x52479f6e2523db956896dcd5ae221501e3f7b6fd3581b528817c464ddb4658d1', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a382c2274696d65223a22323032362d31312d32375430383a31333a33312e3936325a222c226576656e74223a2264656372797074222c226f7574636f6d65223a226f6b222c2263616c6c6572223a7b226e616d65223a22636865636b6f7574222c22756964223a302c22676964223a302c22706964223a333434362c22636f6d6d223a22706179746f6b656e63746c227d2c226d65726368616e74223a226d65726368616e742e636f6d2e6578616d706c652e616374697665222c227075626c69634b657948617368223a223733594c53754e666138686e6c5531385a385035422f596e6c3455565044394b75734f2b64532f6966524d3d222c227472616e73616374696f6e4964223a2238383837373838306336316639653462626539343538666537333335323136323162333338363065393232303862336232396535303033653766343466613530222c2270726f74656374696f6e223a2243222c22746f6b656e223a227072696d617279222c227265666572656e6365223a2230626166653232313536643236393863313433623836303430343436643336366561643836336261363030643563393234663364313563373836656634303537222c2268617368223a2235323437396636653235323364623935363839366463643561653232313530316533663762366664333538316235323838313763343634646462343635386431227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 9, 1795767212532, 'decrypt', 'ok', 'checkout', 0, 'merchant.com.example.active', '\xef760b4ae35f6bc867954d7c67c3f907f6279785153c3f4abac3be752fe27d13', '\x71bf2bc360d93fc2aa40a676ebe6d28f43a07e68dcf2a2722a787f94e4d9028b', '\x606b2a5b895b86d90fd3e4e04b8eb5fe79a95c63f7b967de461aa3238a687c65', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a392c2274696d65223a22323032362d31312d32375430383a31333a33322e3533325a222c226576656e74223a2264656372797074222c226f7574636f6d65223a226f6b222c2263616c6c6572223a7b226e616d65223a22636865636b6f7574222c22756964223a302c22676964223a302c22706964223a333438372c22636f6d6d223a22706179746f6b656e63746c227d2c226d65726368616e74223a226d65726368616e742e636f6d2e6578616d706c652e616374697665222c227075626c69634b657948617368223a223733594c53754e666138686e6c5531385a385035422f596e6c3455565044394b75734f2b64532f6966524d3d222c227472616e73616374696f6e4964223a2237316266326263333630643933666332616134306136373665626536643238663433613037653638646366326132373232613738376639346534643930323862222c2270726f74656374696f6e223a2243222c22746f6b656e223a227072696d617279222c227265666572656e6365223a2233643565333130366364373262613033666564656466366462623966633333363765646365626534353365393064623233366561373633616132323862656533222c2268617368223a2236303662326135623839356238366439306664336534653034623865623566653739613935633633663762393637646534363161613332333861363837633635227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 10, 1795767213053, 'decrypt', 'ok', 'checkout', 0, 'merchant.com.example.active', '\xef760b4ae35f6bc867954d7c67c3f907f6279785153c3f4abac3be752fe27d13', '\xd0060112a4eedf33599182b577e063f1679e9faee829d7fed9e3c8f5dabe2780', '\x21d388fb6c9fdc8bc733ec5b761175075f524ad9c5adb42da8a3ee158933dc4f', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a31302c2274696d65223a22323032362d31312d32375430383a31333a33332e3035335a222c226576656e74223a2264656372797074222c226f7574636f6d65223a226f6b222c2263616c6c6572223a7b226e616d65223a22636865636b6f7574222c22756964223a302c22676964223a302c22706964223a333531332c22636f6d6d223a22706179746f6b656e63746c227d2c226d65726368616e74223a226d65726368616e742e636f6d2e6578616d706c652e616374697665222c227075626c69634b657948617368223a223733594c53754e666138686e6c5531385a385035422f596e6c3455565044394b75734f2b64532f6966524d3d222c227472616e73616374696f6e4964223a2264303036303131326134656564663333353939313832623537376530363366313637396539666165653832396437666564396533633866356461626532373830222c2270726f74656374696f6e223a2243222c22746f6b656e223a227072696d617279222c227265666572656e6365223a2232386563396138666632343966643566623239393337333463303236616662626534646561373665633761393939633233643737343233366262623836646537222c2268617368223a2232316433383866623663396664633862633733336563356237363131373530373566353234616439633561646234326461386133656531353839333364633466227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 11, 1795767213381, 'decrypt', 'repeat', 'checkout', 0, 'merchant.com.example.active', '\xef760b4ae35f6bc867954d7c67c3f907f6279785153c3f4abac3be752fe27d13', '\x88877880c61f9e4bbe9458fe733521621b33860e92208b3b29e5003e7f44fa50', '\xf60e1213a28c4e0e024ee5bd6ef42a87de8d9435ade201f7c1c4a982efc36750', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a31312c2274696d65223a22323032362d31312d32375430383a31333a33332e3338315a222c226576656e74223a2264656372797074222c226f7574636f6d65223a22726570656174222c2263616c6c6572223a7b226e616d65223a22636865636b6f7574222c22756964223a302c22676964223a302c22706964223a333534322c22636f6d6d223a22706179746f6b656e63746c227d2c226d65726368616e74223a226d65726368616e742e636f6d2e6578616d706c652e616374697665222c227075626c69634b657948617368223a223733594c53754e666138686e6c5531385a385035422f596e6c3455565044394b75734f2b64532f6966524d3d222c227472616e73616374696f6e4964223a2238383837373838306336316639653462626539343538666537333335323136323162333338363065393232303862336232396535303033653766343466613530222c2270726f74656374696f6e223a2243222c22746f6b656e223a227072696d617279222c227265666572656e6365223a2230626166653232313536643236393863313433623836303430343436643336366561643836336261363030643563393234663364313563373836656634303537222c2268617368223a2266363065313231336132386334653065303234656535626436656634326138376465386439343335616465323031663763316334613938326566633336373530227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 12, 1795767213716, 'decrypt', 'transaction_replayed', 'checkout', 0, 'merchant.com.example.active', '\xef760b4ae35f6bc867954d7c67c3f907f6279785153c3f4abac3be752fe27d13', '\x71bf2bc360d93fc2aa40a676ebe6d28f43a07e68dcf2a2722a787f94e4d9028b', '\x1ab6489a43f993cfd54037c9a2bb426ec1d37bde84f6bef3f1b456b0444e041f', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a31322c2274696d65223a22323032362d31312d32375430383a31333a33332e3731365a222c226576656e74223a2264656372797074222c226f7574636f6d65223a227472616e73616374696f6e5f7265706c61796564222c2263616c6c6572223a7b226e616d65223a22636865636b6f7574222c22756964223a302c22676964223a302c22706964223a333537312c22636f6d6d223a22706179746f6b656e63746c227d2c226d65726368616e74223a226d65726368616e742e636f6d2e6578616d706c652e616374697665222c227075626c69634b657948617368223a223733594c53754e666138686e6c5531385a385035422f596e6c3455565044394b75734f2b64532f6966524d3d222c227472616e73616374696f6e4964223a2237316266326263333630643933666332616134306136373665626536643238663433613037653638646366326132373232613738376639346534643930323862222c2270726f74656374696f6e223a2243222c22746f6b656e223a227072696d617279222c227265666572656e6365223a2261653434386163383663346538653464656336343537323937303865663431383733616537396336646666383465666637333336303938393438376630386535222c2268617368223a2231616236343839613433663939336366643534303337633961326262343236656331643337626465383466366265663366316234353662303434346530343166227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 13, 1795767214162, 'decrypt', 'ok', 'checkout', 0, 'merchant.com.example.active', '\xef760b4ae35f6bc867954d7c67c3f907f6279785153c3f4abac3be752fe27d13', '\x3606c543d41c1a8205d9cf7135a23e8109613bd8520f4b272fd3358859d64abf', '\x31085e12de3a62c47b6c721631f2673c4185ee71af59b6b39dc8ff11f709faad', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a31332c2274696d65223a22323032362d31312d32375430383a31333a33342e3136325a222c226576656e74223a2264656372797074222c226f7574636f6d65223a226f6b222c2263616c6c6572223a7b226e616d65223a22636865636b6f7574222c22756964223a302c22676964223a302c22706964223a333630382c22636f6d6d223a22706179746f6b656e63746c227d2c226d65726368616e74223a226d65726368616e742e636f6d2e6578616d706c652e616374697665222c227075626c69634b657948617368223a223733594c53754e666138686e6c5531385a385035422f596e6c3455565044394b75734f2b64532f6966524d3d222c227472616e73616374696f6e4964223a2233363036633534336434316331613832303564396366373133356132336538313039363133626438353230663462323732666433333538383539643634616266222c2270726f74656374696f6e223a2243222c22746f6b656e223a227072696d617279222c2268617368223a2233313038356531326465336136326334376236633732313633316632363733633431383565653731616635396236623339646338666631316637303966616164227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 14, 1795767216335, 'key_import', 'ok', 'checkout', 0, 'merchant.com.example.suspended', '\xe37f8f68339105a1bffeac318fde256bfb6ca4f43333f6d3df325299a992d97b', NULL, '\xc1d5a772ab491265daaf37dab357a5bd215ead6bedbd96854a38926b5aced3a2', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a31342c2274696d65223a22323032362d31312d32375430383a31333a33362e3333355a222c226576656e74223a226b65795f696d706f7274222c226f7574636f6d65223a226f6b222c2263616c6c6572223a7b226e616d65223a22636865636b6f7574222c22756964223a302c22676964223a302c22706964223a333639362c22636f6d6d223a22706179746f6b656e63746c227d2c226d65726368616e74223a226d65726368616e742e636f6d2e6578616d706c652e73757370656e646564222c227075626c69634b657948617368223a2234332b5061444f524261472f2f7177786a39346c612f74737050517a4d2f6254337a4a536d616d533258733d222c22746f6b656e223a227072696d617279222c226365727469666963617465536861323536223a2234623961663162383261323436393866396532613330373036366161616662333438623162386564666535393635643830656462386666656362643162393039222c22616c676f726974686d223a22525341222c2262697473223a323034382c226f726967696e223a22696d706f72746564222c226365727469666963617465456e64223a22323032382d31322d32355430383a31333a33342e3030305a222c22697373756572223a22433d55532c4f3d546f6b656e20466f7267652c4f553d466f7267652043657274696669636174696f6e20417574686f726974792c434e3d466f72676520576f726c647769646520446576656c6f7065722052656c6174696f6e73204341202d204732222c2268617368223a2263316435613737326162343931323635646161663337646162333537613562643231356561643662656462643936383534613338393236623561636564336132227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 15, 1795767216555, 'key_attributes', 'ok', NULL, NULL, 'merchant.com.example.suspended', '\xe37f8f68339105a1bffeac318fde256bfb6ca4f43333f6d3df325299a992d97b', NULL, '\xa24817128765b7582365853e820841863b326e851ffba376390b53ab8437a4d8', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a31352c2274696d65223a22323032362d31312d32375430383a31333a33362e3535355a222c226576656e74223a226b65795f61747472696275746573222c226f7574636f6d65223a226f6b222c226d65726368616e74223a226d65726368616e742e636f6d2e6578616d706c652e73757370656e646564222c227075626c69634b657948617368223a2234332b5061444f524261472f2f7177786a39346c612f74737050517a4d2f6254337a4a536d616d533258733d222c22746f6b656e223a227072696d617279222c226b657973223a5b7b22616c676f726974686d223a22525341222c2262697473223a323034382c2273656e736974697665223a747275652c226578747261637461626c65223a66616c73652c22616c7761797353656e736974697665223a66616c73652c226e657665724578747261637461626c65223a66616c73652c226c6f63616c223a66616c73652c2273746f726564223a747275652c2270726976617465223a747275652c226d6f6469666961626c65223a747275652c2275736573223a5b2264656372797074222c22756e77726170225d7d5d2c2268617368223a2261323438313731323837363562373538323336353835336538323038343138363362333236653835316666626133373633393062353361623834333761346438227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 16, 1795767217089, 'decrypt', 'ok', 'checkout', 0, 'merchant.com.example.suspended', '\xe37f8f68339105a1bffeac318fde256bfb6ca4f43333f6d3df325299a992d97b', '\xa931ec23b1fe6a9d763e97dafee052427b7bb7b1e1f11bbcd7da90021ceb7920', '\x379d14944504e476294350a07dcb018a7e5c84ce9ec5335e7b2f424bd7aa8898', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a31362c2274696d65223a22323032362d31312d32375430383a31333a33372e3038395a222c226576656e74223a2264656372797074222c226f7574636f6d65223a226f6b222c2263616c6c6572223a7b226e616d65223a22636865636b6f7574222c22756964223a302c22676964223a302c22706964223a333737372c22636f6d6d223a22706179746f6b656e63746c227d2c226d65726368616e74223a226d65726368616e742e636f6d2e6578616d706c652e73757370656e646564222c227075626c69634b657948617368223a2234332b5061444f524261472f2f7177786a39346c612f74737050517a4d2f6254337a4a536d616d533258733d222c227472616e73616374696f6e4964223a2261393331656332336231666536613964373633653937646166656530353234323762376262376231653166313162626364376461393030323163656237393230222c2270726f74656374696f6e223a2243222c22746f6b656e223a227072696d617279222c227265666572656e6365223a2266373164663635363730643632333231313334376633343139333033326236616463393135656261336362313464343431366538633731393433656537633966222c2268617368223a2233373964313439343435303465343736323934333530613037646362303138613765356338346365396563353333356537623266343234626437616138383938227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 17, 1795767218776, 'key_state_change', 'ok', 'checkout', 0, 'merchant.com.example.suspended', '\xe37f8f68339105a1bffeac318fde256bfb6ca4f43333f6d3df325299a992d97b', NULL, '\xd45bf89a63b186c15fcccc855544f421b5a22db768aa6b83cdc390d94028e6d3', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a31372c2274696d65223a22323032362d31312d32375430383a31333a33382e3737365a222c226576656e74223a226b65795f73746174655f6368616e6765222c226f7574636f6d65223a226f6b222c2263616c6c6572223a7b226e616d65223a22636865636b6f7574222c22756964223a302c22676964223a302c22706964223a333837322c22636f6d6d223a22706179746f6b656e63746c227d2c226d65726368616e74223a226d65726368616e742e636f6d2e6578616d706c652e73757370656e646564222c227075626c69634b657948617368223a2234332b5061444f524261472f2f7177786a39346c612f74737050517a4d2f6254337a4a536d616d533258733d222c2266726f6d223a22616374697665222c22746f223a2273757370656e646564222c22726561736f6e223a22612066697874757265222c2268617368223a2264343562663839613633623138366331356663636363383535353434663432316235613232646237363861613662383363646333393064393430323865366433227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 18, 1795767219302, 'decrypt', 'key_not_active', 'checkout', 0, 'merchant.com.example.suspended', '\xe37f8f68339105a1bffeac318fde256bfb6ca4f43333f6d3df325299a992d97b', '\x86d690b08be41529abbd69b767134527dd8647044354859911dd92110aa4a482', '\x374d4576e287c8682ea0a3d898326cfa5449394f80f0fdcc8ec6a38e2477cbd1', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a31382c2274696d65223a22323032362d31312d32375430383a31333a33392e3330325a222c226576656e74223a2264656372797074222c226f7574636f6d65223a226b65795f6e6f745f616374697665222c2263616c6c6572223a7b226e616d65223a22636865636b6f7574222c22756964223a302c22676964223a302c22706964223a333933372c22636f6d6d223a22706179746f6b656e63746c227d2c226d65726368616e74223a226d65726368616e742e636f6d2e6578616d706c652e73757370656e646564222c227075626c69634b657948617368223a2234332b5061444f524261472f2f7177786a39346c612f74737050517a4d2f6254337a4a536d616d533258733d222c227472616e73616374696f6e4964223a2238366436393062303862653431353239616262643639623736373133343532376464383634373034343335343835393931316464393231313061613461343832222c2268617368223a2233373464343537366532383763383638326561306133643839383332366366613534343933393466383066306664636338656336613338653234373763626431227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 19, 1795767220496, 'key_import', 'ok', 'checkout', 0, 'merchant.com.example.compromised', '\xecae64ffc8dba0af77899e1916297159b0b3d2236692ddf59184140b8f60e2d7', NULL, '\x80afbd8c70c17e77835bb9fb86f8a22a416e021643a7d06bbe2db5ace6a130d8', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a31392c2274696d65223a22323032362d31312d32375430383a31333a34302e3439365a222c226576656e74223a226b65795f696d706f7274222c226f7574636f6d65223a226f6b222c2263616c6c6572223a7b226e616d65223a22636865636b6f7574222c22756964223a302c22676964223a302c22706964223a333936362c22636f6d6d223a22706179746f6b656e63746c227d2c226d65726368616e74223a226d65726368616e742e636f6d2e6578616d706c652e636f6d70726f6d69736564222c227075626c69634b657948617368223a22374b356b2f386a626f4b3933695a345a46696c785762437a30694e6d6b7433316b595155433439673474633d222c22746f6b656e223a227072696d617279222c226365727469666963617465536861323536223a2264656137393466373033663362356631386636343964313663303333343535376539646138643762326663623665376235343330613265343635666138396561222c22616c676f726974686d223a224543222c2262697473223a3235362c226f726967696e223a22696d706f72746564222c226365727469666963617465456e64223a22323032382d31322d32355430383a31333a33392e3030305a222c22697373756572223a22433d55532c4f3d546f6b656e20466f7267652c4f553d466f7267652043657274696669636174696f6e20417574686f726974792c434e3d466f72676520576f726c647769646520446576656c6f7065722052656c6174696f6e73204341202d204732222c2268617368223a2238306166626438633730633137653737383335626239666238366638613232613431366530323136343361376430366262653264623561636536613133306438227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 20, 1795767220677, 'key_attributes', 'ok', NULL, NULL, 'merchant.com.example.compromised', '\xecae64ffc8dba0af77899e1916297159b0b3d2236692ddf59184140b8f60e2d7', NULL, '\x13566fb6120e91c9d053f7ce2f88b1b351a95dde50817e1a2a92e445fc1ddaff', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a32302c2274696d65223a22323032362d31312d32375430383a31333a34302e3637375a222c226576656e74223a226b65795f61747472696275746573222c226f7574636f6d65223a226f6b222c226d65726368616e74223a226d65726368616e742e636f6d2e6578616d706c652e636f6d70726f6d69736564222c227075626c69634b657948617368223a22374b356b2f386a626f4b3933695a345a46696c785762437a30694e6d6b7433316b595155433439673474633d222c22746f6b656e223a227072696d617279222c226b657973223a5b7b22616c676f726974686d223a224543222c2262697473223a3235362c2273656e736974697665223a747275652c226578747261637461626c65223a66616c73652c22616c7761797353656e736974697665223a66616c73652c226e657665724578747261637461626c65223a66616c73652c226c6f63616c223a66616c73652c2273746f726564223a747275652c2270726976617465223a747275652c226d6f6469666961626c65223a747275652c2275736573223a5b22646572697665225d7d5d2c2268617368223a2231333536366662363132306539316339643035336637636532663838623162333531613935646465353038313765316132613932653434356663316464616666227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 21, 1795767222182, 'key_state_change', 'ok', 'checkout', 0, 'merchant.com.example.compromised', '\xecae64ffc8dba0af77899e1916297159b0b3d2236692ddf59184140b8f60e2d7', NULL, '\x061dc5e506f867bf8f40a7897009603686cf196efc812947ca53cb55c8a176d3', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a32312c2274696d65223a22323032362d31312d32375430383a31333a34322e3138325a222c226576656e74223a226b65795f73746174655f6368616e6765222c226f7574636f6d65223a226f6b222c2263616c6c6572223a7b226e616d65223a22636865636b6f7574222c22756964223a302c22676964223a302c22706964223a343039372c22636f6d6d223a22706179746f6b656e63746c227d2c226d65726368616e74223a226d65726368616e742e636f6d2e6578616d706c652e636f6d70726f6d69736564222c227075626c69634b657948617368223a22374b356b2f386a626f4b3933695a345a46696c785762437a30694e6d6b7433316b595155433439673474633d222c2266726f6d223a22616374697665222c22746f223a22636f6d70726f6d69736564222c22726561736f6e223a22612066697874757265222c2268617368223a2230363164633565353036663836376266386634306137383937303039363033363836636631393665666338313239343763613533636235356338613137366433227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 22, 1795767223011, 'key_generate', 'ok', 'checkout', 0, 'merchant.com.example.generated', '\x67478270983a33872a2b19153559d24ba8a792d5b032563b5c70201166459a86', NULL, '\xc3fd439d07ecc84074b94d401eb95b5ca2b4b4f7add6f60c32f7185cd8a3802d', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a32322c2274696d65223a22323032362d31312d32375430383a31333a34332e3031315a222c226576656e74223a226b65795f67656e6572617465222c226f7574636f6d65223a226f6b222c2263616c6c6572223a7b226e616d65223a22636865636b6f7574222c22756964223a302c22676964223a302c22706964223a343137332c22636f6d6d223a22706179746f6b656e63746c227d2c226d65726368616e74223a226d65726368616e742e636f6d2e6578616d706c652e67656e657261746564222c227075626c69634b657948617368223a225a306543634a67364d3463714b786b564e566e535336696e6b7457774d6c59375848416745575a466d6f593d222c22746f6b656e223a227072696d617279222c22616c676f726974686d223a224543222c2262697473223a3235362c226f726967696e223a2267656e657261746564222c2268617368223a2263336664343339643037656363383430373462393464343031656239356235636132623462346637616464366636306333326637313835636438613338303264227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 23, 1795767224129, 'key_import', 'ok', 'checkout', 0, '2X9R4HXF34', '\x9b70a02adb09ecb4174fcab37c9bff8e66c74ac8ddef26c50945febccb3ba638', NULL, '\x6da01fcf7c3eabb32828160a47518c69587af860da19b06c61a10983461dc83d', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a32332c2274696d65223a22323032362d31312d32375430383a31333a34342e3132395a222c226576656e74223a226b65795f696d706f7274222c226f7574636f6d65223a226f6b222c2263616c6c6572223a7b226e616d65223a22636865636b6f7574222c22756964223a302c22676964223a302c22706964223a343231392c22636f6d6d223a22706179746f6b656e63746c227d2c226d65726368616e74223a2232583952344858463334222c227075626c69634b657948617368223a226d3343674b74734a374c51585438717a664a762f6a6d624853736a64377962464355582b764d7337706a673d222c22746f6b656e223a227072696d617279222c22616c676f726974686d223a224543222c2262697473223a3235362c226f726967696e223a22696d706f72746564222c2268617368223a2236646130316663663763336561626233323832383136306134373531386336393538376166383630646131396230366336316131303938333436316463383364227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 24, 1795767224130, 'key_attributes', 'ok', NULL, NULL, 'merchant.com.example.generated', '\x67478270983a33872a2b19153559d24ba8a792d5b032563b5c70201166459a86', NULL, '\x1c78ef38397b07314dd3ac498933ed2e2da116f8115960c7552872c1f32ebb87', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a32342c2274696d65223a22323032362d31312d32375430383a31333a34342e3133305a222c226576656e74223a226b65795f61747472696275746573222c226f7574636f6d65223a226f6b222c226d65726368616e74223a226d65726368616e742e636f6d2e6578616d706c652e67656e657261746564222c227075626c69634b657948617368223a225a306543634a67364d3463714b786b564e566e535336696e6b7457774d6c59375848416745575a466d6f593d222c22746f6b656e223a227072696d617279222c226b657973223a5b7b22616c676f726974686d223a224543222c2262697473223a3235362c2273656e736974697665223a747275652c226578747261637461626c65223a66616c73652c22616c7761797353656e736974697665223a747275652c226e657665724578747261637461626c65223a747275652c226c6f63616c223a747275652c2273746f726564223a747275652c2270726976617465223a747275652c226d6f6469666961626c65223a747275652c2275736573223a5b22646572697665225d7d5d2c2268617368223a2231633738656633383339376230373331346464336163343938393333656432653264613131366638313135393630633735353238373263316633326562623837227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 25, 1795767225320, 'key_import', 'ok', 'checkout', 0, 'merchant.com.example.rotated', '\x9c85ae8c1f2cd226f746f6822c88e6553787ed8770cef7be2835461728d906ce', NULL, '\x8a5a7c841f0812cdec4b79d778b0a30484e899bba1c6c009060f48696b248f46', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a32352c2274696d65223a22323032362d31312d32375430383a31333a34352e3332305a222c226576656e74223a226b65795f696d706f7274222c226f7574636f6d65223a226f6b222c2263616c6c6572223a7b226e616d65223a22636865636b6f7574222c22756964223a302c22676964223a302c22706964223a343238312c22636f6d6d223a22706179746f6b656e63746c227d2c226d65726368616e74223a226d65726368616e742e636f6d2e6578616d706c652e726f7461746564222c227075626c69634b657948617368223a226e4957756a42387330696233527661434c496a6d56546548375964777a76652b4b44564746796a5a4273343d222c22746f6b656e223a227072696d617279222c226365727469666963617465536861323536223a2237316538663235333963383036393836356637386630313735343835616136356564343964346431396330343839666538346531626130326165653263653463222c22616c676f726974686d223a224543222c2262697473223a3235362c226f726967696e223a22696d706f72746564222c226365727469666963617465456e64223a22323032382d31322d32355430383a31333a34342e3030305a222c22697373756572223a22433d55532c4f3d546f6b656e20466f7267652c4f553d466f7267652043657274696669636174696f6e20417574686f726974792c434e3d466f72676520576f726c647769646520446576656c6f7065722052656c6174696f6e73204341202d204732222c2268617368223a2238613561376338343166303831326364656334623739643737386230613330343834653839396262613163366330303930363066343836393662323438663436227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 26, 1795767225802, 'decrypt', 'ok', 'checkout', 0, 'merchant.com.example.rotated', '\x9c85ae8c1f2cd226f746f6822c88e6553787ed8770cef7be2835461728d906ce', '\xce86f0caa656f6c7863ff6a489c8e79cbca3267174bd1d35f0c34207ee03a958', '\x24b7b0394f1dfb867d37735a67aa35af341c351bafa8f1818bb4b05fec77fe47', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a32362c2274696d65223a22323032362d31312d32375430383a31333a34352e3830325a222c226576656e74223a2264656372797074222c226f7574636f6d65223a226f6b222c2263616c6c6572223a7b226e616d65223a22636865636b6f7574222c22756964223a302c22676964223a302c22706964223a343334382c22636f6d6d223a22706179746f6b656e63746c227d2c226d65726368616e74223a226d65726368616e742e636f6d2e6578616d706c652e726f7461746564222c227075626c69634b657948617368223a226e4957756a42387330696233527661434c496a6d56546548375964777a76652b4b44564746796a5a4273343d222c227472616e73616374696f6e4964223a2263653836663063616136353666366337383633666636613438396338653739636263613332363731373462643164333566306333343230376565303361393538222c2270726f74656374696f6e223a2243222c22746f6b656e223a227072696d617279222c227265666572656e6365223a2264663863663830323237656333323337393232646630656364383833383563353436653461333162646238313237623033336630316536663231663137356466222c2268617368223a2232346237623033393466316466623836376433373733356136376161333561663334316333353162616661386631383138626234623035666563373766653437227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 27, 1795767226344, 'key_generate', 'ok', 'checkout', 0, 'merchant.com.example.rotated', '\xdcf88629d157a8d1eb8dea2e972667071c4441aa1fb6282e5f934bf5de6e45b8', NULL, '\x66115b841a952a0d6103b76addbce87f622778aea7706c588334888c682adcc7', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a32372c2274696d65223a22323032362d31312d32375430383a31333a34362e3334345a222c226576656e74223a226b65795f67656e6572617465222c226f7574636f6d65223a226f6b222c2263616c6c6572223a7b226e616d65223a22636865636b6f7574222c22756964223a302c22676964223a302c22706964223a343337342c22636f6d6d223a22706179746f6b656e63746c227d2c226d65726368616e74223a226d65726368616e742e636f6d2e6578616d706c652e726f7461746564222c227075626c69634b657948617368223a22335069474b644658714e48726a656f756c795a6e4278784551616f667469677558354e4c396435755262673d222c22746f6b656e223a227072696d617279222c22616c676f726974686d223a224543222c2262697473223a3235362c226f726967696e223a2267656e657261746564222c2268617368223a2236363131356238343161393532613064363130336237366164646263653837663632323737386165613737303663353838333334383838633638326164636337227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 28, 1795767226373, 'csr_create', 'ok', 'checkout', 0, 'merchant.com.example.rotated', '\xdcf88629d157a8d1eb8dea2e972667071c4441aa1fb6282e5f934bf5de6e45b8', NULL, '\x94b9c9147b11ccc4caeae0158ad0fd73b12522a936585e8087be489435e6d9ff', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a32382c2274696d65223a22323032362d31312d32375430383a31333a34362e3337335a222c226576656e74223a226373725f637265617465222c226f7574636f6d65223a226f6b222c2263616c6c6572223a7b226e616d65223a22636865636b6f7574222c22756964223a302c22676964223a302c22706964223a343337342c22636f6d6d223a22706179746f6b656e63746c227d2c226d65726368616e74223a226d65726368616e742e636f6d2e6578616d706c652e726f7461746564222c227075626c69634b657948617368223a22335069474b644658714e48726a656f756c795a6e4278784551616f667469677558354e4c396435755262673d222c22746f6b656e223a227072696d617279222c2268617368223a2239346239633931343762313163636334636165616530313538616430666437336231323532326139333635383565383038376265343839343335653664396666227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 29, 1795767227147, 'certificate_import', 'ok', 'checkout', 0, 'merchant.com.example.rotated', '\xdcf88629d157a8d1eb8dea2e972667071c4441aa1fb6282e5f934bf5de6e45b8', NULL, '\x88cbae4a5c1bb6d1a5c1c61b7f7d9b2d27ce33114c737c4628d190a6ec9b8fbd', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a32392c2274696d65223a22323032362d31312d32375430383a31333a34372e3134375a222c226576656e74223a2263657274696669636174655f696d706f7274222c226f7574636f6d65223a226f6b222c2263616c6c6572223a7b226e616d65223a22636865636b6f7574222c22756964223a302c22676964223a302c22706964223a343432392c22636f6d6d223a22706179746f6b656e63746c227d2c226d65726368616e74223a226d65726368616e742e636f6d2e6578616d706c652e726f7461746564222c227075626c69634b657948617368223a22335069474b644658714e48726a656f756c795a6e4278784551616f667469677558354e4c396435755262673d222c22746f6b656e223a227072696d617279222c226365727469666963617465536861323536223a2233353364643862336539316631663730623434363234656465623231633432376538323765653534303239373538323535313666613734373330656235323331222c22616c676f726974686d223a224543222c2262697473223a3235362c226f726967696e223a2267656e657261746564222c226365727469666963617465456e64223a22323032382d31322d32355430383a31333a34362e3030305a222c22697373756572223a22433d55532c4f3d546f6b656e20466f7267652c4f553d466f7267652043657274696669636174696f6e20417574686f726974792c434e3d466f72676520576f726c647769646520446576656c6f7065722052656c6174696f6e73204341202d204732222c2268617368223a2238386362616534613563316262366431613563316336316237663764396232643237636533333131346337333763343632386431393061366563396238666264227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 30, 1795767227749, 'decrypt', 'ok', 'checkout', 0, 'merchant.com.example.rotated', '\xdcf88629d157a8d1eb8dea2e972667071c4441aa1fb6282e5f934bf5de6e45b8', '\x9c17be3a105b7664b1dc2c85fe61c1e3b2358e69fa2dc4dcf507182b202d272a', '\xc12d65e1baf89b2967fa3dff1854c63aae0d3e2f879396a92c886081566ae670', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a33302c2274696d65223a22323032362d31312d32375430383a31333a34372e3734395a222c226576656e74223a2264656372797074222c226f7574636f6d65223a226f6b222c2263616c6c6572223a7b226e616d65223a22636865636b6f7574222c22756964223a302c22676964223a302c22706964223a343535322c22636f6d6d223a22706179746f6b656e63746c227d2c226d65726368616e74223a226d65726368616e742e636f6d2e6578616d706c652e726f7461746564222c227075626c69634b657948617368223a22335069474b644658714e48726a656f756c795a6e4278784551616f667469677558354e4c396435755262673d222c227472616e73616374696f6e4964223a2239633137626533613130356237363634623164633263383566653631633165336232333538653639666132646334646366353037313832623230326432373261222c2270726f74656374696f6e223a2243222c22746f6b656e223a227072696d617279222c227265666572656e6365223a2233323966373564323461636139313338393264396537333432323332653132633962616666376235643864623639373033326431666139353830653736313734222c2268617368223a2263313264363565316261663839623239363766613364666631383534633633616165306433653266383739333936613932633838363038313536366165363730227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 31, 1795767228333, 'key_state_change', 'ok', 'checkout', 0, 'merchant.com.example.rotated', '\x9c85ae8c1f2cd226f746f6822c88e6553787ed8770cef7be2835461728d906ce', NULL, '\xdb480b1325640f4fd014b1860a783bb6f4274390ca907f71ec807ab3cdbe093d', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a33312c2274696d65223a22323032362d31312d32375430383a31333a34382e3333335a222c226576656e74223a226b65795f73746174655f6368616e6765222c226f7574636f6d65223a226f6b222c2263616c6c6572223a7b226e616d65223a22636865636b6f7574222c22756964223a302c22676964223a302c22706964223a343537392c22636f6d6d223a22706179746f6b656e63746c227d2c226d65726368616e74223a226d65726368616e742e636f6d2e6578616d706c652e726f7461746564222c227075626c69634b657948617368223a226e4957756a42387330696233527661434c496a6d56546548375964777a76652b4b44564746796a5a4273343d222c2266726f6d223a22616374697665222c22746f223a226465616374697661746564222c226375744f6666223a22323032362d31322d30345430383a31333a34382e3030305a222c22726561736f6e223a22726f7461746564222c2268617368223a2264623438306231333235363430663466643031346231383630613738336262366634323734333930636139303766373165633830376162336364626530393364227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 32, 1795767228453, 'renewal_step', 'ok', 'checkout', 0, 'merchant.com.example.generated', '\x67478270983a33872a2b19153559d24ba8a792d5b032563b5c70201166459a86', NULL, '\x1dbda0053b0b39e034109092f0e74a079100bf24c61a5dd1a88e61bf955b60a2', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a33322c2274696d65223a22323032362d31312d32375430383a31333a34382e3435335a222c226576656e74223a2272656e6577616c5f73746570222c226f7574636f6d65223a226f6b222c2263616c6c6572223a7b226e616d65223a22636865636b6f7574222c22756964223a302c22676964223a302c22706964223a343632312c22636f6d6d223a226375726c227d2c226d65726368616e74223a226d65726368616e742e636f6d2e6578616d706c652e67656e657261746564222c227075626c69634b657948617368223a225a306543634a67364d3463714b786b564e566e535336696e6b7457774d6c59375848416745575a466d6f593d222c2273746570223a227374617274222c2272656e6577616c223a2237313039363462666463343835346666222c2268617368223a2231646264613030353362306233396530333431303930393266306537346130373931303062663234633631613564643161383865363162663935356236306132227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 33, 1795767228547, 'key_attributes', 'ok', NULL, NULL, '2X9R4HXF34', '\x9b70a02adb09ecb4174fcab37c9bff8e66c74ac8ddef26c50945febccb3ba638', NULL, '\xc3e828eb996098d2c98718b0e10d4edf4ce12a29039dc00423930e1cea7e0a3e', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a33332c2274696d65223a22323032362d31312d32375430383a31333a34382e3534375a222c226576656e74223a226b65795f61747472696275746573222c226f7574636f6d65223a226f6b222c226d65726368616e74223a2232583952344858463334222c227075626c69634b657948617368223a226d3343674b74734a374c51585438717a664a762f6a6d624853736a64377962464355582b764d7337706a673d222c22746f6b656e223a227072696d617279222c226b657973223a5b7b22616c676f726974686d223a224543222c2262697473223a3235362c2273656e736974697665223a747275652c226578747261637461626c65223a66616c73652c22616c7761797353656e736974697665223a66616c73652c226e657665724578747261637461626c65223a66616c73652c226c6f63616c223a66616c73652c2273746f726564223a747275652c2270726976617465223a747275652c226d6f6469666961626c65223a747275652c2275736573223a5b227369676e225d7d5d2c2268617368223a2263336538323865623939363039386432633938373138623065313064346564663463653132613239303339646330303432333933306531636561376530613365227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 34, 1795767228596, 'key_attributes', 'ok', NULL, NULL, 'merchant.com.example.rotated', '\x9c85ae8c1f2cd226f746f6822c88e6553787ed8770cef7be2835461728d906ce', NULL, '\xf9c827872da20f155d1e5fffb5a9de6c2c8832a8499b1c512446869e40c30e3e', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a33342c2274696d65223a22323032362d31312d32375430383a31333a34382e3539365a222c226576656e74223a226b65795f61747472696275746573222c226f7574636f6d65223a226f6b222c226d65726368616e74223a226d65726368616e742e636f6d2e6578616d706c652e726f7461746564222c227075626c69634b657948617368223a226e4957756a42387330696233527661434c496a6d56546548375964777a76652b4b44564746796a5a4273343d222c22746f6b656e223a227072696d617279222c226b657973223a5b7b22616c676f726974686d223a224543222c2262697473223a3235362c2273656e736974697665223a747275652c226578747261637461626c65223a66616c73652c22616c7761797353656e736974697665223a66616c73652c226e657665724578747261637461626c65223a66616c73652c226c6f63616c223a66616c73652c2273746f726564223a747275652c2270726976617465223a747275652c226d6f6469666961626c65223a747275652c2275736573223a5b22646572697665225d7d5d2c2268617368223a2266396338323738373264613230663135356431653566666662356139646536633263383833326138343939623163353132343436383639653430633330653365227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 35, 1795767228676, 'key_attributes', 'ok', NULL, NULL, 'merchant.com.example.rotated', '\xdcf88629d157a8d1eb8dea2e972667071c4441aa1fb6282e5f934bf5de6e45b8', NULL, '\x7d813b2b69402bf9ce04a3d5c43c335e497ec869948f28eb7f1d22d553e94ce2', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a33352c2274696d65223a22323032362d31312d32375430383a31333a34382e3637365a222c226576656e74223a226b65795f61747472696275746573222c226f7574636f6d65223a226f6b222c226d65726368616e74223a226d65726368616e742e636f6d2e6578616d706c652e726f7461746564222c227075626c69634b657948617368223a22335069474b644658714e48726a656f756c795a6e4278784551616f667469677558354e4c396435755262673d222c22746f6b656e223a227072696d617279222c226b657973223a5b7b22616c676f726974686d223a224543222c2262697473223a3235362c2273656e736974697665223a747275652c226578747261637461626c65223a66616c73652c22616c7761797353656e736974697665223a747275652c226e657665724578747261637461626c65223a747275652c226c6f63616c223a747275652c2273746f726564223a747275652c2270726976617465223a747275652c226d6f6469666961626c65223a747275652c2275736573223a5b22646572697665225d7d5d2c2268617368223a2237643831336232623639343032626639636530346133643563343363333335653439376563383639393438663238656237663164323264353533653934636532227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 36, 1795767229516, 'csr_create', 'ok', NULL, NULL, 'merchant.com.example.generated', '\x67478270983a33872a2b19153559d24ba8a792d5b032563b5c70201166459a86', NULL, '\x89e0387fd85ef2c5e6c83e29b0ed6b9cbc558445df017f308715b1944d73cb1a', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a33362c2274696d65223a22323032362d31312d32375430383a31333a34392e3531365a222c226576656e74223a226373725f637265617465222c226f7574636f6d65223a226f6b222c226d65726368616e74223a226d65726368616e742e636f6d2e6578616d706c652e67656e657261746564222c227075626c69634b657948617368223a225a306543634a67364d3463714b786b564e566e535336696e6b7457774d6c59375848416745575a466d6f593d222c22746f6b656e223a227072696d617279222c2268617368223a2238396530333837666438356566326335653663383365323962306564366239636263353538343435646630313766333038373135623139343464373363623161227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 37, 1795767229587, 'key_proof', 'ok', NULL, NULL, 'merchant.com.example.generated', '\x67478270983a33872a2b19153559d24ba8a792d5b032563b5c70201166459a86', NULL, '\x814ef884d53dedf4ffd0553798df9d57ca9b39a82c60ef63f164f7836c8c3167', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a33372c2274696d65223a22323032362d31312d32375430383a31333a34392e3538375a222c226576656e74223a226b65795f70726f6f66222c226f7574636f6d65223a226f6b222c226d65726368616e74223a226d65726368616e742e636f6d2e6578616d706c652e67656e657261746564222c227075626c69634b657948617368223a225a306543634a67364d3463714b786b564e566e535336696e6b7457774d6c59375848416745575a466d6f593d222c2270726f74656374696f6e223a2243222c22746f6b656e223a227072696d617279222c2268617368223a2238313465663838346435336465646634666664303535333739386466396435376361396233396138326336306566363366313634663738333663386333313637227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 38, 1795767229994, 'audit_export', 'ok', 'checkout', 0, NULL, NULL, NULL, '\xf43fad4cb4b7ebf44c56410ab67ee94aa3cd3c19f23d9f2ec41a9c7a17e98418', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a33382c2274696d65223a22323032362d31312d32375430383a31333a34392e3939345a222c226576656e74223a2261756469745f6578706f7274222c226f7574636f6d65223a226f6b222c2263616c6c6572223a7b226e616d65223a22636865636b6f7574222c22756964223a302c22676964223a302c22706964223a343639372c22636f6d6d223a22706179746f6b656e63746c227d2c22666f726d6174223a226a736f6e6c222c226669727374223a312c226c617374223a33372c2268617368223a2266343366616434636234623765626634346335363431306162363765653934616133636433633139663233643966326563343161396337613137653938343138227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 39, 1795767230530, 'decrypt', 'ok', 'checkout', 0, 'merchant.com.example.active', '\xef760b4ae35f6bc867954d7c67c3f907f6279785153c3f4abac3be752fe27d13', '\xa105435f7e2ba291ba59a223d3314527a7bd36b4cbf7d73162ede307fb9fd673', '\x3f1404828c01e16372008aec71fc018e53331faf7849984f99f8f9d36350f0f7', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a33392c2274696d65223a22323032362d31312d32375430383a31333a35302e3533305a222c226576656e74223a2264656372797074222c226f7574636f6d65223a226f6b222c2263616c6c6572223a7b226e616d65223a22636865636b6f7574222c22756964223a302c22676964223a302c22706964223a343734382c22636f6d6d223a22706179746f6b656e63746c227d2c226d65726368616e74223a226d65726368616e742e636f6d2e6578616d706c652e616374697665222c227075626c69634b657948617368223a223733594c53754e666138686e6c5531385a385035422f596e6c3455565044394b75734f2b64532f6966524d3d222c227472616e73616374696f6e4964223a2261313035343335663765326261323931626135396132323364333331343532376137626433366234636266376437333136326564653330376662396664363733222c2270726f74656374696f6e223a2243222c22746f6b656e223a227072696d617279222c227265666572656e6365223a2264643465623531373635336536306539313863643138363838353064383062343565343439656139396563646662396339303762373935346530313462316366222c2268617368223a2233663134303438323863303165313633373230303861656337316663303138653533333331666166373834393938346639396638663964333633353066306637227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 40, 1795767230563, 'stop', 'ok', NULL, NULL, NULL, NULL, NULL, '\xcfdddd5575d24e3d98e999eb5af840c9382b99276bd1f41ee33b71de8ef2f1fa', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a34302c2274696d65223a22323032362d31312d32375430383a31333a35302e3536335a222c226576656e74223a2273746f70222c226f7574636f6d65223a226f6b222c2268617368223a2263666464646435353735643234653364393865393939656235616638343063393338326239393237366264316634316565333362373164653865663266316661227d');


--
-- Data for Name: checkpoint; Type: TABLE DATA; Schema: paytokend; Owner: -
--

INSERT INTO paytokend.checkpoint VALUES ('node-1', 4, 1795767209946, '\x7b22636865636b706f696e74223a7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a342c2268617368223a2263386664613563376266623461343136616238663335303630646430386632363635353633656234663165636461636234646165643766333861373231663064222c2274696d65223a22323032362d31312d32375430383a31333a32392e3934365a222c226b65794964223a2232663766313564303937653165666639353261613034323930333434393538626661616332363631393536633936343465353434616237303231326631353931227d2c227369676e6174757265223a224d45554349514431315762576e6a38777876334a6377764d504961532f635a78774565364968583364344f7136792b4f6b6749674a486138412b4b4844744e422f315a4a52354c754a364a5648615070563343345938372b486d352b5861413d227d');
INSERT INTO paytokend.checkpoint VALUES ('node-1', 38, 1795767230005, '\x7b22636865636b706f696e74223a7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a33382c2268617368223a2266343366616434636234623765626634346335363431306162363765653934616133636433633139663233643966326563343161396337613137653938343138222c2274696d65223a22323032362d31312d32375430383a31333a35302e3030355a222c226b65794964223a2232663766313564303937653165666639353261613034323930333434393538626661616332363631393536633936343465353434616237303231326631353931227d2c227369676e6174757265223a224d455543495144794476694f7335557334314d72357648736d6b71644d647368334164457253712b676c6d576f6f31713767496765715866786e584f4f374974326455424f426d617a2f794f6d65626e57654f6341704850577334434442673d227d');
INSERT INTO paytokend.checkpoint VALUES ('node-1', 40, 1795767230570, '\x7b22636865636b706f696e74223a7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a34302c2268617368223a2263666464646435353735643234653364393865393939656235616638343063393338326239393237366264316634316565333362373164653865663266316661222c2274696d65223a22323032362d31312d32375430383a31333a35302e3537305a222c226b65794964223a2232663766313564303937653165666639353261613034323930333434393538626661616332363631393536633936343465353434616237303231326631353931227d2c227369676e6174757265223a224d4559434951446a4b6469465768532f31757731715673433152784a6876456b3075694969516352734b56525967763645514968414c3938442f356f534c36316633455252376e7a533152707a4a4b426d4b64455639625465587a4176633147227d');


--
-- Data for Name: claim; Type: TABLE DATA; Schema: paytokend; Owner: -
--

INSERT INTO paytokend.claim VALUES ('\x71bf2bc360d93fc2aa40a676ebe6d28f43a07e68dcf2a2722a787f94e4d9028b', '\xef760b4ae35f6bc867954d7c67c3f907f6279785153c3f4abac3be752fe27d13', 'checkout', '\x3d5e3106cd72ba03fededf6dbb9fc3367edcebe453e90db236ea763aa228bee3', '\x6cf06205dd86111c9f3137c9e647fca4be26a4fd8eb9cb536564c03e61561220', '\x000000000000000089cecbd0fa37182f', 1795767212528, 0, NULL, NULL, 'node-1');
INSERT INTO paytokend.claim VALUES ('\xd0060112a4eedf33599182b577e063f1679e9faee829d7fed9e3c8f5dabe2780', '\xef760b4ae35f6bc867954d7c67c3f907f6279785153c3f4abac3be752fe27d13', 'checkout', '\x28ec9a8ff249fd5fb2993734c026afbbe4dea76ec7a999c23d774236bbb86de7', '\xd5b9dc21ece34f917bba208f8d10ebcc432df08866d920f54b73407ea181ac16', '\x000000000000000017811c0c0d3d1fbd', 1795767213046, 0, NULL, NULL, 'node-1');
INSERT INTO paytokend.claim VALUES ('\x88877880c61f9e4bbe9458fe733521621b33860e92208b3b29e5003e7f44fa50', '\xef760b4ae35f6bc867954d7c67c3f907f6279785153c3f4abac3be752fe27d13', 'checkout', '\x0bafe22156d2698c143b86040446d366ead863ba600d5c924f3d15c786ef4057', '\x59da94baffa4b6ed4c6433e80eb1cec2a4a17c90d16e922b0750216fade2dbc8', '\x000000000000000026dad44c60297c50', 1795767211934, 1, '\x0000000000000000c51611d6435760ef', 1795767213374, 'node-1');
INSERT INTO paytokend.claim VALUES ('\x3606c543d41c1a8205d9cf7135a23e8109613bd8520f4b272fd3358859d64abf', '\xef760b4ae35f6bc867954d7c67c3f907f6279785153c3f4abac3be752fe27d13', 'checkout', NULL, '\xf15f805594b4dda0ccba33d3c9d88e6803253473cf6b659ccc539a5f36e8325e', '\x00000000000000008e9fcbd16ff3c322', 1795767214158, 0, NULL, NULL, 'node-1');
INSERT INTO paytokend.claim VALUES ('\xa931ec23b1fe6a9d763e97dafee052427b7bb7b1e1f11bbcd7da90021ceb7920', '\xe37f8f68339105a1bffeac318fde256bfb6ca4f43333f6d3df325299a992d97b', 'checkout', '\xf71df65670d623211347f34193032b6adc915eba3cb14d4416e8c71943ee7c9f', '\xb3e780f3aee8635aee5d72b55da08a53984b41d39f24f0a45d64fc536f96504b', '\x00000000000000003b893ef5f657b9b5', 1795767217054, 0, NULL, NULL, 'node-1');
INSERT INTO paytokend.claim VALUES ('\xce86f0caa656f6c7863ff6a489c8e79cbca3267174bd1d35f0c34207ee03a958', '\x9c85ae8c1f2cd226f746f6822c88e6553787ed8770cef7be2835461728d906ce', 'checkout', '\xdf8cf80227ec3237922df0ecd88385c546e4a31bdb8127b033f01e6f21f175df', '\xc3eef92dd2fa8ada968d17c9fd3a219d934477fc984cdb94e0317f7450028a09', '\x00000000000000007eeaece67f924efb', 1795767225784, 0, NULL, NULL, 'node-1');
INSERT INTO paytokend.claim VALUES ('\x9c17be3a105b7664b1dc2c85fe61c1e3b2358e69fa2dc4dcf507182b202d272a', '\xdcf88629d157a8d1eb8dea2e972667071c4441aa1fb6282e5f934bf5de6e45b8', 'checkout', '\x329f75d24aca913892d9e7342232e12c9baff7b5d8db697032d1fa9580e76174', '\x8c0354afbb828decc90ac7d7722458512c83f0716d788c81f50a9f34b1957b68', '\x0000000000000000ae059c5c9d9808b8', 1795767227739, 0, NULL, NULL, 'node-1');
INSERT INTO paytokend.claim VALUES ('\xa105435f7e2ba291ba59a223d3314527a7bd36b4cbf7d73162ede307fb9fd673', '\xef760b4ae35f6bc867954d7c67c3f907f6279785153c3f4abac3be752fe27d13', 'checkout', '\xdd4eb517653e60e918cd1868850d80b45e449ea99ecdfb9c907b7954e014b1cf', '\x8d0afcf8dbe69dced8956397739e77f717defe860cc2a2a5b6d02f0473facd36', '\x000000000000000065d8360d0d052314', 1795767230520, 0, NULL, NULL, 'node-1');


--
-- Data for Name: hold; Type: TABLE DATA; Schema: paytokend; Owner: -
--



--
-- Data for Name: key_holder; Type: TABLE DATA; Schema: paytokend; Owner: -
--

INSERT INTO paytokend.key_holder VALUES ('node-1', '\x67478270983a33872a2b19153559d24ba8a792d5b032563b5c70201166459a86', 1795767226638);
INSERT INTO paytokend.key_holder VALUES ('node-1', '\x9b70a02adb09ecb4174fcab37c9bff8e66c74ac8ddef26c50945febccb3ba638', 1795767226638);
INSERT INTO paytokend.key_holder VALUES ('node-1', '\x9c85ae8c1f2cd226f746f6822c88e6553787ed8770cef7be2835461728d906ce', 1795767226638);
INSERT INTO paytokend.key_holder VALUES ('node-1', '\xdcf88629d157a8d1eb8dea2e972667071c4441aa1fb6282e5f934bf5de6e45b8', 1795767226638);
INSERT INTO paytokend.key_holder VALUES ('node-1', '\xe37f8f68339105a1bffeac318fde256bfb6ca4f43333f6d3df325299a992d97b', 1795767226638);
INSERT INTO paytokend.key_holder VALUES ('node-1', '\xecae64ffc8dba0af77899e1916297159b0b3d2236692ddf59184140b8f60e2d7', 1795767226638);
INSERT INTO paytokend.key_holder VALUES ('node-1', '\xef760b4ae35f6bc867954d7c67c3f907f6279785153c3f4abac3be752fe27d13', 1795767226638);


--
-- Data for Name: ledger_state; Type: TABLE DATA; Schema: paytokend; Owner: -
--

INSERT INTO paytokend.ledger_state VALUES (true, 11, NULL, 0, '7712761404199119627', 1, NULL, NULL, 'cee76a45-9843-4370-8af2-d78a9f10daca');


--
-- Data for Name: merchant_key; Type: TABLE DATA; Schema: paytokend; Owner: -
--

INSERT INTO paytokend.merchant_key VALUES ('\xef760b4ae35f6bc867954d7c67c3f907f6279785153c3f4abac3be752fe27d13', 'merchant.com.example.active', 'EC', 'active', NULL, 'imported', 1795767211434, 'node-1', 1, 'processing');
INSERT INTO paytokend.merchant_key VALUES ('\xe37f8f68339105a1bffeac318fde256bfb6ca4f43333f6d3df325299a992d97b', 'merchant.com.example.suspended', 'RSA', 'suspended', NULL, 'imported', 1795767216335, 'node-1', 4, 'processing');
INSERT INTO paytokend.merchant_key VALUES ('\xecae64ffc8dba0af77899e1916297159b0b3d2236692ddf59184140b8f60e2d7', 'merchant.com.example.compromised', 'EC', 'compromised', NULL, 'imported', 1795767220496, 'node-1', 7, 'processing');
INSERT INTO paytokend.merchant_key VALUES ('\x67478270983a33872a2b19153559d24ba8a792d5b032563b5c70201166459a86', 'merchant.com.example.generated', 'EC', 'pre-activation', NULL, 'generated', 1795767223011, 'node-1', 8, 'processing');
INSERT INTO paytokend.merchant_key VALUES ('\x9b70a02adb09ecb4174fcab37c9bff8e66c74ac8ddef26c50945febccb3ba638', '2X9R4HXF34', 'EC', 'active', NULL, 'imported', 1795767224129, 'node-1', 9, 'service');
INSERT INTO paytokend.merchant_key VALUES ('\xdcf88629d157a8d1eb8dea2e972667071c4441aa1fb6282e5f934bf5de6e45b8', 'merchant.com.example.rotated', 'EC', 'active', NULL, 'generated', 1795767226344, 'node-1', 13, 'processing');
INSERT INTO paytokend.merchant_key VALUES ('\x9c85ae8c1f2cd226f746f6822c88e6553787ed8770cef7be2835461728d906ce', 'merchant.com.example.rotated', 'EC', 'deactivated', 1796372028000, 'imported', 1795767225320, 'node-1', 15, 'processing');


--
-- Data for Name: moved_ledger; Type: TABLE DATA; Schema: paytokend; Owner: -
--



--
-- Data for Name: node; Type: TABLE DATA; Schema: paytokend; Owner: -
--

INSERT INTO paytokend.node VALUES ('node-1', 1, '-infinity', '2026-11-27 08:13:50.575087+00', '0.1.0', '\xf33490f2b5499f0005add2108fa1f918', 0, 0, 86400000, '7712761404199119627', 1);


--
-- Data for Name: renewal; Type: TABLE DATA; Schema: paytokend; Owner: -
--

INSERT INTO paytokend.renewal VALUES ('\x710964bfdc4854ff', 'merchant.com.example.generated', 'processing', 'EC', '\x67478270983a33872a2b19153559d24ba8a792d5b032563b5c70201166459a86', 'open', NULL, NULL, '\x3081e330818b02010030293127302506035504030c1e6d65726368616e742e636f6d2e6578616d706c652e67656e6572617465643059301306072a8648ce3d020106082a8648ce3d03010703420004abba8ea431751eedb4bf2c626951a689a2917ec3412a748f28500a59f23f75a290269d4f72e15d3ff2c4589c01616bac12ea424be317d62bc1539b88004ad84aa000300a06082a8648ce3d04030203470030440220763d6be53305a5d4ae84226219288269b210edda1477923bf02845e65408524c02202d7fb20a747e6ab845294bbfcca06ae3ef653d6586d2032aeb94cfb3621cef2a', NULL, 0, 'checkout', 1795767228453, NULL, 'node-1');


--
-- Data for Name: renewal_attempt; Type: TABLE DATA; Schema: paytokend; Owner: -
--



--
-- Name: key_change; Type: SEQUENCE SET; Schema: paytokend; Owner: -
--

SELECT pg_catalog.setval('paytokend.key_change', 15, true);


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
-- Name: renewal_attempt renewal_attempt_pkey; Type: CONSTRAINT; Schema: paytokend; Owner: -
--

ALTER TABLE ONLY paytokend.renewal_attempt
    ADD CONSTRAINT renewal_attempt_pkey PRIMARY KEY (identifier);


--
-- Name: renewal_attempt renewal_attempt_renewal_change_number_key; Type: CONSTRAINT; Schema: paytokend; Owner: -
--

ALTER TABLE ONLY paytokend.renewal_attempt
    ADD CONSTRAINT renewal_attempt_renewal_change_number_key UNIQUE (renewal, change, number);


--
-- Name: renewal renewal_pkey; Type: CONSTRAINT; Schema: paytokend; Owner: -
--

ALTER TABLE ONLY paytokend.renewal
    ADD CONSTRAINT renewal_pkey PRIMARY KEY (identifier);


--
-- Name: approval_by_expiry; Type: INDEX; Schema: paytokend; Owner: -
--

CREATE INDEX approval_by_expiry ON paytokend.approval USING btree (status, expires_at);


--
-- Name: audit_record_by_outcome; Type: INDEX; Schema: paytokend; Owner: -
--

CREATE INDEX audit_record_by_outcome ON paytokend.audit_record USING btree (outcome, node, sequence) WHERE (outcome <> 'ok'::text);


--
-- Name: audit_record_by_proof; Type: INDEX; Schema: paytokend; Owner: -
--

CREATE INDEX audit_record_by_proof ON paytokend.audit_record USING btree (public_key_hash, "time") WHERE (event = 'key_proof'::text);


--
-- Name: audit_record_by_signature; Type: INDEX; Schema: paytokend; Owner: -
--

CREATE INDEX audit_record_by_signature ON paytokend.audit_record USING btree (public_key_hash, "time") WHERE ((event = ANY (ARRAY['tls_signature'::text, 'jwt_signature'::text])) AND (outcome = 'ok'::text));


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
-- Name: renewal_by_merchant; Type: INDEX; Schema: paytokend; Owner: -
--

CREATE INDEX renewal_by_merchant ON paytokend.renewal USING btree (merchant_identifier);


--
-- Name: renewal_open; Type: INDEX; Schema: paytokend; Owner: -
--

CREATE UNIQUE INDEX renewal_open ON paytokend.renewal USING btree (merchant_identifier, key_use, algorithm) WHERE (state = 'open'::text);


--
-- Name: renewal_attempt keep_attempt; Type: TRIGGER; Schema: paytokend; Owner: -
--

CREATE TRIGGER keep_attempt BEFORE UPDATE ON paytokend.renewal_attempt FOR EACH ROW EXECUTE FUNCTION paytokend.keep_attempt();


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
-- Name: renewal_attempt renewal_attempt_renewal_fkey; Type: FK CONSTRAINT; Schema: paytokend; Owner: -
--

ALTER TABLE ONLY paytokend.renewal_attempt
    ADD CONSTRAINT renewal_attempt_renewal_fkey FOREIGN KEY (renewal) REFERENCES paytokend.renewal(identifier);


--
-- Name: renewal renewal_public_key_hash_fkey; Type: FK CONSTRAINT; Schema: paytokend; Owner: -
--

ALTER TABLE ONLY paytokend.renewal
    ADD CONSTRAINT renewal_public_key_hash_fkey FOREIGN KEY (public_key_hash) REFERENCES paytokend.merchant_key(public_key_hash);


--
-- PostgreSQL database dump complete
--


