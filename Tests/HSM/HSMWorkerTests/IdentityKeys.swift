import Foundation
import TLSHandshake
import TestSupport
import TokenForge
import WorkerProtocol

/// Keys and TLS input for the tests of identity keys.
enum IdentityKeys {
    private static let made = Result {
        try ForgedMerchant(
            authority: SharedForge.authority, type: .rsa2048,
            profile: MerchantCertificateProfile(
                merchantIdentifier: "merchant.com.example.identity", kind: .merchantIdentity))
    }

    /// A merchant with an RSA-2048 Merchant Identity certificate.
    static var merchant: ForgedMerchant { get throws { try made.get() } }

    /// Returns the input that a TLS 1.3 client signs (RFC 8446 §4.4.3), with a random transcript hash.
    static func handshake() -> [UInt8] {
        [UInt8](repeating: 0x20, count: 64) + Array("TLS 1.3, client CertificateVerify".utf8) + [0]
            + (0..<32).map { _ in UInt8.random(in: .min ... .max) }
    }

    /// Returns the input that a TLS 1.2 client signs (RFC 5246 §7.4.8): a small handshake up to the ClientKeyExchange,
    /// with a new random value.
    ///
    /// - Parameter schemes: the signature algorithms that the server accepts, by their IANA numbers; by default PKCS #1
    ///   and PSS.
    static func handshake12(
        serverName: String = "apple-pay-gateway.apple.com", schemes: [UInt8] = [4, 1, 8, 4]
    ) -> [UInt8] {
        func vector(_ content: [UInt8], _ lengthBytes: Int = 2) -> [UInt8] {
            (0..<lengthBytes).reversed().map { UInt8(truncatingIfNeeded: content.count >> ($0 * 8)) } + content
        }
        func message(_ type: UInt8, _ body: [UInt8]) -> [UInt8] { [type] + vector(body, 3) }
        let random = (0..<32).map { _ in UInt8.random(in: .min ... .max) }
        let name = [0, 0] + vector(vector([0] + vector(Array(serverName.utf8))))
        return message(1, [3, 3] + random + [0] + vector([0xC0, 0x2F]) + [1, 0] + vector(name))
            + message(2, [3, 3] + random + [0, 0xC0, 0x2F, 0]) + message(11, vector(vector([0x30, 0], 3), 3))
            + message(12, [3, 0, 23, 1, 4]) + message(13, [1, 1] + vector(schemes) + vector([]))
            + message(14, []) + message(11, vector(vector([0x30, 0], 3), 3)) + message(16, [1, 4])
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
