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
-- Data for Name: approval; Type: TABLE DATA; Schema: paytokend; Owner: -
--



--
-- Data for Name: archive; Type: TABLE DATA; Schema: paytokend; Owner: -
--



--
-- Data for Name: audit_key; Type: TABLE DATA; Schema: paytokend; Owner: -
--

INSERT INTO paytokend.audit_key VALUES ('node-1', 1, '\x6e6f64657ddd5042d624634aa8c06854', '\x042e66b391d0153249c35fdccdc5e7009b5b0ab70543876e6b47a1572eeed4895ac2c6475cfd1d1accece9e56229bef551ed5410bf2449dee165c74829a3729146', 1795720370302, 'primary');


--
-- Data for Name: audit_record; Type: TABLE DATA; Schema: paytokend; Owner: -
--

INSERT INTO paytokend.audit_record VALUES ('node-1', 1, 1795720369944, 'start', 'ok', NULL, NULL, NULL, NULL, NULL, '\x490ca26fa0f4aa0509e769b5511b68229c5165e0c6163cd785b4cd174554357d', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a312c2274696d65223a22323032362d31312d32365431393a31323a34392e3934345a222c226576656e74223a227374617274222c226f7574636f6d65223a226f6b222c2276657273696f6e223a22302e312e30222c22706179746f6b656e64536861323536223a2235613462383238313663306435623866356134663430363531663164616364376431633863646236633135663561653732663237333761313238643434316132222c22776f726b6572536861323536223a2232303033393238376638376233303439396366613261636631383836356636333435626130626566623733323663656236636462373764303034313166333136222c226d6f64756c6573223a7b227072696d617279223a2231306132336631376263373565363661353563336137623732376164303062366135663335373364613838343161623739396536646139636332303164623765227d2c2268617368223a2234393063613236666130663461613035303965373639623535313162363832323963353136356530633631363363643738356234636431373435353433353764227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 2, 1795720369944, 'configuration_load', 'ok', NULL, NULL, NULL, NULL, NULL, '\xd8bb102240220b40146421fbd440a966e9dfa1cde2df63521b7c16714ec6011a', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a322c2274696d65223a22323032362d31312d32365431393a31323a34392e3934345a222c226576656e74223a22636f6e66696775726174696f6e5f6c6f6164222c226f7574636f6d65223a226f6b222c2266696c65536861323536223a2263333235333035336463353934633431643531303139393131386634656332666661323362303531353332353737323265353539303035663137616339326263222c2268617368223a2264386262313032323430323230623430313436343231666264343430613936366539646661316364653264663633353231623763313637313465633630313161227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 3, 1795720369944, 'configuration_values', 'ok', NULL, NULL, NULL, NULL, NULL, '\x7ce55f5078816848ee351dd97a590d342c6d5e647cfce0c1ff379e61e9800f7b', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a332c2274696d65223a22323032362d31312d32365431393a31323a34392e3934345a222c226576656e74223a22636f6e66696775726174696f6e5f76616c756573222c226f7574636f6d65223a226f6b222c2270617274223a312c227061727473223a312c2276616c756573223a7b226163636573732e312e6d65726368616e7473223a222a222c226163636573732e312e6e616d65223a22636865636b6f7574222c226163636573732e312e726571756972655f6578706563746564223a22222c226163636573732e312e726f6c6573223a22646563727970742c2061756469742c2061646d696e222c226163636573732e312e756964223a2230222c226163636573732e312e75736572223a22726f6f74222c22617070726f76616c732e657870697265223a223164222c22617070726f76616c732e70656f706c65223a2232222c226c65646765722e656e67696e65223a22706f737467726573716c222c226c65646765722e6e6f6465223a226e6f64652d31222c226c65646765722e7265706561745f666f72223a223164222c226c65646765722e726571756972655f7374616e646279223a2266616c7365222c226c65646765722e72657461696e5f636c61696d73223a2231383064222c226c65646765722e72657461696e5f7265636f726473223a226f6666222c226c65646765722e736572766572223a222f746d702f706179746f6b656e642d666978747572652e73494d7245672f6c6564676572222c226c65646765722e74696d656f7574223a22313073222c226c65646765722e75736572223a22706179746f6b656e64222c226c697374656e65722e61646d696e5f6d6f6465223a2230363030222c226c697374656e65722e61646d696e5f736f636b6574223a222f746d702f706179746f6b656e642e4c45386249632f61646d696e2e736f636b222c226c697374656e65722e69646c655f74696d656f7574223a22316d222c226c697374656e65722e6d61785f636f6e6e656374696f6e73223a22353132222c226c697374656e65722e6d61785f636f6e6e656374696f6e735f7065725f756964223a22313238222c226c697374656e65722e6d61785f726571756573745f6279746573223a223635353336222c226c697374656e65722e6d6f6465223a2230363630222c226c697374656e65722e736f636b6574223a222f746d702f706179746f6b656e642e4c45386249632f706179746f6b656e642e736f636b222c226c6f672e666f726d6174223a2274657874222c226c6f672e6c6576656c223a22696e666f222c2272656e6577616c2e697373756572223a2235373234363534322d393666652d316136332d653035332d303832346430313130373261222c2272656e6577616c2e6b65795f6964223a2232583952344858463334222c22746f6b656e732e31223a227072696d617279222c22746f6b656e732e7072696d6172792e616c6c6f775f6578747261637461626c655f736563726574223a2274727565222c22746f6b656e732e7072696d6172792e63616c6c5f74696d656f7574223a22313073222c22746f6b656e732e7072696d6172792e64656e795f73797374656d5f63616c6c73223a22222c22746f6b656e732e7072696d6172792e656e7669726f6e6d656e74223a22534f465448534d325f434f4e46222c22746f6b656e732e7072696d6172792e696e69745f61726773223a22222c22746f6b656e732e7072696d6172792e6d6f64756c65223a222f7573722f6c69622f736f667468736d2f6c6962736f667468736d322e736f222c22746f6b656e732e7072696d6172792e70696e5f66696c65223a222f746d702f706179746f6b656e642e4c45386249632f70696e222c22746f6b656e732e7072696d6172792e72656379636c655f6166746572223a2231303030303030222c22746f6b656e732e7072696d6172792e73657373696f6e73223a2232222c22746f6b656e732e7072696d6172792e757269223a22706b637331313a746f6b656e3d73616e64626f78222c22746f6b656e732e7072696d6172792e7573655f6c6f67223a22222c22746f6b656e732e7072696d6172792e76616c69646174696f6e223a22222c2274727573742e64697374727573746564223a22222c2274727573742e726f6f745f66696c6573223a222f746d702f706179746f6b656e642e4c45386249632f617574686f726974792f726f6f742e70656d222c2274727573742e726f6f7473223a2231613365323331386333316530396632646362616262366465303464366138396339336434633466343761316336306233636138626465383361323438306335222c22766572696669636174696f6e2e7369676e696e675f74696d655f77696e646f77223a223164227d2c2268617368223a2237636535356635303738383136383438656533353164643937613539306433343263366435653634376366636530633166663337396536316539383030663762227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 4, 1795720370464, 'audit_key_change', 'ok', NULL, NULL, NULL, NULL, NULL, '\xf582464acae6a3db0d2e1a1d74108ac8723c697b7d6862f3bd77d44fa43a2750', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a342c2274696d65223a22323032362d31312d32365431393a31323a35302e3436345a222c226576656e74223a2261756469745f6b65795f6368616e6765222c226f7574636f6d65223a226f6b222c22746f6b656e223a227072696d617279222c22746f223a2234396166623734386139303836356562336330663262386132386131666639333564346131613265373936656331333636376139376333623338396332393337222c2268617368223a2266353832343634616361653661336462306432653161316437343130386163383732336336393762376436383632663362643737643434666134336132373530227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 5, 1795720371084, 'token_attributes', 'ok', NULL, NULL, NULL, NULL, NULL, '\x4b0d1042270086e34ce024e6c0e58c68e042fa0f74855809128938eaa84bc7ed', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a352c2274696d65223a22323032362d31312d32365431393a31323a35312e3038345a222c226576656e74223a22746f6b656e5f61747472696275746573222c226f7574636f6d65223a226f6b222c22746f6b656e223a227072696d617279222c226c6162656c223a2273616e64626f78222c2273657269616c4e756d626572223a2266343461323031646466626461383235222c226d616e756661637475726572223a22536f667448534d2070726f6a656374222c226d6f64656c223a22536f667448534d207632222c22686172647761726556657273696f6e223a22322e36222c226669726d7761726556657273696f6e223a22322e36222c226c696272617279223a22496d706c656d656e746174696f6e206f6620504b4353313120322e36222c227469657245437631223a2243222c22746965725253417631223a2243222c2268617368223a2234623064313034323237303038366533346365303234653663306535386336386530343266613066373438353538303931323839333865616138346263376564227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 6, 1795720372547, 'key_import', 'ok', 'checkout', 0, 'merchant.com.example.active', '\x3bd287e310085efa8c3033f149bb4e19b3e680434c89d79bd7df002bb7df2657', NULL, '\xa4f3b4e712acd3191b7c950162bffe2f0f0cc81874a91bbbe624d692b85c7fa8', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a362c2274696d65223a22323032362d31312d32365431393a31323a35322e3534375a222c226576656e74223a226b65795f696d706f7274222c226f7574636f6d65223a226f6b222c2263616c6c6572223a7b226e616d65223a22636865636b6f7574222c22756964223a302c22676964223a302c22706964223a323734392c22636f6d6d223a22706179746f6b656e63746c227d2c226d65726368616e74223a226d65726368616e742e636f6d2e6578616d706c652e616374697665222c227075626c69634b657948617368223a224f394b48347841495876714d4d4450785362744f4762506d67454e4d69646562313938414b3766664a6c633d222c22746f6b656e223a227072696d617279222c226365727469666963617465536861323536223a2265653563616338383366356363336136316637346163313164643137623239333938663435613966316461643961663336313031353036303966666666346164222c22616c676f726974686d223a224543222c2262697473223a3235362c226f726967696e223a22696d706f72746564222c226365727469666963617465456e64223a22323032382d31322d32345431393a31323a35312e3030305a222c22697373756572223a22433d55532c4f3d546f6b656e20466f7267652c4f553d466f7267652043657274696669636174696f6e20417574686f726974792c434e3d466f72676520576f726c647769646520446576656c6f7065722052656c6174696f6e73204341202d204732222c2268617368223a2261346633623465373132616364333139316237633935303136326266666532663066306363383138373461393162626265363234643639326238356337666138227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 7, 1795720373112, 'key_attributes', 'ok', NULL, NULL, 'merchant.com.example.active', '\x3bd287e310085efa8c3033f149bb4e19b3e680434c89d79bd7df002bb7df2657', NULL, '\xe4475ef1bb375d14fd99c10dd3a61010761acfcac2899da2fc9497e111aea1b2', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a372c2274696d65223a22323032362d31312d32365431393a31323a35332e3131325a222c226576656e74223a226b65795f61747472696275746573222c226f7574636f6d65223a226f6b222c226d65726368616e74223a226d65726368616e742e636f6d2e6578616d706c652e616374697665222c227075626c69634b657948617368223a224f394b48347841495876714d4d4450785362744f4762506d67454e4d69646562313938414b3766664a6c633d222c22746f6b656e223a227072696d617279222c226b657973223a5b7b22616c676f726974686d223a224543222c2262697473223a3235362c2273656e736974697665223a747275652c226578747261637461626c65223a66616c73652c22616c7761797353656e736974697665223a66616c73652c226e657665724578747261637461626c65223a66616c73652c226c6f63616c223a66616c73652c2273746f726564223a747275652c2270726976617465223a747275652c226d6f6469666961626c65223a747275652c2275736573223a5b22646572697665225d7d5d2c2268617368223a2265343437356566316262333735643134666439396331306464336136313031303736316163666361633238393964613266633934393765313131616561316232227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 8, 1795720373186, 'decrypt', 'ok', 'checkout', 0, 'merchant.com.example.active', '\x3bd287e310085efa8c3033f149bb4e19b3e680434c89d79bd7df002bb7df2657', '\x4ac3af203de89da40b773f4965145e6f92ede60fb4f30a5f9a875f8e2ed19ad9', '\x8b2b8ad485fa2cb401f053a234f44453fbd4012e466aea511f9591f4d5204c35', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a382c2274696d65223a22323032362d31312d32365431393a31323a35332e3138365a222c226576656e74223a2264656372797074222c226f7574636f6d65223a226f6b222c2263616c6c6572223a7b226e616d65223a22636865636b6f7574222c22756964223a302c22676964223a302c22706964223a323830362c22636f6d6d223a22706179746f6b656e63746c227d2c226d65726368616e74223a226d65726368616e742e636f6d2e6578616d706c652e616374697665222c227075626c69634b657948617368223a224f394b48347841495876714d4d4450785362744f4762506d67454e4d69646562313938414b3766664a6c633d222c227472616e73616374696f6e4964223a2234616333616632303364653839646134306237373366343936353134356536663932656465363066623466333061356639613837356638653265643139616439222c2270726f74656374696f6e223a2243222c22746f6b656e223a227072696d617279222c227265666572656e6365223a2230626166653232313536643236393863313433623836303430343436643336366561643836336261363030643563393234663364313563373836656634303537222c2268617368223a2238623262386164343835666132636234303166303533613233346634343435336662643430313265343636616561353131663935393166346435323034633335227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 9, 1795720373839, 'decrypt', 'ok', 'checkout', 0, 'merchant.com.example.active', '\x3bd287e310085efa8c3033f149bb4e19b3e680434c89d79bd7df002bb7df2657', '\xeda36a0247daa8bc570ac33c808fe19ae61c6b2f5ad68ad8d1e5f69b31ff169f', '\xc7d0af76533b65006e54f8ceeb2a546835b87ed1387061c82058a857b77a5436', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a392c2274696d65223a22323032362d31312d32365431393a31323a35332e3833395a222c226576656e74223a2264656372797074222c226f7574636f6d65223a226f6b222c2263616c6c6572223a7b226e616d65223a22636865636b6f7574222c22756964223a302c22676964223a302c22706964223a323837312c22636f6d6d223a22706179746f6b656e63746c227d2c226d65726368616e74223a226d65726368616e742e636f6d2e6578616d706c652e616374697665222c227075626c69634b657948617368223a224f394b48347841495876714d4d4450785362744f4762506d67454e4d69646562313938414b3766664a6c633d222c227472616e73616374696f6e4964223a2265646133366130323437646161386263353730616333336338303866653139616536316336623266356164363861643864316535663639623331666631363966222c2270726f74656374696f6e223a2243222c22746f6b656e223a227072696d617279222c227265666572656e6365223a2233643565333130366364373262613033666564656466366462623966633333363765646365626534353365393064623233366561373633616132323862656533222c2268617368223a2263376430616637363533336236353030366535346638636565623261353436383335623837656431333837303631633832303538613835376237376135343336227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 10, 1795720374656, 'decrypt', 'ok', 'checkout', 0, 'merchant.com.example.active', '\x3bd287e310085efa8c3033f149bb4e19b3e680434c89d79bd7df002bb7df2657', '\x215e97dc8795ef5992106ebdcc3a71d1ab5def56b25c5dbca132163b1b664dd2', '\x296fc1de1cf9837857515a3fc0856c4eab36d80cc6393aaac0fd5b7aaf6a21af', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a31302c2274696d65223a22323032362d31312d32365431393a31323a35342e3635365a222c226576656e74223a2264656372797074222c226f7574636f6d65223a226f6b222c2263616c6c6572223a7b226e616d65223a22636865636b6f7574222c22756964223a302c22676964223a302c22706964223a323938392c22636f6d6d223a22706179746f6b656e63746c227d2c226d65726368616e74223a226d65726368616e742e636f6d2e6578616d706c652e616374697665222c227075626c69634b657948617368223a224f394b48347841495876714d4d4450785362744f4762506d67454e4d69646562313938414b3766664a6c633d222c227472616e73616374696f6e4964223a2232313565393764633837393565663539393231303665626463633361373164316162356465663536623235633564626361313332313633623162363634646432222c2270726f74656374696f6e223a2243222c22746f6b656e223a227072696d617279222c227265666572656e6365223a2232386563396138666632343966643566623239393337333463303236616662626534646561373665633761393939633233643737343233366262623836646537222c2268617368223a2232393666633164653163663938333738353735313561336663303835366334656162333664383063633633393361616163306664356237616166366132316166227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 11, 1795720375138, 'decrypt', 'repeat', 'checkout', 0, 'merchant.com.example.active', '\x3bd287e310085efa8c3033f149bb4e19b3e680434c89d79bd7df002bb7df2657', '\x4ac3af203de89da40b773f4965145e6f92ede60fb4f30a5f9a875f8e2ed19ad9', '\xa803e9d9693b418bb9fd37858df6dd4c0e5dd3e27600b5df16473ff6a74293d8', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a31312c2274696d65223a22323032362d31312d32365431393a31323a35352e3133385a222c226576656e74223a2264656372797074222c226f7574636f6d65223a22726570656174222c2263616c6c6572223a7b226e616d65223a22636865636b6f7574222c22756964223a302c22676964223a302c22706964223a333032332c22636f6d6d223a22706179746f6b656e63746c227d2c226d65726368616e74223a226d65726368616e742e636f6d2e6578616d706c652e616374697665222c227075626c69634b657948617368223a224f394b48347841495876714d4d4450785362744f4762506d67454e4d69646562313938414b3766664a6c633d222c227472616e73616374696f6e4964223a2234616333616632303364653839646134306237373366343936353134356536663932656465363066623466333061356639613837356638653265643139616439222c2270726f74656374696f6e223a2243222c22746f6b656e223a227072696d617279222c227265666572656e6365223a2230626166653232313536643236393863313433623836303430343436643336366561643836336261363030643563393234663364313563373836656634303537222c2268617368223a2261383033653964393639336234313862623966643337383538646636646434633065356464336532373630306235646631363437336666366137343239336438227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 12, 1795720375625, 'decrypt', 'transaction_replayed', 'checkout', 0, 'merchant.com.example.active', '\x3bd287e310085efa8c3033f149bb4e19b3e680434c89d79bd7df002bb7df2657', '\xeda36a0247daa8bc570ac33c808fe19ae61c6b2f5ad68ad8d1e5f69b31ff169f', '\x5e07e22ec46b103ce2c23015e277390a59c8857f4f5bf44e11cf2b0c77fa349c', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a31322c2274696d65223a22323032362d31312d32365431393a31323a35352e3632355a222c226576656e74223a2264656372797074222c226f7574636f6d65223a227472616e73616374696f6e5f7265706c61796564222c2263616c6c6572223a7b226e616d65223a22636865636b6f7574222c22756964223a302c22676964223a302c22706964223a333034362c22636f6d6d223a22706179746f6b656e63746c227d2c226d65726368616e74223a226d65726368616e742e636f6d2e6578616d706c652e616374697665222c227075626c69634b657948617368223a224f394b48347841495876714d4d4450785362744f4762506d67454e4d69646562313938414b3766664a6c633d222c227472616e73616374696f6e4964223a2265646133366130323437646161386263353730616333336338303866653139616536316336623266356164363861643864316535663639623331666631363966222c2270726f74656374696f6e223a2243222c22746f6b656e223a227072696d617279222c227265666572656e6365223a2261653434386163383663346538653464656336343537323937303865663431383733616537396336646666383465666637333336303938393438376630386535222c2268617368223a2235653037653232656334366231303363653263323330313565323737333930613539633838353766346635626634346531316366326230633737666133343963227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 13, 1795720376638, 'decrypt', 'ok', 'checkout', 0, 'merchant.com.example.active', '\x3bd287e310085efa8c3033f149bb4e19b3e680434c89d79bd7df002bb7df2657', '\x8374e1b457f5b3da35e1da25b725c01a5a3bc5f6ba4e3be301b8ed14f92e8083', '\x64a8044665fa959aeaf4607aa23059b141ece0fcf706db3dfdc587955d72ea3f', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a31332c2274696d65223a22323032362d31312d32365431393a31323a35362e3633385a222c226576656e74223a2264656372797074222c226f7574636f6d65223a226f6b222c2263616c6c6572223a7b226e616d65223a22636865636b6f7574222c22756964223a302c22676964223a302c22706964223a333130342c22636f6d6d223a22706179746f6b656e63746c227d2c226d65726368616e74223a226d65726368616e742e636f6d2e6578616d706c652e616374697665222c227075626c69634b657948617368223a224f394b48347841495876714d4d4450785362744f4762506d67454e4d69646562313938414b3766664a6c633d222c227472616e73616374696f6e4964223a2238333734653162343537663562336461333565316461323562373235633031613561336263356636626134653362653330316238656431346639326538303833222c2270726f74656374696f6e223a2243222c22746f6b656e223a227072696d617279222c2268617368223a2236346138303434363635666139353961656166343630376161323330353962313431656365306663663730366462336466646335383739353564373265613366227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 14, 1795720379180, 'key_import', 'ok', 'checkout', 0, 'merchant.com.example.suspended', '\xa0fc53ae8508886bd2e3c2b10be335fba7d0ed770e5bd91856c210cb12fd1e24', NULL, '\x14f6af09cfd15a10386077ed4d7483bf05babec518b50315451ec9a96f3b999b', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a31342c2274696d65223a22323032362d31312d32365431393a31323a35392e3138305a222c226576656e74223a226b65795f696d706f7274222c226f7574636f6d65223a226f6b222c2263616c6c6572223a7b226e616d65223a22636865636b6f7574222c22756964223a302c22676964223a302c22706964223a333330362c22636f6d6d223a22706179746f6b656e63746c227d2c226d65726368616e74223a226d65726368616e742e636f6d2e6578616d706c652e73757370656e646564222c227075626c69634b657948617368223a226f507854726f55496947765334384b78432b4d312b3666513758634f57396b595673495179784c394869513d222c22746f6b656e223a227072696d617279222c226365727469666963617465536861323536223a2235303431336231363031666564353035613663643339323938323731636564663433393739663263363132393138386634616539393366623733356232643732222c22616c676f726974686d223a22525341222c2262697473223a323034382c226f726967696e223a22696d706f72746564222c226365727469666963617465456e64223a22323032382d31322d32345431393a31323a35362e3030305a222c22697373756572223a22433d55532c4f3d546f6b656e20466f7267652c4f553d466f7267652043657274696669636174696f6e20417574686f726974792c434e3d466f72676520576f726c647769646520446576656c6f7065722052656c6174696f6e73204341202d204732222c2268617368223a2231346636616630396366643135613130333836303737656434643734383362663035626162656335313862353033313534353165633961393666336239393962227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 15, 1795720379210, 'key_attributes', 'ok', NULL, NULL, 'merchant.com.example.suspended', '\xa0fc53ae8508886bd2e3c2b10be335fba7d0ed770e5bd91856c210cb12fd1e24', NULL, '\xdfa19b7f61d6e11708726bbb6021b85e74a1b19db05060240ca736e33f722f66', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a31352c2274696d65223a22323032362d31312d32365431393a31323a35392e3231305a222c226576656e74223a226b65795f61747472696275746573222c226f7574636f6d65223a226f6b222c226d65726368616e74223a226d65726368616e742e636f6d2e6578616d706c652e73757370656e646564222c227075626c69634b657948617368223a226f507854726f55496947765334384b78432b4d312b3666513758634f57396b595673495179784c394869513d222c22746f6b656e223a227072696d617279222c226b657973223a5b7b22616c676f726974686d223a22525341222c2262697473223a323034382c2273656e736974697665223a747275652c226578747261637461626c65223a66616c73652c22616c7761797353656e736974697665223a66616c73652c226e657665724578747261637461626c65223a66616c73652c226c6f63616c223a66616c73652c2273746f726564223a747275652c2270726976617465223a747275652c226d6f6469666961626c65223a747275652c2275736573223a5b2264656372797074222c22756e77726170225d7d5d2c2268617368223a2264666131396237663631643665313137303837323662626236303231623835653734613162313964623035303630323430636137333665333366373232663636227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 16, 1795720380354, 'decrypt', 'ok', 'checkout', 0, 'merchant.com.example.suspended', '\xa0fc53ae8508886bd2e3c2b10be335fba7d0ed770e5bd91856c210cb12fd1e24', '\x22ed05107e4059ad5b239d647352d0beb8f08ca15420aa8580ddf9125742beda', '\x2a9fa23cc03064fabf3afc0e0e0a4e60038dc6413500cdbb8d7f947524739866', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a31362c2274696d65223a22323032362d31312d32365431393a31333a30302e3335345a222c226576656e74223a2264656372797074222c226f7574636f6d65223a226f6b222c2263616c6c6572223a7b226e616d65223a22636865636b6f7574222c22756964223a302c22676964223a302c22706964223a333436332c22636f6d6d223a22706179746f6b656e63746c227d2c226d65726368616e74223a226d65726368616e742e636f6d2e6578616d706c652e73757370656e646564222c227075626c69634b657948617368223a226f507854726f55496947765334384b78432b4d312b3666513758634f57396b595673495179784c394869513d222c227472616e73616374696f6e4964223a2232326564303531303765343035396164356232333964363437333532643062656238663038636131353432306161383538306464663931323537343262656461222c2270726f74656374696f6e223a2243222c22746f6b656e223a227072696d617279222c227265666572656e6365223a2266373164663635363730643632333231313334376633343139333033326236616463393135656261336362313464343431366538633731393433656537633966222c2268617368223a2232613966613233636330333036346661626633616663306530653061346536303033386463363431333530306364626238643766393437353234373339383636227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 17, 1795720383983, 'key_state_change', 'ok', 'checkout', 0, 'merchant.com.example.suspended', '\xa0fc53ae8508886bd2e3c2b10be335fba7d0ed770e5bd91856c210cb12fd1e24', NULL, '\xa6805e373f8471b2688c27504f221848f87f2b8d2754326ddfdeef91445a8f9f', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a31372c2274696d65223a22323032362d31312d32365431393a31333a30332e3938335a222c226576656e74223a226b65795f73746174655f6368616e6765222c226f7574636f6d65223a226f6b222c2263616c6c6572223a7b226e616d65223a22636865636b6f7574222c22756964223a302c22676964223a302c22706964223a333637312c22636f6d6d223a22706179746f6b656e63746c227d2c226d65726368616e74223a226d65726368616e742e636f6d2e6578616d706c652e73757370656e646564222c227075626c69634b657948617368223a226f507854726f55496947765334384b78432b4d312b3666513758634f57396b595673495179784c394869513d222c2266726f6d223a22616374697665222c22746f223a2273757370656e646564222c22726561736f6e223a22612066697874757265222c2268617368223a2261363830356533373366383437316232363838633237353034663232313834386638376632623864323735343332366464666465656639313434356138663966227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 18, 1795720385168, 'decrypt', 'key_not_active', 'checkout', 0, 'merchant.com.example.suspended', '\xa0fc53ae8508886bd2e3c2b10be335fba7d0ed770e5bd91856c210cb12fd1e24', '\xf2898ece44ec103a41e1fb514ecc837cd44ac871501709a3f9cc83c745c10c6c', '\x8be954cfd4b031932e7c40eca64fc21457ab9c068238c5ca3225f4074edd0f08', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a31382c2274696d65223a22323032362d31312d32365431393a31333a30352e3136385a222c226576656e74223a2264656372797074222c226f7574636f6d65223a226b65795f6e6f745f616374697665222c2263616c6c6572223a7b226e616d65223a22636865636b6f7574222c22756964223a302c22676964223a302c22706964223a333930312c22636f6d6d223a22706179746f6b656e63746c227d2c226d65726368616e74223a226d65726368616e742e636f6d2e6578616d706c652e73757370656e646564222c227075626c69634b657948617368223a226f507854726f55496947765334384b78432b4d312b3666513758634f57396b595673495179784c394869513d222c227472616e73616374696f6e4964223a2266323839386563653434656331303361343165316662353134656363383337636434346163383731353031373039613366396363383363373435633130633663222c2268617368223a2238626539353463666434623033313933326537633430656361363466633231343537616239633036383233386335636133323235663430373465646430663038227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 19, 1795720386537, 'key_import', 'ok', 'checkout', 0, 'merchant.com.example.compromised', '\x1690e4ec4c4f81df656a2437f3c099d18754c9e49c07dd2ec31d7b0a083ab7b5', NULL, '\x2de5d56e30b96120a8589616e1e6405cc21e58bd403594ef0604e3a72cfa5cab', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a31392c2274696d65223a22323032362d31312d32365431393a31333a30362e3533375a222c226576656e74223a226b65795f696d706f7274222c226f7574636f6d65223a226f6b222c2263616c6c6572223a7b226e616d65223a22636865636b6f7574222c22756964223a302c22676964223a302c22706964223a343032392c22636f6d6d223a22706179746f6b656e63746c227d2c226d65726368616e74223a226d65726368616e742e636f6d2e6578616d706c652e636f6d70726f6d69736564222c227075626c69634b657948617368223a224670446b374578506764396c616951333838435a30596455796553634239307577783137436767367437553d222c22746f6b656e223a227072696d617279222c226365727469666963617465536861323536223a2264386161393030616366346635363339626664633465653066303736363130646438666465636466303934393533363062366462633835636132656138306534222c22616c676f726974686d223a224543222c2262697473223a3235362c226f726967696e223a22696d706f72746564222c226365727469666963617465456e64223a22323032382d31322d32345431393a31333a30352e3030305a222c22697373756572223a22433d55532c4f3d546f6b656e20466f7267652c4f553d466f7267652043657274696669636174696f6e20417574686f726974792c434e3d466f72676520576f726c647769646520446576656c6f7065722052656c6174696f6e73204341202d204732222c2268617368223a2232646535643536653330623936313230613835383936313665316536343035636332316535386264343033353934656630363034653361373263666135636162227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 20, 1795720387386, 'key_attributes', 'ok', NULL, NULL, 'merchant.com.example.compromised', '\x1690e4ec4c4f81df656a2437f3c099d18754c9e49c07dd2ec31d7b0a083ab7b5', NULL, '\x3362c2c9c5f951182b33d94dee4d8e97347029b94b3cdfd44661bb288b6ac498', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a32302c2274696d65223a22323032362d31312d32365431393a31333a30372e3338365a222c226576656e74223a226b65795f61747472696275746573222c226f7574636f6d65223a226f6b222c226d65726368616e74223a226d65726368616e742e636f6d2e6578616d706c652e636f6d70726f6d69736564222c227075626c69634b657948617368223a224670446b374578506764396c616951333838435a30596455796553634239307577783137436767367437553d222c22746f6b656e223a227072696d617279222c226b657973223a5b7b22616c676f726974686d223a224543222c2262697473223a3235362c2273656e736974697665223a747275652c226578747261637461626c65223a66616c73652c22616c7761797353656e736974697665223a66616c73652c226e657665724578747261637461626c65223a66616c73652c226c6f63616c223a66616c73652c2273746f726564223a747275652c2270726976617465223a747275652c226d6f6469666961626c65223a747275652c2275736573223a5b22646572697665225d7d5d2c2268617368223a2233333632633263396335663935313138326233336439346465653464386539373334373032396239346233636466643434363631626232383862366163343938227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 21, 1795720388886, 'key_state_change', 'ok', 'checkout', 0, 'merchant.com.example.compromised', '\x1690e4ec4c4f81df656a2437f3c099d18754c9e49c07dd2ec31d7b0a083ab7b5', NULL, '\xc5e826970342832d119f3918c1eb5d43655308555e3f1f1438dccdeaedb61580', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a32312c2274696d65223a22323032362d31312d32365431393a31333a30382e3838365a222c226576656e74223a226b65795f73746174655f6368616e6765222c226f7574636f6d65223a226f6b222c2263616c6c6572223a7b226e616d65223a22636865636b6f7574222c22756964223a302c22676964223a302c22706964223a343235362c22636f6d6d223a22706179746f6b656e63746c227d2c226d65726368616e74223a226d65726368616e742e636f6d2e6578616d706c652e636f6d70726f6d69736564222c227075626c69634b657948617368223a224670446b374578506764396c616951333838435a30596455796553634239307577783137436767367437553d222c2266726f6d223a22616374697665222c22746f223a22636f6d70726f6d69736564222c22726561736f6e223a22612066697874757265222c2268617368223a2263356538323639373033343238333264313139663339313863316562356434333635353330383535356533663166313433386463636465616564623631353830227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 22, 1795720389687, 'key_generate', 'ok', 'checkout', 0, 'merchant.com.example.generated', '\x4cd398fb84782cfa480cefaf4e34f8cb6f9abbfe50f9b2e793dfff2d62765d29', NULL, '\x604e1e395f1bd64d11d06281c46e9e42569b6465829ea22d2e5fb3ce862afdf9', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a32322c2274696d65223a22323032362d31312d32365431393a31333a30392e3638375a222c226576656e74223a226b65795f67656e6572617465222c226f7574636f6d65223a226f6b222c2263616c6c6572223a7b226e616d65223a22636865636b6f7574222c22756964223a302c22676964223a302c22706964223a343336382c22636f6d6d223a22706179746f6b656e63746c227d2c226d65726368616e74223a226d65726368616e742e636f6d2e6578616d706c652e67656e657261746564222c227075626c69634b657948617368223a22544e4f592b3452344c507049444f2b76546a543479322b61752f35512b624c6e6b392f2f4c574a3258536b3d222c22746f6b656e223a227072696d617279222c22616c676f726974686d223a224543222c2262697473223a3235362c226f726967696e223a2267656e657261746564222c2268617368223a2236303465316533393566316264363464313164303632383163343665396534323536396236343635383239656132326432653566623363653836326166646639227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 23, 1795720390118, 'key_attributes', 'ok', NULL, NULL, 'merchant.com.example.generated', '\x4cd398fb84782cfa480cefaf4e34f8cb6f9abbfe50f9b2e793dfff2d62765d29', NULL, '\xea929e932fc4669b158a36d75b32eef6139e225f0fce239082137d9f795d1956', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a32332c2274696d65223a22323032362d31312d32365431393a31333a31302e3131385a222c226576656e74223a226b65795f61747472696275746573222c226f7574636f6d65223a226f6b222c226d65726368616e74223a226d65726368616e742e636f6d2e6578616d706c652e67656e657261746564222c227075626c69634b657948617368223a22544e4f592b3452344c507049444f2b76546a543479322b61752f35512b624c6e6b392f2f4c574a3258536b3d222c22746f6b656e223a227072696d617279222c226b657973223a5b7b22616c676f726974686d223a224543222c2262697473223a3235362c2273656e736974697665223a747275652c226578747261637461626c65223a66616c73652c22616c7761797353656e736974697665223a747275652c226e657665724578747261637461626c65223a747275652c226c6f63616c223a747275652c2273746f726564223a747275652c2270726976617465223a747275652c226d6f6469666961626c65223a747275652c2275736573223a5b22646572697665225d7d5d2c2268617368223a2265613932396539333266633436363962313538613336643735623332656566363133396532323566306663653233393038323133376439663739356431393536227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 24, 1795720390794, 'key_import', 'ok', 'checkout', 0, '2X9R4HXF34', '\xe4c08c89c0b810809a23bb0b0d663b21f80be8935fb36d0836daf2c14e852f5e', NULL, '\x3cc12b03b75a8b50e8179ac44c9811a5c61dcd6ce82deacded1ec321ce0104b2', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a32342c2274696d65223a22323032362d31312d32365431393a31333a31302e3739345a222c226576656e74223a226b65795f696d706f7274222c226f7574636f6d65223a226f6b222c2263616c6c6572223a7b226e616d65223a22636865636b6f7574222c22756964223a302c22676964223a302c22706964223a343439382c22636f6d6d223a22706179746f6b656e63746c227d2c226d65726368616e74223a2232583952344858463334222c227075626c69634b657948617368223a22354d434d69634334454943614937734c445759374966674c364a4e66733230494e747279775536464c31343d222c22746f6b656e223a227072696d617279222c22616c676f726974686d223a224543222c2262697473223a3235362c226f726967696e223a22696d706f72746564222c2268617368223a2233636331326230336237356138623530653831373961633434633938313161356336316463643663653832646561636465643165633332316365303130346232227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 25, 1795720391822, 'key_attributes', 'ok', NULL, NULL, '2X9R4HXF34', '\xe4c08c89c0b810809a23bb0b0d663b21f80be8935fb36d0836daf2c14e852f5e', NULL, '\x24d4400689ca2dd0533c0b9af83265dd184d24d38f8b2bed42646274ad551ab5', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a32352c2274696d65223a22323032362d31312d32365431393a31333a31312e3832325a222c226576656e74223a226b65795f61747472696275746573222c226f7574636f6d65223a226f6b222c226d65726368616e74223a2232583952344858463334222c227075626c69634b657948617368223a22354d434d69634334454943614937734c445759374966674c364a4e66733230494e747279775536464c31343d222c22746f6b656e223a227072696d617279222c226b657973223a5b7b22616c676f726974686d223a224543222c2262697473223a3235362c2273656e736974697665223a747275652c226578747261637461626c65223a66616c73652c22616c7761797353656e736974697665223a66616c73652c226e657665724578747261637461626c65223a66616c73652c226c6f63616c223a66616c73652c2273746f726564223a747275652c2270726976617465223a747275652c226d6f6469666961626c65223a747275652c2275736573223a5b227369676e225d7d5d2c2268617368223a2232346434343030363839636132646430353333633062396166383332363564643138346432346433386638623262656434323634363237346164353531616235227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 26, 1795720392295, 'key_import', 'ok', 'checkout', 0, 'merchant.com.example.rotated', '\x01216ecd99ddb94ae02afcf69942362796aff6b45211cc5be292be495578c93b', NULL, '\x1f9bf8fde34e5ad7af808ba753062a845c2fb84cc7058094e50bcda738a1f95e', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a32362c2274696d65223a22323032362d31312d32365431393a31333a31322e3239355a222c226576656e74223a226b65795f696d706f7274222c226f7574636f6d65223a226f6b222c2263616c6c6572223a7b226e616d65223a22636865636b6f7574222c22756964223a302c22676964223a302c22706964223a343634312c22636f6d6d223a22706179746f6b656e63746c227d2c226d65726368616e74223a226d65726368616e742e636f6d2e6578616d706c652e726f7461746564222c227075626c69634b657948617368223a22415346757a5a6e64755572674b767a326d5549324a356176397252534563786234704b2b535656347954733d222c22746f6b656e223a227072696d617279222c226365727469666963617465536861323536223a2236653365303861383861373631643964363863346537396232653934663939306339323232343735396236323831306238326530633664633430633665333634222c22616c676f726974686d223a224543222c2262697473223a3235362c226f726967696e223a22696d706f72746564222c226365727469666963617465456e64223a22323032382d31322d32345431393a31333a31312e3030305a222c22697373756572223a22433d55532c4f3d546f6b656e20466f7267652c4f553d466f7267652043657274696669636174696f6e20417574686f726974792c434e3d466f72676520576f726c647769646520446576656c6f7065722052656c6174696f6e73204341202d204732222c2268617368223a2231663962663866646533346535616437616638303862613735333036326138343563326662383463633730353830393465353062636461373338613166393565227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 27, 1795720392799, 'decrypt', 'ok', 'checkout', 0, 'merchant.com.example.rotated', '\x01216ecd99ddb94ae02afcf69942362796aff6b45211cc5be292be495578c93b', '\xe5f7adb71cfe52db66a4974e85812e5790d9b9533eeef8e5150df8d156bde798', '\x89015c2f6a87f6fe497ea5973ef42b086979fdefd327496628260498da322a9d', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a32372c2274696d65223a22323032362d31312d32365431393a31333a31322e3739395a222c226576656e74223a2264656372797074222c226f7574636f6d65223a226f6b222c2263616c6c6572223a7b226e616d65223a22636865636b6f7574222c22756964223a302c22676964223a302c22706964223a343735342c22636f6d6d223a22706179746f6b656e63746c227d2c226d65726368616e74223a226d65726368616e742e636f6d2e6578616d706c652e726f7461746564222c227075626c69634b657948617368223a22415346757a5a6e64755572674b767a326d5549324a356176397252534563786234704b2b535656347954733d222c227472616e73616374696f6e4964223a2265356637616462373163666535326462363661343937346538353831326535373930643962393533336565656638653531353064663864313536626465373938222c2270726f74656374696f6e223a2243222c22746f6b656e223a227072696d617279222c227265666572656e6365223a2264663863663830323237656333323337393232646630656364383833383563353436653461333162646238313237623033336630316536663231663137356466222c2268617368223a2238393031356332663661383766366665343937656135393733656634326230383639373966646566643332373439363632383236303439386461333232613964227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 28, 1795720392988, 'key_attributes', 'ok', NULL, NULL, 'merchant.com.example.rotated', '\x01216ecd99ddb94ae02afcf69942362796aff6b45211cc5be292be495578c93b', NULL, '\xb7c1366885885628448844d171a636f58041cc1830abd5251566778137b7a35e', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a32382c2274696d65223a22323032362d31312d32365431393a31333a31322e3938385a222c226576656e74223a226b65795f61747472696275746573222c226f7574636f6d65223a226f6b222c226d65726368616e74223a226d65726368616e742e636f6d2e6578616d706c652e726f7461746564222c227075626c69634b657948617368223a22415346757a5a6e64755572674b767a326d5549324a356176397252534563786234704b2b535656347954733d222c22746f6b656e223a227072696d617279222c226b657973223a5b7b22616c676f726974686d223a224543222c2262697473223a3235362c2273656e736974697665223a747275652c226578747261637461626c65223a66616c73652c22616c7761797353656e736974697665223a66616c73652c226e657665724578747261637461626c65223a66616c73652c226c6f63616c223a66616c73652c2273746f726564223a747275652c2270726976617465223a747275652c226d6f6469666961626c65223a747275652c2275736573223a5b22646572697665225d7d5d2c2268617368223a2262376331333636383835383835363238343438383434643137316136333666353830343163633138333061626435323531353636373738313337623761333565227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 29, 1795720393640, 'key_generate', 'ok', 'checkout', 0, 'merchant.com.example.rotated', '\x8ab0bf8abdecbce84a1027f2c16556a3e8e7d83bbfebbf65d315286aae7624bd', NULL, '\xfa34b969b92f372c8e77d1b1fc2bafc9e2557657d25a2d4a3c3f84877f2b11ec', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a32392c2274696d65223a22323032362d31312d32365431393a31333a31332e3634305a222c226576656e74223a226b65795f67656e6572617465222c226f7574636f6d65223a226f6b222c2263616c6c6572223a7b226e616d65223a22636865636b6f7574222c22756964223a302c22676964223a302c22706964223a343831342c22636f6d6d223a22706179746f6b656e63746c227d2c226d65726368616e74223a226d65726368616e742e636f6d2e6578616d706c652e726f7461746564222c227075626c69634b657948617368223a226972432f69723373764f684b45436679775756576f2b6a6e3244752f3637396c3078556f617135324a4c303d222c22746f6b656e223a227072696d617279222c22616c676f726974686d223a224543222c2262697473223a3235362c226f726967696e223a2267656e657261746564222c2268617368223a2266613334623936396239326633373263386537376431623166633262616663396532353537363537643235613264346133633366383438373766326231316563227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 30, 1795720393651, 'csr_create', 'ok', 'checkout', 0, 'merchant.com.example.rotated', '\x8ab0bf8abdecbce84a1027f2c16556a3e8e7d83bbfebbf65d315286aae7624bd', NULL, '\x01d8f658eec2b092e87dad65291df0bdb875c89d45029ba00a3036caccc70346', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a33302c2274696d65223a22323032362d31312d32365431393a31333a31332e3635315a222c226576656e74223a226373725f637265617465222c226f7574636f6d65223a226f6b222c2263616c6c6572223a7b226e616d65223a22636865636b6f7574222c22756964223a302c22676964223a302c22706964223a343831342c22636f6d6d223a22706179746f6b656e63746c227d2c226d65726368616e74223a226d65726368616e742e636f6d2e6578616d706c652e726f7461746564222c227075626c69634b657948617368223a226972432f69723373764f684b45436679775756576f2b6a6e3244752f3637396c3078556f617135324a4c303d222c22746f6b656e223a227072696d617279222c2268617368223a2230316438663635386565633262303932653837646164363532393164663062646238373563383964343530323962613030613330333663616363633730333436227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 31, 1795720394057, 'key_attributes', 'ok', NULL, NULL, 'merchant.com.example.rotated', '\x8ab0bf8abdecbce84a1027f2c16556a3e8e7d83bbfebbf65d315286aae7624bd', NULL, '\xcf22ee01a945667c7918c4f9ccf5777a4225caad9ec477f8b9852607def4b38d', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a33312c2274696d65223a22323032362d31312d32365431393a31333a31342e3035375a222c226576656e74223a226b65795f61747472696275746573222c226f7574636f6d65223a226f6b222c226d65726368616e74223a226d65726368616e742e636f6d2e6578616d706c652e726f7461746564222c227075626c69634b657948617368223a226972432f69723373764f684b45436679775756576f2b6a6e3244752f3637396c3078556f617135324a4c303d222c22746f6b656e223a227072696d617279222c226b657973223a5b7b22616c676f726974686d223a224543222c2262697473223a3235362c2273656e736974697665223a747275652c226578747261637461626c65223a66616c73652c22616c7761797353656e736974697665223a747275652c226e657665724578747261637461626c65223a747275652c226c6f63616c223a747275652c2273746f726564223a747275652c2270726976617465223a747275652c226d6f6469666961626c65223a747275652c2275736573223a5b22646572697665225d7d5d2c2268617368223a2263663232656530316139343536363763373931386334663963636635373737613432323563616164396563343737663862393835323630376465663462333864227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 32, 1795720394163, 'certificate_import', 'ok', 'checkout', 0, 'merchant.com.example.rotated', '\x8ab0bf8abdecbce84a1027f2c16556a3e8e7d83bbfebbf65d315286aae7624bd', NULL, '\x619b80fcc68f7ca40dcded1b01cb0521c338137e9a0e53f376b3b71553d108aa', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a33322c2274696d65223a22323032362d31312d32365431393a31333a31342e3136335a222c226576656e74223a2263657274696669636174655f696d706f7274222c226f7574636f6d65223a226f6b222c2263616c6c6572223a7b226e616d65223a22636865636b6f7574222c22756964223a302c22676964223a302c22706964223a343932332c22636f6d6d223a22706179746f6b656e63746c227d2c226d65726368616e74223a226d65726368616e742e636f6d2e6578616d706c652e726f7461746564222c227075626c69634b657948617368223a226972432f69723373764f684b45436679775756576f2b6a6e3244752f3637396c3078556f617135324a4c303d222c22746f6b656e223a227072696d617279222c226365727469666963617465536861323536223a2231633439376238616136343133643238656234663232643330303035643336376337383431326437353238373065346663343238616431653562363233663534222c22616c676f726974686d223a224543222c2262697473223a3235362c226f726967696e223a2267656e657261746564222c226365727469666963617465456e64223a22323032382d31322d32345431393a31333a31332e3030305a222c22697373756572223a22433d55532c4f3d546f6b656e20466f7267652c4f553d466f7267652043657274696669636174696f6e20417574686f726974792c434e3d466f72676520576f726c647769646520446576656c6f7065722052656c6174696f6e73204341202d204732222c2268617368223a2236313962383066636336386637636134306463646564316230316362303532316333333831333765396130653533663337366233623731353533643130386161227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 33, 1795720394773, 'decrypt', 'ok', 'checkout', 0, 'merchant.com.example.rotated', '\x8ab0bf8abdecbce84a1027f2c16556a3e8e7d83bbfebbf65d315286aae7624bd', '\xc87ae0ca96821feef3fdf823c892c1a8faaa4ccd51352d6ed485432aa6e22da5', '\x17751b351f315a2d923188f3a1edcb405b31d8c18d3f3af84da1ee7ce87c260b', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a33332c2274696d65223a22323032362d31312d32365431393a31333a31342e3737335a222c226576656e74223a2264656372797074222c226f7574636f6d65223a226f6b222c2263616c6c6572223a7b226e616d65223a22636865636b6f7574222c22756964223a302c22676964223a302c22706964223a343937332c22636f6d6d223a22706179746f6b656e63746c227d2c226d65726368616e74223a226d65726368616e742e636f6d2e6578616d706c652e726f7461746564222c227075626c69634b657948617368223a226972432f69723373764f684b45436679775756576f2b6a6e3244752f3637396c3078556f617135324a4c303d222c227472616e73616374696f6e4964223a2263383761653063613936383231666565663366646638323363383932633161386661616134636364353133353264366564343835343332616136653232646135222c2270726f74656374696f6e223a2243222c22746f6b656e223a227072696d617279222c227265666572656e6365223a2233323966373564323461636139313338393264396537333432323332653132633962616666376235643864623639373033326431666139353830653736313734222c2268617368223a2231373735316233353166333135613264393233313838663361316564636234303562333164386331386433663361663834646131656537636538376332363062227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 34, 1795720395189, 'key_state_change', 'ok', 'checkout', 0, 'merchant.com.example.rotated', '\x01216ecd99ddb94ae02afcf69942362796aff6b45211cc5be292be495578c93b', NULL, '\x5a4f52fc3c539b51ede5ac0b819dcf8d9567a6f5092c76baddddc8a52d83c425', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a33342c2274696d65223a22323032362d31312d32365431393a31333a31352e3138395a222c226576656e74223a226b65795f73746174655f6368616e6765222c226f7574636f6d65223a226f6b222c2263616c6c6572223a7b226e616d65223a22636865636b6f7574222c22756964223a302c22676964223a302c22706964223a353031372c22636f6d6d223a22706179746f6b656e63746c227d2c226d65726368616e74223a226d65726368616e742e636f6d2e6578616d706c652e726f7461746564222c227075626c69634b657948617368223a22415346757a5a6e64755572674b767a326d5549324a356176397252534563786234704b2b535656347954733d222c2266726f6d223a22616374697665222c22746f223a226465616374697661746564222c226375744f6666223a22323032362d31322d30335431393a31333a31352e3030305a222c22726561736f6e223a22726f7461746564222c2268617368223a2235613466353266633363353339623531656465356163306238313964636638643935363761366635303932633736626164646464633861353264383363343235227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 35, 1795720395406, 'audit_export', 'ok', 'checkout', 0, NULL, NULL, NULL, '\x477ff6a2ac4e6b4674238bc76f04e49faf97f5a15d58cf9452f4e1dfaf665d1d', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a33352c2274696d65223a22323032362d31312d32365431393a31333a31352e3430365a222c226576656e74223a2261756469745f6578706f7274222c226f7574636f6d65223a226f6b222c2263616c6c6572223a7b226e616d65223a22636865636b6f7574222c22756964223a302c22676964223a302c22706964223a353035362c22636f6d6d223a22706179746f6b656e63746c227d2c22666f726d6174223a226a736f6e6c222c226669727374223a312c226c617374223a33342c2268617368223a2234373766663661326163346536623436373432333862633736663034653439666166393766356131356435386366393435326634653164666166363635643164227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 36, 1795720395879, 'decrypt', 'ok', 'checkout', 0, 'merchant.com.example.active', '\x3bd287e310085efa8c3033f149bb4e19b3e680434c89d79bd7df002bb7df2657', '\x5822f4d6faa8beed356596177b5572dd1d88f9d2dc74a2a596c62cf7e6391fc3', '\x196b306f512a6ab60f1a656632ec00d26071cc90ff99cbe1ee4284008e1e69e9', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a33362c2274696d65223a22323032362d31312d32365431393a31333a31352e3837395a222c226576656e74223a2264656372797074222c226f7574636f6d65223a226f6b222c2263616c6c6572223a7b226e616d65223a22636865636b6f7574222c22756964223a302c22676964223a302c22706964223a353131392c22636f6d6d223a22706179746f6b656e63746c227d2c226d65726368616e74223a226d65726368616e742e636f6d2e6578616d706c652e616374697665222c227075626c69634b657948617368223a224f394b48347841495876714d4d4450785362744f4762506d67454e4d69646562313938414b3766664a6c633d222c227472616e73616374696f6e4964223a2235383232663464366661613862656564333536353936313737623535373264643164383866396432646337346132613539366336326366376536333931666333222c2270726f74656374696f6e223a2243222c22746f6b656e223a227072696d617279222c227265666572656e6365223a2264643465623531373635336536306539313863643138363838353064383062343565343439656139396563646662396339303762373935346530313462316366222c2268617368223a2231393662333036663531326136616236306631613635363633326563303064323630373163633930666639396362653165653432383430303865316536396539227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 37, 1795720395947, 'stop', 'ok', NULL, NULL, NULL, NULL, NULL, '\x510370892337e87e15d9e36df5111e219f21b7cd51ef33a58861765a209dae6b', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a33372c2274696d65223a22323032362d31312d32365431393a31333a31352e3934375a222c226576656e74223a2273746f70222c226f7574636f6d65223a226f6b222c2268617368223a2235313033373038393233333765383765313564396533366466353131316532313966323162376364353165663333613538383631373635613230396461653662227d');


--
-- Data for Name: checkpoint; Type: TABLE DATA; Schema: paytokend; Owner: -
--

INSERT INTO paytokend.checkpoint VALUES ('node-1', 4, 1795720370548, '\x7b22636865636b706f696e74223a7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a342c2268617368223a2266353832343634616361653661336462306432653161316437343130386163383732336336393762376436383632663362643737643434666134336132373530222c2274696d65223a22323032362d31312d32365431393a31323a35302e3534385a222c226b65794964223a2234396166623734386139303836356562336330663262386132386131666639333564346131613265373936656331333636376139376333623338396332393337227d2c227369676e6174757265223a224d455543494257343965375950646e70566f6a45536d6a432b46484b674e477431456148504c7075335244795269656f416945416876685a377976693838786f646d476d4a7449466f464c35546853486c4c336830584459454e705946746f3d227d');
INSERT INTO paytokend.checkpoint VALUES ('node-1', 35, 1795720395408, '\x7b22636865636b706f696e74223a7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a33352c2268617368223a2234373766663661326163346536623436373432333862633736663034653439666166393766356131356435386366393435326634653164666166363635643164222c2274696d65223a22323032362d31312d32365431393a31333a31352e3430385a222c226b65794964223a2234396166623734386139303836356562336330663262386132386131666639333564346131613265373936656331333636376139376333623338396332393337227d2c227369676e6174757265223a224d4559434951446252635433577a54763438656a492f474b6174396633435241682f764571724858514c51443551416c4d774968414a4e694273543254744943372b6b47412f7672542b34714d45354b61547a464b2f75323950764755614d62227d');
INSERT INTO paytokend.checkpoint VALUES ('node-1', 37, 1795720395950, '\x7b22636865636b706f696e74223a7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a33372c2268617368223a2235313033373038393233333765383765313564396533366466353131316532313966323162376364353165663333613538383631373635613230396461653662222c2274696d65223a22323032362d31312d32365431393a31333a31352e3935305a222c226b65794964223a2234396166623734386139303836356562336330663262386132386131666639333564346131613265373936656331333636376139376333623338396332393337227d2c227369676e6174757265223a224d455543494653754c4b327165535657324e566c4a537171335934524353383252757241586c526c7668467a39536832416945417a6a39366468314436346236716f5053416c576d463542374b386451633274514d48784d33442b58766e493d227d');


--
-- Data for Name: claim; Type: TABLE DATA; Schema: paytokend; Owner: -
--

INSERT INTO paytokend.claim VALUES ('\xeda36a0247daa8bc570ac33c808fe19ae61c6b2f5ad68ad8d1e5f69b31ff169f', '\x3bd287e310085efa8c3033f149bb4e19b3e680434c89d79bd7df002bb7df2657', 'checkout', '\x3d5e3106cd72ba03fededf6dbb9fc3367edcebe453e90db236ea763aa228bee3', '\x0fd71368548f9b567f493aba29da510a3191dabdb849bd150fca8a73a3208173', '\x00000000000000001439a0489d5f15b8', 1795720373833, 0, NULL, NULL, 'node-1');
INSERT INTO paytokend.claim VALUES ('\x215e97dc8795ef5992106ebdcc3a71d1ab5def56b25c5dbca132163b1b664dd2', '\x3bd287e310085efa8c3033f149bb4e19b3e680434c89d79bd7df002bb7df2657', 'checkout', '\x28ec9a8ff249fd5fb2993734c026afbbe4dea76ec7a999c23d774236bbb86de7', '\x9b40b32dbd8b81b6da15c8e09f5108aa2a50e2f6c76a63d8c3ce961e1242ec50', '\x00000000000000007d2be259b7e8052e', 1795720374629, 0, NULL, NULL, 'node-1');
INSERT INTO paytokend.claim VALUES ('\x4ac3af203de89da40b773f4965145e6f92ede60fb4f30a5f9a875f8e2ed19ad9', '\x3bd287e310085efa8c3033f149bb4e19b3e680434c89d79bd7df002bb7df2657', 'checkout', '\x0bafe22156d2698c143b86040446d366ead863ba600d5c924f3d15c786ef4057', '\x2fc14a1084c77a74a923f182f110a59b4e4e634cdf88851e8d3813b8fb8bd99c', '\x00000000000000009648215d0329dfaa', 1795720373079, 1, '\x0000000000000000ef1f14e7a775614b', 1795720375127, 'node-1');
INSERT INTO paytokend.claim VALUES ('\x8374e1b457f5b3da35e1da25b725c01a5a3bc5f6ba4e3be301b8ed14f92e8083', '\x3bd287e310085efa8c3033f149bb4e19b3e680434c89d79bd7df002bb7df2657', 'checkout', NULL, '\x7da8e4fd8bb26e0429e65f41a00754194d1a10e3902ff6992e2a15efa756cf8d', '\x000000000000000037fffaf085cb1310', 1795720376625, 0, NULL, NULL, 'node-1');
INSERT INTO paytokend.claim VALUES ('\x22ed05107e4059ad5b239d647352d0beb8f08ca15420aa8580ddf9125742beda', '\xa0fc53ae8508886bd2e3c2b10be335fba7d0ed770e5bd91856c210cb12fd1e24', 'checkout', '\xf71df65670d623211347f34193032b6adc915eba3cb14d4416e8c71943ee7c9f', '\xd52de52926734c04f415ee97151a6607876a4206c473a6a7e362be9cb948878b', '\x00000000000000005035ebdc99ca3abb', 1795720380240, 0, NULL, NULL, 'node-1');
INSERT INTO paytokend.claim VALUES ('\xe5f7adb71cfe52db66a4974e85812e5790d9b9533eeef8e5150df8d156bde798', '\x01216ecd99ddb94ae02afcf69942362796aff6b45211cc5be292be495578c93b', 'checkout', '\xdf8cf80227ec3237922df0ecd88385c546e4a31bdb8127b033f01e6f21f175df', '\xcf3bbc9ce3dc1afea73eaff7681594457698b75a1c81b04b6b57d0e6737ceb79', '\x00000000000000005427d4b5e0a0d196', 1795720392794, 0, NULL, NULL, 'node-1');
INSERT INTO paytokend.claim VALUES ('\xc87ae0ca96821feef3fdf823c892c1a8faaa4ccd51352d6ed485432aa6e22da5', '\x8ab0bf8abdecbce84a1027f2c16556a3e8e7d83bbfebbf65d315286aae7624bd', 'checkout', '\x329f75d24aca913892d9e7342232e12c9baff7b5d8db697032d1fa9580e76174', '\xd58488862edd2458dc40075a9d2375b8c725c12e731f00030769798bff37408e', '\x00000000000000004032cc82e9b2e6df', 1795720394711, 0, NULL, NULL, 'node-1');
INSERT INTO paytokend.claim VALUES ('\x5822f4d6faa8beed356596177b5572dd1d88f9d2dc74a2a596c62cf7e6391fc3', '\x3bd287e310085efa8c3033f149bb4e19b3e680434c89d79bd7df002bb7df2657', 'checkout', '\xdd4eb517653e60e918cd1868850d80b45e449ea99ecdfb9c907b7954e014b1cf', '\x41e57f46fb945307f48161e121b5c3c4a0ba7fe348f200f78f8e989a8aa381ba', '\x00000000000000003b5fa4bac4c211b5', 1795720395871, 0, NULL, NULL, 'node-1');


--
-- Data for Name: hold; Type: TABLE DATA; Schema: paytokend; Owner: -
--



--
-- Data for Name: key_holder; Type: TABLE DATA; Schema: paytokend; Owner: -
--

INSERT INTO paytokend.key_holder VALUES ('node-1', '\x01216ecd99ddb94ae02afcf69942362796aff6b45211cc5be292be495578c93b', 1795720394659);
INSERT INTO paytokend.key_holder VALUES ('node-1', '\x1690e4ec4c4f81df656a2437f3c099d18754c9e49c07dd2ec31d7b0a083ab7b5', 1795720394659);
INSERT INTO paytokend.key_holder VALUES ('node-1', '\x3bd287e310085efa8c3033f149bb4e19b3e680434c89d79bd7df002bb7df2657', 1795720394659);
INSERT INTO paytokend.key_holder VALUES ('node-1', '\x4cd398fb84782cfa480cefaf4e34f8cb6f9abbfe50f9b2e793dfff2d62765d29', 1795720394659);
INSERT INTO paytokend.key_holder VALUES ('node-1', '\x8ab0bf8abdecbce84a1027f2c16556a3e8e7d83bbfebbf65d315286aae7624bd', 1795720394659);
INSERT INTO paytokend.key_holder VALUES ('node-1', '\xa0fc53ae8508886bd2e3c2b10be335fba7d0ed770e5bd91856c210cb12fd1e24', 1795720394659);
INSERT INTO paytokend.key_holder VALUES ('node-1', '\xe4c08c89c0b810809a23bb0b0d663b21f80be8935fb36d0836daf2c14e852f5e', 1795720394659);


--
-- Data for Name: ledger_state; Type: TABLE DATA; Schema: paytokend; Owner: -
--

INSERT INTO paytokend.ledger_state VALUES (true, 9, NULL, 0, '7712560201016636523', 1, NULL, NULL, '6287e3a0-e164-4ffa-a3aa-bc58dd42f74d');


--
-- Data for Name: merchant_key; Type: TABLE DATA; Schema: paytokend; Owner: -
--

INSERT INTO paytokend.merchant_key VALUES ('\x3bd287e310085efa8c3033f149bb4e19b3e680434c89d79bd7df002bb7df2657', 'merchant.com.example.active', 'EC', 'active', NULL, 'imported', 1795720372547, 'node-1', 1, 'processing');
INSERT INTO paytokend.merchant_key VALUES ('\xa0fc53ae8508886bd2e3c2b10be335fba7d0ed770e5bd91856c210cb12fd1e24', 'merchant.com.example.suspended', 'RSA', 'suspended', NULL, 'imported', 1795720379180, 'node-1', 4, 'processing');
INSERT INTO paytokend.merchant_key VALUES ('\x1690e4ec4c4f81df656a2437f3c099d18754c9e49c07dd2ec31d7b0a083ab7b5', 'merchant.com.example.compromised', 'EC', 'compromised', NULL, 'imported', 1795720386537, 'node-1', 7, 'processing');
INSERT INTO paytokend.merchant_key VALUES ('\x4cd398fb84782cfa480cefaf4e34f8cb6f9abbfe50f9b2e793dfff2d62765d29', 'merchant.com.example.generated', 'EC', 'pre-activation', NULL, 'generated', 1795720389687, 'node-1', 8, 'processing');
INSERT INTO paytokend.merchant_key VALUES ('\xe4c08c89c0b810809a23bb0b0d663b21f80be8935fb36d0836daf2c14e852f5e', '2X9R4HXF34', 'EC', 'active', NULL, 'imported', 1795720390794, 'node-1', 9, 'service');
INSERT INTO paytokend.merchant_key VALUES ('\x8ab0bf8abdecbce84a1027f2c16556a3e8e7d83bbfebbf65d315286aae7624bd', 'merchant.com.example.rotated', 'EC', 'active', NULL, 'generated', 1795720393640, 'node-1', 13, 'processing');
INSERT INTO paytokend.merchant_key VALUES ('\x01216ecd99ddb94ae02afcf69942362796aff6b45211cc5be292be495578c93b', 'merchant.com.example.rotated', 'EC', 'deactivated', 1796325195000, 'imported', 1795720392295, 'node-1', 15, 'processing');


--
-- Data for Name: moved_ledger; Type: TABLE DATA; Schema: paytokend; Owner: -
--



--
-- Data for Name: node; Type: TABLE DATA; Schema: paytokend; Owner: -
--

INSERT INTO paytokend.node VALUES ('node-1', 1, '-infinity', '2026-11-26 19:13:15.952365+00', '0.1.0', '\x6fa362f81046e0bfb1ebae4571a22810', 0, 0, 86400000, '7712560201016636523', 1);


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


