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
    message_claim bytea,
    CONSTRAINT claim_message_claim_check CHECK ((octet_length(message_claim) = 32)),
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
    CONSTRAINT merchant_key_key_use_check CHECK ((key_use = ANY (ARRAY['processing'::text, 'identity'::text, 'service'::text, 'google-pay'::text]))),
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

INSERT INTO paytokend.audit_key VALUES ('node-1', 1, '\x6e6f6465539f1f42d624634aa8c06854', '\x044e72874bdf896e9ef1a118d5c4f677ca70c1a6057fd4923768347902cf02c288c2a1c37f0cbc907a11a129d65bc721b997cfce5e467f6968f2930e20bcf99d03', 1795792187639, 'primary');


--
-- Data for Name: audit_record; Type: TABLE DATA; Schema: paytokend; Owner: -
--

INSERT INTO paytokend.audit_record VALUES ('node-1', 1, 1795792187287, 'start', 'ok', NULL, NULL, NULL, NULL, NULL, '\x221a137ab0ca1a182702739c9cf19c3a1c252f8241059cde5acaf9eebf8251bb', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a312c2274696d65223a22323032362d31312d32375431353a30393a34372e3238375a222c226576656e74223a227374617274222c226f7574636f6d65223a226f6b222c2276657273696f6e223a22302e312e30222c22706179746f6b656e64536861323536223a2239626635356461316230376536376234356638346534393564333734316265373065383530646235336435356265353139363535316334366162353032376339222c22776f726b6572536861323536223a2262623334663733333531303265313935313137373731643039376666333330363836386139306438633361356436623734366533376630333530353332636161222c226d6f64756c6573223a7b227072696d617279223a2231306132336631376263373565363661353563336137623732376164303062366135663335373364613838343161623739396536646139636332303164623765227d2c2268617368223a2232323161313337616230636131613138323730323733396339636631396333613163323532663832343130353963646535616361663965656266383235316262227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 2, 1795792187287, 'configuration_load', 'ok', NULL, NULL, NULL, NULL, NULL, '\xaa3d1b2659e486f99c02a829bb11ad0e720d7f4f73d4177ac4ef86dd82778a7f', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a322c2274696d65223a22323032362d31312d32375431353a30393a34372e3238375a222c226576656e74223a22636f6e66696775726174696f6e5f6c6f6164222c226f7574636f6d65223a226f6b222c2266696c65536861323536223a2233303432356635316132666433333466353436623938356566323539373837653965336331326139363138383863333633363232623164393465346333623532222c2268617368223a2261613364316232363539653438366639396330326138323962623131616430653732306437663466373364343137376163346566383664643832373738613766227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 3, 1795792187287, 'configuration_values', 'ok', NULL, NULL, NULL, NULL, NULL, '\x989f89e0482ab55be801720c01c2ed0017a7407155f10f2e5f3dcd6b51f0c4d7', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a332c2274696d65223a22323032362d31312d32375431353a30393a34372e3238375a222c226576656e74223a22636f6e66696775726174696f6e5f76616c756573222c226f7574636f6d65223a226f6b222c2270617274223a312c227061727473223a312c2276616c756573223a7b226163636573732e312e676f6f676c655f7061792e617574685f6d6574686f6473223a2243525950544f4752414d5f334453222c226163636573732e312e676f6f676c655f7061792e6d65726368616e7473223a2242435232444e34544558414d504c45222c226163636573732e312e6d65726368616e7473223a222a222c226163636573732e312e6e616d65223a22636865636b6f7574222c226163636573732e312e726571756972655f6578706563746564223a22222c226163636573732e312e726f6c6573223a22646563727970742c2061756469742c2061646d696e222c226163636573732e312e756964223a2230222c226163636573732e312e75736572223a22726f6f74222c226163636573732e312e77616c6c657473223a226170706c652d7061792c20676f6f676c652d706179222c22617070726f76616c732e657870697265223a223164222c22617070726f76616c732e70656f706c65223a2232222c22676f6f676c655f7061792e6d6573736167655f6c69666574696d65223a223764222c226c65646765722e656e67696e65223a22706f737467726573716c222c226c65646765722e6e6f6465223a226e6f64652d31222c226c65646765722e7265706561745f666f72223a223164222c226c65646765722e726571756972655f7374616e646279223a2266616c7365222c226c65646765722e72657461696e5f636c61696d73223a2231383064222c226c65646765722e72657461696e5f7265636f726473223a226f6666222c226c65646765722e736572766572223a222f746d702f706179746f6b656e642d666978747572652e6c41654c684a2f6c6564676572222c226c65646765722e74696d656f7574223a22313073222c226c65646765722e75736572223a22706179746f6b656e64222c226c697374656e65722e61646d696e5f6d6f6465223a2230363030222c226c697374656e65722e61646d696e5f736f636b6574223a222f746d702f706179746f6b656e642e4144473639442f61646d696e2e736f636b222c226c697374656e65722e69646c655f74696d656f7574223a22316d222c226c697374656e65722e6d61785f636f6e6e656374696f6e73223a22353132222c226c697374656e65722e6d61785f636f6e6e656374696f6e735f7065725f756964223a22313238222c226c697374656e65722e6d61785f726571756573745f6279746573223a223635353336222c226c697374656e65722e6d6f6465223a2230363630222c226c697374656e65722e736f636b6574223a222f746d702f706179746f6b656e642e4144473639442f706179746f6b656e642e736f636b222c226c6f672e666f726d6174223a2274657874222c226c6f672e6c6576656c223a22696e666f222c2272656e6577616c2e697373756572223a2235373234363534322d393666652d316136332d653035332d303832346430313130373261222c2272656e6577616c2e6b65795f6964223a2232583952344858463334222c2272656e6577616c2e6e6f646573223a22222c22746f6b656e732e31223a227072696d617279222c22746f6b656e732e7072696d6172792e616c6c6f775f6578747261637461626c655f736563726574223a2274727565222c22746f6b656e732e7072696d6172792e63616c6c5f74696d656f7574223a22313073222c22746f6b656e732e7072696d6172792e64656e795f73797374656d5f63616c6c73223a22222c22746f6b656e732e7072696d6172792e656e7669726f6e6d656e74223a22534f465448534d325f434f4e46222c22746f6b656e732e7072696d6172792e696e69745f61726773223a22222c22746f6b656e732e7072696d6172792e6d6f64756c65223a222f7573722f6c69622f736f667468736d2f6c6962736f667468736d322e736f222c22746f6b656e732e7072696d6172792e70696e5f66696c65223a222f746d702f706179746f6b656e642e4144473639442f70696e222c22746f6b656e732e7072696d6172792e72656379636c655f6166746572223a2231303030303030222c22746f6b656e732e7072696d6172792e73657373696f6e73223a2232222c22746f6b656e732e7072696d6172792e757269223a22706b637331313a746f6b656e3d73616e64626f78222c22746f6b656e732e7072696d6172792e7573655f6c6f67223a22222c22746f6b656e732e7072696d6172792e76616c69646174696f6e223a22222c2274727573742e64697374727573746564223a22222c2274727573742e676f6f676c655f706179223a222f746d702f706179746f6b656e642e4144473639442f617574686f726974792f676f6f676c652d7061792d6b6579732e6a736f6e222c2274727573742e676f6f676c655f7061795f726f6f7473223a2263636133633136373562656436656265343536323165663432306439616231373034386335313338353538363633393861616265383634646436636638336232222c2274727573742e726f6f745f66696c6573223a222f746d702f706179746f6b656e642e4144473639442f617574686f726974792f726f6f742e70656d222c2274727573742e726f6f7473223a2236656563373663323231653934393738663832356238633934643166373864393035616536613134396266346636323238366632326330353138626164383833222c22766572696669636174696f6e2e7369676e696e675f74696d655f77696e646f77223a223164227d2c2268617368223a2239383966383965303438326162353562653830313732306330316332656430303137613734303731353566313066326535663364636436623531663063346437227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 4, 1795792188008, 'audit_key_change', 'ok', NULL, NULL, NULL, NULL, NULL, '\xec06378374d0229efb6109d46fc9616b351f0383dd80eef6238cad434c3cca6f', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a342c2274696d65223a22323032362d31312d32375431353a30393a34382e3030385a222c226576656e74223a2261756469745f6b65795f6368616e6765222c226f7574636f6d65223a226f6b222c22746f6b656e223a227072696d617279222c22746f223a2234336235393330636333653962663839626235313437333835666330663464373465353331663230656135313463643036373437383938386437663132663864222c2268617368223a2265633036333738333734643032323965666236313039643436666339363136623335316630333833646438306565663632333863616434333463336363613666227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 5, 1795792188345, 'token_attributes', 'ok', NULL, NULL, NULL, NULL, NULL, '\x6181493c22a112ad57d4dec80ac92e762a8c955a130bc1656dadc12f5b69d3e9', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a352c2274696d65223a22323032362d31312d32375431353a30393a34382e3334355a222c226576656e74223a22746f6b656e5f61747472696275746573222c226f7574636f6d65223a226f6b222c22746f6b656e223a227072696d617279222c226c6162656c223a2273616e64626f78222c2273657269616c4e756d626572223a2233613835343230646638633934363961222c226d616e756661637475726572223a22536f667448534d2070726f6a656374222c226d6f64656c223a22536f667448534d207632222c22686172647761726556657273696f6e223a22322e36222c226669726d7761726556657273696f6e223a22322e36222c226c696272617279223a22496d706c656d656e746174696f6e206f6620504b4353313120322e36222c227469657245437631223a2243222c22746965725253417631223a2243222c2268617368223a2236313831343933633232613131326164353764346465633830616339326537363261386339353561313330626331363536646164633132663562363964336539227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 6, 1795792189522, 'key_import', 'ok', 'checkout', 0, 'merchant.com.example.active', '\x6fd7907542ee43500f0dc2ce51ee4c6858aadbfc519b84d1b48b766d077fb1e8', NULL, '\x7ccc7ee4555c94981ef0bd4e8e3bdf63abad93a8aea3c4789d6c6651bcff50d5', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a362c2274696d65223a22323032362d31312d32375431353a30393a34392e3532325a222c226576656e74223a226b65795f696d706f7274222c226f7574636f6d65223a226f6b222c2263616c6c6572223a7b226e616d65223a22636865636b6f7574222c22756964223a302c22676964223a302c22706964223a31303133332c22636f6d6d223a22706179746f6b656e63746c227d2c226d65726368616e74223a226d65726368616e742e636f6d2e6578616d706c652e616374697665222c227075626c69634b657948617368223a226239655164554c755131415044634c4f5565354d61466971322f78526d345452744974326251642f7365673d222c22746f6b656e223a227072696d617279222c226365727469666963617465536861323536223a2232373231666163363266363164633337373061353231393163326665333930346338396231383533386562373464346361653939656461366230326532363638222c22616c676f726974686d223a224543222c2262697473223a3235362c226f726967696e223a22696d706f72746564222c226365727469666963617465456e64223a22323032382d31322d32355431353a30393a34382e3030305a222c22697373756572223a22433d55532c4f3d546f6b656e20466f7267652c4f553d466f7267652043657274696669636174696f6e20417574686f726974792c434e3d466f72676520576f726c647769646520446576656c6f7065722052656c6174696f6e73204341202d204732222c2268617368223a2237636363376565343535356339343938316566306264346538653362646636336162616439336138616561336334373839643663363635316263666635306435227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 7, 1795792190152, 'decrypt', 'ok', 'checkout', 0, 'merchant.com.example.active', '\x6fd7907542ee43500f0dc2ce51ee4c6858aadbfc519b84d1b48b766d077fb1e8', '\x28b33c6e2cc072ad18ab56333e1d944732143cb63ab651bf52e1ea6bac65eea2', '\x9dfef17a148c1b4c9aeb6d0bad35f5261101e218ffb1a4527bfbaebc2902c0b8', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a372c2274696d65223a22323032362d31312d32375431353a30393a35302e3135325a222c226576656e74223a2264656372797074222c226f7574636f6d65223a226f6b222c2263616c6c6572223a7b226e616d65223a22636865636b6f7574222c22756964223a302c22676964223a302c22706964223a31303137382c22636f6d6d223a22706179746f6b656e63746c227d2c226d65726368616e74223a226d65726368616e742e636f6d2e6578616d706c652e616374697665222c227075626c69634b657948617368223a226239655164554c755131415044634c4f5565354d61466971322f78526d345452744974326251642f7365673d222c227472616e73616374696f6e4964223a2232386233336336653263633037326164313861623536333333653164393434373332313433636236336162363531626635326531656136626163363565656132222c2270726f74656374696f6e223a2243222c22746f6b656e223a227072696d617279222c227265666572656e6365223a2230626166653232313536643236393863313433623836303430343436643336366561643836336261363030643563393234663364313563373836656634303537222c2268617368223a2239646665663137613134386331623463396165623664306261643335663532363131303165323138666662316134353237626662616562633239303263306238227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 8, 1795792190376, 'key_attributes', 'ok', NULL, NULL, 'merchant.com.example.active', '\x6fd7907542ee43500f0dc2ce51ee4c6858aadbfc519b84d1b48b766d077fb1e8', NULL, '\xb8f400148b218f0a9620328a384549a3d9573ab8c2c91528100fa3e01226c0b8', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a382c2274696d65223a22323032362d31312d32375431353a30393a35302e3337365a222c226576656e74223a226b65795f61747472696275746573222c226f7574636f6d65223a226f6b222c226d65726368616e74223a226d65726368616e742e636f6d2e6578616d706c652e616374697665222c227075626c69634b657948617368223a226239655164554c755131415044634c4f5565354d61466971322f78526d345452744974326251642f7365673d222c22746f6b656e223a227072696d617279222c226b657973223a5b7b22616c676f726974686d223a224543222c2262697473223a3235362c2273656e736974697665223a747275652c226578747261637461626c65223a66616c73652c22616c7761797353656e736974697665223a66616c73652c226e657665724578747261637461626c65223a66616c73652c226c6f63616c223a66616c73652c2273746f726564223a747275652c2270726976617465223a747275652c226d6f6469666961626c65223a747275652c2275736573223a5b22646572697665225d7d5d2c2268617368223a2262386634303031343862323138663061393632303332386133383435343961336439353733616238633263393135323831303066613365303132323663306238227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 9, 1795792190817, 'decrypt', 'ok', 'checkout', 0, 'merchant.com.example.active', '\x6fd7907542ee43500f0dc2ce51ee4c6858aadbfc519b84d1b48b766d077fb1e8', '\xe73b1037a4d2af4ab9400f5ef2519007c1e0e5803528333b49887aa7cb8c7c24', '\x0753e957474eb918f4455380479d09823b9effc4dfb37f3e01ba62aea61a893c', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a392c2274696d65223a22323032362d31312d32375431353a30393a35302e3831375a222c226576656e74223a2264656372797074222c226f7574636f6d65223a226f6b222c2263616c6c6572223a7b226e616d65223a22636865636b6f7574222c22756964223a302c22676964223a302c22706964223a31303236332c22636f6d6d223a22706179746f6b656e63746c227d2c226d65726368616e74223a226d65726368616e742e636f6d2e6578616d706c652e616374697665222c227075626c69634b657948617368223a226239655164554c755131415044634c4f5565354d61466971322f78526d345452744974326251642f7365673d222c227472616e73616374696f6e4964223a2265373362313033376134643261663461623934303066356566323531393030376331653065353830333532383333336234393838376161376362386337633234222c2270726f74656374696f6e223a2243222c22746f6b656e223a227072696d617279222c227265666572656e6365223a2233643565333130366364373262613033666564656466366462623966633333363765646365626534353365393064623233366561373633616132323862656533222c2268617368223a2230373533653935373437346562393138663434353533383034373964303938323362396566666334646662333766336530316261363261656136316138393363227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 10, 1795792191659, 'decrypt', 'ok', 'checkout', 0, 'merchant.com.example.active', '\x6fd7907542ee43500f0dc2ce51ee4c6858aadbfc519b84d1b48b766d077fb1e8', '\x9565160f92ca79cf164c4fa4e947b8ce31eeb5cf612cd8296cd5efd4272e6dd0', '\xb6c6acaf36e9b1c0e026ce1acbc756700b5798e772fc30ac203576ebbaa7d5b1', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a31302c2274696d65223a22323032362d31312d32375431353a30393a35312e3635395a222c226576656e74223a2264656372797074222c226f7574636f6d65223a226f6b222c2263616c6c6572223a7b226e616d65223a22636865636b6f7574222c22756964223a302c22676964223a302c22706964223a31303334342c22636f6d6d223a22706179746f6b656e63746c227d2c226d65726368616e74223a226d65726368616e742e636f6d2e6578616d706c652e616374697665222c227075626c69634b657948617368223a226239655164554c755131415044634c4f5565354d61466971322f78526d345452744974326251642f7365673d222c227472616e73616374696f6e4964223a2239353635313630663932636137396366313634633466613465393437623863653331656562356366363132636438323936636435656664343237326536646430222c2270726f74656374696f6e223a2243222c22746f6b656e223a227072696d617279222c227265666572656e6365223a2232386563396138666632343966643566623239393337333463303236616662626534646561373665633761393939633233643737343233366262623836646537222c2268617368223a2262366336616361663336653962316330653032366365316163626337353637303062353739386537373266633330616332303335373665626261613764356231227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 11, 1795792192101, 'decrypt', 'repeat', 'checkout', 0, 'merchant.com.example.active', '\x6fd7907542ee43500f0dc2ce51ee4c6858aadbfc519b84d1b48b766d077fb1e8', '\x28b33c6e2cc072ad18ab56333e1d944732143cb63ab651bf52e1ea6bac65eea2', '\x3051423d4e416a883c2fafdd4595ae9731613d10d71913238542fabf4cd442cc', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a31312c2274696d65223a22323032362d31312d32375431353a30393a35322e3130315a222c226576656e74223a2264656372797074222c226f7574636f6d65223a22726570656174222c2263616c6c6572223a7b226e616d65223a22636865636b6f7574222c22756964223a302c22676964223a302c22706964223a31303335382c22636f6d6d223a22706179746f6b656e63746c227d2c226d65726368616e74223a226d65726368616e742e636f6d2e6578616d706c652e616374697665222c227075626c69634b657948617368223a226239655164554c755131415044634c4f5565354d61466971322f78526d345452744974326251642f7365673d222c227472616e73616374696f6e4964223a2232386233336336653263633037326164313861623536333333653164393434373332313433636236336162363531626635326531656136626163363565656132222c2270726f74656374696f6e223a2243222c22746f6b656e223a227072696d617279222c227265666572656e6365223a2230626166653232313536643236393863313433623836303430343436643336366561643836336261363030643563393234663364313563373836656634303537222c2268617368223a2233303531343233643465343136613838336332666166646434353935616539373331363133643130643731393133323338353432666162663463643434326363227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 12, 1795792192502, 'decrypt', 'transaction_replayed', 'checkout', 0, 'merchant.com.example.active', '\x6fd7907542ee43500f0dc2ce51ee4c6858aadbfc519b84d1b48b766d077fb1e8', '\xe73b1037a4d2af4ab9400f5ef2519007c1e0e5803528333b49887aa7cb8c7c24', '\xf823b7e08d292245152808f9090b422eac47724ad2ed28f9eed40d0caf369886', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a31322c2274696d65223a22323032362d31312d32375431353a30393a35322e3530325a222c226576656e74223a2264656372797074222c226f7574636f6d65223a227472616e73616374696f6e5f7265706c61796564222c2263616c6c6572223a7b226e616d65223a22636865636b6f7574222c22756964223a302c22676964223a302c22706964223a31303337312c22636f6d6d223a22706179746f6b656e63746c227d2c226d65726368616e74223a226d65726368616e742e636f6d2e6578616d706c652e616374697665222c227075626c69634b657948617368223a226239655164554c755131415044634c4f5565354d61466971322f78526d345452744974326251642f7365673d222c227472616e73616374696f6e4964223a2265373362313033376134643261663461623934303066356566323531393030376331653065353830333532383333336234393838376161376362386337633234222c2270726f74656374696f6e223a2243222c22746f6b656e223a227072696d617279222c227265666572656e6365223a2261653434386163383663346538653464656336343537323937303865663431383733616537396336646666383465666637333336303938393438376630386535222c2268617368223a2266383233623765303864323932323435313532383038663930393062343232656163343737323461643265643238663965656434306430636166333639383836227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 13, 1795792193303, 'decrypt', 'ok', 'checkout', 0, 'merchant.com.example.active', '\x6fd7907542ee43500f0dc2ce51ee4c6858aadbfc519b84d1b48b766d077fb1e8', '\x36f7b694ebf419c10a6683949f3826817457927dd81e6134ab9b19d0817b3fe2', '\x2997ddeb9e311e0a3a54bdc0b1d0ac242ba1d77d62b857731fc6be8eaf1102c8', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a31332c2274696d65223a22323032362d31312d32375431353a30393a35332e3330335a222c226576656e74223a2264656372797074222c226f7574636f6d65223a226f6b222c2263616c6c6572223a7b226e616d65223a22636865636b6f7574222c22756964223a302c22676964223a302c22706964223a31303432382c22636f6d6d223a22706179746f6b656e63746c227d2c226d65726368616e74223a226d65726368616e742e636f6d2e6578616d706c652e616374697665222c227075626c69634b657948617368223a226239655164554c755131415044634c4f5565354d61466971322f78526d345452744974326251642f7365673d222c227472616e73616374696f6e4964223a2233366637623639346562663431396331306136363833393439663338323638313734353739323764643831653631333461623962313964303831376233666532222c2270726f74656374696f6e223a2243222c22746f6b656e223a227072696d617279222c2268617368223a2232393937646465623965333131653061336135346264633062316430616332343262613164373764363262383537373331666336626538656166313130326338227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 14, 1795792194781, 'key_import', 'ok', 'checkout', 0, 'merchant.com.example.suspended', '\x8121b343897cbc45ae69ffa1a5406f3528d8a6795e89e57abd67f8b6a5dd0f7e', NULL, '\x9146658ea601854decc833e4b0330a6aaa0b50cb6ffe667bd01f76a1b8286ea8', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a31342c2274696d65223a22323032362d31312d32375431353a30393a35342e3738315a222c226576656e74223a226b65795f696d706f7274222c226f7574636f6d65223a226f6b222c2263616c6c6572223a7b226e616d65223a22636865636b6f7574222c22756964223a302c22676964223a302c22706964223a31303439322c22636f6d6d223a22706179746f6b656e63746c227d2c226d65726368616e74223a226d65726368616e742e636f6d2e6578616d706c652e73757370656e646564222c227075626c69634b657948617368223a226753477a51346c387645577561662b68705542764e536a59706e6c656965563676576634747158644433343d222c22746f6b656e223a227072696d617279222c226365727469666963617465536861323536223a2235353665323039346236613333366632616439636361353433653832656365346465663930633135383935313334353030663763303532383034646466333430222c22616c676f726974686d223a22525341222c2262697473223a323034382c226f726967696e223a22696d706f72746564222c226365727469666963617465456e64223a22323032382d31322d32355431353a30393a35332e3030305a222c22697373756572223a22433d55532c4f3d546f6b656e20466f7267652c4f553d466f7267652043657274696669636174696f6e20417574686f726974792c434e3d466f72676520576f726c647769646520446576656c6f7065722052656c6174696f6e73204341202d204732222c2268617368223a2239313436363538656136303138353464656363383333653462303333306136616161306235306362366666653636376264303166373661316238323836656138227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 15, 1795792195236, 'decrypt', 'ok', 'checkout', 0, 'merchant.com.example.suspended', '\x8121b343897cbc45ae69ffa1a5406f3528d8a6795e89e57abd67f8b6a5dd0f7e', '\xf0079a6516e5fbece7b633c18d9ddc6b88b63c3b49c715d10cac3dbf46dc90d2', '\x0a4602d08a9e714e70f64670452d08856b2d278cc6d4102c76e84efa825160f0', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a31352c2274696d65223a22323032362d31312d32375431353a30393a35352e3233365a222c226576656e74223a2264656372797074222c226f7574636f6d65223a226f6b222c2263616c6c6572223a7b226e616d65223a22636865636b6f7574222c22756964223a302c22676964223a302c22706964223a31303530322c22636f6d6d223a22706179746f6b656e63746c227d2c226d65726368616e74223a226d65726368616e742e636f6d2e6578616d706c652e73757370656e646564222c227075626c69634b657948617368223a226753477a51346c387645577561662b68705542764e536a59706e6c656965563676576634747158644433343d222c227472616e73616374696f6e4964223a2266303037396136353136653566626563653762363333633138643964646336623838623633633362343963373135643130636163336462663436646339306432222c2270726f74656374696f6e223a2243222c22746f6b656e223a227072696d617279222c227265666572656e6365223a2266373164663635363730643632333231313334376633343139333033326236616463393135656261336362313464343431366538633731393433656537633966222c2268617368223a2230613436303264303861396537313465373066363436373034353264303838353662326432373863633664343130326337366538346566613832353136306630227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 16, 1795792195508, 'key_attributes', 'ok', NULL, NULL, 'merchant.com.example.suspended', '\x8121b343897cbc45ae69ffa1a5406f3528d8a6795e89e57abd67f8b6a5dd0f7e', NULL, '\xd64e17711c450d06afc33a4eba90afdf38a4938a133386baa669febac034e3ef', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a31362c2274696d65223a22323032362d31312d32375431353a30393a35352e3530385a222c226576656e74223a226b65795f61747472696275746573222c226f7574636f6d65223a226f6b222c226d65726368616e74223a226d65726368616e742e636f6d2e6578616d706c652e73757370656e646564222c227075626c69634b657948617368223a226753477a51346c387645577561662b68705542764e536a59706e6c656965563676576634747158644433343d222c22746f6b656e223a227072696d617279222c226b657973223a5b7b22616c676f726974686d223a22525341222c2262697473223a323034382c2273656e736974697665223a747275652c226578747261637461626c65223a66616c73652c22616c7761797353656e736974697665223a66616c73652c226e657665724578747261637461626c65223a66616c73652c226c6f63616c223a66616c73652c2273746f726564223a747275652c2270726976617465223a747275652c226d6f6469666961626c65223a747275652c2275736573223a5b2264656372797074222c22756e77726170225d7d5d2c2268617368223a2264363465313737313163343530643036616663333361346562613930616664663338613439333861313333333836626161363639666562616330333465336566227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 17, 1795792197138, 'key_state_change', 'ok', 'checkout', 0, 'merchant.com.example.suspended', '\x8121b343897cbc45ae69ffa1a5406f3528d8a6795e89e57abd67f8b6a5dd0f7e', NULL, '\x09e951bde94985b3e957fc501ff6e96ac95683fed0a470854eef56502532f316', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a31372c2274696d65223a22323032362d31312d32375431353a30393a35372e3133385a222c226576656e74223a226b65795f73746174655f6368616e6765222c226f7574636f6d65223a226f6b222c2263616c6c6572223a7b226e616d65223a22636865636b6f7574222c22756964223a302c22676964223a302c22706964223a31303537382c22636f6d6d223a22706179746f6b656e63746c227d2c226d65726368616e74223a226d65726368616e742e636f6d2e6578616d706c652e73757370656e646564222c227075626c69634b657948617368223a226753477a51346c387645577561662b68705542764e536a59706e6c656965563676576634747158644433343d222c2266726f6d223a22616374697665222c22746f223a2273757370656e646564222c22726561736f6e223a22612066697874757265222c2268617368223a2230396539353162646539343938356233653935376663353031666636653936616339353638336665643061343730383534656566353635303235333266333136227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 18, 1795792197949, 'decrypt', 'key_not_active', 'checkout', 0, 'merchant.com.example.suspended', '\x8121b343897cbc45ae69ffa1a5406f3528d8a6795e89e57abd67f8b6a5dd0f7e', '\x9f02843a721dd0c3c108639ff7d7cb81920f27c137279793c1296cda59e559dd', '\xb762d2ad0853179dc83c586dabb4915826cc637ca77d92d95d815af569981b77', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a31382c2274696d65223a22323032362d31312d32375431353a30393a35372e3934395a222c226576656e74223a2264656372797074222c226f7574636f6d65223a226b65795f6e6f745f616374697665222c2263616c6c6572223a7b226e616d65223a22636865636b6f7574222c22756964223a302c22676964223a302c22706964223a31303634342c22636f6d6d223a22706179746f6b656e63746c227d2c226d65726368616e74223a226d65726368616e742e636f6d2e6578616d706c652e73757370656e646564222c227075626c69634b657948617368223a226753477a51346c387645577561662b68705542764e536a59706e6c656965563676576634747158644433343d222c227472616e73616374696f6e4964223a2239663032383433613732316464306333633130383633396666376437636238313932306632376331333732373937393363313239366364613539653535396464222c2268617368223a2262373632643261643038353331373964633833633538366461626234393135383236636336333763613737643932643935643831356166353639393831623737227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 19, 1795792199754, 'key_import', 'ok', 'checkout', 0, 'merchant.com.example.compromised', '\x11127ac63b1fbbba9c72ccca4a0fa914c1799eb6cd0fe37d7902cdcb756fa6e8', NULL, '\xb521d6d6eeeea4627734ad75cdc11df01e994b02c73979197f1a4ece993c97fa', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a31392c2274696d65223a22323032362d31312d32375431353a30393a35392e3735345a222c226576656e74223a226b65795f696d706f7274222c226f7574636f6d65223a226f6b222c2263616c6c6572223a7b226e616d65223a22636865636b6f7574222c22756964223a302c22676964223a302c22706964223a31303639322c22636f6d6d223a22706179746f6b656e63746c227d2c226d65726368616e74223a226d65726368616e742e636f6d2e6578616d706c652e636f6d70726f6d69736564222c227075626c69634b657948617368223a2245524a36786a73667537716363737a4b53672b70464d46356e72624e442b4e3965514c4e793356767075673d222c22746f6b656e223a227072696d617279222c226365727469666963617465536861323536223a2262393337373135316134633137353235666636366638663264646434343431323532363037326236303961346236323962326438393266306164396135303764222c22616c676f726974686d223a224543222c2262697473223a3235362c226f726967696e223a22696d706f72746564222c226365727469666963617465456e64223a22323032382d31322d32355431353a30393a35382e3030305a222c22697373756572223a22433d55532c4f3d546f6b656e20466f7267652c4f553d466f7267652043657274696669636174696f6e20417574686f726974792c434e3d466f72676520576f726c647769646520446576656c6f7065722052656c6174696f6e73204341202d204732222c2268617368223a2262353231643664366565656561343632373733346164373563646331316466303165393934623032633733393739313937663161346563653939336339376661227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 20, 1795792200617, 'key_attributes', 'ok', NULL, NULL, 'merchant.com.example.compromised', '\x11127ac63b1fbbba9c72ccca4a0fa914c1799eb6cd0fe37d7902cdcb756fa6e8', NULL, '\x713bab0b14583b86d26cb5a9920f0d0258f5d2a0395b206f0f30a6a2d9a892d8', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a32302c2274696d65223a22323032362d31312d32375431353a31303a30302e3631375a222c226576656e74223a226b65795f61747472696275746573222c226f7574636f6d65223a226f6b222c226d65726368616e74223a226d65726368616e742e636f6d2e6578616d706c652e636f6d70726f6d69736564222c227075626c69634b657948617368223a2245524a36786a73667537716363737a4b53672b70464d46356e72624e442b4e3965514c4e793356767075673d222c22746f6b656e223a227072696d617279222c226b657973223a5b7b22616c676f726974686d223a224543222c2262697473223a3235362c2273656e736974697665223a747275652c226578747261637461626c65223a66616c73652c22616c7761797353656e736974697665223a66616c73652c226e657665724578747261637461626c65223a66616c73652c226c6f63616c223a66616c73652c2273746f726564223a747275652c2270726976617465223a747275652c226d6f6469666961626c65223a747275652c2275736573223a5b22646572697665225d7d5d2c2268617368223a2237313362616230623134353833623836643236636235613939323066306430323538663564326130333935623230366630663330613661326439613839326438227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 21, 1795792202700, 'key_state_change', 'ok', 'checkout', 0, 'merchant.com.example.compromised', '\x11127ac63b1fbbba9c72ccca4a0fa914c1799eb6cd0fe37d7902cdcb756fa6e8', NULL, '\xccd45654ff97b74115dcbdfffe2d96c63a859f50b4d881a64d0f91222e930504', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a32312c2274696d65223a22323032362d31312d32375431353a31303a30322e3730305a222c226576656e74223a226b65795f73746174655f6368616e6765222c226f7574636f6d65223a226f6b222c2263616c6c6572223a7b226e616d65223a22636865636b6f7574222c22756964223a302c22676964223a302c22706964223a31303837392c22636f6d6d223a22706179746f6b656e63746c227d2c226d65726368616e74223a226d65726368616e742e636f6d2e6578616d706c652e636f6d70726f6d69736564222c227075626c69634b657948617368223a2245524a36786a73667537716363737a4b53672b70464d46356e72624e442b4e3965514c4e793356767075673d222c2266726f6d223a22616374697665222c22746f223a22636f6d70726f6d69736564222c22726561736f6e223a22612066697874757265222c2268617368223a2263636434353635346666393762373431313564636264666666653264393663363361383539663530623464383831613634643066393132323265393330353034227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 22, 1795792203546, 'key_generate', 'ok', 'checkout', 0, 'merchant.com.example.generated', '\x791d363f54c7ced2f5205b24733ccf971e880aa1df71261db2552174405585d2', NULL, '\x43d4525859613758df5a19bb5f1bd9c6b88fe6d0db7f00cfb78da8836f92fef8', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a32322c2274696d65223a22323032362d31312d32375431353a31303a30332e3534365a222c226576656e74223a226b65795f67656e6572617465222c226f7574636f6d65223a226f6b222c2263616c6c6572223a7b226e616d65223a22636865636b6f7574222c22756964223a302c22676964223a302c22706964223a31313036302c22636f6d6d223a22706179746f6b656e63746c227d2c226d65726368616e74223a226d65726368616e742e636f6d2e6578616d706c652e67656e657261746564222c227075626c69634b657948617368223a2265523032503154487a744c314946736b637a7a506c7836494371486663535964736c5568644542566864493d222c22746f6b656e223a227072696d617279222c22616c676f726974686d223a224543222c2262697473223a3235362c226f726967696e223a2267656e657261746564222c2268617368223a2234336434353235383539363133373538646635613139626235663162643963366238386665366430646237663030636662373864613838333666393266656638227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 23, 1795792203655, 'key_attributes', 'ok', NULL, NULL, 'merchant.com.example.generated', '\x791d363f54c7ced2f5205b24733ccf971e880aa1df71261db2552174405585d2', NULL, '\xd0e8f8df3e73924294a8b73a9a3be6cc8c19bc85a6108eaebd0c8944396147a6', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a32332c2274696d65223a22323032362d31312d32375431353a31303a30332e3635355a222c226576656e74223a226b65795f61747472696275746573222c226f7574636f6d65223a226f6b222c226d65726368616e74223a226d65726368616e742e636f6d2e6578616d706c652e67656e657261746564222c227075626c69634b657948617368223a2265523032503154487a744c314946736b637a7a506c7836494371486663535964736c5568644542566864493d222c22746f6b656e223a227072696d617279222c226b657973223a5b7b22616c676f726974686d223a224543222c2262697473223a3235362c2273656e736974697665223a747275652c226578747261637461626c65223a66616c73652c22616c7761797353656e736974697665223a747275652c226e657665724578747261637461626c65223a747275652c226c6f63616c223a747275652c2273746f726564223a747275652c2270726976617465223a747275652c226d6f6469666961626c65223a747275652c2275736573223a5b22646572697665225d7d5d2c2268617368223a2264306538663864663365373339323432393461386237336139613362653663633863313962633835613631303865616562643063383934343339363134376136227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 24, 1795792204672, 'key_import', 'ok', 'checkout', 0, '2X9R4HXF34', '\x2cc0e477fc9f416891606d365b105f5c03db62cdf413515bc6eddbbdfc56b4fe', NULL, '\xda167f7520c17340d2ae9515b66ca87d14b27996616c644e747ccf83dfb227c8', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a32342c2274696d65223a22323032362d31312d32375431353a31303a30342e3637325a222c226576656e74223a226b65795f696d706f7274222c226f7574636f6d65223a226f6b222c2263616c6c6572223a7b226e616d65223a22636865636b6f7574222c22756964223a302c22676964223a302c22706964223a31313133362c22636f6d6d223a22706179746f6b656e63746c227d2c226d65726368616e74223a2232583952344858463334222c227075626c69634b657948617368223a224c4d446b642f796651576952594730325778426658415062597333304531466278753362766678577450343d222c22746f6b656e223a227072696d617279222c22616c676f726974686d223a224543222c2262697473223a3235362c226f726967696e223a22696d706f72746564222c2268617368223a2264613136376637353230633137333430643261653935313562363663613837643134623237393936363136633634346537343763636638336466623232376338227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 25, 1795792205702, 'key_attributes', 'ok', NULL, NULL, '2X9R4HXF34', '\x2cc0e477fc9f416891606d365b105f5c03db62cdf413515bc6eddbbdfc56b4fe', NULL, '\x3aed7a27abee154e07fb36f976b81c33c7657e46235f667dd8336cedb3e7ee9c', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a32352c2274696d65223a22323032362d31312d32375431353a31303a30352e3730325a222c226576656e74223a226b65795f61747472696275746573222c226f7574636f6d65223a226f6b222c226d65726368616e74223a2232583952344858463334222c227075626c69634b657948617368223a224c4d446b642f796651576952594730325778426658415062597333304531466278753362766678577450343d222c22746f6b656e223a227072696d617279222c226b657973223a5b7b22616c676f726974686d223a224543222c2262697473223a3235362c2273656e736974697665223a747275652c226578747261637461626c65223a66616c73652c22616c7761797353656e736974697665223a66616c73652c226e657665724578747261637461626c65223a66616c73652c226c6f63616c223a66616c73652c2273746f726564223a747275652c2270726976617465223a747275652c226d6f6469666961626c65223a747275652c2275736573223a5b227369676e225d7d5d2c2268617368223a2233616564376132376162656531353465303766623336663937366238316333336337363537653436323335663636376464383333366365646233653765653963227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 26, 1795792206253, 'key_import', 'ok', 'checkout', 0, 'merchant.com.example.rotated', '\xb03a2e5f8fa0da6035bccd2ac00d5f1ed61c575c8fc6392db4e912a759c78054', NULL, '\xb0f0bdaff6029809f0ace3988ef89b2789a418a8e967d0586f5e026652a705e6', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a32362c2274696d65223a22323032362d31312d32375431353a31303a30362e3235335a222c226576656e74223a226b65795f696d706f7274222c226f7574636f6d65223a226f6b222c2263616c6c6572223a7b226e616d65223a22636865636b6f7574222c22756964223a302c22676964223a302c22706964223a31313233312c22636f6d6d223a22706179746f6b656e63746c227d2c226d65726368616e74223a226d65726368616e742e636f6d2e6578616d706c652e726f7461746564222c227075626c69634b657948617368223a2273446f7558342b67326d4131764d3071774131664874596356317950786a6b74744f6b5370316e486746513d222c22746f6b656e223a227072696d617279222c226365727469666963617465536861323536223a2234653738353637613932343661623463373562373934366463616138623334366431313735333037613131386564313134363833326331343237646537653437222c22616c676f726974686d223a224543222c2262697473223a3235362c226f726967696e223a22696d706f72746564222c226365727469666963617465456e64223a22323032382d31322d32355431353a31303a30352e3030305a222c22697373756572223a22433d55532c4f3d546f6b656e20466f7267652c4f553d466f7267652043657274696669636174696f6e20417574686f726974792c434e3d466f72676520576f726c647769646520446576656c6f7065722052656c6174696f6e73204341202d204732222c2268617368223a2262306630626461666636303239383039663061636533393838656638396232373839613431386138653936376430353836663565303236363532613730356536227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 27, 1795792206749, 'key_attributes', 'ok', NULL, NULL, 'merchant.com.example.rotated', '\xb03a2e5f8fa0da6035bccd2ac00d5f1ed61c575c8fc6392db4e912a759c78054', NULL, '\x05db700142c28e30cf82c95cb3635d09a7aeffc6a6e65fb74fa837d0a35cc8d0', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a32372c2274696d65223a22323032362d31312d32375431353a31303a30362e3734395a222c226576656e74223a226b65795f61747472696275746573222c226f7574636f6d65223a226f6b222c226d65726368616e74223a226d65726368616e742e636f6d2e6578616d706c652e726f7461746564222c227075626c69634b657948617368223a2273446f7558342b67326d4131764d3071774131664874596356317950786a6b74744f6b5370316e486746513d222c22746f6b656e223a227072696d617279222c226b657973223a5b7b22616c676f726974686d223a224543222c2262697473223a3235362c2273656e736974697665223a747275652c226578747261637461626c65223a66616c73652c22616c7761797353656e736974697665223a66616c73652c226e657665724578747261637461626c65223a66616c73652c226c6f63616c223a66616c73652c2273746f726564223a747275652c2270726976617465223a747275652c226d6f6469666961626c65223a747275652c2275736573223a5b22646572697665225d7d5d2c2268617368223a2230356462373030313432633238653330636638326339356362333633356430396137616566666336613665363566623734666138333764306133356363386430227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 28, 1795792206997, 'decrypt', 'ok', 'checkout', 0, 'merchant.com.example.rotated', '\xb03a2e5f8fa0da6035bccd2ac00d5f1ed61c575c8fc6392db4e912a759c78054', '\xe695fbe142c0ca2c6c6c8714c1407c05e172d17b5aee05dae083bff6155ce4b4', '\x7fbe33bdd4f4c86e49821e4f2a3dc3aa6e1c79ef0e68d431ea8aaeead9e2f90a', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a32382c2274696d65223a22323032362d31312d32375431353a31303a30362e3939375a222c226576656e74223a2264656372797074222c226f7574636f6d65223a226f6b222c2263616c6c6572223a7b226e616d65223a22636865636b6f7574222c22756964223a302c22676964223a302c22706964223a31313334342c22636f6d6d223a22706179746f6b656e63746c227d2c226d65726368616e74223a226d65726368616e742e636f6d2e6578616d706c652e726f7461746564222c227075626c69634b657948617368223a2273446f7558342b67326d4131764d3071774131664874596356317950786a6b74744f6b5370316e486746513d222c227472616e73616374696f6e4964223a2265363935666265313432633063613263366336633837313463313430376330356531373264313762356165653035646165303833626666363135356365346234222c2270726f74656374696f6e223a2243222c22746f6b656e223a227072696d617279222c227265666572656e6365223a2264663863663830323237656333323337393232646630656364383833383563353436653461333162646238313237623033336630316536663231663137356466222c2268617368223a2237666265333362646434663463383665343938323165346632613364633361613665316337396566306536386434333165613861616565616439653266393061227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 29, 1795792207752, 'key_generate', 'ok', 'checkout', 0, 'merchant.com.example.rotated', '\x502a55a1fa7c6df769a94454bc396a82656c3ef4905ee24882df51e76fad931b', NULL, '\xb414803082bf06c27a41f85997b7e7f45d01572798c7de76b1dc75d4ed658706', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a32392c2274696d65223a22323032362d31312d32375431353a31303a30372e3735325a222c226576656e74223a226b65795f67656e6572617465222c226f7574636f6d65223a226f6b222c2263616c6c6572223a7b226e616d65223a22636865636b6f7574222c22756964223a302c22676964223a302c22706964223a31313337382c22636f6d6d223a22706179746f6b656e63746c227d2c226d65726368616e74223a226d65726368616e742e636f6d2e6578616d706c652e726f7461746564222c227075626c69634b657948617368223a22554370566f667038626664707155525576446c71676d56735076535158754a496774395235322b746b78733d222c22746f6b656e223a227072696d617279222c22616c676f726974686d223a224543222c2262697473223a3235362c226f726967696e223a2267656e657261746564222c2268617368223a2262343134383033303832626630366332376134316638353939376237653766343564303135373237393863376465373662316463373564346564363538373036227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 30, 1795792207789, 'csr_create', 'ok', 'checkout', 0, 'merchant.com.example.rotated', '\x502a55a1fa7c6df769a94454bc396a82656c3ef4905ee24882df51e76fad931b', NULL, '\xcc6ba926f489d3fe2372e9372b55a52c05577a46727b34ec6b99fc43b14e3468', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a33302c2274696d65223a22323032362d31312d32375431353a31303a30372e3738395a222c226576656e74223a226373725f637265617465222c226f7574636f6d65223a226f6b222c2263616c6c6572223a7b226e616d65223a22636865636b6f7574222c22756964223a302c22676964223a302c22706964223a31313337382c22636f6d6d223a22706179746f6b656e63746c227d2c226d65726368616e74223a226d65726368616e742e636f6d2e6578616d706c652e726f7461746564222c227075626c69634b657948617368223a22554370566f667038626664707155525576446c71676d56735076535158754a496774395235322b746b78733d222c22746f6b656e223a227072696d617279222c2268617368223a2263633662613932366634383964336665323337326539333732623535613532633035353737613436373237623334656336623939666334336231346533343638227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 31, 1795792207897, 'key_attributes', 'ok', NULL, NULL, 'merchant.com.example.rotated', '\x502a55a1fa7c6df769a94454bc396a82656c3ef4905ee24882df51e76fad931b', NULL, '\x65584286095ebe1e82ae29a8c60cebeac1fe5418bfd88c860d7334a28a93bfc6', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a33312c2274696d65223a22323032362d31312d32375431353a31303a30372e3839375a222c226576656e74223a226b65795f61747472696275746573222c226f7574636f6d65223a226f6b222c226d65726368616e74223a226d65726368616e742e636f6d2e6578616d706c652e726f7461746564222c227075626c69634b657948617368223a22554370566f667038626664707155525576446c71676d56735076535158754a496774395235322b746b78733d222c22746f6b656e223a227072696d617279222c226b657973223a5b7b22616c676f726974686d223a224543222c2262697473223a3235362c2273656e736974697665223a747275652c226578747261637461626c65223a66616c73652c22616c7761797353656e736974697665223a747275652c226e657665724578747261637461626c65223a747275652c226c6f63616c223a747275652c2273746f726564223a747275652c2270726976617465223a747275652c226d6f6469666961626c65223a747275652c2275736573223a5b22646572697665225d7d5d2c2268617368223a2236353538343238363039356562653165383261653239613863363063656265616331666535343138626664383863383630643733333461323861393362666336227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 32, 1795792208751, 'certificate_import', 'ok', 'checkout', 0, 'merchant.com.example.rotated', '\x502a55a1fa7c6df769a94454bc396a82656c3ef4905ee24882df51e76fad931b', NULL, '\xd8d7c0feace5e8c4e63edc99b6a6be3c7f6357b1002152d59915173429d321a3', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a33322c2274696d65223a22323032362d31312d32375431353a31303a30382e3735315a222c226576656e74223a2263657274696669636174655f696d706f7274222c226f7574636f6d65223a226f6b222c2263616c6c6572223a7b226e616d65223a22636865636b6f7574222c22756964223a302c22676964223a302c22706964223a31313439352c22636f6d6d223a22706179746f6b656e63746c227d2c226d65726368616e74223a226d65726368616e742e636f6d2e6578616d706c652e726f7461746564222c227075626c69634b657948617368223a22554370566f667038626664707155525576446c71676d56735076535158754a496774395235322b746b78733d222c22746f6b656e223a227072696d617279222c226365727469666963617465536861323536223a2238656434346162303635336166373633613133623538636261393132393532313462383264346535316362393164306238313862306263336463373230366537222c22616c676f726974686d223a224543222c2262697473223a3235362c226f726967696e223a2267656e657261746564222c226365727469666963617465456e64223a22323032382d31322d32355431353a31303a30382e3030305a222c22697373756572223a22433d55532c4f3d546f6b656e20466f7267652c4f553d466f7267652043657274696669636174696f6e20417574686f726974792c434e3d466f72676520576f726c647769646520446576656c6f7065722052656c6174696f6e73204341202d204732222c2268617368223a2264386437633066656163653565386334653633656463393962366136626533633766363335376231303032313532643539393135313733343239643332316133227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 33, 1795792209695, 'decrypt', 'ok', 'checkout', 0, 'merchant.com.example.rotated', '\x502a55a1fa7c6df769a94454bc396a82656c3ef4905ee24882df51e76fad931b', '\xa85a8a2c37b4e292b5ef0294c711ffe22206a9a8fc9256e9f5b155a01c45edd5', '\xd14f045cc4c2eee1be2485c50eb696b5567417f5e105ab3b1c08db417a34db37', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a33332c2274696d65223a22323032362d31312d32375431353a31303a30392e3639355a222c226576656e74223a2264656372797074222c226f7574636f6d65223a226f6b222c2263616c6c6572223a7b226e616d65223a22636865636b6f7574222c22756964223a302c22676964223a302c22706964223a31313630372c22636f6d6d223a22706179746f6b656e63746c227d2c226d65726368616e74223a226d65726368616e742e636f6d2e6578616d706c652e726f7461746564222c227075626c69634b657948617368223a22554370566f667038626664707155525576446c71676d56735076535158754a496774395235322b746b78733d222c227472616e73616374696f6e4964223a2261383561386132633337623465323932623565663032393463373131666665323232303661396138666339323536653966356231353561303163343565646435222c2270726f74656374696f6e223a2243222c22746f6b656e223a227072696d617279222c227265666572656e6365223a2233323966373564323461636139313338393264396537333432323332653132633962616666376235643864623639373033326431666139353830653736313734222c2268617368223a2264313466303435636334633265656531626532343835633530656236393662353536373431376635653130356162336231633038646234313761333464623337227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 34, 1795792210193, 'key_state_change', 'ok', 'checkout', 0, 'merchant.com.example.rotated', '\xb03a2e5f8fa0da6035bccd2ac00d5f1ed61c575c8fc6392db4e912a759c78054', NULL, '\xf12fb887e4213356f6b5d939edfa40a07bebb1b6794c5ef4b8f722e2937427d4', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a33342c2274696d65223a22323032362d31312d32375431353a31303a31302e3139335a222c226576656e74223a226b65795f73746174655f6368616e6765222c226f7574636f6d65223a226f6b222c2263616c6c6572223a7b226e616d65223a22636865636b6f7574222c22756964223a302c22676964223a302c22706964223a31313637302c22636f6d6d223a22706179746f6b656e63746c227d2c226d65726368616e74223a226d65726368616e742e636f6d2e6578616d706c652e726f7461746564222c227075626c69634b657948617368223a2273446f7558342b67326d4131764d3071774131664874596356317950786a6b74744f6b5370316e486746513d222c2266726f6d223a22616374697665222c22746f223a226465616374697661746564222c226375744f6666223a22323032362d31322d30345431353a31303a31302e3030305a222c22726561736f6e223a22726f7461746564222c2268617368223a2266313266623838376534323133333536663662356439333965646661343061303762656262316236373934633565663462386637323265323933373432376434227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 35, 1795792210350, 'renewal_step', 'ok', 'checkout', 0, 'merchant.com.example.generated', '\x791d363f54c7ced2f5205b24733ccf971e880aa1df71261db2552174405585d2', NULL, '\xa0ea80c58a4576eccb85997630cecfbfe91ca447178a1842158c75d1696f35f6', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a33352c2274696d65223a22323032362d31312d32375431353a31303a31302e3335305a222c226576656e74223a2272656e6577616c5f73746570222c226f7574636f6d65223a226f6b222c2263616c6c6572223a7b226e616d65223a22636865636b6f7574222c22756964223a302c22676964223a302c22706964223a31313731322c22636f6d6d223a226375726c227d2c226d65726368616e74223a226d65726368616e742e636f6d2e6578616d706c652e67656e657261746564222c227075626c69634b657948617368223a2265523032503154487a744c314946736b637a7a506c7836494371486663535964736c5568644542566864493d222c2273746570223a227374617274222c2272656e6577616c223a2262383661623738633433323839396566222c2268617368223a2261306561383063353861343537366563636238353939373633306365636662666539316361343437313738613138343231353863373564313639366633356636227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 36, 1795792211428, 'csr_create', 'ok', NULL, NULL, 'merchant.com.example.generated', '\x791d363f54c7ced2f5205b24733ccf971e880aa1df71261db2552174405585d2', NULL, '\x61afab60f907e49cbe81cf67f2120ed0db58869c1c46be8f5a45aa73ff8402af', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a33362c2274696d65223a22323032362d31312d32375431353a31303a31312e3432385a222c226576656e74223a226373725f637265617465222c226f7574636f6d65223a226f6b222c226d65726368616e74223a226d65726368616e742e636f6d2e6578616d706c652e67656e657261746564222c227075626c69634b657948617368223a2265523032503154487a744c314946736b637a7a506c7836494371486663535964736c5568644542566864493d222c22746f6b656e223a227072696d617279222c2268617368223a2236316166616236306639303765343963626538316366363766323132306564306462353838363963316334366265386635613435616137336666383430326166227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 37, 1795792211457, 'key_proof', 'ok', NULL, NULL, 'merchant.com.example.generated', '\x791d363f54c7ced2f5205b24733ccf971e880aa1df71261db2552174405585d2', NULL, '\xc1ee12861becedfc2c78645815c8d5752ff5b4a3a10d5ab43c344053add59920', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a33372c2274696d65223a22323032362d31312d32375431353a31303a31312e3435375a222c226576656e74223a226b65795f70726f6f66222c226f7574636f6d65223a226f6b222c226d65726368616e74223a226d65726368616e742e636f6d2e6578616d706c652e67656e657261746564222c227075626c69634b657948617368223a2265523032503154487a744c314946736b637a7a506c7836494371486663535964736c5568644542566864493d222c2270726f74656374696f6e223a2243222c22746f6b656e223a227072696d617279222c2268617368223a2263316565313238363162656365646663326337383634353831356338643537353266663562346133613130643561623433633334343035336164643539393230227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 38, 1795792212151, 'audit_export', 'ok', 'checkout', 0, NULL, NULL, NULL, '\x6117078df8d0eae9c060372462a82e5828471ef6da43b5466be514d6ac5a174e', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a33382c2274696d65223a22323032362d31312d32375431353a31303a31322e3135315a222c226576656e74223a2261756469745f6578706f7274222c226f7574636f6d65223a226f6b222c2263616c6c6572223a7b226e616d65223a22636865636b6f7574222c22756964223a302c22676964223a302c22706964223a31313931342c22636f6d6d223a22706179746f6b656e63746c227d2c22666f726d6174223a226a736f6e6c222c226669727374223a312c226c617374223a33372c2268617368223a2236313137303738646638643065616539633036303337323436326138326535383238343731656636646134336235343636626535313464366163356131373465227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 39, 1795792212852, 'decrypt', 'ok', 'checkout', 0, 'merchant.com.example.active', '\x6fd7907542ee43500f0dc2ce51ee4c6858aadbfc519b84d1b48b766d077fb1e8', '\x20cae72e28943c2b53747056102663ed35ea3ac99bad20ff584779f9f7553395', '\xc45f705817abc3cbb53ad4f91b224920fcb6d79d1b15aafa1632a8f1adb63c57', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a33392c2274696d65223a22323032362d31312d32375431353a31303a31322e3835325a222c226576656e74223a2264656372797074222c226f7574636f6d65223a226f6b222c2263616c6c6572223a7b226e616d65223a22636865636b6f7574222c22756964223a302c22676964223a302c22706964223a31323030312c22636f6d6d223a22706179746f6b656e63746c227d2c226d65726368616e74223a226d65726368616e742e636f6d2e6578616d706c652e616374697665222c227075626c69634b657948617368223a226239655164554c755131415044634c4f5565354d61466971322f78526d345452744974326251642f7365673d222c227472616e73616374696f6e4964223a2232306361653732653238393433633262353337343730353631303236363365643335656133616339396261643230666635383437373966396637353533333935222c2270726f74656374696f6e223a2243222c22746f6b656e223a227072696d617279222c227265666572656e6365223a2264643465623531373635336536306539313863643138363838353064383062343565343439656139396563646662396339303762373935346530313462316366222c2268617368223a2263343566373035383137616263336362623533616434663931623232343932306663623664373964316231356161666131363332613866316164623633633537227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 40, 1795792213781, 'key_generate', 'ok', 'checkout', 0, 'BCR2DN4TEXAMPLE', '\x92bfea3e515923693212e3cab3ec7dc8fc8d6a16c8a277a7321544ec4ae12c9d', NULL, '\xbff20af546ec6d774edcb578cea64fa69534c6a9a9d8c329eef85ebc25ee5935', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a34302c2274696d65223a22323032362d31312d32375431353a31303a31332e3738315a222c226576656e74223a226b65795f67656e6572617465222c226f7574636f6d65223a226f6b222c2263616c6c6572223a7b226e616d65223a22636865636b6f7574222c22756964223a302c22676964223a302c22706964223a31323039372c22636f6d6d223a22706179746f6b656e63746c227d2c226d65726368616e74223a2242435232444e34544558414d504c45222c227075626c69634b657948617368223a226b722f71506c465a49326b794575504b732b78397950794e616862496f6e656e4d685645374572684c4a303d222c22746f6b656e223a227072696d617279222c22616c676f726974686d223a224543222c2262697473223a3235362c226f726967696e223a2267656e657261746564222c2268617368223a2262666632306166353436656336643737346564636235373863656136346661363935333463366139613964386333323965656638356562633235656535393335227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 41, 1795792213973, 'key_attributes', 'ok', NULL, NULL, 'BCR2DN4TEXAMPLE', '\x92bfea3e515923693212e3cab3ec7dc8fc8d6a16c8a277a7321544ec4ae12c9d', NULL, '\x368426ba0cde2b6e857f1f9edfdc5ca8f1f62fa0b381879e51224ffaa06805f4', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a34312c2274696d65223a22323032362d31312d32375431353a31303a31332e3937335a222c226576656e74223a226b65795f61747472696275746573222c226f7574636f6d65223a226f6b222c226d65726368616e74223a2242435232444e34544558414d504c45222c227075626c69634b657948617368223a226b722f71506c465a49326b794575504b732b78397950794e616862496f6e656e4d685645374572684c4a303d222c22746f6b656e223a227072696d617279222c226b657973223a5b7b22616c676f726974686d223a224543222c2262697473223a3235362c2273656e736974697665223a747275652c226578747261637461626c65223a66616c73652c22616c7761797353656e736974697665223a747275652c226e657665724578747261637461626c65223a747275652c226c6f63616c223a747275652c2273746f726564223a747275652c2270726976617465223a747275652c226d6f6469666961626c65223a747275652c2275736573223a5b22646572697665225d7d5d2c2268617368223a2233363834323662613063646532623665383537663166396564666463356361386631663632666130623338313837396535313232346666616130363830356634227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 42, 1795792215584, 'decrypt', 'ok', 'checkout', 0, 'BCR2DN4TEXAMPLE', '\x92bfea3e515923693212e3cab3ec7dc8fc8d6a16c8a277a7321544ec4ae12c9d', '\xcff49190c05c24a747f153ef8b2f7bfe0ffb7cece932e4d2a08bc02d3e725c3a', '\xad0c7c0688b3a4508008591e6c021ea2895f6336a59ffa26d81e8a5377f996e9', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a34322c2274696d65223a22323032362d31312d32375431353a31303a31352e3538345a222c226576656e74223a2264656372797074222c226f7574636f6d65223a226f6b222c2263616c6c6572223a7b226e616d65223a22636865636b6f7574222c22756964223a302c22676964223a302c22706964223a31323531312c22636f6d6d223a226375726c227d2c226d65726368616e74223a2242435232444e34544558414d504c45222c227075626c69634b657948617368223a226b722f71506c465a49326b794575504b732b78397950794e616862496f6e656e4d685645374572684c4a303d222c227472616e73616374696f6e4964223a2263666634393139306330356332346137343766313533656638623266376266653066666237636563653933326534643261303862633032643365373235633361222c2270726f74656374696f6e223a2243222c22746f6b656e223a227072696d617279222c2277616c6c6574223a22676f6f676c652d706179222c227265666572656e6365223a2233396264646463303237653862343235356531343661336531356237396435373935333165333836636334303931386161383839333430346166303435663830222c22616d6f756e74223a2231302e3939222c2263757272656e6379223a22455552222c22617574684d6574686f64223a2243525950544f4752414d5f334453222c2274726965644b657973223a5b226b722f71506c465a49326b794575504b732b78397950794e616862496f6e656e4d685645374572684c4a303d225d2c2268617368223a2261643063376330363838623361343530383030383539316536633032316561323839356636333336613539666661323664383165386135333737663939366539227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 43, 1795792215609, 'stop', 'ok', NULL, NULL, NULL, NULL, NULL, '\x7e6eb15c099d110747a36fd4582db20739e2774f2e0669742007b731f8d07576', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a34332c2274696d65223a22323032362d31312d32375431353a31303a31352e3630395a222c226576656e74223a2273746f70222c226f7574636f6d65223a226f6b222c2268617368223a2237653665623135633039396431313037343761333666643435383264623230373339653237373466326530363639373432303037623733316638643037353736227d');


--
-- Data for Name: checkpoint; Type: TABLE DATA; Schema: paytokend; Owner: -
--

INSERT INTO paytokend.checkpoint VALUES ('node-1', 4, 1795792188041, '\x7b22636865636b706f696e74223a7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a342c2268617368223a2265633036333738333734643032323965666236313039643436666339363136623335316630333833646438306565663632333863616434333463336363613666222c2274696d65223a22323032362d31312d32375431353a30393a34382e3034315a222c226b65794964223a2234336235393330636333653962663839626235313437333835666330663464373465353331663230656135313463643036373437383938386437663132663864227d2c227369676e6174757265223a224d455543495144645252393142775a546d44732b53412f64496a6f70614d4f4a545a526d3477624158506873314e4d49585149674742796b374a5774334b672f536c784a7531636242667a646b586c3445673663476f4c7366576a4a4e6c303d227d');
INSERT INTO paytokend.checkpoint VALUES ('node-1', 38, 1795792212160, '\x7b22636865636b706f696e74223a7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a33382c2268617368223a2236313137303738646638643065616539633036303337323436326138326535383238343731656636646134336235343636626535313464366163356131373465222c2274696d65223a22323032362d31312d32375431353a31303a31322e3136305a222c226b65794964223a2234336235393330636333653962663839626235313437333835666330663464373465353331663230656135313463643036373437383938386437663132663864227d2c227369676e6174757265223a224d4551434947797a7048594133643631395637586152647270664f2f786e526537743062506161392b7450594435356e41694237664d354e436f36614338724373713244333532503876324a5574495967504d5a455a436d4462506b73413d3d227d');
INSERT INTO paytokend.checkpoint VALUES ('node-1', 43, 1795792215635, '\x7b22636865636b706f696e74223a7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a34332c2268617368223a2237653665623135633039396431313037343761333666643435383264623230373339653237373466326530363639373432303037623733316638643037353736222c2274696d65223a22323032362d31312d32375431353a31303a31352e3633355a222c226b65794964223a2234336235393330636333653962663839626235313437333835666330663464373465353331663230656135313463643036373437383938386437663132663864227d2c227369676e6174757265223a224d4555434946356c4c68614b6f62474f5559324d312f625253706773596149766e513362466b542f7269694f34314e4541694541796257686f6c3341694c4a4f665a646d51616f38645273795958526e7749573837486c79593446486265343d227d');


--
-- Data for Name: claim; Type: TABLE DATA; Schema: paytokend; Owner: -
--

INSERT INTO paytokend.claim VALUES ('\xe73b1037a4d2af4ab9400f5ef2519007c1e0e5803528333b49887aa7cb8c7c24', '\x6fd7907542ee43500f0dc2ce51ee4c6858aadbfc519b84d1b48b766d077fb1e8', 'checkout', '\x3d5e3106cd72ba03fededf6dbb9fc3367edcebe453e90db236ea763aa228bee3', '\x0649ce22927440c08c285e19fb712678e79e1fe66e0ae9ad40ee194062dfa2ba', '\x00000000000000006e8cb2e39244ff06', 1795792190800, 0, NULL, NULL, 'node-1', NULL);
INSERT INTO paytokend.claim VALUES ('\x9565160f92ca79cf164c4fa4e947b8ce31eeb5cf612cd8296cd5efd4272e6dd0', '\x6fd7907542ee43500f0dc2ce51ee4c6858aadbfc519b84d1b48b766d077fb1e8', 'checkout', '\x28ec9a8ff249fd5fb2993734c026afbbe4dea76ec7a999c23d774236bbb86de7', '\xf2981e71551a1bf163b39f2e06f21ed3c0f521115b163b1b8d7b9f339ffb45a0', '\x000000000000000077b208bc24c4865c', 1795792191641, 0, NULL, NULL, 'node-1', NULL);
INSERT INTO paytokend.claim VALUES ('\x28b33c6e2cc072ad18ab56333e1d944732143cb63ab651bf52e1ea6bac65eea2', '\x6fd7907542ee43500f0dc2ce51ee4c6858aadbfc519b84d1b48b766d077fb1e8', 'checkout', '\x0bafe22156d2698c143b86040446d366ead863ba600d5c924f3d15c786ef4057', '\x0d638ef31d49c03745821d9f7837eac526a60ef81bd3b4dd038f88d347426454', '\x00000000000000000735f596d997c71a', 1795792190066, 1, '\x0000000000000000b0f5ebd5e9be46f6', 1795792192088, 'node-1', NULL);
INSERT INTO paytokend.claim VALUES ('\x36f7b694ebf419c10a6683949f3826817457927dd81e6134ab9b19d0817b3fe2', '\x6fd7907542ee43500f0dc2ce51ee4c6858aadbfc519b84d1b48b766d077fb1e8', 'checkout', NULL, '\x321b0e378d89e2cdbc334346ba6fc1880dea4ac488571c27521cc8d34a7e49b2', '\x0000000000000000ca7cbaa5c8b0d905', 1795792193287, 0, NULL, NULL, 'node-1', NULL);
INSERT INTO paytokend.claim VALUES ('\xf0079a6516e5fbece7b633c18d9ddc6b88b63c3b49c715d10cac3dbf46dc90d2', '\x8121b343897cbc45ae69ffa1a5406f3528d8a6795e89e57abd67f8b6a5dd0f7e', 'checkout', '\xf71df65670d623211347f34193032b6adc915eba3cb14d4416e8c71943ee7c9f', '\xe560d82bf0266d207f10d4528907aba750226c185bfa4750a47216b62963ce83', '\x00000000000000000658865d528fad24', 1795792195200, 0, NULL, NULL, 'node-1', NULL);
INSERT INTO paytokend.claim VALUES ('\xe695fbe142c0ca2c6c6c8714c1407c05e172d17b5aee05dae083bff6155ce4b4', '\xb03a2e5f8fa0da6035bccd2ac00d5f1ed61c575c8fc6392db4e912a759c78054', 'checkout', '\xdf8cf80227ec3237922df0ecd88385c546e4a31bdb8127b033f01e6f21f175df', '\x1ba149938dca391b5d38a0ec591294d25fe15026d6bb5ec34461e697e7aab176', '\x000000000000000013891d96dd725257', 1795792206972, 0, NULL, NULL, 'node-1', NULL);
INSERT INTO paytokend.claim VALUES ('\xa85a8a2c37b4e292b5ef0294c711ffe22206a9a8fc9256e9f5b155a01c45edd5', '\x502a55a1fa7c6df769a94454bc396a82656c3ef4905ee24882df51e76fad931b', 'checkout', '\x329f75d24aca913892d9e7342232e12c9baff7b5d8db697032d1fa9580e76174', '\x083b968aaeeb0624d4ee7e731a3be95e71ea7cb07723829b5e19e3ef4f2d7127', '\x00000000000000008ff206c49c840240', 1795792209671, 0, NULL, NULL, 'node-1', NULL);
INSERT INTO paytokend.claim VALUES ('\x20cae72e28943c2b53747056102663ed35ea3ac99bad20ff584779f9f7553395', '\x6fd7907542ee43500f0dc2ce51ee4c6858aadbfc519b84d1b48b766d077fb1e8', 'checkout', '\xdd4eb517653e60e918cd1868850d80b45e449ea99ecdfb9c907b7954e014b1cf', '\x4807d9abdb9cda35393acfd18999125e5e02418a05b767bd2ccfba565d1c3cbf', '\x0000000000000000a7d6fe3c5bfc0751', 1795792212837, 0, NULL, NULL, 'node-1', NULL);
INSERT INTO paytokend.claim VALUES ('\x611f749f3d8eb8359b2193e41781393f1602a9ed0b7e8f9090ae1e3e4f11911b', '\x92bfea3e515923693212e3cab3ec7dc8fc8d6a16c8a277a7321544ec4ae12c9d', 'checkout', '\x39bdddc027e8b4255e146a3e15b79d579531e386cc40918aa8893404af045f80', '\xcff49190c05c24a747f153ef8b2f7bfe0ffb7cece932e4d2a08bc02d3e725c3a', '\x0000000000000000be9dfed1b8456884', 1795792215578, 0, NULL, NULL, 'node-1', '\xb24bea623165583d405c53a8f8b71de858b8bbe905a6ee8e11eb4aa77e7e71e3');


--
-- Data for Name: hold; Type: TABLE DATA; Schema: paytokend; Owner: -
--



--
-- Data for Name: key_holder; Type: TABLE DATA; Schema: paytokend; Owner: -
--

INSERT INTO paytokend.key_holder VALUES ('node-1', '\x11127ac63b1fbbba9c72ccca4a0fa914c1799eb6cd0fe37d7902cdcb756fa6e8', 1795792214702);
INSERT INTO paytokend.key_holder VALUES ('node-1', '\x2cc0e477fc9f416891606d365b105f5c03db62cdf413515bc6eddbbdfc56b4fe', 1795792214702);
INSERT INTO paytokend.key_holder VALUES ('node-1', '\x502a55a1fa7c6df769a94454bc396a82656c3ef4905ee24882df51e76fad931b', 1795792214702);
INSERT INTO paytokend.key_holder VALUES ('node-1', '\x6fd7907542ee43500f0dc2ce51ee4c6858aadbfc519b84d1b48b766d077fb1e8', 1795792214702);
INSERT INTO paytokend.key_holder VALUES ('node-1', '\x791d363f54c7ced2f5205b24733ccf971e880aa1df71261db2552174405585d2', 1795792214702);
INSERT INTO paytokend.key_holder VALUES ('node-1', '\x8121b343897cbc45ae69ffa1a5406f3528d8a6795e89e57abd67f8b6a5dd0f7e', 1795792214702);
INSERT INTO paytokend.key_holder VALUES ('node-1', '\x92bfea3e515923693212e3cab3ec7dc8fc8d6a16c8a277a7321544ec4ae12c9d', 1795792214702);
INSERT INTO paytokend.key_holder VALUES ('node-1', '\xb03a2e5f8fa0da6035bccd2ac00d5f1ed61c575c8fc6392db4e912a759c78054', 1795792214702);


--
-- Data for Name: ledger_state; Type: TABLE DATA; Schema: paytokend; Owner: -
--

INSERT INTO paytokend.ledger_state VALUES (true, 12, NULL, 0, '7712868670371813132', 1, NULL, NULL, '57769ba2-f2ad-42e0-a076-8056c8220315');


--
-- Data for Name: merchant_key; Type: TABLE DATA; Schema: paytokend; Owner: -
--

INSERT INTO paytokend.merchant_key VALUES ('\x6fd7907542ee43500f0dc2ce51ee4c6858aadbfc519b84d1b48b766d077fb1e8', 'merchant.com.example.active', 'EC', 'active', NULL, 'imported', 1795792189522, 'node-1', 1, 'processing');
INSERT INTO paytokend.merchant_key VALUES ('\x8121b343897cbc45ae69ffa1a5406f3528d8a6795e89e57abd67f8b6a5dd0f7e', 'merchant.com.example.suspended', 'RSA', 'suspended', NULL, 'imported', 1795792194781, 'node-1', 4, 'processing');
INSERT INTO paytokend.merchant_key VALUES ('\x11127ac63b1fbbba9c72ccca4a0fa914c1799eb6cd0fe37d7902cdcb756fa6e8', 'merchant.com.example.compromised', 'EC', 'compromised', NULL, 'imported', 1795792199754, 'node-1', 7, 'processing');
INSERT INTO paytokend.merchant_key VALUES ('\x791d363f54c7ced2f5205b24733ccf971e880aa1df71261db2552174405585d2', 'merchant.com.example.generated', 'EC', 'pre-activation', NULL, 'generated', 1795792203546, 'node-1', 8, 'processing');
INSERT INTO paytokend.merchant_key VALUES ('\x2cc0e477fc9f416891606d365b105f5c03db62cdf413515bc6eddbbdfc56b4fe', '2X9R4HXF34', 'EC', 'active', NULL, 'imported', 1795792204672, 'node-1', 9, 'service');
INSERT INTO paytokend.merchant_key VALUES ('\x502a55a1fa7c6df769a94454bc396a82656c3ef4905ee24882df51e76fad931b', 'merchant.com.example.rotated', 'EC', 'active', NULL, 'generated', 1795792207752, 'node-1', 13, 'processing');
INSERT INTO paytokend.merchant_key VALUES ('\xb03a2e5f8fa0da6035bccd2ac00d5f1ed61c575c8fc6392db4e912a759c78054', 'merchant.com.example.rotated', 'EC', 'deactivated', 1796397010000, 'imported', 1795792206253, 'node-1', 15, 'processing');
INSERT INTO paytokend.merchant_key VALUES ('\x92bfea3e515923693212e3cab3ec7dc8fc8d6a16c8a277a7321544ec4ae12c9d', 'BCR2DN4TEXAMPLE', 'EC', 'active', NULL, 'generated', 1795792213781, 'node-1', 16, 'google-pay');


--
-- Data for Name: moved_ledger; Type: TABLE DATA; Schema: paytokend; Owner: -
--



--
-- Data for Name: node; Type: TABLE DATA; Schema: paytokend; Owner: -
--

INSERT INTO paytokend.node VALUES ('node-1', 1, '-infinity', '2026-11-27 15:10:15.638069+00', '0.1.0', '\xd54930382e4ba86afdac9d11fcc97253', 0, 0, 86400000, '7712868670371813132', 1);


--
-- Data for Name: renewal; Type: TABLE DATA; Schema: paytokend; Owner: -
--

INSERT INTO paytokend.renewal VALUES ('\xb86ab78c432899ef', 'merchant.com.example.generated', 'processing', 'EC', '\x791d363f54c7ced2f5205b24733ccf971e880aa1df71261db2552174405585d2', 'open', NULL, NULL, '\x3081e430818b02010030293127302506035504030c1e6d65726368616e742e636f6d2e6578616d706c652e67656e6572617465643059301306072a8648ce3d020106082a8648ce3d03010703420004dfb759befe8ac4f0a01cfc85614a489170a65c15a5c8747ec00aa2703c710089ddda3679514e8cf8f06b4d130df49aa188042cfe994e97752c24b14e149d88f2a000300a06082a8648ce3d0403020348003045022051ed0cf714a65bc870d1824c05fb0f5791351457cf1ba013a7bf370b94d12c6b022100dcaac4cda864942c8374bf4afd4c8d442cb7affee8ba283269f7b2b0584aa606', NULL, 0, 'checkout', 1795792210350, NULL, 'node-1');


--
-- Data for Name: renewal_attempt; Type: TABLE DATA; Schema: paytokend; Owner: -
--



--
-- Name: key_change; Type: SEQUENCE SET; Schema: paytokend; Owner: -
--

SELECT pg_catalog.setval('paytokend.key_change', 16, true);


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
-- Name: claim_by_message; Type: INDEX; Schema: paytokend; Owner: -
--

CREATE UNIQUE INDEX claim_by_message ON paytokend.claim USING btree (message_claim) WHERE (message_claim IS NOT NULL);


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


