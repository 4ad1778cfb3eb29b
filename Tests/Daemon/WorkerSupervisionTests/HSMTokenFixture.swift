import Foundation
import KeySealing
import KeyTypes
import Logging
import SecretMemory
import TestSupport
import Testing
import TokenForge
import WorkerProtocol

@testable import WorkerSupervision

extension Logger {
    static let silent = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
}

extension HSMTokenSettings {
    /// A SoftHSM token in its own directory, with two sessions.
    static func softHSM(_ directory: TokenDirectory, name: String = "primary") -> HSMTokenSettings {
        HSMTokenSettings(
            name: name, module: SoftHSM.libraryPath, uri: "pkcs11:token=\(TokenDirectory.label)",
            pinFile: directory.pinFile, sessions: 2, callTimeout: .seconds(10), recycleAfter: 1_000_000,
            allowExtractableSecret: true, environment: directory.environment, initArgs: "")
    }
}

extension WorkerExecutable {
    /// The worker executable built with the tests.
    static func built() throws -> WorkerExecutable { try WorkerExecutable(path: Program.built("paytokend-hsm")) }
}

extension HSMToken {
    /// Waits until the HSM token is open, and returns its description.
    @discardableResult
    func opened(within seconds: Double = 120) async throws -> HSMTokenDescription {
        try await wait(for: "the token to be open", within: seconds) {
            if case .ready = condition { true } else { false }
        }
        guard case .ready(let description) = condition else { throw CancellationError() }
        return description
    }

    /// Waits until the HSM token is open, and imports the EC merchant's key.
    func importMerchantKey() async throws {
        let merchant = try SharedForge.ecMerchant
        let sealed = try KeySealing.seal(
            privateKey: SecretBytes(copying: merchant.key.pkcs8), authenticating: merchant.certificate,
            to: await opened().importKey)
        try await importPrivateKey(
            PrivateKeyImport(
                merchantIdentifier: "merchant.test", certificate: merchant.certificate,
                encapsulatedKey: sealed.encapsulatedKey, sealedPrivateKey: sealed.sealed))
    }

    /// Decrypts a payment at this HSM token, without a deadline.
    func decrypt(_ payment: EncryptedPayment) async throws -> (plaintext: [UInt8], tier: ProtectionTier) {
        try await call(.decrypt(Decryption(payment))) { answer -> (plaintext: [UInt8], tier: ProtectionTier)? in
            if case .plaintext(let plaintext, let tier, _) = answer { (plaintext, tier) } else { nil }
        }
    }
}

extension EncryptedPayment {
    /// A payment for the EC merchant.
    static func forMerchant() throws -> EncryptedPayment {
        try EncryptedPayment(ec: SharedForge.ecMerchant.key.subjectPublicKeyInfo)
    }
}

extension Decryption {
    init(_ payment: EncryptedPayment) {
        self.init(
            publicKeyHash: payment.publicKeyHash, scheme: .ecV1, keyMaterial: payment.keyMaterial,
            otherInfo: payment.otherInfo, ciphertext: payment.ciphertext)
    }
}
