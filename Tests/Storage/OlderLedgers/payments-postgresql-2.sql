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
-- Name: paytoken_gateway; Type: SCHEMA; Schema: -; Owner: -
--

CREATE SCHEMA paytoken_gateway;


--
-- Name: keep_deleted_change(); Type: FUNCTION; Schema: paytoken_gateway; Owner: -
--

CREATE FUNCTION paytoken_gateway.keep_deleted_change() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path TO 'paytoken_gateway', 'pg_temp'
    AS $$
BEGIN
    IF EXISTS (
        SELECT FROM payment WHERE client = OLD.client AND token_digest = OLD.token_digest
        AND (state NOT IN ('received', 'not_sent', 'refused') OR transaction_id IS NOT NULL
            OR changed_at >= removable_before())
    ) THEN
        RAISE EXCEPTION 'history stays' USING ERRCODE = 'P0001';
    END IF;
    RETURN OLD;
END $$;


--
-- Name: keep_deleted_payment(); Type: FUNCTION; Schema: paytoken_gateway; Owner: -
--

CREATE FUNCTION paytoken_gateway.keep_deleted_payment() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path TO 'paytoken_gateway', 'pg_temp'
    AS $$
BEGIN
    IF OLD.state NOT IN ('received', 'not_sent', 'refused') OR OLD.transaction_id IS NOT NULL
        OR OLD.changed_at >= removable_before() THEN
        RAISE EXCEPTION 'payments stay' USING ERRCODE = 'P0001';
    END IF;
    RETURN OLD;
END $$;


--
-- Name: keep_payment(); Type: FUNCTION; Schema: paytoken_gateway; Owner: -
--

CREATE FUNCTION paytoken_gateway.keep_payment() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path TO 'paytoken_gateway', 'pg_temp'
    AS $$
BEGIN
    IF OLD.transaction_id IS NOT NULL AND NEW.transaction_id IS DISTINCT FROM OLD.transaction_id THEN
        RAISE EXCEPTION 'a transaction stays' USING ERRCODE = 'P0001';
    END IF;
    IF (OLD.state IN ('authorized', 'captured', 'declined', 'error', 'released') AND NEW.state <> OLD.state)
        OR (OLD.state = 'pending' AND NEW.state NOT IN ('pending', 'authorized', 'captured', 'declined', 'error'))
        OR (OLD.state = 'submitting' AND NEW.state IN ('received', 'decrypted', 'released', 'refused')) THEN
        RAISE EXCEPTION 'sent once' USING ERRCODE = 'P0001';
    END IF;
    RETURN NEW;
END $$;


--
-- Name: keep_rows(); Type: FUNCTION; Schema: paytoken_gateway; Owner: -
--

CREATE FUNCTION paytoken_gateway.keep_rows() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path TO 'paytoken_gateway', 'pg_temp'
    AS $$
BEGIN
    RAISE EXCEPTION 'rows stay' USING ERRCODE = 'P0001';
END $$;


--
-- Name: prune_payments(bigint); Type: FUNCTION; Schema: paytoken_gateway; Owner: -
--

CREATE FUNCTION paytoken_gateway.prune_payments(most bigint) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'paytoken_gateway', 'pg_temp'
    AS $$
DECLARE
    removable record;
    remaining bigint := 3 * least(greatest(most, 0), 1000);
    gone bigint;
    removed bigint := 0;
BEGIN
    FOR removable IN
        SELECT client, token_digest FROM payment
        WHERE state IN ('received', 'not_sent', 'refused') AND transaction_id IS NULL AND changed_at < removable_before()
        ORDER BY changed_at LIMIT least(greatest(most, 0), 1000) FOR UPDATE SKIP LOCKED
    LOOP
        -- The oldest first, so that what is left of a history is its end; only the index by payment and number has this order.
        DELETE FROM payment_change WHERE number IN (
            SELECT number FROM payment_change WHERE client = removable.client
            AND token_digest BETWEEN removable.token_digest AND removable.token_digest
            ORDER BY token_digest, number LIMIT remaining);
        GET DIAGNOSTICS gone = ROW_COUNT;
        remaining := remaining - gone;
        EXIT WHEN remaining <= 0;
        DELETE FROM payment WHERE client = removable.client AND token_digest = removable.token_digest;
        remaining := remaining - 1;
        removed := removed + 1;
    END LOOP;
    RETURN removed;
END $$;


--
-- Name: removable_before(); Type: FUNCTION; Schema: paytoken_gateway; Owner: -
--

CREATE FUNCTION paytoken_gateway.removable_before() RETURNS bigint
    LANGUAGE sql STABLE
    SET search_path TO 'paytoken_gateway', 'pg_temp'
    AS $$
    SELECT (extract(epoch FROM statement_timestamp()) * 1000)::bigint - 604800000
$$;


SET default_tablespace = '';

SET default_table_access_method = heap;

--
-- Name: payment; Type: TABLE; Schema: paytoken_gateway; Owner: -
--

CREATE TABLE paytoken_gateway.payment (
    client text NOT NULL COLLATE pg_catalog."C",
    token_digest bytea NOT NULL,
    purpose text NOT NULL,
    request_digest bytea NOT NULL,
    order_id text,
    state text NOT NULL,
    attempt bytea NOT NULL,
    owner text NOT NULL,
    deadline bigint NOT NULL,
    transaction_id bytea,
    merchant_identifier text,
    minor_units bigint,
    currency text,
    processor text,
    reason text,
    authorization_code text,
    processor_reference text,
    processed_at bigint,
    received_at bigint NOT NULL,
    changed_at bigint NOT NULL,
    account_digest bytea,
    CONSTRAINT payment_account_digest_check CHECK ((octet_length(account_digest) = 33)),
    CONSTRAINT payment_attempt_check CHECK ((octet_length(attempt) = 8)),
    CONSTRAINT payment_request_digest_check CHECK ((octet_length(request_digest) = 32)),
    CONSTRAINT payment_token_digest_check CHECK ((octet_length(token_digest) = 32)),
    CONSTRAINT payment_transaction_id_check CHECK ((octet_length(transaction_id) = 32))
);


--
-- Name: payment_change; Type: TABLE; Schema: paytoken_gateway; Owner: -
--

CREATE TABLE paytoken_gateway.payment_change (
    number bigint NOT NULL,
    client text NOT NULL COLLATE pg_catalog."C",
    token_digest bytea NOT NULL,
    state text NOT NULL,
    attempt bytea NOT NULL,
    at bigint NOT NULL,
    by text NOT NULL,
    reason text
);


--
-- Name: payment_change_number_seq; Type: SEQUENCE; Schema: paytoken_gateway; Owner: -
--

ALTER TABLE paytoken_gateway.payment_change ALTER COLUMN number ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME paytoken_gateway.payment_change_number_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);


--
-- Name: payment_store; Type: TABLE; Schema: paytoken_gateway; Owner: -
--

CREATE TABLE paytoken_gateway.payment_store (
    only_row boolean DEFAULT true NOT NULL,
    schema_version bigint NOT NULL,
    CONSTRAINT payment_store_only_row_check CHECK (only_row)
);


--
-- Data for Name: payment; Type: TABLE DATA; Schema: paytoken_gateway; Owner: -
--

INSERT INTO paytoken_gateway.payment VALUES ('shop', '\x9cd92b86b007191e11e97f000bfbf22de7c3b4878f39bfd41147e979ffdc61d6', 'payment', '\xd40e7d0db451c0b1a742c20f7c18d2286511962122ccc658e3c32c7a821965cc', 'order-cd48fd6a5b20', 'authorized', '\xb86c5d8600a2f2e9', 'vm', 1795582899827, '\xcd48fd6a5b200216ecdc047271dd1526b6f0852b49b8715067766ea9cd273087', 'merchant.com.example.soak', 1000, 'USD', 'simulator', NULL, 'S00001', 'sim-000001', 1795582896871, 1795582896827, 1795582896871, NULL);
INSERT INTO paytoken_gateway.payment VALUES ('shop', '\x1d90ec83ba7649d8428632d1f8a8056ac73d5f9cb7436cc848a800655b82600a', 'payment', '\x2a7d7a0580c178fee958e1f1c0b0564ed8b6515b748e4c45a32f70821e938a86', 'order-34e1953677dd', 'captured', '\x0b7b772de3b6ce60', 'vm', 1795582900122, '\x34e1953677dda78879287f8b527e1fb13232690657074e9803e0b620229ff8af', 'merchant.com.example.soak', 1080, 'USD', 'simulator', NULL, 'S00002', 'sim-000002', 1795582897154, 1795582897122, 1795582897154, NULL);
INSERT INTO paytoken_gateway.payment VALUES ('shop', '\x19635cd5d7d8855d1416b1b196009d6995306fdad4480e499d766833d9f82f29', 'payment', '\x16b18f77d908632eb8acf051fb526697bd7b5f567d1a9879b4a20f0125ba1566', 'order-3941b6447d82', 'declined', '\x7e94e4111523fd5e', 'vm', 1795582900394, '\x3941b6447d8205c5cdbbef3fee8917ad11d8469ef4e4ce5c44e1eeffca0ced1e', 'merchant.com.example.soak', 1081, 'USD', 'simulator', 'insufficient_funds', NULL, 'sim-000003', 1795582897408, 1795582897394, 1795582897409, NULL);
INSERT INTO paytoken_gateway.payment VALUES ('shop', '\xd5566fa1884d8dfb565ab98e3965ba43cf4badba7cff01903c45697ea6263ce4', 'payment', '\xe570060c836e4cb68fb999ceae6cc61c2ebbc8a195dd609ede0ba25c4004e7a2', 'order-2783898a289f', 'pending', '\x80d074f572725106', 'vm', 1795582900657, '\x2783898a289fc6551eb494de6717bf8948302a69209d337dfbaec1a118735f37', 'merchant.com.example.soak', 1084, 'USD', 'simulator', 'no_answer_in_time', NULL, NULL, NULL, 1795582897657, 1795582900657, NULL);


--
-- Data for Name: payment_change; Type: TABLE DATA; Schema: paytoken_gateway; Owner: -
--

INSERT INTO paytoken_gateway.payment_change OVERRIDING SYSTEM VALUE VALUES (1, 'shop', '\x9cd92b86b007191e11e97f000bfbf22de7c3b4878f39bfd41147e979ffdc61d6', 'received', '\xb86c5d8600a2f2e9', 1795582896827, 'vm', NULL);
INSERT INTO paytoken_gateway.payment_change OVERRIDING SYSTEM VALUE VALUES (2, 'shop', '\x9cd92b86b007191e11e97f000bfbf22de7c3b4878f39bfd41147e979ffdc61d6', 'decrypted', '\xb86c5d8600a2f2e9', 1795582896856, 'vm', NULL);
INSERT INTO paytoken_gateway.payment_change OVERRIDING SYSTEM VALUE VALUES (3, 'shop', '\x9cd92b86b007191e11e97f000bfbf22de7c3b4878f39bfd41147e979ffdc61d6', 'submitting', '\xb86c5d8600a2f2e9', 1795582896856, 'vm', NULL);
INSERT INTO paytoken_gateway.payment_change OVERRIDING SYSTEM VALUE VALUES (4, 'shop', '\x9cd92b86b007191e11e97f000bfbf22de7c3b4878f39bfd41147e979ffdc61d6', 'authorized', '\xb86c5d8600a2f2e9', 1795582896871, 'vm', NULL);
INSERT INTO paytoken_gateway.payment_change OVERRIDING SYSTEM VALUE VALUES (5, 'shop', '\x1d90ec83ba7649d8428632d1f8a8056ac73d5f9cb7436cc848a800655b82600a', 'received', '\x0b7b772de3b6ce60', 1795582897122, 'vm', NULL);
INSERT INTO paytoken_gateway.payment_change OVERRIDING SYSTEM VALUE VALUES (6, 'shop', '\x1d90ec83ba7649d8428632d1f8a8056ac73d5f9cb7436cc848a800655b82600a', 'decrypted', '\x0b7b772de3b6ce60', 1795582897141, 'vm', NULL);
INSERT INTO paytoken_gateway.payment_change OVERRIDING SYSTEM VALUE VALUES (7, 'shop', '\x1d90ec83ba7649d8428632d1f8a8056ac73d5f9cb7436cc848a800655b82600a', 'submitting', '\x0b7b772de3b6ce60', 1795582897141, 'vm', NULL);
INSERT INTO paytoken_gateway.payment_change OVERRIDING SYSTEM VALUE VALUES (8, 'shop', '\x1d90ec83ba7649d8428632d1f8a8056ac73d5f9cb7436cc848a800655b82600a', 'captured', '\x0b7b772de3b6ce60', 1795582897154, 'vm', NULL);
INSERT INTO paytoken_gateway.payment_change OVERRIDING SYSTEM VALUE VALUES (9, 'shop', '\x19635cd5d7d8855d1416b1b196009d6995306fdad4480e499d766833d9f82f29', 'received', '\x7e94e4111523fd5e', 1795582897394, 'vm', NULL);
INSERT INTO paytoken_gateway.payment_change OVERRIDING SYSTEM VALUE VALUES (10, 'shop', '\x19635cd5d7d8855d1416b1b196009d6995306fdad4480e499d766833d9f82f29', 'decrypted', '\x7e94e4111523fd5e', 1795582897402, 'vm', NULL);
INSERT INTO paytoken_gateway.payment_change OVERRIDING SYSTEM VALUE VALUES (11, 'shop', '\x19635cd5d7d8855d1416b1b196009d6995306fdad4480e499d766833d9f82f29', 'submitting', '\x7e94e4111523fd5e', 1795582897402, 'vm', NULL);
INSERT INTO paytoken_gateway.payment_change OVERRIDING SYSTEM VALUE VALUES (12, 'shop', '\x19635cd5d7d8855d1416b1b196009d6995306fdad4480e499d766833d9f82f29', 'declined', '\x7e94e4111523fd5e', 1795582897409, 'vm', 'insufficient_funds');
INSERT INTO paytoken_gateway.payment_change OVERRIDING SYSTEM VALUE VALUES (13, 'shop', '\xd5566fa1884d8dfb565ab98e3965ba43cf4badba7cff01903c45697ea6263ce4', 'received', '\x80d074f572725106', 1795582897657, 'vm', NULL);
INSERT INTO paytoken_gateway.payment_change OVERRIDING SYSTEM VALUE VALUES (14, 'shop', '\xd5566fa1884d8dfb565ab98e3965ba43cf4badba7cff01903c45697ea6263ce4', 'decrypted', '\x80d074f572725106', 1795582897665, 'vm', NULL);
INSERT INTO paytoken_gateway.payment_change OVERRIDING SYSTEM VALUE VALUES (15, 'shop', '\xd5566fa1884d8dfb565ab98e3965ba43cf4badba7cff01903c45697ea6263ce4', 'submitting', '\x80d074f572725106', 1795582897665, 'vm', NULL);
INSERT INTO paytoken_gateway.payment_change OVERRIDING SYSTEM VALUE VALUES (16, 'shop', '\xd5566fa1884d8dfb565ab98e3965ba43cf4badba7cff01903c45697ea6263ce4', 'pending', '\x80d074f572725106', 1795582900657, 'vm', 'no_answer_in_time');


--
-- Data for Name: payment_store; Type: TABLE DATA; Schema: paytoken_gateway; Owner: -
--

INSERT INTO paytoken_gateway.payment_store VALUES (true, 2);


--
-- Name: payment_change_number_seq; Type: SEQUENCE SET; Schema: paytoken_gateway; Owner: -
--

SELECT pg_catalog.setval('paytoken_gateway.payment_change_number_seq', 16, true);


--
-- Name: payment_change payment_change_pkey; Type: CONSTRAINT; Schema: paytoken_gateway; Owner: -
--

ALTER TABLE ONLY paytoken_gateway.payment_change
    ADD CONSTRAINT payment_change_pkey PRIMARY KEY (number);


--
-- Name: payment payment_pkey; Type: CONSTRAINT; Schema: paytoken_gateway; Owner: -
--

ALTER TABLE ONLY paytoken_gateway.payment
    ADD CONSTRAINT payment_pkey PRIMARY KEY (client, token_digest);


--
-- Name: payment_store payment_store_pkey; Type: CONSTRAINT; Schema: paytoken_gateway; Owner: -
--

ALTER TABLE ONLY paytoken_gateway.payment_store
    ADD CONSTRAINT payment_store_pkey PRIMARY KEY (only_row);


--
-- Name: payment payment_transaction_id_key; Type: CONSTRAINT; Schema: paytoken_gateway; Owner: -
--

ALTER TABLE ONLY paytoken_gateway.payment
    ADD CONSTRAINT payment_transaction_id_key UNIQUE (transaction_id);


--
-- Name: payment_by_state; Type: INDEX; Schema: paytoken_gateway; Owner: -
--

CREATE INDEX payment_by_state ON paytoken_gateway.payment USING btree (state, received_at);


--
-- Name: payment_by_time; Type: INDEX; Schema: paytoken_gateway; Owner: -
--

CREATE INDEX payment_by_time ON paytoken_gateway.payment USING btree (received_at);


--
-- Name: payment_change_by_payment; Type: INDEX; Schema: paytoken_gateway; Owner: -
--

CREATE INDEX payment_change_by_payment ON paytoken_gateway.payment_change USING btree (client, token_digest, number);


--
-- Name: payment_removable; Type: INDEX; Schema: paytoken_gateway; Owner: -
--

CREATE INDEX payment_removable ON paytoken_gateway.payment USING btree (changed_at) WHERE ((state = ANY (ARRAY['received'::text, 'not_sent'::text, 'refused'::text])) AND (transaction_id IS NULL));


--
-- Name: payment_change keep_deleted_change; Type: TRIGGER; Schema: paytoken_gateway; Owner: -
--

CREATE TRIGGER keep_deleted_change BEFORE DELETE ON paytoken_gateway.payment_change FOR EACH ROW EXECUTE FUNCTION paytoken_gateway.keep_deleted_change();


--
-- Name: payment keep_deleted_payment; Type: TRIGGER; Schema: paytoken_gateway; Owner: -
--

CREATE TRIGGER keep_deleted_payment BEFORE DELETE ON paytoken_gateway.payment FOR EACH ROW EXECUTE FUNCTION paytoken_gateway.keep_deleted_payment();


--
-- Name: payment keep_payment; Type: TRIGGER; Schema: paytoken_gateway; Owner: -
--

CREATE TRIGGER keep_payment BEFORE UPDATE ON paytoken_gateway.payment FOR EACH ROW EXECUTE FUNCTION paytoken_gateway.keep_payment();


--
-- Name: payment keep_rows; Type: TRIGGER; Schema: paytoken_gateway; Owner: -
--

CREATE TRIGGER keep_rows BEFORE TRUNCATE ON paytoken_gateway.payment FOR EACH STATEMENT EXECUTE FUNCTION paytoken_gateway.keep_rows();


--
-- Name: payment_change keep_rows; Type: TRIGGER; Schema: paytoken_gateway; Owner: -
--

CREATE TRIGGER keep_rows BEFORE UPDATE OR TRUNCATE ON paytoken_gateway.payment_change FOR EACH STATEMENT EXECUTE FUNCTION paytoken_gateway.keep_rows();


--
-- PostgreSQL database dump complete
--


