import Crypto
import Encodings
import Foundation
import Refusals
import StrictJSON
import SwiftASN1
import Testing
import TokenForge

@testable import PaymentToken

/// Re-encoded certificates. ECDSA signatures are malleable: anyone can replace (r, s) by (r, n − s). The certificate
/// stays valid and gets another fingerprint.
@Suite("Other encodings of a certificate")
struct CertificateMalleabilityTests {
    @Test("Refuses a distrusted certificate in an equivalent encoding too", arguments: ["leaf", "intermediate"])
    func distrustedInOtherEncoding(which: String) async throws {
        let minted = try Minting.minted(.ecV1)
        let original = which == "leaf" ? minted.certificates[0] : minted.certificates[1]
        var accepted = 0
        for form in try CertificateMalleability.encodings(of: original) where form != original {
            let evidence = try SignatureEvidence(of: paymentToken(minted, replacing: original, with: form))
            // Only the candidate for the issuer's curve verifies. An attacker would use that one.
            guard (try? await Minting.policy().evaluate(evidence)) != nil else { continue }
            accepted += 1
            let fingerprint = Array(SHA256.hash(data: original))
            let policy = try Minting.policy(distrusted: [fingerprint])
            let refusal = try #require(try await awaitedRefusal { _ = try await policy.evaluate(evidence) })
            #expect(refusal.code == .certificateUntrusted)
            #expect(refusal.details?.contains("distrusted") == true)
        }
        #expect(accepted == 1)
    }

    @Test(
        "Refuses a distrusted certificate re-encoded without the issuer's key",
        arguments: TestChain.Issuers.allCases, ["leaf", "intermediate"])
    func everyIssuer(issuers: TestChain.Issuers, which: String) async throws {
        let chain = try TestChain(issuers: issuers)
        let original = which == "leaf" ? chain.leafDER : chain.intermediateDER
        let altered = try Self.altered(of: original, by: issuers)
        #expect(altered != original)
        let evidence = SignatureEvidence(
            leafDER: which == "leaf" ? altered : chain.leafDER,
            intermediateDER: which == "leaf" ? chain.intermediateDER : altered,
            signingTime: Date(timeIntervalSince1970: 1_700_000_000))
        // Without a distrusted fingerprint the altered certificate is accepted like the original: this is the attack.
        _ = try await TrustPolicy(roots: [chain.root], distrusted: []).evaluate(evidence)
        let policy = TrustPolicy(roots: [chain.root], distrusted: [Array(SHA256.hash(data: original))])
        let refusal = try #require(try await awaitedRefusal { _ = try await policy.evaluate(evidence) })
        #expect(refusal.code == .certificateUntrusted)
        #expect(refusal.details == "the \(which) certificate is distrusted by configuration")
    }

    /// Returns a certificate with an equivalent signature: (r, n − s) for ECDSA; for RSA, the outer AlgorithmIdentifier
    /// without its NULL.
    private static func altered(of der: [UInt8], by issuers: TestChain.Issuers) throws -> [UInt8] {
        let nodes = try DER.sequence(try DER.parse(der), identifier: .sequence) { nodes in
            var all: [ASN1Node] = []
            while let node = nodes.next() { all.append(node) }
            return all
        }
        try #require(nodes.count == 3)
        var algorithm = Array(nodes[1].encodedBytes)
        var signature = try ASN1BitString(derEncoded: nodes[2])
        // The curves' orders n are from SEC 2 v2, §2.4.2, §2.5.1 and §2.6.1.
        let order: String
        switch issuers {
        case .p256: order = "FFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551"
        case .p384:
            order =
                "FFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFC7634D81F4372DDF581A0DB248B0A77AECEC196ACCC52973"
        case .p521:
            order =
                "01FFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFA"
                + "51868783BF2F966B7FCC0148F709A5D03BB5C9B8899C47AEBB6FB71E91386409"
        case .rsa:
            #expect(algorithm.suffix(2) == [0x05, 0x00])
            algorithm = [0x30, UInt8(algorithm.count - 4)] + algorithm[2..<(algorithm.count - 2)]
            return try certificate(Array(nodes[0].encodedBytes) + algorithm + nodes[2].encodedBytes)
        }
        let (r, s) = try DER.sequence(try DER.parse(Array(signature.bytes)), identifier: .sequence) { nodes in
            (try ArraySlice<UInt8>(derEncoded: &nodes), try ArraySlice<UInt8>(derEncoded: &nodes))
        }
        var other = DER.Serializer()
        try other.appendConstructedNode(identifier: .sequence) { other in
            try other.serialize(r)
            try other.serialize(try subtracting(s, from: #require(Hexadecimal.decode(order)))[...])
        }
        signature = ASN1BitString(bytes: other.serializedBytes[...])
        var value = DER.Serializer()
        try value.serialize(signature)
        return try certificate(Array(nodes[0].encodedBytes) + algorithm + value.serializedBytes)
    }

    private static func certificate(_ content: [UInt8]) throws -> [UInt8] {
        var node = DER.Serializer()
        node.appendConstructedNode(identifier: .sequence) { node in node.serializeRawBytes(content) }
        return node.serializedBytes
    }

    /// Returns `large` minus `small`, both big-endian.
    private static func subtracting(_ small: ArraySlice<UInt8>, from large: [UInt8]) -> [UInt8] {
        var (digits, borrow) = (large, 0)
        let subtrahend = [UInt8](repeating: 0, count: max(0, large.count - small.count)) + small.suffix(large.count)
        for index in digits.indices.reversed() {
            let digit = Int(digits[index]) - Int(subtrahend[index]) - borrow
            borrow = digit < 0 ? 1 : 0
            digits[index] = UInt8((digit + 256) % 256)
        }
        return digits
    }

    @Test("Refuses a certificate whose signature BIT STRING has unused bits", arguments: ["leaf", "intermediate"])
    func unusedBits(which: String) async throws {
        let minted = try Minting.minted(.ecV1)
        let original = which == "leaf" ? minted.certificates[0] : minted.certificates[1]
        // Only a signature that ends in a 0 bit can declare that bit unused. One encoding does: n is odd, so either s
        // or n − s is even.
        let even = try CertificateMalleability.encodings(of: original).filter { form in (form.last ?? 1) & 1 == 0 }
        #expect(!even.isEmpty)
        for var form in even {
            // The sought bytes are the BIT STRING's tag, length and number of unused bits, and the signature's
            // SEQUENCE.
            let start = try #require(
                form.indices.dropLast(3).last { form[$0] == 0x03 && form[$0 + 2] == 0 && form[$0 + 3] == 0x30 })
            form[start + 2] = 1
            let evidence = try SignatureEvidence(of: paymentToken(minted, replacing: original, with: form))
            let refusal = try #require(try await awaitedRefusal { _ = try await Minting.policy().evaluate(evidence) })
            #expect(refusal.code == .certificateUntrusted)
        }
    }

    /// The payment token with one certificate of the message replaced. The outer lengths are indefinite, so they stay
    /// right.
    private func paymentToken(
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
