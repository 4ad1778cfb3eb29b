import TestSupport
import Testing
import WorkerProtocol

/// Indistinguishable failures: wrong RSA padding, a wrong tag and a wrapped key of the wrong size. For each of them the
/// worker makes the same calls in the same order, regardless of the values that the HSM token returns.
@Suite struct EqualFailuresTests {
    /// A method of restoring RSA_v1's key, and the HSM token's return values for wrong padding and for a wrong tag.
    struct Behaviour: CustomTestStringConvertible, Sendable {
        enum Tier: String, CaseIterable, Sendable {
            case unwrapped = "C_UnwrapKey"
            case oaep = "C_Decrypt by OAEP"
            case bare = "CKM_RSA_X_509"
        }

        let tier: Tier
        let padding: String
        let tag: String

        var testDescription: String { "\(tier.rawValue), padding \(padding), tag \(tag)" }

        static var all: [Behaviour] {
            let values = ["0x5", "0x6", "0x30", "0x40", "0x41"]
            var behaviours = [Behaviour(tier: .bare, padding: "none", tag: "none")]
            guard NSSTokenDirectory.isInstalled else { return behaviours }
            for value in values {
                behaviours += ["0x5", "0x40"].map { Behaviour(tier: .unwrapped, padding: value, tag: $0) }
                behaviours.append(Behaviour(tier: .oaep, padding: value, tag: "none"))
            }
            return behaviours
        }

        func hsmToken() async throws -> ScriptedToken {
            switch tier {
            case .unwrapped:
                try ScriptedToken(
                    try await NSSTokenDirectory(), "error C_UnwrapKey \(padding)", "error C_Decrypt \(tag)")
            case .oaep:
                try ScriptedToken(
                    try await NSSTokenDirectory(), "fault C_UnwrapKey always return=0x54", "error C_Decrypt \(padding)")
            case .bare: try ScriptedToken(try await TokenDirectory())
            }
        }

        var call: String { tier == .unwrapped ? "C_UnwrapKey" : "C_Decrypt" }
    }

    /// Sends a request, and returns the answer and the calls to the HSM token that the request caused.
    private func calls(
        _ payment: EncryptedPayment, _ worker: WorkerUnderTest, _ hsmToken: ScriptedToken
    ) async throws -> (answer: WorkerAnswer, calls: [ScriptedToken.Call]) {
        let before = hsmToken.calls().count
        let answer = try await worker.call(payment.request)
        return (answer, Array(hsmToken.calls().dropFirst(before)))
    }

    @Test(
        "makes the same calls in the same order for wrong padding, a wrong tag and a wrong key size",
        arguments: Behaviour.all)
    func sameCalls(_ behaviour: Behaviour) async throws {
        let hsmToken = try await behaviour.hsmToken()
        let worker = try WorkerUnderTest(hsmToken)
        let description = try await worker.open(hsmToken, sessions: 1)
        #expect(description.tierRSAv1 == (behaviour.tier == .unwrapped ? .a : .c))
        try await worker.mustImport(SharedForge.rsaMerchant, description)
        let key = try SharedForge.rsaMerchant.key.subjectPublicKeyInfo

        // The first decryption also creates the objects that the session keeps.
        var good: [[String]] = []
        func open() async throws {
            let payment = try EncryptedPayment(rsa: key)
            let (answer, calls) = try await calls(payment, worker, hsmToken)
            #expect(answer == .plaintext(payment.plaintext, tier: description.tierRSAv1 ?? .c))
            good.append(calls.map(\.function))
        }
        try await open()
        try await open()

        var failures: [(name: String, calls: [ScriptedToken.Call])] = []
        for _ in 0..<2 {
            var (padding, tag) = (try EncryptedPayment(rsa: key), try EncryptedPayment(rsa: key))
            padding.keyMaterial[100] ^= 1
            tag.ciphertext[tag.ciphertext.count - 1] ^= 1
            for (name, payment) in [
                ("padding", padding), ("tag", tag), ("SHA-1", try EncryptedPayment(rsa: key, sha1: true)),
                ("32 bytes", try EncryptedPayment(rsa: key, keyByteCount: 32)),
            ] {
                let (answer, calls) = try await calls(payment, worker, hsmToken)
                #expect(answer.failureKind == .decryptionFailed, "\(name): \(answer)")
                failures.append((name, calls))
            }
        }
        let first = failures[0].calls
        #expect(first.contains { $0.function == behaviour.call })
        for (name, calls) in failures.dropFirst() {
            #expect(calls.map(\.function) == first.map(\.function), "\(name)")
            // Each kind of failure has the same number of successful and failed calls of each function. The amount of
            // work is therefore equal too.
            if behaviour.tier == .unwrapped {
                let outcomes = [calls, first].map { $0.map { "\($0.function) \($0.value == 0)" }.sorted() }
                #expect(outcomes[0] == outcomes[1], "\(name)")
            }
        }
        // The failures leave no trace: a valid payment causes the same calls as before.
        try await open()
        #expect(good.last == good[1])
        #expect(try await worker.end() == 0)
    }
}
