import Testing

@testable import Daemon
@testable import Telemetry

@Suite("Metrics")
struct MetricsTests {
    @Test("the exposition has exactly the contract's names")
    func contractNames() {
        let instruments = Instruments()
        let lines = instruments.exposition().split(separator: "\n")
        let types = lines.filter { $0.hasPrefix("# TYPE ") }.map { $0.dropFirst(7) }
        #expect(
            Set(types) == [
                "paytokend_requests_total counter", "paytokend_request_seconds histogram",
                "paytokend_hsm_wait_seconds histogram", "paytokend_hsm_call_seconds histogram",
                "paytokend_ledger_commit_seconds histogram", "paytokend_ledger_batch_size histogram",
                "paytokend_ledger_batch_round_trips histogram", "paytokend_ledger_reads_back_total counter",
                "paytokend_node_lease_age_seconds gauge",
                "paytokend_worker_restarts_total counter", "paytokend_key_not_after_seconds gauge",
                "paytokend_google_pay_key_due_seconds gauge",
                "paytokend_portal_findings gauge", "paytokend_portal_read_age_seconds gauge",
                "paytokend_portal_requests_total counter", "paytokend_portal_requests_remaining gauge",
                "paytokend_portal_answer_age_seconds gauge", "paytokend_portal_work_age_seconds gauge",
                "paytokend_renewal_changed_timestamp_seconds gauge",
                "paytokend_renewal_activated_timestamp_seconds gauge",
                "paytokend_key_uses_total counter", "paytokend_connections gauge", "paytokend_insecure_settings gauge",
                "paytokend_unlocked_secret_bytes gauge", "paytokend_clock_behind_ledger_seconds gauge",
                "paytokend_google_pay_root_keys gauge", "paytokend_google_pay_fetched_timestamp_seconds gauge",
                "paytokend_ledger_synchronous_standbys gauge", "paytokend_ledger_free_bytes gauge",
                "paytokend_checkpoint_age_seconds gauge",
                "paytokend_record_check_verdict gauge", "paytokend_record_check_age_seconds gauge",
                "paytokend_record_archive_age_seconds gauge", "paytokend_audit_head_age_seconds gauge",
                "paytokend_locked_memory_bytes gauge", "paytokend_locked_memory_limit_bytes gauge",
                "paytokend_caller_first_release_timestamp_seconds gauge",
                "paytokend_key_failures_total counter", "paytokend_ready gauge", "paytokend_hsm_token_ready gauge",
            ])
        #expect(lines.count { $0.hasPrefix("# HELP ") } == types.count)
        #expect(lines.contains("paytokend_connections 0"))
        let batches = lines.first { $0.hasPrefix("# HELP paytokend_ledger_batch_size ") } ?? ""
        #expect(batches.contains("Writes") && batches.contains("records"), "not releases alone: \(batches)")
    }

    @Test("writes the labels of counters and gauges in order")
    func labels() {
        let counter = Counter("c_total", help: "Help.", labels: ["endpoint", "outcome"])
        counter.increment(["decrypt", "ok"])
        counter.increment(["decrypt", "ok"])
        counter.increment(["decrypt", "forbidden"], by: 3)
        var text = MetricsText()
        counter.expose(to: &text)
        #expect(
            text.text == """
                # HELP c_total Help.
                # TYPE c_total counter
                c_total{endpoint="decrypt",outcome="forbidden"} 3
                c_total{endpoint="decrypt",outcome="ok"} 2

                """)
    }

    @Test("keeps a series for each of ten thousand keys, and bounds other labels")
    func manyKeys() {
        let instruments = Instruments()
        for number in 0..<10_000 { instruments.keyUses.increment(["key\(number)"]) }
        #expect(instruments.keyUses.value(["key9999"]) == 1)
        #expect(instruments.keyUses.value(["other"]) == 0)
        for number in 0..<3_000 { instruments.requests.increment(["endpoint\(number)", "ok"]) }
        #expect(instruments.requests.value(["other", "other"]) == 1_000)
    }

    @Test("exports metrics with alerts as 0 before the first event, and keeps their counts afterwards")
    func beginsWithZero() {
        let instruments = Instruments()
        instruments.workerRestarts.increment(["primary", "died"])
        instruments.begin(hsmTokens: ["primary", "second"])
        let lines = Set(instruments.exposition().split(separator: "\n"))
        #expect(lines.contains("paytokend_worker_restarts_total{token=\"primary\",reason=\"died\"} 1"))
        #expect(lines.contains("paytokend_worker_restarts_total{token=\"second\",reason=\"timeout\"} 0"))
        for outcome in ["ok", "transaction_replayed", "unknown_public_key_hash", "ledger_unavailable"] {
            let series = "paytokend_requests_total{endpoint=\"/v1/decrypt\",outcome=\"\(outcome)\"} 0"
            #expect(lines.contains(Substring(series)), "\(outcome)")
        }
    }

    @Test("escapes label values")
    func escapesLabels() {
        let gauge = Gauge("g", help: "a\\b\nc", labels: ["l"])
        gauge.set(["\"\\\n{}"], to: 1.5)
        var text = MetricsText()
        gauge.expose(to: &text)
        #expect(text.text == "# HELP g a\\\\b\\nc\n# TYPE g gauge\ng{l=\"\\\"\\\\\\n{}\"} 1.5\n")
    }

    @Test("writes cumulative histogram buckets that end with +Inf")
    func histogram() {
        let histogram = Histogram("h", help: "H.", bounds: [0.1, 1])
        for value in [0.05, 0.1, 0.5, 7] { histogram.observe(value) }
        histogram.observe(Duration.milliseconds(250))
        var text = MetricsText()
        histogram.expose(to: &text)
        #expect(
            text.text == """
                # HELP h H.
                # TYPE h histogram
                h_bucket{le="0.1"} 2
                h_bucket{le="1"} 4
                h_bucket{le="+Inf"} 5
                h_sum 7.9
                h_count 5

                """)
    }

    @Test("replaces a gauge's series as a whole")
    func replacesSeries() {
        let gauge = Gauge("g", help: "G.", labels: ["k"])
        gauge.set(["old"], to: 1)
        gauge.replaceAll([(["new"], 2), (["new"], 3)])
        #expect(gauge.value(["old"]) == nil)
        #expect(gauge.value(["new"]) == 2)
    }

    @Test("bounds the number of series, and counts later ones as other")
    func boundsSeries() {
        let counter = Counter("c", help: "C.", labels: ["l"])
        for index in 0..<(maximumSeriesPerFamily + 500) { counter.increment(["\(index)"]) }
        #expect(counter.value(["other"]) == 500)
        counter.increment(["0"])
        #expect(counter.value(["0"]) == 2)
    }

    @Test("loses no count from concurrent tasks")
    func concurrentCounts() async {
        let counter = Counter("c", help: "C.")
        let gauge = Gauge("g", help: "G.")
        await withTaskGroup(of: Void.self) { group in
            for _ in 0..<8 {
                group.addTask {
                    for _ in 0..<1_000 {
                        counter.increment()
                        gauge.add(1)
                    }
                }
            }
        }
        #expect(counter.value() == 8_000)
        #expect(gauge.value() == 8_000)
    }
}
