import Crypto
import Foundation
import TestSupport
import Testing
import TokenForge
import WorkerProtocol

/// The key that signs audit checkpoints, in the real worker process.
@Suite struct AuditKeyTests {
    private let identifier = (0..<16).map { UInt8(0xA0 + $0) }
    private let checkpoint = Array(
        #"{"node":"backend-1","sequence":7,"hash":"00","time":"2026-01-31T12:00:00Z","keyId":"11"}"#.utf8)

    @Test(
        "makes a key with the planned identifier, lists it, and returns the same key on a repeated request",
        arguments: TokenKind.installed)
    func made(_ kind: TokenKind) async throws {
        let hsmToken = try await kind.fresh()
        let worker = try await WorkerUnderTest.serving(hsmToken)
        #expect(try await worker.auditKeys().isEmpty)
        let key = try await worker.createAuditKey(identifier)
        #expect(key.identifier == identifier)
        _ = try P256.Signing.PublicKey(x963Representation: key.publicKey)
        #expect(try await worker.createAuditKey(identifier) == key)
        #expect(try await worker.auditKeys() == [key])
        let later = try await WorkerUnderTest.serving(hsmToken)
        #expect(try await later.createAuditKey(identifier) == key)
        let other = try await later.createAuditKey(identifier.reversed())
        #expect(other.publicKey != key.publicKey)
        let both = Set(try await later.auditKeys().map(\.publicKey))
        #expect(both == [key.publicKey, other.publicKey])
    }

    @Test(
        "signs an audit checkpoint with ECDSA and SHA-256 in DER, even in a later worker",
        arguments: TokenKind.installed)
    func signs(_ kind: TokenKind) async throws {
        let hsmToken = try await kind.fresh()
        let worker = try await WorkerUnderTest.serving(hsmToken)
        let point = try await worker.createAuditKey(identifier).publicKey
        let key = try P256.Signing.PublicKey(x963Representation: point)
        for worker in [worker, try await .serving(hsmToken)] {
            for _ in 0..<3 {
                guard case .signature(let der) = try await worker.sign(checkpoint, identifier) else {
                    Issue.record("not signed")
                    return
                }
                let signature = try P256.Signing.ECDSASignature(derRepresentation: der)
                #expect(key.isValidSignature(signature, for: SHA256.hash(data: checkpoint)))
            }
        }
    }

    @Test(
        "refuses to sign anything except an audit checkpoint",
        arguments: [
            "", "{", "{}", #"{"node":"#, #"{"checkpoint":{"node":"a"}}"#, #" {"node":"a"}"#, #"{"Node":"a"}"#,
            #"{"node":"a"}\#n"#, #"{"node":"a"} trailing"#, #"{"node":1}"#, "{\"node\":\"a\u{0}\"}",
            "{\"node\":\"\u{E4}\"}", "hello",
        ])
    func otherMessages(_ message: String) async throws {
        let hsmToken = try await TokenDirectory()
        let worker = try await WorkerUnderTest.serving(hsmToken)
        _ = try await worker.createAuditKey(identifier)
        let answer = try await worker.sign(Array(message.utf8), identifier)
        #expect(answer.failureKind == .auditRefused, "\(answer)")
        #expect(try await worker.call(.probe) == .done)
    }

    @Test("refuses to sign without an audit key, and refuses an identifier of the wrong size")
    func unknown() async throws {
        let worker = try await WorkerUnderTest.serving(try await TokenDirectory())
        #expect(try await worker.sign(checkpoint, identifier).failureKind == .keyNotFound)
        for size in [0, 1, 15] {
            let short = Array(identifier.prefix(size))
            #expect(try await worker.sign(checkpoint, short).failureKind == .auditRefused)
            #expect(try await worker.call(.createAuditKey(identifier: short)).failureKind == .auditRefused)
        }
        #expect(try await worker.auditKeys().isEmpty)
    }

    @Test("makes a key that other tools show as signing only, always sensitive and never extractable")
    func attributesSeenByOthers() async throws {
        let hsmToken = try await TokenDirectory()
        _ = try await WorkerUnderTest.serving(hsmToken).createAuditKey(identifier)
        let listing = try await hsmToken.tool(["--list-objects", "--type", "privkey"]).output
        func line(_ name: String) -> String {
            let found = listing.split(separator: "\n").filter { $0.contains("\(name):") }
            return found.map { $0.split(separator: ":")[1].trimmingCharacters(in: .whitespaces) }.joined(separator: "|")
        }
        #expect(line("label") == "paytokend audit")
        #expect(line("ID") == identifier.hexadecimal)
        #expect(line("Usage") == "sign")
        #expect(line("Access") == "sensitive, always sensitive, never extractable, local")
    }

    @Test("does not list the audit key as a merchant key, and does not decrypt with it", arguments: TokenKind.installed)
    func noMerchantKey(_ kind: TokenKind) async throws {
        let hsmToken = try await kind.fresh()
        let worker = try await WorkerUnderTest.serving(hsmToken)
        let point = try await worker.createAuditKey(identifier).publicKey
        #expect(try await worker.keys().isEmpty)
        let publicKey = try P256.KeyAgreement.PublicKey(x963Representation: point)
        let payment = try EncryptedPayment(ec: Array(publicKey.derRepresentation))
        #expect(try await worker.call(payment.request).failureKind == .keyNotFound)
    }

    @Test("lists an audit key that was disguised as a merchant key by its rights, and does not decrypt with it")
    func disguised() async throws {
        let hsmToken = try await TokenDirectory()
        let point = try await WorkerUnderTest.serving(hsmToken).createAuditKey(identifier).publicKey
        let publicKey = try P256.KeyAgreement.PublicKey(x963Representation: point)
        let payment = try EncryptedPayment(ec: Array(publicKey.derRepresentation))
        for type in ["privkey", "pubkey"] {
            let changed = try await hsmToken.tool([
                "--set-id", payment.publicKeyHash.hexadecimal, "--type", type, "--id", identifier.hexadecimal,
            ])
            try #require(changed.status == 0, "\(changed)")
        }
        let worker = try await WorkerUnderTest.serving(hsmToken)
        let keys = try await worker.keys()
        #expect(keys.map(\.identifier) == [payment.publicKeyHash])
        #expect(keys.first?.use == .service, "\(keys)")
        #expect(try await worker.call(payment.request).failureKind == .keyNotFound)
    }

    @Test("replaces the public key left by an interrupted generation with a new key pair")
    func interrupted() async throws {
        let hsmToken = try await TokenDirectory()
        let first = try await WorkerUnderTest.serving(hsmToken).createAuditKey(identifier)
        let removed = try await hsmToken.tool(["--delete-object", "--type", "privkey", "--id", identifier.hexadecimal])
        try #require(removed.status == 0, "\(removed)")
        let worker = try await WorkerUnderTest.serving(hsmToken)
        #expect(try await worker.auditKeys().isEmpty)
        let second = try await worker.createAuditKey(identifier)
        #expect(second.publicKey != first.publicKey)
        #expect(try await worker.auditKeys() == [second])
        let listing = try await hsmToken.tool(["--list-objects", "--type", "pubkey"]).output
        #expect(listing.components(separatedBy: "Public Key Object").count == 2)
    }

    @Test("does not use or replace a private key whose public key was removed, and explains why")
    func withoutPublicKey() async throws {
        let hsmToken = try await TokenDirectory()
        _ = try await WorkerUnderTest.serving(hsmToken).createAuditKey(identifier)
        let removed = try await hsmToken.tool(["--delete-object", "--type", "pubkey", "--id", identifier.hexadecimal])
        try #require(removed.status == 0, "\(removed)")
        let worker = try await WorkerUnderTest.serving(hsmToken)
        #expect(try await worker.auditKeys().isEmpty)
        for answer in [
            try await worker.sign(checkpoint, identifier),
            try await worker.call(.createAuditKey(identifier: identifier)),
        ] {
            #expect(answer.failureKind == .auditRefused)
            #expect(answer.failureMessage.contains("public key"), "\(answer)")
        }
    }

    @Test("detects a replaced public key at the first signature")
    func replacedPublicKey() async throws {
        let hsmToken = try await TokenDirectory()
        _ = try await WorkerUnderTest.serving(hsmToken).createAuditKey(identifier)
        let otherKey = P256.Signing.PrivateKey().publicKey
        let file = hsmToken.directory.path("other.der")
        try Data(otherKey.derRepresentation).write(to: URL(fileURLWithPath: file))
        for arguments in [
            ["--delete-object", "--type", "pubkey", "--id", identifier.hexadecimal],
            [
                "--write-object", file, "--type", "pubkey", "--id", identifier.hexadecimal, "--label",
                "paytokend audit",
            ],
        ] {
            let result = try await hsmToken.tool(arguments)
            try #require(result.status == 0, "\(result)")
        }
        let worker = try await WorkerUnderTest.serving(hsmToken)
        #expect(try await worker.auditKeys().map(\.publicKey) == [Array(otherKey.x963Representation)])
        let answer = try await worker.sign(checkpoint, identifier)
        #expect(answer.failureKind == .auditRefused)
        #expect(answer.failureMessage.contains("does not verify"), "\(answer)")
    }

    @Test("does not use a key with the audit key's name that may do more than sign")
    func tooPowerful() async throws {
        let hsmToken = try await TokenDirectory()
        let made = try await hsmToken.tool([
            "--keypairgen", "--key-type", "EC:prime256v1", "--id", identifier.hexadecimal, "--label", "paytokend audit",
            "--usage-sign", "--usage-derive",
        ])
        try #require(made.status == 0, "\(made)")
        let worker = try await WorkerUnderTest.serving(hsmToken)
        for answer in [
            try await worker.sign(checkpoint, identifier),
            try await worker.call(.createAuditKey(identifier: identifier)),
        ] {
            #expect(answer.failureKind == .auditRefused)
            #expect(answer.failureMessage.contains("other uses"), "\(answer)")
        }
    }

    @Test(
        "leaves either no key or one that the next request returns if the worker is killed while it makes the key",
        arguments: 0..<10)
    func killedWhileMaking(_ round: Int) async throws {
        let hsmToken = try await TokenDirectory()
        let first = try await WorkerUnderTest.serving(hsmToken)
        first.send(try WorkerRequest.createAuditKey(identifier: identifier).encoded(identifier: 99))
        try await Task.sleep(for: .microseconds(round * 250))
        kill(first.processIdentifier, SIGKILL)
        _ = try await first.end()
        let worker = try await WorkerUnderTest.serving(hsmToken)
        let key = try await worker.createAuditKey(identifier)
        #expect(try await worker.auditKeys() == [key])
        guard case .signature = try await worker.sign(checkpoint, identifier) else {
            Issue.record("the key does not sign")
            return
        }
        // The label must occur twice, for the private and the public key. SoftHSM may keep an empty object without a
        // label.
        let listing = try await hsmToken.tool(["--list-objects"]).output
        #expect(listing.components(separatedBy: "label:      paytokend audit\n").count == 3, "\(listing)")
    }
}
