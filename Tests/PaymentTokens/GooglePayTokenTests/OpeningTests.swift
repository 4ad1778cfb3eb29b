import Crypto
import Foundation
import GooglePayToken
import TestSupport
import Testing
import TokenForge

/// Comparison with `open-google-pay`, which is written in Python with openssl.
@Suite("A second opinion on Google Pay tokens")
struct GooglePayOpeningTests {
    @Test("Agrees on a forged payment token, and opens it to the forge's plaintext", arguments: [1, 16, 300, 4_000])
    func forged(size: Int) async throws {
        let plaintext = (0..<size).map { UInt8(truncatingIfNeeded: $0) }
        let envelope = try Fixture.forge.mint(
            plaintext, to: Fixture.merchantKey.publicKey, recipient: Fixture.recipient, expiration: Fixture.tomorrow)
        let opened = try await Fixture.secondOpinion(
            Array(envelope.json.utf8), key: Fixture.merchantKey.pemRepresentation)
        let identifier = try Fixture.verified(envelope.json).0.transactionIdentifier.hex
        #expect(opened == ["ok", identifier, SHA256.hash(data: plaintext).hexadecimal])
    }
}

@Suite(
    "Real Google Pay tokens",
    .enabled(if: Fixtures.directory != nil, "set PAYTOKEND_INTEROP_FIXTURES to a folder of real tokens"))
struct RealGooglePayTokenTests {
    @Test("Verifies each of Google's TEST tokens until its intermediate key expires, as the second opinion does")
    func signatures() async throws {
        let fixtures = try Fixtures.googlePayTokens()
        #expect(fixtures.count == 3)
        for fixture in fixtures {
            let json = String(decoding: fixture.json, as: UTF8.self)
            for (milliseconds, expected) in [
                (fixture.intermediateExpiration - 1, "ok"), (fixture.intermediateExpiration, "certificate_untrusted"),
            ] {
                let time = Date(timeIntervalSince1970: Double(milliseconds) / 1_000)
                #expect(
                    try Fixture.verdict(
                        json, for: Fixtures.googlePayMerchant, under: Fixtures.googlePayTestRoots, at: time)
                        == expected,
                    "\(fixture.name)")
                let opinion = try await Fixture.secondOpinion(
                    fixture.json, for: Fixtures.googlePayMerchant, under: Fixtures.googlePayTestRoots, at: time,
                    key: fixture.privateKey)
                #expect(opinion.first == expected, "\(fixture.name)")
                #expect(opinion.count == (expected == "ok" ? 3 : 1), "\(fixture.name)")
            }
        }
    }

    @Test("Refuses Google's TEST tokens under other root keys, for another merchant, and with escapes decoded")
    func refusals() throws {
        for fixture in try Fixtures.googlePayTokens() {
            let json = String(decoding: fixture.json, as: UTF8.self)
            let time = Date(timeIntervalSince1970: Double(fixture.intermediateExpiration - 1) / 1_000)
            let roots = Fixtures.googlePayTestRoots
            let production = Fixture.forge.rootKeys(expiration: Fixture.tomorrow)
            let merchant = Fixtures.googlePayMerchant
            #expect(try Fixture.verdict(json, for: merchant, under: production, at: time) == "signature_invalid")
            #expect(try Fixture.verdict(json, for: "1", under: roots, at: time) == "signature_invalid")
            let decoded = json.replacing("\\\\u003d", with: "=")
            if decoded != json {
                #expect(try Fixture.verdict(decoded, for: merchant, under: roots, at: time) == "signature_invalid")
            }
        }
    }
}
