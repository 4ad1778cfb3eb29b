import Encodings
import Foundation
import Refusals
import TestSupport
import Testing

@testable import PaymentToken

/// Chains that must be refused by their names and key sizes alone. The certificates lack other fields, so a complete
/// parse would fail with another error.
@Suite("Untrusted chains")
struct UntrustedChainTests {
    private static let algorithm = sequence([
        0x06, 0x09, 0x2A, 0x86, 0x48, 0x86, 0xF7, 0x0D, 0x01, 0x01, 0x01, 0x05, 0x00,
    ])

    private static func element(_ tag: UInt8, _ content: [UInt8]) -> [UInt8] {
        switch content.count {
        case ..<0x80: [tag, UInt8(content.count)] + content
        case ..<0x100: [tag, 0x81, UInt8(content.count)] + content
        default: [tag, 0x82, UInt8(content.count >> 8), UInt8(content.count & 0xFF)] + content
        }
    }

    private static func sequence(_ content: [UInt8]) -> [UInt8] { element(0x30, content) }

    /// Returns an RSA SubjectPublicKeyInfo (RFC 3279 §2.3.1) with an arbitrary modulus.
    private static func rsaKey(bits: Int) -> [UInt8] {
        let modulus = [0x00, 0x80] + [UInt8](repeating: 0x5A, count: bits / 8 - 2) + [0x5B]
        let key = sequence(element(0x02, modulus) + element(0x02, [0x01, 0x00, 0x01]))
        return sequence(algorithm + element(0x03, [0x00] + key))
    }

    /// Returns a certificate that contains only names, a key and an empty signature.
    private static func certificate(issuer: [UInt8], subject: [UInt8], key: [UInt8]) -> [UInt8] {
        sequence(
            sequence(element(0x02, [0x01]) + algorithm + issuer + sequence([]) + subject + key) + algorithm
                + element(0x03, [0x00]))
    }

    private static func name(_ text: String) -> [UInt8] {
        sequence(element(0x31, sequence([0x06, 0x03, 0x55, 0x04, 0x03] + element(0x0C, Array(text.utf8)))))
    }

    private func refusal(issuer: [UInt8], intermediateKey: [UInt8]) async throws -> Refusal? {
        let intermediate = Self.name("Intermediate")
        let evidence = SignatureEvidence(
            leafDER: Self.certificate(issuer: intermediate, subject: Self.name("Leaf"), key: Self.rsaKey(bits: 2048)),
            intermediateDER: Self.certificate(issuer: issuer, subject: intermediate, key: intermediateKey),
            signingTime: Date())
        return try await awaitedRefusal { _ = try await Minting.policy().evaluate(evidence) }
    }

    @Test("refuses a chain whose issuer is not a root before it reads the certificates completely")
    func otherIssuer() async throws {
        let refusal = try await refusal(issuer: Self.name("Other"), intermediateKey: Self.rsaKey(bits: 2048))
        #expect(refusal?.code == .certificateUntrusted)
        #expect(refusal?.details?.contains("do not form a chain") == true)
    }

    @Test("refuses an issuer's RSA key of more than 4,096 bits before it verifies a signature with it")
    func longIssuerKey() async throws {
        let root = Array(try CertificateFields(der: SharedForge.authority.root.certificate).subject)
        let long = try await refusal(issuer: root, intermediateKey: Self.rsaKey(bits: 8192))
        #expect(long?.code == .certificateUntrusted && long?.details?.contains("4096 bits") == true)
        let usual = try await refusal(issuer: root, intermediateKey: Self.rsaKey(bits: 4096))
        #expect(usual?.details == "a certificate cannot be read")
    }

    @Test("refuses a signer's RSA key of more than 4,096 bits")
    func longSignerKey() throws {
        _ = try SignerKey(subjectPublicKeyInfo: Self.rsaKey(bits: 4096)[...], version: .rsaV1)
        for bits in [4104, 8192] {
            #expect(throws: CMSDefect.self) {
                _ = try SignerKey(subjectPublicKeyInfo: Self.rsaKey(bits: bits)[...], version: .rsaV1)
            }
        }
    }
}
