import Crypto
import CryptoExtras
import Foundation
import StrictJSON
import TestSupport
import Testing
import TokenForge

/// Merchant identity keys with the real programs. A key has one permanent use, and an identity key signs only TLS
/// handshakes.
@Suite(.everyEngine) struct IdentityKeyTests {
    private static let started = OncePerLedger { try await DaemonHarness() }

    private static let authority = Result {
        let directory = try FreshDirectory()
        try SharedForge.authority.write(to: directory.url)
        return directory
    }

    /// Returns the bytes that a TLS 1.3 client signs for its CertificateVerify (RFC 8446 §4.4.3), for a transcript
    /// hash.
    private static func content(
        _ hash: [UInt8] = Array(SHA256.hash(data: [1])), context: String = "TLS 1.3, client CertificateVerify"
    ) -> [UInt8] {
        [UInt8](repeating: 0x20, count: 64) + Array(context.utf8) + [0] + hash
    }

    private func object(_ result: ProgramResult) throws -> JSONObject {
        try #require(result.status == 0, "\(result)")
        return try #require(try JSONValue(parsing: result.outputBytes).objectValue)
    }

    /// Generates an identity key, has it certified as Apple's portal would, and imports the certificate.
    /// Returns the publicKeyHash in base64, and the certificate in DER.
    private func identity(
        of merchant: String, _ harness: DaemonHarness, imports: Bool = true
    ) async throws -> (hash: String, certificate: [UInt8]) {
        let files = try FreshDirectory()
        let key = try object(
            try await harness.paytokenctl([
                "key", "generate", "--merchant-identifier", merchant, "--use", "identity", "--output", "json",
            ]))
        #expect(key["use"]?.stringValue == "identity" && key["algorithm"]?.stringValue == "RSA")
        let hash = try #require(key["publicKeyHash"]?.stringValue)
        try await certify(hash, merchant, files, harness)
        let certificate = Array(try Data(contentsOf: URL(filePath: files.path("identity.cer"))))
        guard imports else { return (hash, certificate) }
        let imported = try object(
            try await harness.paytokenctl(["certificate", "import", files.path("identity.cer"), "--output", "json"]))
        #expect(imported["state"]?.stringValue == "active" && imported["tier"]?.isNull == true)
        return (hash, certificate)
    }

    private func certify(
        _ hash: String, _ merchant: String, _ files: FreshDirectory, _ harness: DaemonHarness,
        kind: String = "merchant-identity"
    ) async throws {
        let request = files.path("identity.csr")
        let made = try await harness.paytokenctl(["csr", "create", hash, "--out", request])
        try #require(made.status == 0, "\(made)")
        let certified = try await Program.run(
            Program.built("token-forge"),
            [
                "certify", Self.authority.get().path, "--csr", request, "--merchant-identifier", merchant, "--out",
                files.path("identity.cer"), "--kind", kind,
            ])
        try #require(certified.status == 0, "\(certified)")
    }

    private func sign(
        _ input: [UInt8], _ hash: String, _ harness: DaemonHarness, algorithm: String = "rsa_pss_rsae_sha256"
    ) async throws -> CurlAnswer {
        let body =
            #"{"publicKeyHash":"\#(hash)","algorithm":"\#(algorithm)","input":"\#(Data(input).base64EncodedString())","reference":"s-1"}"#
        return try await Curl.request("/v1/tls-signatures", socket: harness.socket, body: Array(body.utf8))
    }

    private func identities(_ merchant: String, _ harness: DaemonHarness) async throws -> [JSONValue] {
        let answer = try await Curl.request(
            "/v1/tls-identities?merchantIdentifier=\(merchant)", socket: harness.socket)
        try #require(answer.status == 200, "\(answer)")
        return try #require(answer.member("items")?.arrayValue)
    }

    @Test("makes a key, certifies it, and makes a valid signature that is recorded before the answer")
    func signsHandshake() async throws {
        let harness = try await Self.started.value
        let merchant = "merchant.com.example.identity.signs"
        let (hash, certificate) = try await identity(of: merchant, harness)
        let listed = try await identities(merchant, harness)
        #expect(listed.count == 1 && listed.first?.string("publicKeyHash") == hash, "\(listed)")
        #expect(
            listed.first?.objectValue?["certificateChain"]
                == .array([.string(Data(certificate).base64EncodedString())]))
        #expect(
            listed.first?.objectValue?["algorithms"]
                == .array([.string("rsa_pss_rsae_sha256"), .string("rsa_pkcs1_sha256")]))

        let input = Self.content()
        let answer = try await sign(input, hash, harness)
        #expect(answer.status == 200, "\(answer)")
        let signature = try #require(answer.string("signature").flatMap { Data(base64Encoded: $0) })
        let publicKey = try _RSA.Signing.PublicKey(
            derRepresentation: Merchant(certificate: certificate).subjectPublicKeyInfo)
        #expect(
            publicKey.isValidSignature(
                _RSA.Signing.RSASignature(rawRepresentation: signature), for: SHA256.hash(data: input), padding: .PSS))

        let record = try await harness.paytokenctl(["audit", "list", "--key", hash, "--output", "json"])
        let records = try (JSONValue(parsing: record.outputBytes).arrayValue ?? [])
        let mine = try #require(records.first { $0.string("event") == "tls_signature" }?.objectValue)
        #expect(mine["sequence"] == answer.member("audit")?.objectValue?["sequence"])
        #expect(mine["merchant"]?.stringValue == merchant && mine["outcome"]?.stringValue == "ok")
        #expect(
            mine["inputSha256"]?.stringValue
                == SHA256.hash(data: input).map { String(format: "%02x", $0) }.joined())
        let shown = try object(try await harness.paytokenctl(["key", "show", hash, "--output", "json"]))
        #expect(shown["uses"]?.numberValue?.int == 1)
    }

    @Test("refuses to sign anything except a TLS client's handshake")
    func otherInputs() async throws {
        let harness = try await Self.started.value
        let (hash, certificate) = try await identity(of: "merchant.com.example.identity.inputs", harness)
        let others: [[UInt8]] = [
            Self.content(context: "TLS 1.3, server CertificateVerify"), Self.content([1, 2, 3]),
            Self.content() + [0], certificate, Array("a document".utf8),
            Array(#"{"node":"backend-1","sequence":1}"#.utf8), Array(SHA256.hash(data: [1])),
            [1, 0, 0, 0], [UInt8](repeating: 0x20, count: 40_000),
        ]
        for other in others {
            let answer = try await sign(other, hash, harness)
            #expect(answer.status == 400 && answer.code == "malformed_request", "\(other.prefix(8)): \(answer)")
        }
        // TLS 1.3 does not permit PKCS #1 signatures (RFC 8446 §4.2.3).
        let padded = try await sign(Self.content(), hash, harness, algorithm: "rsa_pkcs1_sha256")
        #expect(padded.code == "malformed_request", "\(padded)")
        let unknown = try await sign(Self.content(), hash, harness, algorithm: "ecdsa_secp256r1_sha256")
        #expect(unknown.code == "malformed_request", "\(unknown)")
        let none = try await sign(Self.content(), Data(count: 32).base64EncodedString(), harness)
        #expect(none.status == 422 && none.code == "unknown_public_key_hash", "\(none)")
    }

    @Test("refuses to sign a handshake with a processing key, and to decrypt with an identity key")
    func oneUse() async throws {
        let harness = try await DaemonHarness(merchants: [SharedForge.rsaMerchant])
        let processing = Data(try SharedForge.rsaMerchant.merchant.publicKeyHash).base64EncodedString()
        let refused = try await sign(Self.content(), processing, harness)
        #expect(refused.status == 422 && refused.code == "key_not_active", "\(refused)")
        let merchant = "merchant.com.example.identity.one"
        let (hash, certificate) = try await identity(of: merchant, harness)
        // The payment token is encrypted to the identity key, as if the certificates had been confused.
        let paymentToken = try SharedForge.paymentToken(for: Merchant(certificate: certificate))
        let answer = try await harness.decrypt(paymentToken)
        #expect(answer.status == 422 && answer.code == "key_not_active", "\(answer)")
        #expect(answer.string("message")?.contains("use is identity") == true, "\(answer)")

        // The command refuses a payment processing certificate for an identity key.
        let files = try FreshDirectory()
        try await certify(hash, merchant, files, harness, kind: "payment-processing")
        let other = try await harness.paytokenctl(["certificate", "import", files.path("identity.cer")])
        #expect(other.status == 1 && other.error.hasPrefix("certificate_unsuitable"), "\(other)")
    }

    @Test("does not list or use a suspended identity key, uses it after a resume, and retires it without a cut-off")
    func keyStates() async throws {
        let harness = try await Self.started.value
        let merchant = "merchant.com.example.identity.states"
        let (hash, _) = try await identity(of: merchant, harness)
        func change(_ verb: String, _ more: [String] = []) async throws -> ProgramResult {
            try await harness.paytokenctl(["key", verb, hash, "--reason", "test"] + more)
        }
        #expect(try await change("suspend").status == 0)
        #expect(try await identities(merchant, harness).isEmpty)
        #expect(try await sign(Self.content(), hash, harness).code == "key_not_active")
        #expect(try await change("resume").status == 0)
        #expect(try await sign(Self.content(), hash, harness).status == 200)
        let late = try await change("retire", ["--cut-off", "1d"])
        #expect(late.status == 1 && late.error.contains("without a cut-off"), "\(late)")
        #expect(try await change("retire").status == 0)
        #expect(try await sign(Self.content(), hash, harness).code == "key_not_active")
        #expect(try await change("destroy").status == 0)
        #expect(try await sign(Self.content(), hash, harness).code == "key_not_active")
    }

    @Test("serves and counts both keys of a rotation, lists the newest first, and refuses a fourth active key")
    func rotation() async throws {
        let harness = try await Self.started.value
        let merchant = "merchant.com.example.identity.rotation"
        let (old, _) = try await identity(of: merchant, harness)
        #expect(try await sign(Self.content(), old, harness).status == 200)
        let files = try FreshDirectory()
        let started = try object(
            try await harness.paytokenctl([
                "rotate", "start", merchant, "--use", "identity", "--output", "json", "--out",
                files.path("identity.csr"),
            ]))
        let rotation = try #require(started["rotation"]?.objectValue)
        #expect(rotation["use"]?.stringValue == "identity" && rotation["phase"]?.stringValue == "certificate")
        let new = try #require(rotation["newKey"]?.string("publicKeyHash"))
        let certified = try FreshDirectory()
        try await certify(new, merchant, certified, harness)
        let imported = try await harness.paytokenctl(["rotate", "import", certified.path("identity.cer")])
        #expect(imported.status == 0, "\(imported)")
        #expect(Set(try await identities(merchant, harness).compactMap { $0.string("publicKeyHash") }) == [old, new])
        let early = try await harness.paytokenctl(["rotate", "finish", merchant, "--use", "identity"])
        #expect(early.status == 1 && early.error.contains("signature"), "\(early)")
        #expect(try await sign(Self.content(), new, harness).status == 200)
        let finished = try await harness.paytokenctl(["rotate", "finish", merchant, "--use", "identity", "--force"])
        #expect(finished.status == 0, "\(finished)")
        #expect(try await identities(merchant, harness).compactMap { $0.string("publicKeyHash") } == [new])

        _ = try await identity(of: merchant, harness)
        _ = try await identity(of: merchant, harness)
        let (fourth, certificate) = try await identity(of: merchant, harness, imports: false)
        try files.write(certificate, to: "fourth.cer")
        let refused = try await harness.paytokenctl(["certificate", "import", files.path("fourth.cer")])
        #expect(refused.status == 1 && refused.error.contains("invalid_state: The merchant has 3"), "\(refused)")
        #expect(try await sign(Self.content(), fourth, harness).code == "key_not_active")
    }

    @Test("signs only for callers with the role session, and only for their merchants")
    func access() async throws {
        var configuration = DaemonConfiguration()
        configuration.access = ["{ name: shop, user: root, roles: [decrypt, admin, audit] }"]
        let harness = try await DaemonHarness(configuration)
        let merchant = "merchant.com.example.identity.access"
        let (hash, _) = try await identity(of: merchant, harness)
        for answer in [
            try await sign(Self.content(), hash, harness),
            try await Curl.request("/v1/tls-identities?merchantIdentifier=\(merchant)", socket: harness.socket),
        ] {
            #expect(answer.status == 403 && answer.code == "forbidden", "\(answer)")
        }
        configuration.access = [
            "{ name: shop, user: root, roles: [session, monitor], merchants: [\"merchant.com.other\"] }"
        ]
        try harness.configure(configuration)
        try harness.daemon.signal(SIGHUP)
        try await wait(for: "the new rules") {
            let answer = try await Curl.request(
                "/v1/tls-identities?merchantIdentifier=merchant.com.other", socket: harness.socket)
            return answer.status == 200
        }
        for answer in [
            try await sign(Self.content(), hash, harness),
            try await Curl.request("/v1/tls-identities?merchantIdentifier=\(merchant)", socket: harness.socket),
        ] {
            #expect(answer.status == 403 && answer.code == "forbidden", "\(answer)")
        }
        // The role session does not permit decryption.
        let decrypted = try await harness.decrypt(SharedForge.paymentToken(for: SharedForge.ecMerchant.merchant))
        #expect(decrypted.code == "forbidden", "\(decrypted)")
    }

    @Test("derives the use of an imported key from the kind of its certificate")
    func useOfImportedKey() async throws {
        let harness = try await Self.started.value
        let merchant = try ForgedMerchant(
            authority: SharedForge.authority, type: .rsa2048,
            profile: MerchantCertificateProfile(
                merchantIdentifier: "merchant.com.example.identity.imported", kind: .merchantIdentity))
        let imported = try await harness.importMerchant(merchant)
        #expect(imported.status == 0, "\(imported)")
        let hash = Data(merchant.merchant.publicKeyHash).base64EncodedString()
        #expect(try await sign(Self.content(), hash, harness).status == 200)
        #expect(try await harness.decrypt(SharedForge.paymentToken(for: merchant.merchant)).code == "key_not_active")
    }
}
