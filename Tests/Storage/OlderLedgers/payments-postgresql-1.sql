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

INSERT INTO paytoken_gateway.payment VALUES ('shop', '\xb0c6587a5fc7035f95fffbf8daf2ac16c1a97646f93948e28a0c30ba192d219b', 'payment', '\x7d748d27f280760ffd6dcfb443ede8e6ae18f1fafb4292defaf6bff0afb0c67d', 'order-b6913fb46a35', 'authorized', '\xe64570cd1610c1c6', 'vm', 1795452169978, '\xb6913fb46a3545aa112ca6ceebe62d3315b07db663809eb4177937372982f599', 'merchant.com.example.soak', 1000, 'USD', 'simulator', NULL, 'S00001', 'sim-000001', 1795452167071, 1795452166978, 1795452167071);
INSERT INTO paytoken_gateway.payment VALUES ('shop', '\xdafdefb322586341824d521006197445c5355c8528d88a205709a86a242dcb3a', 'payment', '\x2d024318250dc608ce4a8fb192dd5f1be5e5defdce34245fb6165424b0eb54b4', 'order-e34fef60ae76', 'captured', '\x17453c7c3d5b70d9', 'vm', 1795452170411, '\xe34fef60ae768dcdd2c8fcb9527570e0615d8ad4bc7fce8cb3a603b072aeb88a', 'merchant.com.example.soak', 1080, 'USD', 'simulator', NULL, 'S00002', 'sim-000002', 1795452167471, 1795452167411, 1795452167471);
INSERT INTO paytoken_gateway.payment VALUES ('shop', '\xc25c20454b2b001df7e381fe401577a2d8589ca6e2e50bf9a4dcea064798c829', 'payment', '\xe5a47d4a20735d4cd6d83dc47fa4f1be28d74adba6a1260ed11678643235c069', 'order-87adb3e428a0', 'declined', '\x9b7f7fe3d469f29a', 'vm', 1795452170783, '\x87adb3e428a08e6d50ec9d6fc29378a67acb874e3d3fe7b814dd3f5b28d8cf8e', 'merchant.com.example.soak', 1081, 'USD', 'simulator', 'insufficient_funds', NULL, 'sim-000003', 1795452167831, 1795452167783, 1795452167831);
INSERT INTO paytoken_gateway.payment VALUES ('shop', '\x529a7e0881ab702db620f74e9ebdc0f01acce7b545caeeaa88158eb53a6d4cff', 'payment', '\xcb49a9c11e85ef7acafade06f46c931e30c8c090e5e91b15ec9c59fc38fc083e', 'order-27e34039d4a5', 'pending', '\xe181786f2eeb58c3', 'vm', 1795452171107, '\x27e34039d4a56e6cf9cf3cfc7a9481c9d7cceb4191f37fe839c85e0645fb4039', 'merchant.com.example.soak', 1084, 'USD', 'simulator', 'no_answer_in_time', NULL, NULL, NULL, 1795452168107, 1795452171108);


--
-- Data for Name: payment_change; Type: TABLE DATA; Schema: paytoken_gateway; Owner: -
--

INSERT INTO paytoken_gateway.payment_change OVERRIDING SYSTEM VALUE VALUES (1, 'shop', '\xb0c6587a5fc7035f95fffbf8daf2ac16c1a97646f93948e28a0c30ba192d219b', 'received', '\xe64570cd1610c1c6', 1795452166978, 'vm', NULL);
INSERT INTO paytoken_gateway.payment_change OVERRIDING SYSTEM VALUE VALUES (2, 'shop', '\xb0c6587a5fc7035f95fffbf8daf2ac16c1a97646f93948e28a0c30ba192d219b', 'decrypted', '\xe64570cd1610c1c6', 1795452167033, 'vm', NULL);
INSERT INTO paytoken_gateway.payment_change OVERRIDING SYSTEM VALUE VALUES (3, 'shop', '\xb0c6587a5fc7035f95fffbf8daf2ac16c1a97646f93948e28a0c30ba192d219b', 'submitting', '\xe64570cd1610c1c6', 1795452167033, 'vm', NULL);
INSERT INTO paytoken_gateway.payment_change OVERRIDING SYSTEM VALUE VALUES (4, 'shop', '\xb0c6587a5fc7035f95fffbf8daf2ac16c1a97646f93948e28a0c30ba192d219b', 'authorized', '\xe64570cd1610c1c6', 1795452167071, 'vm', NULL);
INSERT INTO paytoken_gateway.payment_change OVERRIDING SYSTEM VALUE VALUES (5, 'shop', '\xdafdefb322586341824d521006197445c5355c8528d88a205709a86a242dcb3a', 'received', '\x17453c7c3d5b70d9', 1795452167411, 'vm', NULL);
INSERT INTO paytoken_gateway.payment_change OVERRIDING SYSTEM VALUE VALUES (6, 'shop', '\xdafdefb322586341824d521006197445c5355c8528d88a205709a86a242dcb3a', 'decrypted', '\x17453c7c3d5b70d9', 1795452167450, 'vm', NULL);
INSERT INTO paytoken_gateway.payment_change OVERRIDING SYSTEM VALUE VALUES (7, 'shop', '\xdafdefb322586341824d521006197445c5355c8528d88a205709a86a242dcb3a', 'submitting', '\x17453c7c3d5b70d9', 1795452167450, 'vm', NULL);
INSERT INTO paytoken_gateway.payment_change OVERRIDING SYSTEM VALUE VALUES (8, 'shop', '\xdafdefb322586341824d521006197445c5355c8528d88a205709a86a242dcb3a', 'captured', '\x17453c7c3d5b70d9', 1795452167471, 'vm', NULL);
INSERT INTO paytoken_gateway.payment_change OVERRIDING SYSTEM VALUE VALUES (9, 'shop', '\xc25c20454b2b001df7e381fe401577a2d8589ca6e2e50bf9a4dcea064798c829', 'received', '\x9b7f7fe3d469f29a', 1795452167783, 'vm', NULL);
INSERT INTO paytoken_gateway.payment_change OVERRIDING SYSTEM VALUE VALUES (10, 'shop', '\xc25c20454b2b001df7e381fe401577a2d8589ca6e2e50bf9a4dcea064798c829', 'decrypted', '\x9b7f7fe3d469f29a', 1795452167800, 'vm', NULL);
INSERT INTO paytoken_gateway.payment_change OVERRIDING SYSTEM VALUE VALUES (11, 'shop', '\xc25c20454b2b001df7e381fe401577a2d8589ca6e2e50bf9a4dcea064798c829', 'submitting', '\x9b7f7fe3d469f29a', 1795452167800, 'vm', NULL);
INSERT INTO paytoken_gateway.payment_change OVERRIDING SYSTEM VALUE VALUES (12, 'shop', '\xc25c20454b2b001df7e381fe401577a2d8589ca6e2e50bf9a4dcea064798c829', 'declined', '\x9b7f7fe3d469f29a', 1795452167831, 'vm', 'insufficient_funds');
INSERT INTO paytoken_gateway.payment_change OVERRIDING SYSTEM VALUE VALUES (13, 'shop', '\x529a7e0881ab702db620f74e9ebdc0f01acce7b545caeeaa88158eb53a6d4cff', 'received', '\xe181786f2eeb58c3', 1795452168107, 'vm', NULL);
INSERT INTO paytoken_gateway.payment_change OVERRIDING SYSTEM VALUE VALUES (14, 'shop', '\x529a7e0881ab702db620f74e9ebdc0f01acce7b545caeeaa88158eb53a6d4cff', 'decrypted', '\xe181786f2eeb58c3', 1795452168125, 'vm', NULL);
INSERT INTO paytoken_gateway.payment_change OVERRIDING SYSTEM VALUE VALUES (15, 'shop', '\x529a7e0881ab702db620f74e9ebdc0f01acce7b545caeeaa88158eb53a6d4cff', 'submitting', '\xe181786f2eeb58c3', 1795452168125, 'vm', NULL);
INSERT INTO paytoken_gateway.payment_change OVERRIDING SYSTEM VALUE VALUES (16, 'shop', '\x529a7e0881ab702db620f74e9ebdc0f01acce7b545caeeaa88158eb53a6d4cff', 'pending', '\xe181786f2eeb58c3', 1795452171108, 'vm', 'no_answer_in_time');


--
-- Data for Name: payment_store; Type: TABLE DATA; Schema: paytoken_gateway; Owner: -
--

INSERT INTO paytoken_gateway.payment_store VALUES (true, 1);


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

CREATE INDEX payment_change_by_payment ON paytoken_gateway.payment_change USING btree (client, token_digest);


--
-- Name: payment keep_payment; Type: TRIGGER; Schema: paytoken_gateway; Owner: -
--

CREATE TRIGGER keep_payment BEFORE UPDATE ON paytoken_gateway.payment FOR EACH ROW EXECUTE FUNCTION paytoken_gateway.keep_payment();


--
-- Name: payment keep_rows; Type: TRIGGER; Schema: paytoken_gateway; Owner: -
--

CREATE TRIGGER keep_rows BEFORE DELETE OR TRUNCATE ON paytoken_gateway.payment FOR EACH STATEMENT EXECUTE FUNCTION paytoken_gateway.keep_rows();


--
-- Name: payment_change keep_rows; Type: TRIGGER; Schema: paytoken_gateway; Owner: -
--

CREATE TRIGGER keep_rows BEFORE DELETE OR UPDATE OR TRUNCATE ON paytoken_gateway.payment_change FOR EACH STATEMENT EXECUTE FUNCTION paytoken_gateway.keep_rows();


--
-- PostgreSQL database dump complete
--


