import Crypto
import TestSupport
import Testing
import TokenForge
import WorkerProtocol

@Suite struct DecryptionTests {
    /// Starts a worker with an HSM token that has both merchants' keys.
    private func serving(_ kind: TokenKind = .softHSM) async throws -> WorkerUnderTest {
        try await .withMerchantKeys(try await kind.fresh())
    }

    @Test(
        "decrypts exactly the bytes that were encrypted to a merchant, with EC and RSA",
        arguments: TokenKind.installed)
    func decrypts(_ kind: TokenKind) async throws {
        let worker = try await serving(kind)
        for payment in [try EncryptedPayment.ec(), try EncryptedPayment.rsa()] {
            let answer = try await worker.call(payment.request)
            #expect(answer == .plaintext(payment.plaintext, tier: kind.tier(of: payment)))
        }
    }

    @Test("decrypts an empty plaintext", arguments: TokenKind.installed)
    func empty(_ kind: TokenKind) async throws {
        let worker = try await serving(kind)
        for payment in [
            try EncryptedPayment(ec: SharedForge.ecMerchant.key.subjectPublicKeyInfo, plaintext: []),
            try EncryptedPayment(rsa: SharedForge.rsaMerchant.key.subjectPublicKeyInfo, plaintext: []),
        ] {
            #expect(try await worker.call(payment.request) == .plaintext([], tier: kind.tier(of: payment)))
        }
    }

    @Test("returns to each pipelined call the plaintext of that call", arguments: TokenKind.installed)
    func pipelined(_ kind: TokenKind) async throws {
        let worker = try await serving(kind)
        var expected: [UInt64: EncryptedPayment] = [:]
        for identifier in UInt64(1000)..<1060 {
            let payment = identifier % 6 == 0 ? try EncryptedPayment.rsa() : try EncryptedPayment.ec()
            expected[identifier] = payment
            worker.send(try payment.request.encoded(identifier: identifier))
        }
        while !expected.isEmpty {
            let (identifier, answer) = try #require(try await worker.receive())
            let payment = try #require(expected[identifier])
            expected[identifier] = nil
            #expect(answer == .plaintext(payment.plaintext, tier: kind.tier(of: payment)))
        }
    }

    @Test(
        "returns the same failure for every fault that an untrusted caller can cause, and continues to serve",
        arguments: TokenKind.installed)
    func callersFaults(_ kind: TokenKind) async throws {
        let worker = try await serving(kind)
        let good = try EncryptedPayment.ec()
        let goodRSA = try EncryptedPayment.rsa()
        let rsaKey = try SharedForge.rsaMerchant.key.subjectPublicKeyInfo

        var faults: [(name: String, payment: EncryptedPayment)] = []
        func add(_ name: String, _ payment: EncryptedPayment, _ change: (inout EncryptedPayment) -> Void) {
            var changed = payment
            change(&changed)
            faults.append((name, changed))
        }
        for (version, payment) in [("EC", good), ("RSA", goodRSA)] {
            add("\(version): wrong tag", payment) { $0.ciphertext[$0.ciphertext.count - 1] ^= 1 }
            add("\(version): shorter than a tag", payment) { $0.ciphertext = Array($0.ciphertext.suffix(15)) }
            add("\(version): no ciphertext", payment) { $0.ciphertext = [] }
            add("\(version): no key material", payment) { $0.keyMaterial = [] }
        }
        add("point off the curve", good) { $0.keyMaterial[64] ^= 1 }
        add("compressed point", good) { $0.keyMaterial = [2 + ($0.keyMaterial[64] & 1)] + $0.keyMaterial[1..<33] }
        add("point at infinity", good) { $0.keyMaterial = [0] }
        add("zeros", good) { $0.keyMaterial = [4] + Array(repeating: 0, count: 64) }
        add("another's point", good) {
            $0.keyMaterial = Array(P256.KeyAgreement.PrivateKey().publicKey.x963Representation)
        }
        add("another OtherInfo", good) { $0.otherInfo[30] ^= 1 }
        add("wrapped key changed", goodRSA) { $0.keyMaterial[100] ^= 1 }
        add("wrapped key shorter", goodRSA) { $0.keyMaterial.removeLast() }
        add("wrapped key above the modulus", goodRSA) { $0.keyMaterial = Array(repeating: 0xFF, count: 256) }
        add("wrapped key zero", goodRSA) { $0.keyMaterial = Array(repeating: 0, count: 256) }
        faults.append(("OAEP with SHA-1", try EncryptedPayment(rsa: rsaKey, sha1: true)))
        faults.append(("a key of 32 bytes", try EncryptedPayment(rsa: rsaKey, keyByteCount: 32)))
        add("EC data for an RSA key", good) { $0 = $0.addressed(to: goodRSA.publicKeyHash) }
        add("RSA data for an EC key", goodRSA) { $0 = $0.addressed(to: good.publicKeyHash) }

        var answers: Set<String> = []
        for (name, payment) in faults {
            let answer = try await worker.call(payment.request)
            #expect(answer.failureKind == .decryptionFailed, "\(name): \(answer)")
            answers.insert("\(answer)")
        }
        #expect(answers.count == 1)
        for payment in [good, goodRSA] {
            let answer = try await worker.call(payment.request)
            #expect(answer == .plaintext(payment.plaintext, tier: kind.tier(of: payment)))
        }
    }

    @Test("fails with keyNotFound for a publicKeyHash that the HSM token does not have")
    func unknownKey() async throws {
        let worker = try await serving()
        let otherKey = try ForgeKey(generating: .p256)
        let payment = try EncryptedPayment(ec: otherKey.subjectPublicKeyInfo)
        #expect(try await worker.call(payment.request).failureKind == .keyNotFound)
        let short = try EncryptedPayment.ec().addressed(to: [1, 2, 3])
        #expect(try await worker.call(short.request).failureKind == .keyNotFound)
    }

    @Test("uses the keys that another worker imported", arguments: TokenKind.installed)
    func persists(_ kind: TokenKind) async throws {
        let hsmToken = try await kind.fresh()
        let first = try WorkerUnderTest(hsmToken)
        let description = try await first.open(hsmToken)
        try await first.mustImport(SharedForge.ecMerchant, description)
        try await first.mustImport(SharedForge.rsaMerchant, description)
        #expect(try await first.end() == 0)
        let second = try WorkerUnderTest(hsmToken)
        try await second.open(hsmToken)
        #expect(try await second.keys().count == 2)
        for payment in [try EncryptedPayment.ec(), try EncryptedPayment.rsa()] {
            let answer = try await second.call(payment.request)
            #expect(answer == .plaintext(payment.plaintext, tier: kind.tier(of: payment)))
        }
    }
}

extension EncryptedPayment {
    fileprivate func addressed(to publicKeyHash: [UInt8]) -> EncryptedPayment {
        var copy = self
        copy.publicKeyHash = publicKeyHash
        return copy
    }
}
