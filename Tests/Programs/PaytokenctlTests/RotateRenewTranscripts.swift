import DaemonAPI
import Foundation
import StrictJSON
import TestSupport
import Testing

/// `rotate renew` against scripted answers: its questions, and its exit status at each step.
@Suite struct RotateRenewTranscripts {
    private static let time = Date(timeIntervalSince1970: 1_800_000_000)

    private static let going = "paytokenctl rotate renew m --renewal 0102030405060708"

    private static func plan(_ step: String, key: String? = "AAAA") -> RenewalPlanStatus {
        RenewalPlanStatus(
            merchantIdentifier: "m", algorithm: "EC", use: "processing", publicKeyHash: key, readAt: time,
            step: step, next: "A sentence.", steps: [.init(name: step, status: "next", text: "A step")], nodes: [])
    }

    /// - Parameters:
    ///   - shown: the plan before the first request; nil for the open renewal.
    ///   - usedAtOnce: nil for a creation only.
    private static func daemon(
        _ step: String, shown: RenewalPlanStatus? = nil, attempts: [RenewalPlanStatus.Attempt] = [],
        repeatable: RenewalRequest.Attempt? = nil, usedAtOnce: Bool? = nil, excluded: [String]? = nil
    ) async throws -> FakeDaemon {
        var state = plan(step)
        (state.renewal, state.state, state.attempts) = ("0102030405060708", "open", attempts)
        state.repeatable = repeatable
        if ["create", "activate", "revoke"].contains(step) {
            state.nextChange = RenewalChange(
                renewal: "0102030405060708", change: step, number: 1, certificateId: step == "create" ? nil : "C7",
                usedAtOnce: usedAtOnce ?? (step == "create"), excludedNodes: excluded)
        }
        let list = try ok(PortalCheckAnswer(merchantIdentifier: "m", requestedAt: time, readAt: time))
        return try await FakeDaemon([
            "POST /v1/portal/checks": list, "GET /v1/portal/certificates?merchantIdentifier=m": list,
            "POST /v1/renewals": try ok(state),
            "GET /v1/renewals/m": try ok(ListAnswer(items: [shown ?? state], next: nil)),
        ])
    }

    private static func ok(_ answer: some Encodable) throws -> FakeDaemon.Answer {
        .ok(String(decoding: try JSONCoding.encode(answer), as: UTF8.self))
    }

    private static func posted(_ daemon: FakeDaemon) throws -> [JSONObject] {
        try daemon.asked.filter { $0.method == "POST" && $0.target == "/v1/renewals" }.map {
            try #require(try JSONValue(parsing: $0.body).objectValue)
        }
    }

    /// Returns true for each request that approves the change that was shown. Every request names the open renewal, except the
    /// first one of a revocation: then no renewal is open, and none is started.
    private static func approvals(_ daemon: FakeDaemon, excluding excluded: [String]? = nil) throws -> [Bool] {
        try posted(daemon).enumerated().map { place, body in
            let isRevocation = place == 0 && body["revokeOld"]?.boolValue == true
            #expect(body["renewal"]?.stringValue == (isRevocation ? nil : "0102030405060708"))
            guard let change = body["approve"]?.objectValue else { return false }
            #expect(change["renewal"]?.stringValue == "0102030405060708" && change["number"]?.numberValue?.int == 1)
            #expect(change["excludedNodes"]?.arrayValue?.compactMap(\.stringValue) == excluded)
            #expect(change["change"]?.stringValue == "create" || change["certificateId"]?.stringValue == "C7")
            return true
        }
    }

    @Test(
        "asks in a terminal before each change at Apple, and takes only yes",
        arguments: ["create", "activate", "revoke"])
    func asks(step: String) async throws {
        // The question names the nodes that the daemon excludes, and not one that is up.
        let daemon = try await Self.daemon(step, excluded: ["c"])
        let yes = try await Command.answering(
            ["yes"], ["rotate", "renew", "m", "--exclude-node", "c", "--exclude-node", "d"], socket: daemon.path)
        let question =
            [
                "create": "Request a new certificate of m (wallets may use it at once; excluding c) now? Type yes: ",
                "activate": "Activate certificate C7 of m (excluding c) now? Type yes: ",
            ][step] ?? "Revoke certificate C7 of m (excluding c) now? Type yes: "
        #expect(yes.status == 75 && yes.error.contains(question), "\(yes)")
        // The scripted daemon shows the same step again and again, and the command tries it once.
        #expect(yes.error.contains("was not sent to Apple."), "\(yes)")
        #expect(try Self.approvals(daemon, excluding: ["c"]) == [false, true, false])
        for answer in ["no", "Yes", ""] {
            let no = try await Self.daemon(step)
            let refused = try await Command.answering([answer], ["rotate", "renew", "m"], socket: no.path)
            #expect(refused.status == 75 && refused.error.contains("Nothing was changed."), "\(refused)")
            #expect(try Self.approvals(no) == [false])
        }
    }

    @Test("begins no activation and no revocation by --yes, and nothing without a terminal and without --yes")
    func withoutTerminal() async throws {
        for (step, options) in [
            ("create", []), ("activate", []), ("activate", ["--yes"]), ("revoke", ["--revoke-old", "--yes"]),
        ] {
            let daemon = try await Self.daemon(step)
            let result = try await Command.paytokenctl(["rotate", "renew", "m"] + options, socket: daemon.path)
            #expect(result.status == 75 && result.error.contains("Go on in a terminal"), "\(result)")
            #expect(try Self.approvals(daemon) == [false], "\(step)")
        }
    }

    @Test(
        "ends with the status of the step, and with the command to go on",
        arguments: [
            ("done", 0, ""), ("stop", 1, ""), ("watch", 75, "Go on later: \(going) --exclude-node c"),
            ("make_test_payment", 75, "\(going) --exclude-node c --test-payment-made"),
            ("decide_repeat", 75, "\(going) --exclude-node c --repeat-attempt create:0"),
        ] as [(String, Int32, String)])
    func statuses(step: String, status: Int32, advice: String) async throws {
        let daemon = try await Self.daemon(
            step, repeatable: step == "decide_repeat" ? .init(change: "create", number: 0) : nil)
        let result = try await Command.paytokenctl(
            ["rotate", "renew", "m", "--exclude-node", "c"], socket: daemon.path)
        #expect(result.status == status && result.output.contains("Next: A sentence."), "\(result)")
        #expect(advice.isEmpty || result.error.contains(advice), "\(result)")
        #expect(try Self.approvals(daemon) == [false])
    }

    @Test("names the attempt that may be repeated, once")
    func repeats() async throws {
        let attempt = RenewalPlanStatus.Attempt(
            change: "create", number: 2, attempt: "0a0b0c0d0e0f0001", intendedAt: Self.time, outcome: "refused",
            code: "409 STATE_ERROR", approval: nil)
        let daemon = try await Self.daemon(
            "decide_repeat", attempts: [attempt], repeatable: .init(change: "create", number: 2))
        let result = try await Command.paytokenctl(
            ["rotate", "renew", "m", "--repeat-attempt", "create:1"], socket: daemon.path)
        #expect(result.status == 75 && result.output.contains("409 STATE_ERROR"), "\(result)")
        #expect(result.error.contains("\(Self.going) --repeat-attempt create:2\n"), "\(result)")
    }

    @Test("names the approval and the repeated attempt in the command to go on with")
    func pending() async throws {
        let daemon = try await FakeDaemon([
            "POST /v1/renewals": .init(
                status: 202,
                body: Array(
                    #"{"status":"pending","approval":"0a1b2c3d4e5f6071","expires":"2027-01-15T08:00:00Z"}"#.utf8))
        ])
        let result = try await Command.paytokenctl(
            ["rotate", "renew", "m", "--renewal", "0102030405060708", "--repeat-attempt", "create:1"],
            socket: daemon.path)
        #expect(result.status == 75 && result.output.isEmpty, "\(result)")
        #expect(
            result.error.contains("\(Self.going) --repeat-attempt create:1 --approval 0a1b2c3d4e5f6071"), "\(result)")
    }

    @Test("requests a certificate by --yes only if wallets go on with another")
    func usedAtOnce() async throws {
        for usedAtOnce in [false, true] {
            let daemon = try await Self.daemon("create", usedAtOnce: usedAtOnce)
            let result = try await Command.paytokenctl(["rotate", "renew", "m", "--yes"], socket: daemon.path)
            #expect(result.status == 75, "\(result)")
            #expect(result.error.contains("Go on in a terminal") == usedAtOnce, "\(result)")
            // The scripted daemon begins nothing, so the command ends after one attempt.
            #expect(try Self.approvals(daemon) == (usedAtOnce ? [false] : [false, true, false]))
        }
    }

    /// A plan before the start of a renewal.
    ///
    /// - Parameter due: true if the certificate in use ends soon; nil if Apple's list does not show it.
    private static func notBegun(key: String?, due: Bool?) -> RenewalPlanStatus {
        var plan = plan(key == nil ? "generate" : "create", key: key)
        plan.certificateInUse = due.map { due in
            .init(
                certificateId: "C1", notAfter: Date(timeIntervalSince1970: 4_102_444_800),
                renewFrom: due ? time.addingTimeInterval(-1e9) : Date(timeIntervalSince1970: 4_097_260_800))
        }
        return plan
    }

    @Test("asks before a renewal starts, and starts one by --yes only if it is due", arguments: [nil, "AAAA"])
    func start(key: String?) async throws {
        let question =
            key.map { "Renew the certificate of m with the waiting key \($0)? Type yes: " }
            ?? "Make a new key of m and renew its certificate? Type yes: "
        for (input, options, due, starts) in [
            (["no"], [], false, false), (["yes"], [], false, true), (nil, [], true, false),
            (nil, ["--yes"], true, true), (nil, ["--yes"], nil, false), (["yes"], ["--yes"], nil, true),
        ] as [([String]?, [String], Bool?, Bool)] {
            let daemon = try await Self.daemon("watch", shown: Self.notBegun(key: key, due: due))
            let words = ["rotate", "renew", "m"] + options
            let result =
                if let input {
                    try await Command.answering(input, words, socket: daemon.path)
                } else {
                    try await Command.paytokenctl(words, socket: daemon.path)
                }
            #expect(result.status == 75 && result.error.contains(question) == (input != nil), "\(result)")
            #expect(try Self.posted(daemon).isEmpty == !starts)
        }
        let early = try await Self.daemon("watch", shown: Self.notBegun(key: key, due: false))
        let result = try await Command.paytokenctl(["rotate", "renew", "m", "--yes"], socket: early.path)
        #expect(result.status == 0 && result.error == "", "\(result)")
        #expect(
            result.output
                == "No renewal was started: certificate C1 of m ends on 2100-01-01T00:00:00Z, and --yes renews it from "
                + "2099-11-02T00:00:00Z on.\n")
        #expect(try Self.posted(early).isEmpty)
    }

    @Test("goes on with an open renewal by --yes, and shows one that has just ended, without a question")
    func noStart() async throws {
        for state in ["open", "finished"] {
            var shown = Self.notBegun(key: "AAAA", due: false)
            (shown.renewal, shown.state) = ("0102030405060708", state)
            let daemon = try await Self.daemon("watch", shown: shown)
            let result = try await Command.paytokenctl(["rotate", "renew", "m", "--yes"], socket: daemon.path)
            #expect(result.status == 75, "\(result)")
            #expect(daemon.asked.map(\.target) == ["/v1/renewals/m", "/v1/renewals"])
        }
    }

    @Test(
        "starts nothing with the options of a renewal that has ended",
        arguments: [
            ["--test-payment-made"], ["--approval", "0a1b2c3d4e5f6071"], ["--repeat-attempt", "create:1"],
        ])
    func ended(options: [String]) async throws {
        let daemon = try await Self.daemon("watch", shown: Self.plan("generate", key: nil))
        let result = try await Command.paytokenctl(["rotate", "renew", "m", "--yes"] + options, socket: daemon.path)
        #expect(result.status == 1 && result.error.contains("No renewal of this merchant is open"), "\(result)")
        #expect(try Self.posted(daemon).isEmpty)
    }

    @Test(
        "takes as an attempt only a change of Apple's with a number",
        arguments: ["create", "create:x", "make:1", "create:-1"])
    func malformedAttempt(attempt: String) async throws {
        let result = try await Command.paytokenctl(["rotate", "renew", "m", "--repeat-attempt", attempt])
        #expect(result.status == 64, "\(result)")
    }
}
