import Crypto
import Foundation
import Refusals
import StrictJSON
import Testing
import TokenForge

@testable import PaymentToken

/// An ECDSA signature (r, s) on a certificate can be turned into (r, n − s) by anybody: the certificate stays valid and
/// gets another fingerprint.
@Suite("Twins of certificates")
struct CertificateTwinTests {
    @Test("A distrusted certificate is refused as its twin too", arguments: ["leaf", "intermediate"])
    func distrustedTwin(which: String) async throws {
        let minted = try Minting.minted(.ecV1)
        let original = which == "leaf" ? minted.certificates[0] : minted.certificates[1]
        var accepted = 0
        for form in try CertificateTwins.forms(of: original) where form != original {
            let evidence = try SignatureEvidence(of: token(minted, replacing: original, with: form))
            // One of the candidates verifies: that of the issuer's curve. It is the attack.
            guard (try? await Minting.policy().judge(evidence)) != nil else { continue }
            accepted += 1
            let fingerprint = Array(SHA256.hash(data: original))
            let policy = try Minting.policy(distrusted: [fingerprint])
            let refusal = try #require(try await refusal { _ = try await policy.judge(evidence) })
            #expect(refusal.code == .certificateUntrusted)
            #expect(refusal.details?.contains("distrusted") == true)
        }
        #expect(accepted == 1)
    }

    @Test("A certificate whose signature has unused bits is refused", arguments: ["leaf", "intermediate"])
    func unusedBits(which: String) async throws {
        let minted = try Minting.minted(.ecV1)
        let original = which == "leaf" ? minted.certificates[0] : minted.certificates[1]
        // Only a last bit that is 0 may be called unused; the twins end in the other bit, since n is odd.
        let even = try CertificateTwins.forms(of: original).filter { form in (form.last ?? 1) & 1 == 0 }
        #expect(!even.isEmpty)
        for var form in even {
            // BIT STRING tag, length, unused bits, and the SEQUENCE of the signature.
            let start = try #require(
                form.indices.dropLast(3).last { form[$0] == 0x03 && form[$0 + 2] == 0 && form[$0 + 3] == 0x30 })
            form[start + 2] = 1
            let evidence = try SignatureEvidence(of: token(minted, replacing: original, with: form))
            let refusal = try #require(try await refusal { _ = try await Minting.policy().judge(evidence) })
            #expect(refusal.code == .certificateUntrusted)
        }
    }

    /// The token with one of its certificates replaced in the message, whose outer lengths are indefinite.
    private func token(
        _ minted: MintedToken, replacing original: [UInt8], with form: [UInt8]
    ) throws -> PaymentToken {
        let place = try #require(minted.signature.firstRange(of: original))
        var signature = minted.signature
        signature.replaceSubrange(place, with: form)
        return try PaymentToken(
            json: JSONValue(parsing: minted.paymentData).setting(
                "signature", to: .string(Base64.encode(signature))))
    }
}
