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

INSERT INTO paytokend.audit_key VALUES ('node-1', 1, '\x6e6f64659c880680d624634aa8c06854', '\x044fcc3bdcf5167ea66f4f9a324063c344bca7b0249688bae2f5fb79e0ff9f4f4772fe63d334bd1817d927aae23cd4b5959c595856ddcd9c3f040d6a3579def8ad', 1795750994071, 'primary');


--
-- Data for Name: audit_record; Type: TABLE DATA; Schema: paytokend; Owner: -
--

INSERT INTO paytokend.audit_record VALUES ('node-1', 1, 1795750993805, 'start', 'ok', NULL, NULL, NULL, NULL, NULL, '\x1d86a064a691216a19698c7a09cedf5bcc9114bbfca4875e874024243b1e94af', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a312c2274696d65223a22323032362d31312d32375430333a34333a31332e3830355a222c226576656e74223a227374617274222c226f7574636f6d65223a226f6b222c2276657273696f6e223a22302e312e30222c22706179746f6b656e64536861323536223a2261373265306130326563626533356664333865633263653138663335323631383335613339396237323230383635633339303633336162303962323864333536222c22776f726b6572536861323536223a2234303232323739323035613064663466366632306336323731623637393134333031343632356164386635613634633164633431623238646666393631306330222c226d6f64756c6573223a7b227072696d617279223a2231306132336631376263373565363661353563336137623732376164303062366135663335373364613838343161623739396536646139636332303164623765227d2c2268617368223a2231643836613036346136393132313661313936393863376130396365646635626363393131346262666361343837356538373430323432343362316539346166227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 2, 1795750993805, 'configuration_load', 'ok', NULL, NULL, NULL, NULL, NULL, '\x6117d6ddc1d9d624c5dc046b7542158845d4d7a3917bfe71e302a9ec56639c34', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a322c2274696d65223a22323032362d31312d32375430333a34333a31332e3830355a222c226576656e74223a22636f6e66696775726174696f6e5f6c6f6164222c226f7574636f6d65223a226f6b222c2266696c65536861323536223a2265633265316661326162363165633466616237316532323364636264623630656234623264623434623039326235306234613962623532343430343762323332222c2268617368223a2236313137643664646331643964363234633564633034366237353432313538383435643464376133393137626665373165333032613965633536363339633334227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 3, 1795750993805, 'configuration_values', 'ok', NULL, NULL, NULL, NULL, NULL, '\xb2eb5fa6fcbd5370053899a0339e17f40e676d46a1ca3050502a1cb85c2c2842', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a332c2274696d65223a22323032362d31312d32375430333a34333a31332e3830355a222c226576656e74223a22636f6e66696775726174696f6e5f76616c756573222c226f7574636f6d65223a226f6b222c2270617274223a312c227061727473223a312c2276616c756573223a7b226163636573732e312e6d65726368616e7473223a222a222c226163636573732e312e6e616d65223a22636865636b6f7574222c226163636573732e312e726571756972655f6578706563746564223a22222c226163636573732e312e726f6c6573223a22646563727970742c2061756469742c2061646d696e222c226163636573732e312e756964223a2230222c226163636573732e312e75736572223a22726f6f74222c22617070726f76616c732e657870697265223a223164222c22617070726f76616c732e70656f706c65223a2232222c226c65646765722e656e67696e65223a22706f737467726573716c222c226c65646765722e6e6f6465223a226e6f64652d31222c226c65646765722e7265706561745f666f72223a223164222c226c65646765722e726571756972655f7374616e646279223a2266616c7365222c226c65646765722e72657461696e5f636c61696d73223a2231383064222c226c65646765722e72657461696e5f7265636f726473223a226f6666222c226c65646765722e736572766572223a222f746d702f706179746f6b656e642d666978747572652e464e507831452f6c6564676572222c226c65646765722e74696d656f7574223a22313073222c226c65646765722e75736572223a22706179746f6b656e64222c226c697374656e65722e61646d696e5f6d6f6465223a2230363030222c226c697374656e65722e61646d696e5f736f636b6574223a222f746d702f706179746f6b656e642e546a3572384d2f61646d696e2e736f636b222c226c697374656e65722e69646c655f74696d656f7574223a22316d222c226c697374656e65722e6d61785f636f6e6e656374696f6e73223a22353132222c226c697374656e65722e6d61785f636f6e6e656374696f6e735f7065725f756964223a22313238222c226c697374656e65722e6d61785f726571756573745f6279746573223a223635353336222c226c697374656e65722e6d6f6465223a2230363630222c226c697374656e65722e736f636b6574223a222f746d702f706179746f6b656e642e546a3572384d2f706179746f6b656e642e736f636b222c226c6f672e666f726d6174223a2274657874222c226c6f672e6c6576656c223a22696e666f222c2272656e6577616c2e697373756572223a2235373234363534322d393666652d316136332d653035332d303832346430313130373261222c2272656e6577616c2e6b65795f6964223a2232583952344858463334222c22746f6b656e732e31223a227072696d617279222c22746f6b656e732e7072696d6172792e616c6c6f775f6578747261637461626c655f736563726574223a2274727565222c22746f6b656e732e7072696d6172792e63616c6c5f74696d656f7574223a22313073222c22746f6b656e732e7072696d6172792e64656e795f73797374656d5f63616c6c73223a22222c22746f6b656e732e7072696d6172792e656e7669726f6e6d656e74223a22534f465448534d325f434f4e46222c22746f6b656e732e7072696d6172792e696e69745f61726773223a22222c22746f6b656e732e7072696d6172792e6d6f64756c65223a222f7573722f6c69622f736f667468736d2f6c6962736f667468736d322e736f222c22746f6b656e732e7072696d6172792e70696e5f66696c65223a222f746d702f706179746f6b656e642e546a3572384d2f70696e222c22746f6b656e732e7072696d6172792e72656379636c655f6166746572223a2231303030303030222c22746f6b656e732e7072696d6172792e73657373696f6e73223a2232222c22746f6b656e732e7072696d6172792e757269223a22706b637331313a746f6b656e3d73616e64626f78222c22746f6b656e732e7072696d6172792e7573655f6c6f67223a22222c22746f6b656e732e7072696d6172792e76616c69646174696f6e223a22222c2274727573742e64697374727573746564223a22222c2274727573742e676f6f676c655f706179223a22222c2274727573742e726f6f745f66696c6573223a222f746d702f706179746f6b656e642e546a3572384d2f617574686f726974792f726f6f742e70656d222c2274727573742e726f6f7473223a2235626438616230356162313062333065393833353730343134313962663065623539646165343163346435363136633633373431316633316130376239666438222c22766572696669636174696f6e2e7369676e696e675f74696d655f77696e646f77223a223164227d2c2268617368223a2262326562356661366663626435333730303533383939613033333965313766343065363736643436613163613330353035303261316362383563326332383432227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 4, 1795750994388, 'audit_key_change', 'ok', NULL, NULL, NULL, NULL, NULL, '\x2aee03d7c094a12239826b57609d2275a09a6d2b77155eed210dc125cd2d62eb', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a342c2274696d65223a22323032362d31312d32375430333a34333a31342e3338385a222c226576656e74223a2261756469745f6b65795f6368616e6765222c226f7574636f6d65223a226f6b222c22746f6b656e223a227072696d617279222c22746f223a2238663931623061336264613462383835353136636266636665666262353764303033663534336239366161373933316465313038363738373830323763346632222c2268617368223a2232616565303364376330393461313232333938323662353736303964323237356130396136643262373731353565656432313064633132356364326436326562227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 5, 1795750994857, 'token_attributes', 'ok', NULL, NULL, NULL, NULL, NULL, '\x07c6c60cbe70c65fc2776986427ceb5053fd1ad5c9034276caafb01211cf158d', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a352c2274696d65223a22323032362d31312d32375430333a34333a31342e3835375a222c226576656e74223a22746f6b656e5f61747472696275746573222c226f7574636f6d65223a226f6b222c22746f6b656e223a227072696d617279222c226c6162656c223a2273616e64626f78222c2273657269616c4e756d626572223a2237336665343837386137376133313731222c226d616e756661637475726572223a22536f667448534d2070726f6a656374222c226d6f64656c223a22536f667448534d207632222c22686172647761726556657273696f6e223a22322e36222c226669726d7761726556657273696f6e223a22322e36222c226c696272617279223a22496d706c656d656e746174696f6e206f6620504b4353313120322e36222c227469657245437631223a2243222c22746965725253417631223a2243222c2268617368223a2230376336633630636265373063363566633237373639383634323763656235303533666431616435633930333432373663616166623031323131636631353864227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 6, 1795750995312, 'key_import', 'ok', 'checkout', 0, 'merchant.com.example.active', '\x9a6767249196f9f6e958241b75f4249d33512351a1f645bf7f18e437be9efca9', NULL, '\x27238c0f3187cfa75b0ba9abe15e20c954b857364594570f651a4b5de2843ba2', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a362c2274696d65223a22323032362d31312d32375430333a34333a31352e3331325a222c226576656e74223a226b65795f696d706f7274222c226f7574636f6d65223a226f6b222c2263616c6c6572223a7b226e616d65223a22636865636b6f7574222c22756964223a302c22676964223a302c22706964223a343539302c22636f6d6d223a22706179746f6b656e63746c227d2c226d65726368616e74223a226d65726368616e742e636f6d2e6578616d706c652e616374697665222c227075626c69634b657948617368223a226d6d646e4a4a47572b666270574351626466516b6e544e5249314768396b572f66786a6b4e3736652f4b6b3d222c22746f6b656e223a227072696d617279222c226365727469666963617465536861323536223a2264653033383137306636653433626264343134383465643730316164303764393934626232666330303261396563316331613962663336653666616431653237222c22616c676f726974686d223a224543222c2262697473223a3235362c226f726967696e223a22696d706f72746564222c226365727469666963617465456e64223a22323032382d31322d32355430333a34333a31342e3030305a222c22697373756572223a22433d55532c4f3d546f6b656e20466f7267652c4f553d466f7267652043657274696669636174696f6e20417574686f726974792c434e3d466f72676520576f726c647769646520446576656c6f7065722052656c6174696f6e73204341202d204732222c2268617368223a2232373233386330663331383763666137356230626139616265313565323063393534623835373336343539343537306636353161346235646532383433626132227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 7, 1795750995831, 'decrypt', 'ok', 'checkout', 0, 'merchant.com.example.active', '\x9a6767249196f9f6e958241b75f4249d33512351a1f645bf7f18e437be9efca9', '\xef0f8ea918ed5a43a9cc44be9d57db6fa7993b44420062e26b2c20ff4a1d267b', '\x231a9684f466e29796144b819a40855ded64e7da0111a5ce5bd0276d9d3571a3', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a372c2274696d65223a22323032362d31312d32375430333a34333a31352e3833315a222c226576656e74223a2264656372797074222c226f7574636f6d65223a226f6b222c2263616c6c6572223a7b226e616d65223a22636865636b6f7574222c22756964223a302c22676964223a302c22706964223a343633302c22636f6d6d223a22706179746f6b656e63746c227d2c226d65726368616e74223a226d65726368616e742e636f6d2e6578616d706c652e616374697665222c227075626c69634b657948617368223a226d6d646e4a4a47572b666270574351626466516b6e544e5249314768396b572f66786a6b4e3736652f4b6b3d222c227472616e73616374696f6e4964223a2265663066386561393138656435613433613963633434626539643537646236666137393933623434343230303632653236623263323066663461316432363762222c2270726f74656374696f6e223a2243222c22746f6b656e223a227072696d617279222c227265666572656e6365223a2230626166653232313536643236393863313433623836303430343436643336366561643836336261363030643563393234663364313563373836656634303537222c2268617368223a2232333161393638346634363665323937393631343462383139613430383535646564363465376461303131316135636535626430323736643964333537316133227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 8, 1795750995871, 'key_attributes', 'ok', NULL, NULL, 'merchant.com.example.active', '\x9a6767249196f9f6e958241b75f4249d33512351a1f645bf7f18e437be9efca9', NULL, '\x5c2c84940a4d60000ddd910d60526472ea6ef135fd8d0a35d91f70b530a6b82c', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a382c2274696d65223a22323032362d31312d32375430333a34333a31352e3837315a222c226576656e74223a226b65795f61747472696275746573222c226f7574636f6d65223a226f6b222c226d65726368616e74223a226d65726368616e742e636f6d2e6578616d706c652e616374697665222c227075626c69634b657948617368223a226d6d646e4a4a47572b666270574351626466516b6e544e5249314768396b572f66786a6b4e3736652f4b6b3d222c22746f6b656e223a227072696d617279222c226b657973223a5b7b22616c676f726974686d223a224543222c2262697473223a3235362c2273656e736974697665223a747275652c226578747261637461626c65223a66616c73652c22616c7761797353656e736974697665223a66616c73652c226e657665724578747261637461626c65223a66616c73652c226c6f63616c223a66616c73652c2273746f726564223a747275652c2270726976617465223a747275652c226d6f6469666961626c65223a747275652c2275736573223a5b22646572697665225d7d5d2c2268617368223a2235633263383439343061346436303030306464643931306436303532363437326561366566313335666438643061333564393166373062353330613662383263227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 9, 1795750996398, 'decrypt', 'ok', 'checkout', 0, 'merchant.com.example.active', '\x9a6767249196f9f6e958241b75f4249d33512351a1f645bf7f18e437be9efca9', '\x832cf01a67303e5bb70a25012e15c0ad380a108ecd536eb469fdcaad834d6e01', '\x22d616a1b0203691533617b6da1e7f6194784ce0a27e5ff2710d71feaf4aee32', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a392c2274696d65223a22323032362d31312d32375430333a34333a31362e3339385a222c226576656e74223a2264656372797074222c226f7574636f6d65223a226f6b222c2263616c6c6572223a7b226e616d65223a22636865636b6f7574222c22756964223a302c22676964223a302c22706964223a343638332c22636f6d6d223a22706179746f6b656e63746c227d2c226d65726368616e74223a226d65726368616e742e636f6d2e6578616d706c652e616374697665222c227075626c69634b657948617368223a226d6d646e4a4a47572b666270574351626466516b6e544e5249314768396b572f66786a6b4e3736652f4b6b3d222c227472616e73616374696f6e4964223a2238333263663031613637333033653562623730613235303132653135633061643338306131303865636435333665623436396664636161643833346436653031222c2270726f74656374696f6e223a2243222c22746f6b656e223a227072696d617279222c227265666572656e6365223a2233643565333130366364373262613033666564656466366462623966633333363765646365626534353365393064623233366561373633616132323862656533222c2268617368223a2232326436313661316230323033363931353333363137623664613165376636313934373834636530613237653566663237313064373166656166346165653332227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 10, 1795750996854, 'decrypt', 'ok', 'checkout', 0, 'merchant.com.example.active', '\x9a6767249196f9f6e958241b75f4249d33512351a1f645bf7f18e437be9efca9', '\x4a8ddde812db53236917ec1d71cb051c202d0f1aa4cc0c3e838facd520a37feb', '\xa25b1a00d567dc7b649c03f5a62119649aa5c9c95e194e4189019936f3729342', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a31302c2274696d65223a22323032362d31312d32375430333a34333a31362e3835345a222c226576656e74223a2264656372797074222c226f7574636f6d65223a226f6b222c2263616c6c6572223a7b226e616d65223a22636865636b6f7574222c22756964223a302c22676964223a302c22706964223a343735382c22636f6d6d223a22706179746f6b656e63746c227d2c226d65726368616e74223a226d65726368616e742e636f6d2e6578616d706c652e616374697665222c227075626c69634b657948617368223a226d6d646e4a4a47572b666270574351626466516b6e544e5249314768396b572f66786a6b4e3736652f4b6b3d222c227472616e73616374696f6e4964223a2234613864646465383132646235333233363931376563316437316362303531633230326430663161613463633063336538333866616364353230613337666562222c2270726f74656374696f6e223a2243222c22746f6b656e223a227072696d617279222c227265666572656e6365223a2232386563396138666632343966643566623239393337333463303236616662626534646561373665633761393939633233643737343233366262623836646537222c2268617368223a2261323562316130306435363764633762363439633033663561363231313936343961613563396339356531393465343138393031393933366633373239333432227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 11, 1795750997037, 'decrypt', 'repeat', 'checkout', 0, 'merchant.com.example.active', '\x9a6767249196f9f6e958241b75f4249d33512351a1f645bf7f18e437be9efca9', '\xef0f8ea918ed5a43a9cc44be9d57db6fa7993b44420062e26b2c20ff4a1d267b', '\x7437bb13a8cce3f4f4154b8782a3392c861239f2a6e08452f1e90ad551b48f83', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a31312c2274696d65223a22323032362d31312d32375430333a34333a31372e3033375a222c226576656e74223a2264656372797074222c226f7574636f6d65223a22726570656174222c2263616c6c6572223a7b226e616d65223a22636865636b6f7574222c22756964223a302c22676964223a302c22706964223a343739392c22636f6d6d223a22706179746f6b656e63746c227d2c226d65726368616e74223a226d65726368616e742e636f6d2e6578616d706c652e616374697665222c227075626c69634b657948617368223a226d6d646e4a4a47572b666270574351626466516b6e544e5249314768396b572f66786a6b4e3736652f4b6b3d222c227472616e73616374696f6e4964223a2265663066386561393138656435613433613963633434626539643537646236666137393933623434343230303632653236623263323066663461316432363762222c2270726f74656374696f6e223a2243222c22746f6b656e223a227072696d617279222c227265666572656e6365223a2230626166653232313536643236393863313433623836303430343436643336366561643836336261363030643563393234663364313563373836656634303537222c2268617368223a2237343337626231336138636365336634663431353462383738326133333932633836313233396632613665303834353266316539306164353531623438663833227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 12, 1795750997229, 'decrypt', 'transaction_replayed', 'checkout', 0, 'merchant.com.example.active', '\x9a6767249196f9f6e958241b75f4249d33512351a1f645bf7f18e437be9efca9', '\x832cf01a67303e5bb70a25012e15c0ad380a108ecd536eb469fdcaad834d6e01', '\x35dcae3bb1dc182dcd9fa1d858e41ed8e6d741108f518020cfa65b35890ea85a', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a31322c2274696d65223a22323032362d31312d32375430333a34333a31372e3232395a222c226576656e74223a2264656372797074222c226f7574636f6d65223a227472616e73616374696f6e5f7265706c61796564222c2263616c6c6572223a7b226e616d65223a22636865636b6f7574222c22756964223a302c22676964223a302c22706964223a343831362c22636f6d6d223a22706179746f6b656e63746c227d2c226d65726368616e74223a226d65726368616e742e636f6d2e6578616d706c652e616374697665222c227075626c69634b657948617368223a226d6d646e4a4a47572b666270574351626466516b6e544e5249314768396b572f66786a6b4e3736652f4b6b3d222c227472616e73616374696f6e4964223a2238333263663031613637333033653562623730613235303132653135633061643338306131303865636435333665623436396664636161643833346436653031222c2270726f74656374696f6e223a2243222c22746f6b656e223a227072696d617279222c227265666572656e6365223a2261653434386163383663346538653464656336343537323937303865663431383733616537396336646666383465666637333336303938393438376630386535222c2268617368223a2233356463616533626231646331383264636439666131643835386534316564386536643734313130386635313830323063666136356233353839306561383561227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 13, 1795750997678, 'decrypt', 'ok', 'checkout', 0, 'merchant.com.example.active', '\x9a6767249196f9f6e958241b75f4249d33512351a1f645bf7f18e437be9efca9', '\x2c7725d9d74e54156b87fd9845cfebfe428fd1b0536cfa5874b89c3259978f3c', '\x80fbaebcbb3942d7b7f5d38732e2ff61fccf65a363eacdea06e8e846a5361a24', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a31332c2274696d65223a22323032362d31312d32375430333a34333a31372e3637385a222c226576656e74223a2264656372797074222c226f7574636f6d65223a226f6b222c2263616c6c6572223a7b226e616d65223a22636865636b6f7574222c22756964223a302c22676964223a302c22706964223a343834322c22636f6d6d223a22706179746f6b656e63746c227d2c226d65726368616e74223a226d65726368616e742e636f6d2e6578616d706c652e616374697665222c227075626c69634b657948617368223a226d6d646e4a4a47572b666270574351626466516b6e544e5249314768396b572f66786a6b4e3736652f4b6b3d222c227472616e73616374696f6e4964223a2232633737323564396437346535343135366238376664393834356366656266653432386664316230353336636661353837346238396333323539393738663363222c2270726f74656374696f6e223a2243222c22746f6b656e223a227072696d617279222c2268617368223a2238306662616562636262333934326437623766356433383733326532666636316663636636356133363365616364656130366538653834366135333631613234227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 14, 1795750998907, 'key_import', 'ok', 'checkout', 0, 'merchant.com.example.suspended', '\x9b36bdd01c41fb8c045ab268e23b8276c8afd2a72808f5eedf22fe7e97f93ce8', NULL, '\xccc82ebbec8aeb010188ece593817cd564a04b26d4176515a9bdfea472d0ad73', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a31342c2274696d65223a22323032362d31312d32375430333a34333a31382e3930375a222c226576656e74223a226b65795f696d706f7274222c226f7574636f6d65223a226f6b222c2263616c6c6572223a7b226e616d65223a22636865636b6f7574222c22756964223a302c22676964223a302c22706964223a343838392c22636f6d6d223a22706179746f6b656e63746c227d2c226d65726368616e74223a226d65726368616e742e636f6d2e6578616d706c652e73757370656e646564222c227075626c69634b657948617368223a226d7a6139304278422b34774557724a6f346a7543647369763071636f4350587533794c2b66706635504f673d222c22746f6b656e223a227072696d617279222c226365727469666963617465536861323536223a2263633963636334343765666239636638633761313362363864633931343062616665313631323637386662653737343162343432663438306562343632356535222c22616c676f726974686d223a22525341222c2262697473223a323034382c226f726967696e223a22696d706f72746564222c226365727469666963617465456e64223a22323032382d31322d32355430333a34333a31372e3030305a222c22697373756572223a22433d55532c4f3d546f6b656e20466f7267652c4f553d466f7267652043657274696669636174696f6e20417574686f726974792c434e3d466f72676520576f726c647769646520446576656c6f7065722052656c6174696f6e73204341202d204732222c2268617368223a2263636338326562626563386165623031303138386563653539333831376364353634613034623236643431373635313561396264666561343732643061643733227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 15, 1795750999442, 'decrypt', 'ok', 'checkout', 0, 'merchant.com.example.suspended', '\x9b36bdd01c41fb8c045ab268e23b8276c8afd2a72808f5eedf22fe7e97f93ce8', '\x4d558f07f308fa101bd481d20fb340a6265dd0639bfbb4af89c6d97409b5d81d', '\xc4749ab58eecb7e564de891d1ad2321be6a8a4fb167356f9a82489934e18153f', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a31352c2274696d65223a22323032362d31312d32375430333a34333a31392e3434325a222c226576656e74223a2264656372797074222c226f7574636f6d65223a226f6b222c2263616c6c6572223a7b226e616d65223a22636865636b6f7574222c22756964223a302c22676964223a302c22706964223a353030302c22636f6d6d223a22706179746f6b656e63746c227d2c226d65726368616e74223a226d65726368616e742e636f6d2e6578616d706c652e73757370656e646564222c227075626c69634b657948617368223a226d7a6139304278422b34774557724a6f346a7543647369763071636f4350587533794c2b66706635504f673d222c227472616e73616374696f6e4964223a2234643535386630376633303866613130316264343831643230666233343061363236356464303633396266626234616638396336643937343039623564383164222c2270726f74656374696f6e223a2243222c22746f6b656e223a227072696d617279222c227265666572656e6365223a2266373164663635363730643632333231313334376633343139333033326236616463393135656261336362313464343431366538633731393433656537633966222c2268617368223a2263343734396162353865656362376535363464653839316431616432333231626536613861346662313637333536663961383234383939333465313831353366227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 16, 1795750999921, 'key_attributes', 'ok', NULL, NULL, 'merchant.com.example.suspended', '\x9b36bdd01c41fb8c045ab268e23b8276c8afd2a72808f5eedf22fe7e97f93ce8', NULL, '\x5fc4673e3aa453919cf38f8ede3fc60bfa9d0057b3b55a9259325e43daaa5c56', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a31362c2274696d65223a22323032362d31312d32375430333a34333a31392e3932315a222c226576656e74223a226b65795f61747472696275746573222c226f7574636f6d65223a226f6b222c226d65726368616e74223a226d65726368616e742e636f6d2e6578616d706c652e73757370656e646564222c227075626c69634b657948617368223a226d7a6139304278422b34774557724a6f346a7543647369763071636f4350587533794c2b66706635504f673d222c22746f6b656e223a227072696d617279222c226b657973223a5b7b22616c676f726974686d223a22525341222c2262697473223a323034382c2273656e736974697665223a747275652c226578747261637461626c65223a66616c73652c22616c7761797353656e736974697665223a66616c73652c226e657665724578747261637461626c65223a66616c73652c226c6f63616c223a66616c73652c2273746f726564223a747275652c2270726976617465223a747275652c226d6f6469666961626c65223a747275652c2275736573223a5b2264656372797074222c22756e77726170225d7d5d2c2268617368223a2235666334363733653361613435333931396366333866386564653366633630626661396430303537623362353561393235393332356534336461616135633536227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 17, 1795751000491, 'key_state_change', 'ok', 'checkout', 0, 'merchant.com.example.suspended', '\x9b36bdd01c41fb8c045ab268e23b8276c8afd2a72808f5eedf22fe7e97f93ce8', NULL, '\x6162f95a80972d84c28fcc2fa6e7d526c41fe825caf38e65b43e0e9acfda98fb', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a31372c2274696d65223a22323032362d31312d32375430333a34333a32302e3439315a222c226576656e74223a226b65795f73746174655f6368616e6765222c226f7574636f6d65223a226f6b222c2263616c6c6572223a7b226e616d65223a22636865636b6f7574222c22756964223a302c22676964223a302c22706964223a353131312c22636f6d6d223a22706179746f6b656e63746c227d2c226d65726368616e74223a226d65726368616e742e636f6d2e6578616d706c652e73757370656e646564222c227075626c69634b657948617368223a226d7a6139304278422b34774557724a6f346a7543647369763071636f4350587533794c2b66706635504f673d222c2266726f6d223a22616374697665222c22746f223a2273757370656e646564222c22726561736f6e223a22612066697874757265222c2268617368223a2236313632663935613830393732643834633238666363326661366537643532366334316665383235636166333865363562343365306539616366646139386662227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 18, 1795751001061, 'decrypt', 'key_not_active', 'checkout', 0, 'merchant.com.example.suspended', '\x9b36bdd01c41fb8c045ab268e23b8276c8afd2a72808f5eedf22fe7e97f93ce8', '\x2fc9b0b7fe0cc49bda444469bb9293da6d0340b47058ac5814eda1e66e3a1b91', '\x8163fbbd8e2011aa8790db51d959ed90ba1dc6b2ea5f8bd29c106dc17f885ba3', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a31382c2274696d65223a22323032362d31312d32375430333a34333a32312e3036315a222c226576656e74223a2264656372797074222c226f7574636f6d65223a226b65795f6e6f745f616374697665222c2263616c6c6572223a7b226e616d65223a22636865636b6f7574222c22756964223a302c22676964223a302c22706964223a353135322c22636f6d6d223a22706179746f6b656e63746c227d2c226d65726368616e74223a226d65726368616e742e636f6d2e6578616d706c652e73757370656e646564222c227075626c69634b657948617368223a226d7a6139304278422b34774557724a6f346a7543647369763071636f4350587533794c2b66706635504f673d222c227472616e73616374696f6e4964223a2232666339623062376665306363343962646134343434363962623932393364613664303334306234373035386163353831346564613165363665336131623931222c2268617368223a2238313633666262643865323031316161383739306462353164393539656439306261316463366232656135663862643239633130366463313766383835626133227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 19, 1795751001928, 'key_import', 'ok', 'checkout', 0, 'merchant.com.example.compromised', '\x50cb1fcdadc824f9aa8a5a3c4dbf32c631ec44bc854cad5cdd504ff448d7e04b', NULL, '\x4b41dbb5120909d61b57fbaa548f15d52c783032dee11851725a60ee57190ec7', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a31392c2274696d65223a22323032362d31312d32375430333a34333a32312e3932385a222c226576656e74223a226b65795f696d706f7274222c226f7574636f6d65223a226f6b222c2263616c6c6572223a7b226e616d65223a22636865636b6f7574222c22756964223a302c22676964223a302c22706964223a353138362c22636f6d6d223a22706179746f6b656e63746c227d2c226d65726368616e74223a226d65726368616e742e636f6d2e6578616d706c652e636f6d70726f6d69736564222c227075626c69634b657948617368223a22554d73667a6133494a506d71696c6f3854623879786a4873524c7946544b31633356425039456a583445733d222c22746f6b656e223a227072696d617279222c226365727469666963617465536861323536223a2231363337313666633265363063656533303639396666313031383035373937663034636630353766353363616238653735333838343333396331626537376335222c22616c676f726974686d223a224543222c2262697473223a3235362c226f726967696e223a22696d706f72746564222c226365727469666963617465456e64223a22323032382d31322d32355430333a34333a32312e3030305a222c22697373756572223a22433d55532c4f3d546f6b656e20466f7267652c4f553d466f7267652043657274696669636174696f6e20417574686f726974792c434e3d466f72676520576f726c647769646520446576656c6f7065722052656c6174696f6e73204341202d204732222c2268617368223a2234623431646262353132303930396436316235376662616135343866313564353263373833303332646565313138353137323561363065653537313930656337227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 20, 1795751002060, 'key_attributes', 'ok', NULL, NULL, 'merchant.com.example.compromised', '\x50cb1fcdadc824f9aa8a5a3c4dbf32c631ec44bc854cad5cdd504ff448d7e04b', NULL, '\x0d65c591159f9dd2490e0e21578b1b620078e5db4d8d4e03463ca3ff504d120f', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a32302c2274696d65223a22323032362d31312d32375430333a34333a32322e3036305a222c226576656e74223a226b65795f61747472696275746573222c226f7574636f6d65223a226f6b222c226d65726368616e74223a226d65726368616e742e636f6d2e6578616d706c652e636f6d70726f6d69736564222c227075626c69634b657948617368223a22554d73667a6133494a506d71696c6f3854623879786a4873524c7946544b31633356425039456a583445733d222c22746f6b656e223a227072696d617279222c226b657973223a5b7b22616c676f726974686d223a224543222c2262697473223a3235362c2273656e736974697665223a747275652c226578747261637461626c65223a66616c73652c22616c7761797353656e736974697665223a66616c73652c226e657665724578747261637461626c65223a66616c73652c226c6f63616c223a66616c73652c2273746f726564223a747275652c2270726976617465223a747275652c226d6f6469666961626c65223a747275652c2275736573223a5b22646572697665225d7d5d2c2268617368223a2230643635633539313135396639646432343930653065323135373862316236323030373865356462346438643465303334363363613366663530346431323066227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 21, 1795751003327, 'key_state_change', 'ok', 'checkout', 0, 'merchant.com.example.compromised', '\x50cb1fcdadc824f9aa8a5a3c4dbf32c631ec44bc854cad5cdd504ff448d7e04b', NULL, '\xc4e9ecece2d65699d29eb9cfa4a2b9d3c8a18a1e0d16ad080037704e3d25e8ec', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a32312c2274696d65223a22323032362d31312d32375430333a34333a32332e3332375a222c226576656e74223a226b65795f73746174655f6368616e6765222c226f7574636f6d65223a226f6b222c2263616c6c6572223a7b226e616d65223a22636865636b6f7574222c22756964223a302c22676964223a302c22706964223a353236362c22636f6d6d223a22706179746f6b656e63746c227d2c226d65726368616e74223a226d65726368616e742e636f6d2e6578616d706c652e636f6d70726f6d69736564222c227075626c69634b657948617368223a22554d73667a6133494a506d71696c6f3854623879786a4873524c7946544b31633356425039456a583445733d222c2266726f6d223a22616374697665222c22746f223a22636f6d70726f6d69736564222c22726561736f6e223a22612066697874757265222c2268617368223a2263346539656365636532643635363939643239656239636661346132623964336338613138613165306431366164303830303337373034653364323565386563227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 22, 1795751003902, 'key_generate', 'ok', 'checkout', 0, 'merchant.com.example.generated', '\xc64dd56991780d8bd3dab860b29096385b059e3496ac6e05dc3c0c2bd92df3a0', NULL, '\xee5f780125718eaea813b8c5a3e0c21fba969191d0362ed7bae97060eee90614', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a32322c2274696d65223a22323032362d31312d32375430333a34333a32332e3930325a222c226576656e74223a226b65795f67656e6572617465222c226f7574636f6d65223a226f6b222c2263616c6c6572223a7b226e616d65223a22636865636b6f7574222c22756964223a302c22676964223a302c22706964223a353239342c22636f6d6d223a22706179746f6b656e63746c227d2c226d65726368616e74223a226d65726368616e742e636f6d2e6578616d706c652e67656e657261746564222c227075626c69634b657948617368223a22786b3356615a46344459765432726867737043574f4673466e6a5357724734463344774d4b396b743836413d222c22746f6b656e223a227072696d617279222c22616c676f726974686d223a224543222c2262697473223a3235362c226f726967696e223a2267656e657261746564222c2268617368223a2265653566373830313235373138656165613831336238633561336530633231666261393639313931643033363265643762616539373036306565653930363134227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 23, 1795751004116, 'key_attributes', 'ok', NULL, NULL, 'merchant.com.example.generated', '\xc64dd56991780d8bd3dab860b29096385b059e3496ac6e05dc3c0c2bd92df3a0', NULL, '\x938b0786afb592938d200f68ae1475c855a73a3cee67f7c797693d63494d2f2d', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a32332c2274696d65223a22323032362d31312d32375430333a34333a32342e3131365a222c226576656e74223a226b65795f61747472696275746573222c226f7574636f6d65223a226f6b222c226d65726368616e74223a226d65726368616e742e636f6d2e6578616d706c652e67656e657261746564222c227075626c69634b657948617368223a22786b3356615a46344459765432726867737043574f4673466e6a5357724734463344774d4b396b743836413d222c22746f6b656e223a227072696d617279222c226b657973223a5b7b22616c676f726974686d223a224543222c2262697473223a3235362c2273656e736974697665223a747275652c226578747261637461626c65223a66616c73652c22616c7761797353656e736974697665223a747275652c226e657665724578747261637461626c65223a747275652c226c6f63616c223a747275652c2273746f726564223a747275652c2270726976617465223a747275652c226d6f6469666961626c65223a747275652c2275736573223a5b22646572697665225d7d5d2c2268617368223a2239333862303738366166623539323933386432303066363861653134373563383535613733613363656536376637633739373639336436333439346432663264227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 24, 1795751004446, 'key_import', 'ok', 'checkout', 0, '2X9R4HXF34', '\x9fb69ddb90820da6fd88d5a6b6eceddd2a06a0d9373e9eadb8c698496d7388a6', NULL, '\x23124db6426c8b5b6133752ba7ac2af443d6d35acb46bcff16d55cb651ff26b7', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a32342c2274696d65223a22323032362d31312d32375430333a34333a32342e3434365a222c226576656e74223a226b65795f696d706f7274222c226f7574636f6d65223a226f6b222c2263616c6c6572223a7b226e616d65223a22636865636b6f7574222c22756964223a302c22676964223a302c22706964223a353331372c22636f6d6d223a22706179746f6b656e63746c227d2c226d65726368616e74223a2232583952344858463334222c227075626c69634b657948617368223a226e3761643235434344616239694e576d74757a7433536f476f4e6b3350703674754d61595357317a694b593d222c22746f6b656e223a227072696d617279222c22616c676f726974686d223a224543222c2262697473223a3235362c226f726967696e223a22696d706f72746564222c2268617368223a2232333132346462363432366338623562363133333735326261376163326166343433643664333561636234366263666631366435356362363531666632366237227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 25, 1795751005293, 'key_import', 'ok', 'checkout', 0, 'merchant.com.example.rotated', '\x64565551b893b772abc0e8ee0cdf823d62f079d705f51d9aaccc32c6406eaf3f', NULL, '\x736cf8855b708a7d4b31d22dead22dcc7eb29cf0e8246a4894e1b107c16f67c2', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a32352c2274696d65223a22323032362d31312d32375430333a34333a32352e3239335a222c226576656e74223a226b65795f696d706f7274222c226f7574636f6d65223a226f6b222c2263616c6c6572223a7b226e616d65223a22636865636b6f7574222c22756964223a302c22676964223a302c22706964223a353334342c22636f6d6d223a22706179746f6b656e63746c227d2c226d65726368616e74223a226d65726368616e742e636f6d2e6578616d706c652e726f7461746564222c227075626c69634b657948617368223a225a465a565562695474334b72774f6a75444e2b4350574c776564634639523261724d7779786b4275727a383d222c22746f6b656e223a227072696d617279222c226365727469666963617465536861323536223a2262613834316565396530643434313466376238633536643834366337633136326339323433643234376630666466376565633833646134646436663162376235222c22616c676f726974686d223a224543222c2262697473223a3235362c226f726967696e223a22696d706f72746564222c226365727469666963617465456e64223a22323032382d31322d32355430333a34333a32342e3030305a222c22697373756572223a22433d55532c4f3d546f6b656e20466f7267652c4f553d466f7267652043657274696669636174696f6e20417574686f726974792c434e3d466f72676520576f726c647769646520446576656c6f7065722052656c6174696f6e73204341202d204732222c2268617368223a2237333663663838353562373038613764346233316432326465616432326463633765623239636630653832343661343839346531623130376331366636376332227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 26, 1795751005296, 'key_attributes', 'ok', NULL, NULL, '2X9R4HXF34', '\x9fb69ddb90820da6fd88d5a6b6eceddd2a06a0d9373e9eadb8c698496d7388a6', NULL, '\x9f121c8291803bfdaacd6b255de021dcb70039ec905f923a2def8ee13e1e5a5c', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a32362c2274696d65223a22323032362d31312d32375430333a34333a32352e3239365a222c226576656e74223a226b65795f61747472696275746573222c226f7574636f6d65223a226f6b222c226d65726368616e74223a2232583952344858463334222c227075626c69634b657948617368223a226e3761643235434344616239694e576d74757a7433536f476f4e6b3350703674754d61595357317a694b593d222c22746f6b656e223a227072696d617279222c226b657973223a5b7b22616c676f726974686d223a224543222c2262697473223a3235362c2273656e736974697665223a747275652c226578747261637461626c65223a66616c73652c22616c7761797353656e736974697665223a66616c73652c226e657665724578747261637461626c65223a66616c73652c226c6f63616c223a66616c73652c2273746f726564223a747275652c2270726976617465223a747275652c226d6f6469666961626c65223a747275652c2275736573223a5b227369676e225d7d5d2c2268617368223a2239663132316338323931383033626664616163643662323535646530323164636237303033396563393035663932336132646566386565313365316535613563227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 27, 1795751005670, 'decrypt', 'ok', 'checkout', 0, 'merchant.com.example.rotated', '\x64565551b893b772abc0e8ee0cdf823d62f079d705f51d9aaccc32c6406eaf3f', '\x3e0ce04fec4576566bc3593502f52589554ed61fb3e8c4dc872c818b06a2f139', '\x4254864915a27c484a027321d0f6a0cb0dd1e63547a1381aa0b8084ab77e36f7', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a32372c2274696d65223a22323032362d31312d32375430333a34333a32352e3637305a222c226576656e74223a2264656372797074222c226f7574636f6d65223a226f6b222c2263616c6c6572223a7b226e616d65223a22636865636b6f7574222c22756964223a302c22676964223a302c22706964223a353338322c22636f6d6d223a22706179746f6b656e63746c227d2c226d65726368616e74223a226d65726368616e742e636f6d2e6578616d706c652e726f7461746564222c227075626c69634b657948617368223a225a465a565562695474334b72774f6a75444e2b4350574c776564634639523261724d7779786b4275727a383d222c227472616e73616374696f6e4964223a2233653063653034666563343537363536366263333539333530326635323538393535346564363166623365386334646338373263383138623036613266313339222c2270726f74656374696f6e223a2243222c22746f6b656e223a227072696d617279222c227265666572656e6365223a2264663863663830323237656333323337393232646630656364383833383563353436653461333162646238313237623033336630316536663231663137356466222c2268617368223a2234323534383634393135613237633438346130323733323164306636613063623064643165363335343761313338316161306238303834616237376533366637227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 28, 1795751006275, 'key_generate', 'ok', 'checkout', 0, 'merchant.com.example.rotated', '\x53895cae81255cf040384b79c12741b1a88aea2b318ff04f00b8cc9fac75afd2', NULL, '\xe67357c324a589a27094133a4374605178c22fca34794f9992fe4433d9623d44', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a32382c2274696d65223a22323032362d31312d32375430333a34333a32362e3237355a222c226576656e74223a226b65795f67656e6572617465222c226f7574636f6d65223a226f6b222c2263616c6c6572223a7b226e616d65223a22636865636b6f7574222c22756964223a302c22676964223a302c22706964223a353431352c22636f6d6d223a22706179746f6b656e63746c227d2c226d65726368616e74223a226d65726368616e742e636f6d2e6578616d706c652e726f7461746564222c227075626c69634b657948617368223a2255346c63726f456c585042414f457435775364427361694b366973786a2f4250414c6a4d6e3678317239493d222c22746f6b656e223a227072696d617279222c22616c676f726974686d223a224543222c2262697473223a3235362c226f726967696e223a2267656e657261746564222c2268617368223a2265363733353763333234613538396132373039343133336134333734363035313738633232666361333437393466393939326665343433336439363233643434227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 29, 1795751006318, 'csr_create', 'ok', 'checkout', 0, 'merchant.com.example.rotated', '\x53895cae81255cf040384b79c12741b1a88aea2b318ff04f00b8cc9fac75afd2', NULL, '\xa3ed607bc0efaea2a4f39e27a67cda0c152a49f68c787043c6f4ab37abc2c3d0', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a32392c2274696d65223a22323032362d31312d32375430333a34333a32362e3331385a222c226576656e74223a226373725f637265617465222c226f7574636f6d65223a226f6b222c2263616c6c6572223a7b226e616d65223a22636865636b6f7574222c22756964223a302c22676964223a302c22706964223a353431352c22636f6d6d223a22706179746f6b656e63746c227d2c226d65726368616e74223a226d65726368616e742e636f6d2e6578616d706c652e726f7461746564222c227075626c69634b657948617368223a2255346c63726f456c585042414f457435775364427361694b366973786a2f4250414c6a4d6e3678317239493d222c22746f6b656e223a227072696d617279222c2268617368223a2261336564363037626330656661656132613466333965323761363763646130633135326134396636386337383730343363366634616233376162633263336430227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 30, 1795751007102, 'certificate_import', 'ok', 'checkout', 0, 'merchant.com.example.rotated', '\x53895cae81255cf040384b79c12741b1a88aea2b318ff04f00b8cc9fac75afd2', NULL, '\x94ba1a16e11a12cbc6245babb790935f1a708f63a4250329be446fcaa16beeba', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a33302c2274696d65223a22323032362d31312d32375430333a34333a32372e3130325a222c226576656e74223a2263657274696669636174655f696d706f7274222c226f7574636f6d65223a226f6b222c2263616c6c6572223a7b226e616d65223a22636865636b6f7574222c22756964223a302c22676964223a302c22706964223a353433352c22636f6d6d223a22706179746f6b656e63746c227d2c226d65726368616e74223a226d65726368616e742e636f6d2e6578616d706c652e726f7461746564222c227075626c69634b657948617368223a2255346c63726f456c585042414f457435775364427361694b366973786a2f4250414c6a4d6e3678317239493d222c22746f6b656e223a227072696d617279222c226365727469666963617465536861323536223a2237306266303838376132356334633962633534333330626634303762326632633139626463386663666238653332383238666237353036616439386461313530222c22616c676f726974686d223a224543222c2262697473223a3235362c226f726967696e223a2267656e657261746564222c226365727469666963617465456e64223a22323032382d31322d32355430333a34333a32362e3030305a222c22697373756572223a22433d55532c4f3d546f6b656e20466f7267652c4f553d466f7267652043657274696669636174696f6e20417574686f726974792c434e3d466f72676520576f726c647769646520446576656c6f7065722052656c6174696f6e73204341202d204732222c2268617368223a2239346261316131366531316131326362633632343562616262373930393335663161373038663633613432353033323962653434366663616131366265656261227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 31, 1795751007389, 'key_attributes', 'ok', NULL, NULL, 'merchant.com.example.rotated', '\x53895cae81255cf040384b79c12741b1a88aea2b318ff04f00b8cc9fac75afd2', NULL, '\xb57b6b74012dd3f61c78a2cf58de4a1885f2d1e99c33e2c4ea1259bee370676f', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a33312c2274696d65223a22323032362d31312d32375430333a34333a32372e3338395a222c226576656e74223a226b65795f61747472696275746573222c226f7574636f6d65223a226f6b222c226d65726368616e74223a226d65726368616e742e636f6d2e6578616d706c652e726f7461746564222c227075626c69634b657948617368223a2255346c63726f456c585042414f457435775364427361694b366973786a2f4250414c6a4d6e3678317239493d222c22746f6b656e223a227072696d617279222c226b657973223a5b7b22616c676f726974686d223a224543222c2262697473223a3235362c2273656e736974697665223a747275652c226578747261637461626c65223a66616c73652c22616c7761797353656e736974697665223a747275652c226e657665724578747261637461626c65223a747275652c226c6f63616c223a747275652c2273746f726564223a747275652c2270726976617465223a747275652c226d6f6469666961626c65223a747275652c2275736573223a5b22646572697665225d7d5d2c2268617368223a2262353762366237343031326464336636316337386132636635386465346131383835663264316539396333336532633465613132353962656533373036373666227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 32, 1795751007431, 'decrypt', 'ok', 'checkout', 0, 'merchant.com.example.rotated', '\x53895cae81255cf040384b79c12741b1a88aea2b318ff04f00b8cc9fac75afd2', '\x75f90683a0f6bb8ae9d0e55af59043fe06a3cc182763ace069c21c329bbba3ce', '\x74db68b6eae7956973779a55b57ad9c36877200da843e8a4e5a3a52d92b4a759', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a33322c2274696d65223a22323032362d31312d32375430333a34333a32372e3433315a222c226576656e74223a2264656372797074222c226f7574636f6d65223a226f6b222c2263616c6c6572223a7b226e616d65223a22636865636b6f7574222c22756964223a302c22676964223a302c22706964223a353435352c22636f6d6d223a22706179746f6b656e63746c227d2c226d65726368616e74223a226d65726368616e742e636f6d2e6578616d706c652e726f7461746564222c227075626c69634b657948617368223a2255346c63726f456c585042414f457435775364427361694b366973786a2f4250414c6a4d6e3678317239493d222c227472616e73616374696f6e4964223a2237356639303638336130663662623861653964306535356166353930343366653036613363633138323736336163653036396332316333323962626261336365222c2270726f74656374696f6e223a2243222c22746f6b656e223a227072696d617279222c227265666572656e6365223a2233323966373564323461636139313338393264396537333432323332653132633962616666376235643864623639373033326431666139353830653736313734222c2268617368223a2237346462363862366561653739353639373337373961353562353761643963333638373732303064613834336538613465356133613532643932623461373539227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 33, 1795751007446, 'key_attributes', 'ok', NULL, NULL, 'merchant.com.example.rotated', '\x64565551b893b772abc0e8ee0cdf823d62f079d705f51d9aaccc32c6406eaf3f', NULL, '\x8a187a029f838d8f7beee3ce6ba123ddad0f04bc7aaa6394aea9e9beb34244ac', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a33332c2274696d65223a22323032362d31312d32375430333a34333a32372e3434365a222c226576656e74223a226b65795f61747472696275746573222c226f7574636f6d65223a226f6b222c226d65726368616e74223a226d65726368616e742e636f6d2e6578616d706c652e726f7461746564222c227075626c69634b657948617368223a225a465a565562695474334b72774f6a75444e2b4350574c776564634639523261724d7779786b4275727a383d222c22746f6b656e223a227072696d617279222c226b657973223a5b7b22616c676f726974686d223a224543222c2262697473223a3235362c2273656e736974697665223a747275652c226578747261637461626c65223a66616c73652c22616c7761797353656e736974697665223a66616c73652c226e657665724578747261637461626c65223a66616c73652c226c6f63616c223a66616c73652c2273746f726564223a747275652c2270726976617465223a747275652c226d6f6469666961626c65223a747275652c2275736573223a5b22646572697665225d7d5d2c2268617368223a2238613138376130323966383338643866376265656533636536626131323364646164306630346263376161613633393461656139653962656233343234346163227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 34, 1795751007715, 'key_state_change', 'ok', 'checkout', 0, 'merchant.com.example.rotated', '\x64565551b893b772abc0e8ee0cdf823d62f079d705f51d9aaccc32c6406eaf3f', NULL, '\xff15d37210ba2a64454d2f94c811c658313cabf8a59c4eb665835342a6a4ad3b', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a33342c2274696d65223a22323032362d31312d32375430333a34333a32372e3731355a222c226576656e74223a226b65795f73746174655f6368616e6765222c226f7574636f6d65223a226f6b222c2263616c6c6572223a7b226e616d65223a22636865636b6f7574222c22756964223a302c22676964223a302c22706964223a353437302c22636f6d6d223a22706179746f6b656e63746c227d2c226d65726368616e74223a226d65726368616e742e636f6d2e6578616d706c652e726f7461746564222c227075626c69634b657948617368223a225a465a565562695474334b72774f6a75444e2b4350574c776564634639523261724d7779786b4275727a383d222c2266726f6d223a22616374697665222c22746f223a226465616374697661746564222c226375744f6666223a22323032362d31322d30345430333a34333a32372e3030305a222c22726561736f6e223a22726f7461746564222c2268617368223a2266663135643337323130626132613634343534643266393463383131633635383331336361626638613539633465623636353833353334326136613461643362227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 35, 1795751008037, 'audit_export', 'ok', 'checkout', 0, NULL, NULL, NULL, '\x94cb7319f2b68f5b1dd0b26fc893000dcd5cb1fa4318db5f3bad84622d6d5c42', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a33352c2274696d65223a22323032362d31312d32375430333a34333a32382e3033375a222c226576656e74223a2261756469745f6578706f7274222c226f7574636f6d65223a226f6b222c2263616c6c6572223a7b226e616d65223a22636865636b6f7574222c22756964223a302c22676964223a302c22706964223a353438302c22636f6d6d223a22706179746f6b656e63746c227d2c22666f726d6174223a226a736f6e6c222c226669727374223a312c226c617374223a33342c2268617368223a2239346362373331396632623638663562316464306232366663383933303030646364356362316661343331386462356633626164383436323264366435633432227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 36, 1795751008422, 'decrypt', 'ok', 'checkout', 0, 'merchant.com.example.active', '\x9a6767249196f9f6e958241b75f4249d33512351a1f645bf7f18e437be9efca9', '\x697b71802ad93927331108f06df823341f0ed077148e5cd3fef5f5895dc569fc', '\xfa08b23af6fef0dc0057bbb674a7a6a6489911402a8b4bb0db25df7db45c5ba9', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a33362c2274696d65223a22323032362d31312d32375430333a34333a32382e3432325a222c226576656e74223a2264656372797074222c226f7574636f6d65223a226f6b222c2263616c6c6572223a7b226e616d65223a22636865636b6f7574222c22756964223a302c22676964223a302c22706964223a353439332c22636f6d6d223a22706179746f6b656e63746c227d2c226d65726368616e74223a226d65726368616e742e636f6d2e6578616d706c652e616374697665222c227075626c69634b657948617368223a226d6d646e4a4a47572b666270574351626466516b6e544e5249314768396b572f66786a6b4e3736652f4b6b3d222c227472616e73616374696f6e4964223a2236393762373138303261643933393237333331313038663036646638323333343166306564303737313438653563643366656635663538393564633536396663222c2270726f74656374696f6e223a2243222c22746f6b656e223a227072696d617279222c227265666572656e6365223a2264643465623531373635336536306539313863643138363838353064383062343565343439656139396563646662396339303762373935346530313462316366222c2268617368223a2266613038623233616636666566306463303035376262623637346137613661363438393931313430326138623462623064623235646637646234356335626139227d');
INSERT INTO paytokend.audit_record VALUES ('node-1', 37, 1795751008501, 'stop', 'ok', NULL, NULL, NULL, NULL, NULL, '\xca0e443ff4afe946415779e3362ffbf4c9b1cd2ab140b0870d5c0383c84264b0', '\x7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a33372c2274696d65223a22323032362d31312d32375430333a34333a32382e3530315a222c226576656e74223a2273746f70222c226f7574636f6d65223a226f6b222c2268617368223a2263613065343433666634616665393436343135373739653333363266666266346339623163643261623134306230383730643563303338336338343236346230227d');


--
-- Data for Name: checkpoint; Type: TABLE DATA; Schema: paytokend; Owner: -
--

INSERT INTO paytokend.checkpoint VALUES ('node-1', 4, 1795750994397, '\x7b22636865636b706f696e74223a7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a342c2268617368223a2232616565303364376330393461313232333938323662353736303964323237356130396136643262373731353565656432313064633132356364326436326562222c2274696d65223a22323032362d31312d32375430333a34333a31342e3339375a222c226b65794964223a2238663931623061336264613462383835353136636266636665666262353764303033663534336239366161373933316465313038363738373830323763346632227d2c227369676e6174757265223a224d455543494577614f5941644f6c697a4470434b54574f455a52634273797278516375674a344267685231744437615a416945416e2f4f6f4f526d4b35743245486d7a63436c3345636c68435166346a397947453351644553727a755759673d227d');
INSERT INTO paytokend.checkpoint VALUES ('node-1', 35, 1795751008047, '\x7b22636865636b706f696e74223a7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a33352c2268617368223a2239346362373331396632623638663562316464306232366663383933303030646364356362316661343331386462356633626164383436323264366435633432222c2274696d65223a22323032362d31312d32375430333a34333a32382e3034375a222c226b65794964223a2238663931623061336264613462383835353136636266636665666262353764303033663534336239366161373933316465313038363738373830323763346632227d2c227369676e6174757265223a224d4555434951446f4a6863456d7a5a68716a414d55497852497946787758467148433568444e67526f54614a7a314e547467496763775632642b6e4f39592b6f514b5a5434594264495530627a75356d4e3946356178527049784345436e593d227d');
INSERT INTO paytokend.checkpoint VALUES ('node-1', 37, 1795751008507, '\x7b22636865636b706f696e74223a7b226e6f6465223a226e6f64652d31222c2273657175656e6365223a33372c2268617368223a2263613065343433666634616665393436343135373739653333363266666266346339623163643261623134306230383730643563303338336338343236346230222c2274696d65223a22323032362d31312d32375430333a34333a32382e3530375a222c226b65794964223a2238663931623061336264613462383835353136636266636665666262353764303033663534336239366161373933316465313038363738373830323763346632227d2c227369676e6174757265223a224d455143494266786c6c744f56624449544e5235354f6e644e43456d494277762f36574165316d6c577934692b376c4641694157643736623677526d6b6f7575514b57766c6c65646b527a6243655a6d2b6c79797a383737514b664364413d3d227d');


--
-- Data for Name: claim; Type: TABLE DATA; Schema: paytokend; Owner: -
--

INSERT INTO paytokend.claim VALUES ('\x832cf01a67303e5bb70a25012e15c0ad380a108ecd536eb469fdcaad834d6e01', '\x9a6767249196f9f6e958241b75f4249d33512351a1f645bf7f18e437be9efca9', 'checkout', '\x3d5e3106cd72ba03fededf6dbb9fc3367edcebe453e90db236ea763aa228bee3', '\xea030254c6ba806f625025d9bca596838528f7fcdb6ada794c413125b4c8310f', '\x0000000000000000df5c62456774f9f8', 1795750996391, 0, NULL, NULL, 'node-1');
INSERT INTO paytokend.claim VALUES ('\x4a8ddde812db53236917ec1d71cb051c202d0f1aa4cc0c3e838facd520a37feb', '\x9a6767249196f9f6e958241b75f4249d33512351a1f645bf7f18e437be9efca9', 'checkout', '\x28ec9a8ff249fd5fb2993734c026afbbe4dea76ec7a999c23d774236bbb86de7', '\x5412e158fe4bdc9b4b062c3e04232accacb769fa7607f1ffaf73db6de73a7431', '\x000000000000000066908a535a17c9bc', 1795750996846, 0, NULL, NULL, 'node-1');
INSERT INTO paytokend.claim VALUES ('\xef0f8ea918ed5a43a9cc44be9d57db6fa7993b44420062e26b2c20ff4a1d267b', '\x9a6767249196f9f6e958241b75f4249d33512351a1f645bf7f18e437be9efca9', 'checkout', '\x0bafe22156d2698c143b86040446d366ead863ba600d5c924f3d15c786ef4057', '\xeb32768790d5441bf603363593a0efcec00774ac36219e445f3c956ae2f735a5', '\x00000000000000000b3af86a3a01162b', 1795750995805, 1, '\x000000000000000098da23bfadaa648c', 1795750997032, 'node-1');
INSERT INTO paytokend.claim VALUES ('\x2c7725d9d74e54156b87fd9845cfebfe428fd1b0536cfa5874b89c3259978f3c', '\x9a6767249196f9f6e958241b75f4249d33512351a1f645bf7f18e437be9efca9', 'checkout', NULL, '\xb3d4ce89ad044581841a016d2697dd11b9aef92ea10f727df0cdbace57b1f638', '\x0000000000000000ebc7f8077443f506', 1795750997670, 0, NULL, NULL, 'node-1');
INSERT INTO paytokend.claim VALUES ('\x4d558f07f308fa101bd481d20fb340a6265dd0639bfbb4af89c6d97409b5d81d', '\x9b36bdd01c41fb8c045ab268e23b8276c8afd2a72808f5eedf22fe7e97f93ce8', 'checkout', '\xf71df65670d623211347f34193032b6adc915eba3cb14d4416e8c71943ee7c9f', '\x2cc3f9d35996535174cabd8e7c7cfdc05daa6d8d9e3235740752b43b5e4c1c8c', '\x00000000000000007b255b344baa194d', 1795750999408, 0, NULL, NULL, 'node-1');
INSERT INTO paytokend.claim VALUES ('\x3e0ce04fec4576566bc3593502f52589554ed61fb3e8c4dc872c818b06a2f139', '\x64565551b893b772abc0e8ee0cdf823d62f079d705f51d9aaccc32c6406eaf3f', 'checkout', '\xdf8cf80227ec3237922df0ecd88385c546e4a31bdb8127b033f01e6f21f175df', '\x45692a6e3cd31e12ecbff70f75c033452af4f63453f0db8de9662b96adfcb547', '\x0000000000000000c7c0259fa9abb4ff', 1795751005667, 0, NULL, NULL, 'node-1');
INSERT INTO paytokend.claim VALUES ('\x75f90683a0f6bb8ae9d0e55af59043fe06a3cc182763ace069c21c329bbba3ce', '\x53895cae81255cf040384b79c12741b1a88aea2b318ff04f00b8cc9fac75afd2', 'checkout', '\x329f75d24aca913892d9e7342232e12c9baff7b5d8db697032d1fa9580e76174', '\x4e12aedad1b612361aa89ca77d24f785dacf5fe653a5a9e87b4a3e865d7127d0', '\x0000000000000000570eea06144ea3b8', 1795751007424, 0, NULL, NULL, 'node-1');
INSERT INTO paytokend.claim VALUES ('\x697b71802ad93927331108f06df823341f0ed077148e5cd3fef5f5895dc569fc', '\x9a6767249196f9f6e958241b75f4249d33512351a1f645bf7f18e437be9efca9', 'checkout', '\xdd4eb517653e60e918cd1868850d80b45e449ea99ecdfb9c907b7954e014b1cf', '\x0489837bb2a6d78aed30ff3490a0d5f487e73420ddbf7c1f0888946e71f387fb', '\x00000000000000008bbedace23e377b8', 1795751008413, 0, NULL, NULL, 'node-1');


--
-- Data for Name: hold; Type: TABLE DATA; Schema: paytokend; Owner: -
--



--
-- Data for Name: key_holder; Type: TABLE DATA; Schema: paytokend; Owner: -
--

INSERT INTO paytokend.key_holder VALUES ('node-1', '\x50cb1fcdadc824f9aa8a5a3c4dbf32c631ec44bc854cad5cdd504ff448d7e04b', 1795751007187);
INSERT INTO paytokend.key_holder VALUES ('node-1', '\x53895cae81255cf040384b79c12741b1a88aea2b318ff04f00b8cc9fac75afd2', 1795751007187);
INSERT INTO paytokend.key_holder VALUES ('node-1', '\x64565551b893b772abc0e8ee0cdf823d62f079d705f51d9aaccc32c6406eaf3f', 1795751007187);
INSERT INTO paytokend.key_holder VALUES ('node-1', '\x9a6767249196f9f6e958241b75f4249d33512351a1f645bf7f18e437be9efca9', 1795751007187);
INSERT INTO paytokend.key_holder VALUES ('node-1', '\x9b36bdd01c41fb8c045ab268e23b8276c8afd2a72808f5eedf22fe7e97f93ce8', 1795751007187);
INSERT INTO paytokend.key_holder VALUES ('node-1', '\x9fb69ddb90820da6fd88d5a6b6eceddd2a06a0d9373e9eadb8c698496d7388a6', 1795751007187);
INSERT INTO paytokend.key_holder VALUES ('node-1', '\xc64dd56991780d8bd3dab860b29096385b059e3496ac6e05dc3c0c2bd92df3a0', 1795751007187);


--
-- Data for Name: ledger_state; Type: TABLE DATA; Schema: paytokend; Owner: -
--

INSERT INTO paytokend.ledger_state VALUES (true, 10, NULL, 0, '7712691765518667693', 1, NULL, NULL, 'e60050a1-3360-4111-9670-9c361624f9f3');


--
-- Data for Name: merchant_key; Type: TABLE DATA; Schema: paytokend; Owner: -
--

INSERT INTO paytokend.merchant_key VALUES ('\x9a6767249196f9f6e958241b75f4249d33512351a1f645bf7f18e437be9efca9', 'merchant.com.example.active', 'EC', 'active', NULL, 'imported', 1795750995312, 'node-1', 1, 'processing');
INSERT INTO paytokend.merchant_key VALUES ('\x9b36bdd01c41fb8c045ab268e23b8276c8afd2a72808f5eedf22fe7e97f93ce8', 'merchant.com.example.suspended', 'RSA', 'suspended', NULL, 'imported', 1795750998907, 'node-1', 4, 'processing');
INSERT INTO paytokend.merchant_key VALUES ('\x50cb1fcdadc824f9aa8a5a3c4dbf32c631ec44bc854cad5cdd504ff448d7e04b', 'merchant.com.example.compromised', 'EC', 'compromised', NULL, 'imported', 1795751001928, 'node-1', 7, 'processing');
INSERT INTO paytokend.merchant_key VALUES ('\xc64dd56991780d8bd3dab860b29096385b059e3496ac6e05dc3c0c2bd92df3a0', 'merchant.com.example.generated', 'EC', 'pre-activation', NULL, 'generated', 1795751003902, 'node-1', 8, 'processing');
INSERT INTO paytokend.merchant_key VALUES ('\x9fb69ddb90820da6fd88d5a6b6eceddd2a06a0d9373e9eadb8c698496d7388a6', '2X9R4HXF34', 'EC', 'active', NULL, 'imported', 1795751004446, 'node-1', 9, 'service');
INSERT INTO paytokend.merchant_key VALUES ('\x53895cae81255cf040384b79c12741b1a88aea2b318ff04f00b8cc9fac75afd2', 'merchant.com.example.rotated', 'EC', 'active', NULL, 'generated', 1795751006275, 'node-1', 13, 'processing');
INSERT INTO paytokend.merchant_key VALUES ('\x64565551b893b772abc0e8ee0cdf823d62f079d705f51d9aaccc32c6406eaf3f', 'merchant.com.example.rotated', 'EC', 'deactivated', 1796355807000, 'imported', 1795751005293, 'node-1', 15, 'processing');


--
-- Data for Name: moved_ledger; Type: TABLE DATA; Schema: paytokend; Owner: -
--



--
-- Data for Name: node; Type: TABLE DATA; Schema: paytokend; Owner: -
--

INSERT INTO paytokend.node VALUES ('node-1', 1, '-infinity', '2026-11-27 03:43:28.511988+00', '0.1.0', '\x57fc7e44a66937468a3c198326fa79c7', 0, 0, 86400000, '7712691765518667693', 1);


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


