import Crypto
import Foundation
import StrictJSON
import TestSupport
import Testing

/// Real payment tokens under Apple's root, decrypted with SoftHSM through the socket. The tests compare only the
/// SHA-256 of each plaintext, and never show it.
@Suite(.enabled(if: Fixtures.directory != nil, "set PAYTOKEND_INTEROP_FIXTURES to a folder of real tokens"))
struct InteroperabilityTests {
    /// A daemon with Apple's root, every published key and no signing-time window, because the payment tokens are years
    /// old.
    private static let started = Task {
        var configuration = DaemonConfiguration()
        configuration.roots = []
        configuration.signingTimeWindow = "off"
        let harness = try await DaemonHarness(configuration)
        for paymentToken in try Fixtures.paymentTokens() {
            guard let key = paymentToken.privateKey, let certificate = paymentToken.certificate else { continue }
            let copy = try harness.directory.write(Array(Data(contentsOf: key)), to: "import.der")
            let result = try await harness.paytokenctl([
                "key", "import", "--private-key", copy, "--certificate", certificate.path, "--allow-expired",
            ])
            guard result.status == 0 else { throw HarnessFailure(description: "\(paymentToken.name): \(result)") }
        }
        return harness
    }

    @Test("decrypts every real payment token with a published key to the bytes that the manifest describes")
    func decryptsRealTokens() async throws {
        let harness = try await Self.started.value
        var count = 0
        for paymentToken in try Fixtures.paymentTokens() {
            guard let expected = paymentToken.plaintextSHA256, paymentToken.privateKey != nil else { continue }
            let body = Array("{\"token\":".utf8) + paymentToken.json + Array("}".utf8)
            let answer = try await harness.decrypt(body)
            #expect(answer.status == 200, "\(paymentToken.name): \(answer.code ?? "no code")")
            #expect(answer.string("merchantIdentifier") == paymentToken.merchantIdentifier)
            #expect(answer.string("signingTime") == paymentToken.signingTime)
            #expect(answer.string("version") == paymentToken.version)
            let plaintext = try #require(Self.paymentData(of: answer.body))
            // The expectation contains only a Boolean, so that a failure cannot print the plaintext.
            let agrees = Fingerprint.hex(plaintext) == expected
            #expect(agrees, "\(paymentToken.name): the decrypted bytes are not those of the manifest")
            count += 1
        }
        #expect(count >= 4)
    }

    @Test("verifies the payment token without a published key at its signing time, but not today")
    func signatureOnly() async throws {
        // The daemon has a signing-time window, for which `at` replaces the current time.
        var configuration = DaemonConfiguration()
        configuration.roots = []
        let harness = try await DaemonHarness(configuration)
        let paymentToken = try #require(try Fixtures.paymentTokens().first { $0.privateKey == nil })
        func body(_ time: String?) -> [UInt8] {
            let at = time.map { ",\"at\":\"\($0)\"" } ?? ""
            return Array("{\"token\":".utf8) + paymentToken.json + Array("\(at)}".utf8)
        }
        let then = try await Curl.request("/v1/verify", socket: harness.socket, body: body(paymentToken.signingTime))
        #expect(then.status == 200, "\(then)")
        #expect(then.string("signingTime") == paymentToken.signingTime)
        let chain = (then.member("chain")?.arrayValue ?? []).compactMap(\.objectValue)
        #expect(
            chain.last?["sha256"]?.stringValue?.lowercased()
                == "63343abfb89a6a03ebb57e9b3f5fa7be7c4f5c756f3017b3a8c488c3653e9179")
        let today = try await Curl.request("/v1/verify", socket: harness.socket, body: body(nil))
        #expect(today.status == 422 && today.code == "signing_time_outside_window", "\(today)")
        #expect(try await harness.stop().status == 0)
    }

    @Test("refuses a real payment token under the forge's root, and a minted one under Apple's root")
    func otherRoot() async throws {
        let real = try #require(try Fixtures.paymentTokens().first { $0.privateKey != nil })
        let body = Array("{\"token\":".utf8) + real.json + Array("}".utf8)
        let answer = try await SharedDaemon.harness.decrypt(body)
        #expect(answer.code == "certificate_untrusted")
    }

    /// Returns the bytes of paymentData from the answer's text, because a parser would not preserve them.
    private static func paymentData(of body: [UInt8]) -> [UInt8]? {
        guard let name = Data(body).range(of: Data("\"paymentData\":".utf8)) else { return nil }
        var depth = 0
        var inString = false
        var escaped = false
        for index in name.upperBound..<body.count {
            let byte = body[index]
            if inString {
                if escaped {
                    escaped = false
                } else if byte == UInt8(ascii: "\\") {
                    escaped = true
                } else if byte
                    == UInt8(ascii: "\"")
                {
                    inString = false
                }
                continue
            }
            switch byte {
            case UInt8(ascii: "\""): inString = true
            case UInt8(ascii: "{"): depth += 1
            case UInt8(ascii: "}"):
                depth -= 1
                if depth == 0 { return Array(body[name.upperBound...index]) }
            default: break
            }
        }
        return nil
    }
}
