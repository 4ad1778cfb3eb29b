"use strict";
// A client of paytokend: decrypts payment tokens over its Unix socket, retries, and tells whether to charge the shopper.
// index.d.ts documents the exports; see also README.md one folder up. Only Node's own modules are used.
const crypto = require("node:crypto");
const http = require("node:http");
const { setTimeout: sleep } = require("node:timers/promises");

const IDLE = 50_000; // ms; the daemon closes a connection that was idle for 60 s
const TRY = 35_000; // ms; the daemon's own limits for one request end sooner
const DEFECTS = 3; // tries that may end with 500
const MOST_ATTEMPTS = 100; // in `after`

const Verdict = Object.freeze({ CHARGE: "charge", CHECK_STORE: "check_store", DO_NOT_CHARGE: "do_not_charge", RETRY: "retry" });

const table = (verdict, codes) => codes.map((code) => [code, verdict]);
const VERDICTS = Object.freeze(Object.fromEntries([
  ...table(Verdict.DO_NOT_CHARGE, [
    "malformed_request", "malformed_token", "unsupported_version", "forbidden", "not_found", "method_not_allowed",
    "request_too_large", "unsupported_media_type", "signature_invalid", "certificate_untrusted", "marker_oid_missing",
    "signing_time_outside_window", "unknown_public_key_hash", "key_not_active", "decryption_failed", "merchant_mismatch",
    "currency_mismatch", "amount_mismatch", "application_data_mismatch", "message_expired", "auth_method_not_allowed",
    "transaction_replayed", "invalid_state",
    "certificate_unsuitable", "key_not_found", "approval_invalid"]),
  ...table(Verdict.RETRY, [
    "request_timeout", "internal_error", "hsm_unavailable", "ledger_unavailable", "overloaded", "deadline_exceeded"]),
]));

function verdictOf(status, code) {
  if (code && Object.hasOwn(VERDICTS, code)) return VERDICTS[code];
  return status >= 400 && status < 500 && status !== 408 ? Verdict.DO_NOT_CHARGE : Verdict.RETRY;
}

// The answer, which has the card data, is a private member: neither console.log nor JSON.stringify shows it.
class Outcome {
  #answer;
  constructor(members, answer = null) {
    Object.assign(this, { status: null, code: null, message: null, details: null, retryAfter: 0, problem: null,
      repeated: false, attempt: null, ...members });
    this.#answer = answer;
  }
  get answer() { return this.#answer; }
}

const text = (value) => (typeof value === "string" ? value : null);

function outcomeOf({ problem, status, retryAfter, content }, attempt, tries) {
  if (problem) return new Outcome({ verdict: Verdict.RETRY, problem, attempt, tries });
  let answer = null;
  try { answer = JSON.parse(content); } catch { /* The error's text would quote the answer. */ }
  answer = answer && typeof answer === "object" ? answer : {};
  if (status !== 200) {
    const code = text(answer.code);
    return new Outcome({ verdict: verdictOf(status, code), status, code, message: text(answer.message),
      details: text(answer.details), retryAfter: /^\d+$/.test(retryAfter) ? 1000 * Number(retryAfter) : 0, attempt, tries });
  }
  const { repeated, paymentData } = answer;
  if (typeof repeated !== "boolean" || !paymentData || typeof paymentData !== "object") {
    return new Outcome({ verdict: Verdict.RETRY, status, problem: "unreadable answer", attempt, tries });
  }
  // `after` has shown that no earlier attempt led to a payment.
  const verdict = repeated && !attempt ? Verdict.CHECK_STORE : Verdict.CHARGE;
  return new Outcome({ verdict, status, repeated, attempt, tries }, answer);
}

class Client {
  #path;
  #agent;
  constructor(path = process.env.PAYTOKEND_SOCKET || "/run/paytokend/paytokend.sock", { maxConnections = 32 } = {}) {
    this.#path = path;
    this.#agent = new http.Agent({ keepAlive: true, maxSockets: maxConnections, timeout: IDLE });
  }

  close() { this.#agent.destroy(); }

  async decrypt(token, reference, expected, { deadline = 60_000, merchants, after = [], saveAttempt } = {}) {
    if (!/^[ -~]{1,128}$/.test(reference)) throw new RangeError("reference must have 1 to 128 printable ASCII characters");
    if (after.length > MOST_ATTEMPTS || (after.length > 0 && !saveAttempt)) {
      throw new RangeError("after takes at most 100 attempts, and needs saveAttempt");
    }
    const request = { token, reference, expected, merchants };
    const end = performance.now() + deadline;
    const earlier = [...after];
    let pause = 100;
    let defects = 0;
    for (let tries = 1; ; tries++) {
      let attempt = null;
      if (saveAttempt) {
        attempt = crypto.randomBytes(8).toString("hex");
        await saveAttempt(attempt);
        Object.assign(request, { attempt, after: earlier });
      }
      const result = await this.#post(JSON.stringify(request), Math.min(TRY, Math.max(end - performance.now(), 1)));
      const outcome = outcomeOf(result, attempt, tries);
      defects += outcome.status === 500 ? 1 : 0;
      if (attempt) earlier.push(attempt);
      if (outcome.verdict !== Verdict.RETRY || defects === DEFECTS || earlier.length > MOST_ATTEMPTS) return outcome;
      // The daemon may just have closed a persistent connection, so the next try needs no pause.
      const wait = result.stale ? 0 : Math.max(pause, outcome.retryAfter) * (1 + 0.2 * Math.random());
      if (performance.now() + wait >= end) return outcome;
      await sleep(wait);
      pause = result.stale ? pause : Math.min(2 * pause, 5000);
    }
  }

  // Resolves to an answer, or to the reason why there is none; rejects if the account may not connect.
  #post(body, milliseconds) {
    const headers = { "Content-Type": "application/json", "Content-Length": Buffer.byteLength(body) };
    const options = { agent: this.#agent, socketPath: this.#path, path: "/v1/decrypt", method: "POST", headers };
    return new Promise((resolve, reject) => {
      const request = http.request(options);
      // The time limit of the whole try. A socket's own timeout would begin again with each byte.
      const timer = setTimeout(() => request.destroy(Object.assign(new Error(), { code: "ETIMEDOUT" })), milliseconds);
      const fail = ({ code = "ECONNRESET" }) => {
        clearTimeout(timer);
        // The original error may contain bytes of the answer, so it is not passed on.
        if (code === "EACCES") reject(Object.assign(new Error(`no permission to connect to ${this.#path}`), { code }));
        else resolve({ problem: code, stale: request.reusedSocket });
      };
      request.on("error", fail);
      request.on("response", (response) => {
        const chunks = [];
        response.on("data", (chunk) => chunks.push(chunk));
        response.on("error", fail);
        response.on("end", () => {
          clearTimeout(timer);
          const { statusCode: status, headers: { "retry-after": retryAfter } } = response;
          resolve({ status, retryAfter, content: Buffer.concat(chunks).toString("utf8") });
        });
      });
      request.end(body);
    });
  }
}

module.exports = { Client, Outcome, VERDICTS, Verdict, verdictOf, version: require("./package.json").version };
