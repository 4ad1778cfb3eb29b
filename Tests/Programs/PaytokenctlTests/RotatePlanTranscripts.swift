import DaemonAPI
import Foundation
import Testing

/// `rotate plan` against scripted answers.
@Suite struct RotatePlanTranscripts {
    private static let time = Date(timeIntervalSince1970: 1_800_000_000)

    private static func daemon(
        _ plans: [RenewalPlanStatus], query: String = "", fault: String? = nil
    ) async throws -> FakeDaemon {
        let list = try ok(
            PortalCheckAnswer(
                merchantIdentifier: "m", requestedAt: time, readAt: fault == nil ? time : nil, fault: fault))
        return try await FakeDaemon([
            "POST /v1/portal/checks": list, "GET /v1/portal/certificates?merchantIdentifier=m": list,
            "GET /v1/renewals/m\(query)": try ok(ListAnswer(items: plans, next: nil)),
        ])
    }

    private static func ok(_ answer: some Encodable) throws -> FakeDaemon.Answer {
        .ok(String(decoding: try JSONCoding.encode(answer), as: UTF8.self))
    }

    private static func plan(step: String, nodes: [RenewalPlanStatus.Node] = []) -> RenewalPlanStatus {
        RenewalPlanStatus(
            merchantIdentifier: "m", algorithm: "EC", use: "processing", publicKeyHash: "AAAA", readAt: time,
            step: step, next: "A sentence.",
            steps: step == "stop" ? [] : [.init(name: step, status: "next", text: "A step")], nodes: nodes)
    }

    @Test("shows the next step, and the nodes that have proved the key")
    func shows() async throws {
        let daemon = try await Self.daemon(
            [
                Self.plan(
                    step: "prove",
                    nodes: [
                        .init(
                            node: "a", proved: true, provedWithCertificate: false, required: true, up: false,
                            lastSeen: Self.time),
                        .init(node: "b", proved: false, provedWithCertificate: false, required: false, up: true),
                    ])
            ], query: "?excludeNodes=c%2Cd")
        let result = try await Command.paytokenctl(
            ["rotate", "plan", "m", "--exclude-node", "c", "--exclude-node", "d"], socket: daemon.path)
        #expect(result.status == 0, "\(result)")
        let words = result.output.split(separator: "\n").map { $0.split(separator: " ") }
        #expect(words.contains(["prove", "NEXT", "A", "step"]), "\(result)")
        #expect(words.contains(["a", "yes", "yes", "no", "no", "2027-01-15T08:00:00Z"]), "\(result)")
        #expect(words.contains(["b", "no", "no", "no", "yes", "-"]), "\(result)")
        #expect(
            result.output.hasSuffix("Next: A sentence.\nSee: paytokenctl key prove AAAA, on each of these nodes\n"),
            "\(result)")
    }

    @Test("names no command for a renewal that has begun, since its daemons take the step")
    func begunNeedsNoCommand() async throws {
        var plan = Self.plan(step: "prove")
        plan.renewal = "0a1b2c3d4e5f6071"
        let daemon = try await Self.daemon([plan])
        let result = try await Command.paytokenctl(["rotate", "plan", "m"], socket: daemon.path)
        #expect(result.output.hasSuffix("Next: A sentence.\n"), "\(result)")
    }

    @Test("shows who has begun the renewal, and on which node")
    func begun() async throws {
        var plan = Self.plan(step: "prove")
        (plan.startedBy, plan.starter, plan.startedOn) = ("security", 1001, "host-a")
        let daemon = try await Self.daemon([plan])
        let result = try await Command.paytokenctl(["rotate", "plan", "m"], socket: daemon.path)
        #expect(result.output.contains("\nBegun by security (uid 1001) on host-a.\n"), "\(result)")
    }

    @Test("ends with 1 if one of several renewals needs a repair first, and with 75 if Apple's list was not read")
    func statuses() async throws {
        let stopped = try await Self.daemon([Self.plan(step: "create"), Self.plan(step: "stop")])
        let one = try await Command.paytokenctl(["rotate", "plan", "m"], socket: stopped.path)
        #expect(one.status == 1 && one.output.contains("A sentence."), "\(one)")
        let unread = try await Self.daemon([], fault: "Apple answered 500.")
        let later = try await Command.paytokenctl(["rotate", "plan", "m"], socket: unread.path)
        #expect(later.status == 75 && later.error.contains("Apple answered 500.") && later.output.isEmpty, "\(later)")
    }
}
