import Crypto
import Foundation
import MerchantKeys
import TestSupport
import Testing
import WorkerProtocol

@Suite("PKCS#10 requests for a key in an HSM token")
struct CertificateRequestTests {
    private let key = P256.Signing.PrivateKey()

    private func request(
        _ merchant: String, sign: @escaping @Sendable ([UInt8]) async throws(WorkerFailure) -> [UInt8]
    ) async throws(WorkerFailure) -> CertificateRequest {
        try await CertificateRequest(
            subjectPublicKeyInfo: Array(key.publicKey.derRepresentation), merchantIdentifier: merchant, sign: sign)
    }

    private func signature(_ bytes: [UInt8], by key: P256.Signing.PrivateKey) throws(WorkerFailure) -> [UInt8] {
        guard let signature = try? key.signature(for: bytes) else { throw WorkerFailure(.protocolViolation, "") }
        return Array(signature.derRepresentation)
    }

    @Test("Makes a request that openssl verifies, with a long name cut to the limit of a common name")
    func read() async throws {
        let key = key
        for merchant in ["merchant.com.example", "merchant." + String(repeating: "x", count: 200)] {
            let made = try await request(merchant) { bytes throws(WorkerFailure) in try signature(bytes, by: key) }
            let files = try FreshDirectory()
            try files.write(made.pem, to: "request.pem")
            try files.write(made.der, to: "request.der")
            for form in ["pem", "der"] {
                let result = try await Program.run(
                    Program.installed("openssl"),
                    ["req", "-inform", form, "-in", files.path("request.\(form)"), "-verify", "-noout", "-subject"])
                #expect(result.error.contains("verify OK"), "\(result)")
                #expect(result.output.contains("CN = \(merchant.prefix(64))\n"), "\(result)")
            }
        }
    }

    @Test("Throws the signer's error, and discards a signature that does not verify")
    func failures() async throws {
        let failure = WorkerFailure(.keyNotFound, "gone")
        await #expect(throws: failure) {
            try await request("merchant") { _ throws(WorkerFailure) in throw failure }
        }
        let bytes: [UInt8] = [1, 2, 3]
        let foreign = try Array(P256.Signing.PrivateKey().signature(for: bytes).derRepresentation)
        for signature in [foreign, [], bytes] {
            let error = await #expect(throws: WorkerFailure.self) {
                try await request("merchant") { _ throws(WorkerFailure) in signature }
            }
            #expect(error?.kind == .protocolViolation)
        }
    }

    @Test("Makes no request for bytes that are not a public key")
    func noKey() async {
        let error = await #expect(throws: WorkerFailure.self) {
            try await CertificateRequest(subjectPublicKeyInfo: [0x30, 0], merchantIdentifier: "m") { _ in [] }
        }
        #expect(error?.kind == .protocolViolation)
    }
}
