import Foundation
import TLSHandshake
import TestSupport
import TokenForge
import WorkerProtocol

/// What tests of identity keys share.
enum IdentityKeys {
    private static let made = Result {
        try ForgedMerchant(
            authority: SharedForge.authority, type: .rsa2048,
            profile: MerchantCertificateProfile(
                merchantIdentifier: "merchant.com.example.identity", kind: .merchantIdentity))
    }

    /// A merchant with a Merchant Identity certificate, RSA-2048.
    static var merchant: ForgedMerchant { get throws { try made.get() } }

    /// What a TLS 1.3 client signs (RFC 8446 §4.4.3), over a transcript hash of its own.
    static func handshake() -> [UInt8] {
        [UInt8](repeating: 0x20, count: 64) + Array("TLS 1.3, client CertificateVerify".utf8) + [0]
            + (0..<32).map { _ in UInt8.random(in: .min ... .max) }
    }
}

extension WorkerUnderTest {
    func importIdentity(_ merchant: ForgedMerchant, _ hsmToken: HSMTokenDescription) async throws -> WorkerAnswer {
        try await importKey(
            pkcs8: merchant.key.pkcs8, certificate: merchant.certificate, hsmToken,
            label: merchant.merchant.identifier, use: .identity)
    }

    func mustImportIdentity(_ merchant: ForgedMerchant, _ hsmToken: HSMTokenDescription) async throws {
        let answer = try await importIdentity(merchant, hsmToken)
        guard answer == .done else { throw Unexpected(description: "\(answer)") }
    }

    func signTLS(
        _ publicKeyHash: [UInt8], _ input: [UInt8] = IdentityKeys.handshake(),
        _ algorithm: TLSSignatureAlgorithm = .pssSHA256
    ) async throws -> WorkerAnswer {
        try await call(.signTLS(TLSSigning(publicKeyHash: publicKeyHash, algorithm: algorithm, input: input)))
    }
}
