import ConfigurationFile
import Ledger
import PaymentToken
import Refusals
import Telemetry
import WorkerSupervision

/// The daemon's metrics. Their names are part of the public contract.
///
/// To add a metric, add a property here and its name to MetricsTests, which fail until both are present.
struct Instruments: Sendable {
    /// The number of requests. The label `outcome` is `ok`, `repeat`, `pending`, `not_ready`, `interrupted` or a refusal's
    /// code.
    let requests = Counter(
        "paytokend_requests_total", help: "Requests answered.", labels: ["endpoint", "outcome"])
    let requestSeconds = Histogram(
        "paytokend_request_seconds", help: "Time from the request's head to its answer.", bounds: latencies)
    let hsmWaitSeconds = Histogram(
        "paytokend_hsm_wait_seconds", help: "Waiting for a session of the HSM token, before the call.",
        bounds: latencies)
    let hsmCallSeconds = Histogram(
        "paytokend_hsm_call_seconds", help: "Calls into the HSM token, waiting excluded.",
        labels: ["token", "operation"], bounds: latencies)
    let ledgerCommitSeconds = Histogram(
        "paytokend_ledger_commit_seconds", help: "Making releases durable.", bounds: latencies)
    let ledgerBatchSize = Histogram(
        "paytokend_ledger_batch_size", help: "Writes that share one commit: releases, records, changes, probes.",
        bounds: [1, 2, 4, 8, 16, 32, 64, 128, 256, 512])
    let ledgerBatchRoundTrips = Histogram(
        "paytokend_ledger_batch_round_trips", help: "Round trips to the ledger's server for one commit.",
        bounds: [1, 2, 3, 4, 6, 8])
    let ledgerReadsBack = Counter(
        "paytokend_ledger_reads_back_total",
        help: "Commits of the ledger that were not acknowledged, by outcome.", labels: ["outcome"])
    let nodeLeaseAgeSeconds = Gauge(
        "paytokend_node_lease_age_seconds",
        help: "Time since this daemon's node lease was renewed; absent for a ledger that is a file.")
    let workerRestarts = Counter(
        "paytokend_worker_restarts_total", help: "Worker processes replaced.", labels: ["token", "reason"])
    let keyNotAfter = Gauge(
        "paytokend_key_not_after_seconds", help: "When the key's certificate ends, in seconds since 1970.",
        labels: ["public_key_hash", "merchant"])
    let googlePayKeyDue = Gauge(
        "paytokend_google_pay_key_due_seconds",
        help: "When the merchant's newest active Google Pay key is a year old, in seconds since 1970.",
        labels: ["public_key_hash", "merchant"])
    let portalFindings = Gauge(
        "paytokend_portal_findings",
        help: "Differences between Apple's last list of the merchant's certificates and the keys here.",
        labels: ["merchant", "kind", "severity"])
    let portalReadAgeSeconds = Gauge(
        "paytokend_portal_read_age_seconds",
        help: "Time since Apple's list of the merchant's certificates was read, or since it ought to be read.",
        labels: ["merchant"])
    // The outbound program listens on nothing. The daemon shows what it reports, and that it still asks.
    let portalRequests = Counter(
        "paytokend_portal_requests_total", help: "Requests to Apple's API that were reported, by outcome.",
        labels: ["outcome"])
    let portalRequestsRemaining = Gauge(
        "paytokend_portal_requests_remaining",
        help: "Requests that Apple still permits within an hour, as its last answer says; absent if it does not say.")
    let portalAnswerAgeSeconds = Gauge(
        "paytokend_portal_answer_age_seconds",
        help: "Time since Apple's API last answered with a list, or since the start.")
    let portalWorkAgeSeconds = Gauge(
        "paytokend_portal_work_age_seconds",
        help: "Time since paytoken-outbound last asked for work, or since the start.")
    // The ledger's open renewals. All nodes show the same.
    let renewalChanged = Gauge(
        "paytokend_renewal_changed_timestamp_seconds",
        help: "When an open renewal began, or had its last attempt or answer, in seconds since 1970.",
        labels: ["merchant", "use", "algorithm"])
    let renewalActivated = Gauge(
        "paytokend_renewal_activated_timestamp_seconds",
        help: "When Apple answered the activation of an open renewal's certificate, in seconds since 1970.",
        labels: ["public_key_hash", "merchant"])
    let keyUses = Counter(
        "paytokend_key_uses_total", help: "Decryptions with the key since the daemon started.",
        labels: ["public_key_hash"], maximumSeries: maximumSeriesOfKeys)
    /// The number of refusals for each key. It counts only known keys, and only after Apple's signature was verified.
    /// Invented hashes therefore cannot add time series. Refusals for unknown keys are counted in ``requests``.
    let keyFailures = Counter(
        "paytokend_key_failures_total",
        help: "Payment tokens with Apple's signature that named the key and were refused, by the refusal's code.",
        labels: ["public_key_hash", "code"], maximumSeries: maximumSeriesOfKeys)
    let connections = Gauge("paytokend_connections", help: "Connections now open, on both sockets.")
    let insecureSettings = Gauge(
        "paytokend_insecure_settings", help: "1 for each setting that weakens the service.", labels: ["setting"])
    let googlePayRootKeys = Gauge(
        "paytokend_google_pay_root_keys",
        help: "Google's root keys: trusted now; fetched but not accepted; accepted but no longer fetched.",
        labels: ["state"])
    let googlePayFetched = Gauge(
        "paytokend_google_pay_fetched_timestamp_seconds",
        help: "When Google's root keys were fetched, in seconds since 1970; 0 without a usable file.")
    let unlockedSecretBytes = Gauge(
        "paytokend_unlocked_secret_bytes",
        help: "Memory for secrets that could not be locked, of the daemon and its workers.")
    let clockBehindLedgerSeconds = Gauge(
        "paytokend_clock_behind_ledger_seconds",
        help: "How far the clock is behind the ledger's newest record or its limit of pruned claims; else 0.")
    let synchronousStandbys = Gauge(
        "paytokend_ledger_synchronous_standbys",
        help: "Synchronous standbys that the ledger's server streams to; absent where that cannot be read.")
    let ledgerFreeBytes = Gauge(
        "paytokend_ledger_free_bytes",
        help: "Free space on the file system of the ledger's file; absent for a ledger on a server.")
    let checkpointAgeSeconds = Gauge(
        "paytokend_checkpoint_age_seconds",
        help: "Time since the last audit checkpoint while records wait for the next one; 0 when it seals them all.")
    let recordCheckVerdict = Gauge(
        "paytokend_record_check_verdict",
        help: "1 when the daemon's last check found its record's chain intact, 0 when it did not.")
    let recordCheckAgeSeconds = Gauge(
        "paytokend_record_check_age_seconds", help: "Time since the daemon last checked its record's chain.")
    let recordArchiveAgeSeconds = Gauge(
        "paytokend_record_archive_age_seconds",
        help: "Time since old records were last archived or none were found; absent without ledger.retain_records.")
    let auditHeadAgeSeconds = Gauge(
        "paytokend_audit_head_age_seconds",
        help: "Time since a caller last received this node's head, or since the daemon started.")
    let lockedMemoryBytes = Gauge(
        "paytokend_locked_memory_bytes",
        help: "Memory of the daemon that the kernel may not swap, without its workers'.")
    let lockedMemoryLimitBytes = Gauge(
        "paytokend_locked_memory_limit_bytes",
        help: "How much memory the daemon may lock; absent where that is unlimited.")
    let callerFirstRelease = Gauge(
        "paytokend_caller_first_release_timestamp_seconds",
        help: "When the ledger first recorded a release to this uid, in seconds since 1970.", labels: ["uid"])
    let ready = Gauge(
        "paytokend_ready", help: "1 while payments would be decrypted, as /readyz says; else 0.")
    let hsmTokenReady = Gauge(
        "paytokend_hsm_token_ready", help: "1 for each HSM token that is open and tested, 0 for one that is not.",
        labels: ["token"])

    /// The upper bounds of the histograms' buckets in seconds. The lowest is shorter than any HSM token's call, and the
    /// highest is the default of `call_timeout`.
    private static let latencies: [Double] = [
        0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10,
    ]

    /// All metrics among the stored properties, in their order. A new property is thus included without further code.
    private var families: [any MetricFamily] {
        Mirror(reflecting: self).children.compactMap { $0.value as? any MetricFamily }
    }

    /// Sets the metric of insecure settings: one time series for each insecure setting in force, and none for any other
    /// setting.
    /// - Parameter keys: the insecure settings that depend on the keys in the HSM tokens.
    func show(
        warnings: [ConfigurationWarning], ledger: Set<InsecureLedgerSetting> = [], keys: [String] = []
    ) {
        insecureSettings.replaceAll(
            (warnings.filter(\.setting.isInsecure).map(\.setting.rawValue) + ledger.map(\.rawValue) + keys).map {
                ([$0], 1)
            })
    }

    /// Creates the time series that alerts use, with the value 0 at the daemon's start, and hides a value that is
    /// unknown. Prometheus' `increase` ignores a series' first value, so it would otherwise miss the first crash or
    /// replay.
    func begin(hsmTokens: [String]) {
        for hsmToken in hsmTokens {
            for reason in WorkerEvents.RestartReason.allCases {
                workerRestarts.increment([hsmToken, reason.rawValue], by: 0)
            }
        }
        for outcome in ["ok", "repeat"] + RefusalCode.allCases.map(\.rawValue) {
            requests.increment(["/v1/decrypt", outcome], by: 0)
        }
        portalRequestsRemaining.show(nil)
        googlePayFetched.show(nil)
    }

    /// Counts a refusal that is due to the payment token itself or to the key's state. Refusals that a retry may avoid are
    /// not counted, since they say nothing about the key.
    func count(_ refusal: Refusal, of key: PublicKeyHash) {
        switch refusal.code {
        case .hsmUnavailable, .ledgerUnavailable, .overloaded, .deadlineExceeded, .internalError: break
        default: keyFailures.increment([key.hex, refusal.code.rawValue])
        }
    }

    /// The body of `GET /metrics`, of content type ``MetricsText/contentType``.
    func exposition() -> String {
        var text = MetricsText()
        for family in families { family.expose(to: &text) }
        return text.text
    }
}
