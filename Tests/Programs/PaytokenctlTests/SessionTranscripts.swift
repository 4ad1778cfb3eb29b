import TestSupport
import Testing

@Suite("Transcripts: session")
struct SessionTranscripts {
    private static let check = "POST /v1/session-check"

    @Test("shows each step of session check, and exits with 0 if Apple returns a session")
    func check() async throws {
        let gateway = try await FakeDaemon([Self.check: .ok(Self.answer(failedAt: nil))])
        let result = try await Command.paytokenctl(
            ["session", "check", "merchant.com.example", "--domain", "shop.example"], socket: gateway.path)
        #expect(result.status == 0)
        #expect(result.error == "")
        #expect(
            result.output == """
                STEP        OUTCOME  WHAT
                identity    ok       paytokend gives a valid identity certificate of the merchant
                name        ok       the name of Apple's host is resolved
                connection  ok       TCP, through the proxy if there is one
                tls         ok       the server is Apple's host
                signature   ok       the HSM token signs the handshake
                answer      ok       Apple accepts merchant, domain and certificate, and gives a session

                """)
        #expect(
            gateway.asked.map(\.body) == [
                Array(#"{"domain":"shop.example","merchantIdentifier":"merchant.com.example"}"#.utf8)
            ])
    }

    @Test("shows the step at which session check fails and the fault, and exits with 1")
    func failed() async throws {
        let gateway = try await FakeDaemon([Self.check: .ok(Self.answer(failedAt: 4))])
        let line = ["session", "check", "merchant.com.example", "--domain", "shop.example"]
        let result = try await Command.paytokenctl(line, socket: gateway.path)
        #expect(result.status == 1)
        #expect(result.error == "hsm_unavailable: The token is away. (details)\nSee: paytokenctl status\n")
        #expect(result.output.contains("tls         ok "))
        #expect(result.output.contains("signature   failed "))
        #expect(result.output.contains("answer      not_reached "))
        let json = try await Command.paytokenctl(line + ["--output", "json"], socket: gateway.path)
        #expect(json.status == 1)
        #expect(json.output == Self.answer(failedAt: 4) + "\n")
    }

    @Test("exits with 64 for session check without a domain, and with 69 without a gateway")
    func unreachable() async throws {
        let directory = try FreshDirectory()
        #expect(try await Command.paytokenctl(["session", "check", "merchant.com.example"]).status == 64)
        let result = try await Command.paytokenctl(
            ["session", "check", "merchant.com.example", "--domain", "shop.example"], socket: directory.path("s"))
        #expect(result.status == 69)
        #expect(result.error.contains("Is paytoken-gateway running"), "\(result)")
        #expect(!result.error.contains("paytokend"), "\(result)")
    }

    @Test("prints the gateway's refusal of session check")
    func refused() async throws {
        let gateway = try await FakeDaemon([
            Self.check: .refusal(400, "malformed_request", "domain is not a domain name.", details: "domain")
        ])
        let result = try await Command.paytokenctl(
            ["session", "check", "merchant.com.example", "--domain", "127.0.0.1"], socket: gateway.path)
        #expect(result.status == 1)
        #expect(result.error == "malformed_request: domain is not a domain name. (domain)\n")
    }

    private static func answer(failedAt failed: Int?) -> String {
        let names = ["identity", "name", "connection", "tls", "signature", "answer"]
        let steps = names.enumerated().map { index, name in
            let outcome = failed.map { index < $0 ? "ok" : index == $0 ? "failed" : "not_reached" } ?? "ok"
            return #"{"outcome":"\#(outcome)","step":"\#(name)"}"#
        }
        let (code, message, details) =
            failed == nil ? ("null", "null", "null") : (#""hsm_unavailable""#, #""The token is away.""#, #""details""#)
        return
            #"{"code":\#(code),"details":\#(details),"message":\#(message),"steps":[\#(steps.joined(separator: ","))]}"#
    }
}
