import Crypto
import TestSupport
import Testing
import TokenForge
import WorkerProtocol

@Suite struct DecryptionTests {
    /// A token with both merchants' keys.
    private func serving() async throws -> WorkerUnderTest {
        let token = try await TokenDirectory()
        let worker = try WorkerUnderTest(token)
        let description = try await worker.open(token)
        for merchant in [try SharedForge.ecMerchant, try SharedForge.rsaMerchant] {
            try await worker.mustImport(merchant, description)
        }
        return worker
    }

    private func ecPayment() throws -> EncryptedPayment {
        try EncryptedPayment(ec: SharedForge.ecMerchant.key.subjectPublicKeyInfo)
    }

    private func rsaPayment() throws -> EncryptedPayment {
        try EncryptedPayment(rsa: SharedForge.rsaMerchant.key.subjectPublicKeyInfo)
    }

    @Test("what was encrypted to a merchant comes out byte for byte, EC and RSA")
    func decrypts() async throws {
        let worker = try await serving()
        for payment in [try ecPayment(), try rsaPayment()] {
            #expect(try await worker.call(payment.request) == .plaintext(payment.plaintext, tier: .c))
        }
    }

    @Test("an empty plaintext is one too")
    func empty() async throws {
        let worker = try await serving()
        let payment = try EncryptedPayment(ec: SharedForge.ecMerchant.key.subjectPublicKeyInfo, plaintext: [])
        #expect(try await worker.call(payment.request) == .plaintext([], tier: .c))
    }

    @Test("pipelined calls are all answered, each with its own plaintext")
    func pipelined() async throws {
        let worker = try await serving()
        var expected: [UInt64: [UInt8]] = [:]
        for identifier in UInt64(1000)..<1060 {
            let payment = identifier % 6 == 0 ? try rsaPayment() : try ecPayment()
            expected[identifier] = payment.plaintext
            worker.send(try payment.request.encoded(identifier: identifier))
        }
        while !expected.isEmpty {
            let (identifier, answer) = try #require(try await worker.receive())
            let plaintext = try #require(expected[identifier])
            expected[identifier] = nil
            #expect(answer == .plaintext(plaintext, tier: .c))
        }
    }

    @Test("every fault that a stranger can cause has the same answer, and the worker goes on")
    func strangersFaults() async throws {
        let worker = try await serving()
        let good = try ecPayment()
        let goodRSA = try rsaPayment()
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
        #expect(try await worker.call(good.request) == .plaintext(good.plaintext, tier: .c))
        #expect(try await worker.call(goodRSA.request) == .plaintext(goodRSA.plaintext, tier: .c))
    }

    @Test("a publicKeyHash that the token does not have is keyNotFound")
    func unknownKey() async throws {
        let worker = try await serving()
        let stranger = try ForgeKey(generating: .p256)
        let payment = try EncryptedPayment(ec: stranger.subjectPublicKeyInfo)
        #expect(try await worker.call(payment.request).failureKind == .keyNotFound)
        let short = try ecPayment().addressed(to: [1, 2, 3])
        #expect(try await worker.call(short.request).failureKind == .keyNotFound)
    }

    @Test("another worker finds the keys that one imported")
    func persists() async throws {
        let token = try await TokenDirectory()
        let first = try WorkerUnderTest(token)
        try await first.mustImport(SharedForge.ecMerchant, first.open(token))
        #expect(try await first.end() == 0)
        let second = try WorkerUnderTest(token)
        try await second.open(token)
        #expect(try await second.keys().count == 1)
        let payment = try ecPayment()
        #expect(try await second.call(payment.request) == .plaintext(payment.plaintext, tier: .c))
    }
}

extension EncryptedPayment {
    fileprivate func addressed(to publicKeyHash: [UInt8]) -> EncryptedPayment {
        var copy = self
        copy.publicKeyHash = publicKeyHash
        return copy
    }
}
