import DaemonAPI
import Foundation
import StrictJSON
import Testing

/// `rotate check` against scripted answers.
@Suite struct RotateCheckTranscripts {
    private static let time = Date(timeIntervalSince1970: 1_800_000_000)

    private static func answer(
        _ merchant: String, kind: String? = nil, fault: String? = nil
    ) throws -> FakeDaemon.Answer {
        let answer = PortalCheckAnswer(
            merchantIdentifier: merchant, requestedAt: time, readAt: fault == nil ? time : nil, fault: fault,
            appleId: "A1B2C3D4E5",
            findings: kind.map {
                [.init(kind: $0, severity: "warning", certificateId: "C1", publicKeyHash: nil, text: "A sentence.")]
            } ?? [])
        return .ok(String(decoding: try JSONCoding.encode(answer), as: UTF8.self))
    }

    /// A daemon with three merchants: one without findings, one whose answers are refusals, one of a choice.
    private static func daemon(_ third: FakeDaemon.Answer) async throws -> FakeDaemon {
        let keys = ["a", "b", "c"].map { Sample.key(merchant: $0, notAfter: nil, daysLeft: nil) }
        return try await FakeDaemon([
            "GET /v1/keys?limit=1000": .ok(#"{"items":[\#(keys.joined(separator: ","))]}"#),
            "POST /v1/portal/checks": try answer("a"),
            "GET /v1/portal/certificates?merchantIdentifier=a": try answer("a"),
            "GET /v1/portal/certificates?merchantIdentifier=b": .refusal(503, "overloaded", "Too many requests."),
            "GET /v1/portal/certificates?merchantIdentifier=c": third,
        ])
    }

    @Test("compares and shows the other merchants of --all after one merchant's error, and exits by the worst")
    func oneFails() async throws {
        for (third, status) in [
            (try Self.answer("c"), 75), (try Self.answer("c", kind: "unknown_here"), 1),
            (try Self.answer("c", fault: "Apple answered 500."), 75),
        ] as [(FakeDaemon.Answer, Int32)] {
            let daemon = try await Self.daemon(third)
            let result = try await Command.paytokenctl(
                ["rotate", "check", "--all", "--output", "json"], socket: daemon.path)
            #expect(result.status == status, "\(result)")
            let shown = try JSONValue(parsing: Array(result.output.utf8)).arrayValue ?? []
            #expect(shown.map { $0.objectValue?["merchantIdentifier"]?.stringValue } == ["a", "b", "c"])
            #expect(shown[0].objectValue?["readAt"] != nil && shown[1].objectValue?["readAt"] == nil)
            #expect(shown[1].objectValue?["fault"]?.stringValue == "overloaded: Too many requests.")
            #expect(result.error.contains("b: overloaded: Too many requests."), "\(result)")
        }
    }

    @Test("still compares the other merchants if the request for one is refused")
    func requestRefused() async throws {
        let keys = ["a", "b"].map { Sample.key(merchant: $0, notAfter: nil, daysLeft: nil) }
        let daemon = try await FakeDaemon([
            "GET /v1/keys?limit=1000": .ok(#"{"items":[\#(keys.joined(separator: ","))]}"#),
            "POST /v1/portal/checks": .refusal(400, "malformed_request", "merchantIdentifier has another form."),
        ])
        let result = try await Command.paytokenctl(["rotate", "check", "--all"], socket: daemon.path)
        #expect(result.status == 75 && result.error.contains("a: malformed_request"), "\(result)")
        #expect(result.error.contains("b: malformed_request"), "\(result)")
    }

    @Test("ends with the daemon's refusal for the one merchant that was named")
    func named() async throws {
        let daemon = try await FakeDaemon([
            "POST /v1/portal/checks": .refusal(400, "malformed_request", "merchantIdentifier has another form.")
        ])
        let result = try await Command.paytokenctl(["rotate", "check", "a_b"], socket: daemon.path)
        #expect(result.status == 1 && result.error.hasPrefix("malformed_request: "), "\(result)")
        #expect(result.output == "")
    }
}
