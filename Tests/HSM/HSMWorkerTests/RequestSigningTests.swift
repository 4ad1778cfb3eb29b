import Foundation
import KeyTypes
import MerchantKeys
import TestSupport
import Testing
import TokenForge
import WorkerProtocol

/// PKCS#10 requests that a key in the HSM token signs.
@Suite struct RequestSigningTests {
    private static let merchant = "merchant.com.example.requested"

    private static var kinds: [(TokenKind, KeyAlgorithm)] {
        TokenKind.installed.flatMap { kind in [KeyAlgorithm.ec, .rsa].map { (kind, $0) } }
    }

    private func request(
        for key: KeyDescription, signedBy worker: WorkerUnderTest
    ) async throws -> CertificateRequest {
        try await CertificateRequest(
            subjectPublicKeyInfo: key.subjectPublicKeyInfo, merchantIdentifier: Self.merchant
        ) { information throws(WorkerFailure) in
            try await worker.signature(of: information, by: key.identifier)
        }
    }

    @Test(
        "signs a request that openssl verifies, and stores the certificate issued for it with the key",
        arguments: kinds)
    func wholeWay(_ kind: TokenKind, _ algorithm: KeyAlgorithm) async throws {
        let hsmToken = try await kind.fresh()
        let worker = try await WorkerUnderTest.serving(hsmToken)
        let key = try await worker.generate(algorithm, for: Self.merchant)
        let request = try await request(for: key, signedBy: worker)

        let files = try FreshDirectory()
        try files.write(request.pem, to: "request.pem")
        let read = try await Program.run(
            Program.installed("openssl"),
            ["req", "-in", files.path("request.pem"), "-verify", "-noout", "-subject", "-text"])
        #expect(read.status == 0, "\(read)")
        #expect(read.error.contains("verify OK"), "\(read)")
        #expect(read.output.contains("CN = \(Self.merchant)"))
        #expect(
            read.output.contains(
                algorithm == .ec
                    ? "Signature Algorithm: ecdsa-with-SHA256" : "Signature Algorithm: sha256WithRSAEncryption"))
        #expect(read.output.contains(algorithm == .ec ? "ASN1 OID: prime256v1" : "Public-Key: (2048 bit)"))

        let certificate = try SharedForge.authority.merchantCertificate(
            certificateSigningRequest: request.der,
            profile: MerchantCertificateProfile(merchantIdentifier: Self.merchant))
        let stored = try await worker.call(
            .importCertificate(
                CertificateToStore(
                    publicKeyHash: key.identifier, merchantIdentifier: Self.merchant, certificate: certificate)))
        #expect(stored == .done)
        #expect(try await worker.keys().first?.certificates == [certificate])
    }

    @Test(
        "signs the request of an imported key, so that its certificate can be renewed", arguments: TokenKind.installed
    )
    func imported(_ kind: TokenKind) async throws {
        let hsmToken = try await kind.fresh()
        let worker = try WorkerUnderTest(hsmToken)
        let description = try await worker.open(hsmToken)
        for merchant in [try SharedForge.ecMerchant, try SharedForge.rsaMerchant] {
            try await worker.mustImport(merchant, description)
            let keys = try await worker.keys()
            let key = try #require(keys.first { $0.identifier == merchant.merchant.publicKeyHash })
            #expect(try await request(for: key, signedBy: worker).der.count > 200)
        }
    }

    /// Returns the first DER element in the bytes, both with and without its header.
    private func element(_ bytes: ArraySlice<UInt8>) -> (whole: [UInt8], content: ArraySlice<UInt8>) {
        let start = bytes.startIndex
        var header = 2
        var count = Int(bytes[start + 1])
        if count >= 0x80 {
            header += count & 0x7F
            count = bytes[(start + 2)..<(start + header)].reduce(0) { $0 << 8 | Int($1) }
        }
        let end = start + header + count
        return (Array(bytes[start..<end]), bytes[(start + header)..<end])
    }

    @Test("refuses to sign anything except a certificate request for the same key")
    func otherBytes() async throws {
        let hsmToken = try await TokenDirectory()
        let worker = try await WorkerUnderTest.serving(hsmToken)
        let (key, other) = (
            try await worker.generate(.ec, for: Self.merchant), try await worker.generate(.rsa, for: Self.merchant)
        )
        let der = try await request(for: key, signedBy: worker).der
        let information = element(element(der[...]).content).whole
        guard case .requestSignature = try await worker.sign(information, by: key) else {
            Issue.record("the request itself was not signed")
            return
        }
        // The body of a certificate for the same key. If the worker signed it, a forger would have a certificate.
        let certificate = try SharedForge.authority.merchantCertificate(
            subjectPublicKeyInfo: key.subjectPublicKeyInfo, profile: .init(merchantIdentifier: Self.merchant))
        var laterVersion = information
        // The request begins with a SEQUENCE header and the version, INTEGER 0.
        let version = try #require(
            information.indices.dropLast(2).first { Array(information[$0...($0 + 2)]) == [2, 1, 0] })
        laterVersion[version + 2] = 1
        let wrong: [(String, [UInt8])] = [
            ("nothing", []), ("text", Array("sign this".utf8)), ("a digest", Array(repeating: 7, count: 32)),
            ("a certificate's body", element(element(certificate[...]).content).whole), ("a whole request", der),
            ("another version", laterVersion), ("a byte more", information + [0]),
            ("a byte less", Array(information.dropLast())), ("an empty SEQUENCE", [0x30, 0]),
            ("the public key alone", key.subjectPublicKeyInfo),
        ]
        for (name, bytes) in wrong {
            #expect(try await worker.sign(bytes, by: key).failureKind == .importRefused, "\(name)")
        }
        #expect(try await worker.sign(information, by: other).failureKind == .importRefused)
        let unknown = RequestSigning(publicKeyHash: Array(repeating: 1, count: 32), information: information)
        #expect(try await worker.call(.signRequest(unknown)).failureKind == .keyNotFound)
        #expect(try await worker.call(.probe) == .done)
    }
}

extension WorkerUnderTest {
    fileprivate func sign(_ information: [UInt8], by key: KeyDescription) async throws -> WorkerAnswer {
        try await call(.signRequest(RequestSigning(publicKeyHash: key.identifier, information: information)))
    }

    func signature(of information: [UInt8], by hash: [UInt8]) async throws(WorkerFailure) -> [UInt8] {
        let answer: WorkerAnswer
        do {
            answer = try await call(.signRequest(RequestSigning(publicKeyHash: hash, information: information)))
        } catch {
            throw WorkerFailure(.hsmTokenUnavailable, "\(error)")
        }
        switch answer {
        case .requestSignature(let signature): return signature
        case .failed(let failure): throw failure
        default: throw WorkerFailure(.protocolViolation, "\(answer)")
        }
    }
}
