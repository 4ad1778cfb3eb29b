import DaemonAPI
import PaymentToken
import Testing
import WorkerProtocol

@testable import Daemon

/// The key attributes in a response about a key, as each HSM token with a copy of the key reports them.
@Suite struct KeyAttributeReadingTests {
    private struct Source: KeyAttributeSource {
        var name = "primary"
        var isServing = true
        var openDescription: HSMTokenDescription?
        var answer: Result<[PrivateKeyAttributes], WorkerFailure>

        func attributes(of hash: PublicKeyHash) async throws(WorkerFailure) -> [PrivateKeyAttributes] {
            try answer.get()
        }
    }

    private static let hash = PublicKeyHash.of(subjectPublicKeyInfo: [1, 2, 3])

    /// The attributes of a P-256 key that an HSM token generated.
    private static let made = PrivateKeyAttributes(
        sensitive: true, extractable: false, alwaysSensitive: true, neverExtractable: true, local: true, token: true,
        private: true, modifiable: true, derive: true, decrypt: false, unwrap: false, sign: false, algorithm: .ec,
        bits: 256)

    private func answer(_ keys: PrivateKeyAttributes...) async -> [KeyAttributes] {
        await KeyAttributeReading([Source(answer: .success(keys))]).attributes(of: Self.hash, in: ["primary"])
    }

    @Test("reports no shortcoming of a key that the HSM token made and never exported")
    func keyMadeInHSMToken() async throws {
        let values = try #require(await answer(Self.made).first?.values)
        #expect(values.shortcomings.isEmpty)
        #expect(values.strength == "P-256" && values.uses == ["derive"])
        #expect(values.local == true && values.alwaysSensitive == true && values.neverExtractable == true)
    }

    @Test("reports that an imported key was outside before, which is no shortcoming")
    func importedKey() async throws {
        var key = Self.made
        (key.local, key.alwaysSensitive, key.neverExtractable) = (false, false, false)
        (key.algorithm, key.bits, key.derive, key.decrypt, key.unwrap) = (.rsa, 2048, false, true, true)
        let values = try #require(await answer(key).first?.values)
        #expect(values.shortcomings.isEmpty)
        #expect(values.local == false && values.alwaysSensitive == false && values.neverExtractable == false)
        #expect(values.strength == "RSA-2048" && values.uses == ["decrypt", "unwrap"])
    }

    /// Key attributes of which one has an unwanted value.
    struct Weakness: Sendable, CustomTestStringConvertible {
        /// The expected beginning of the sentence that reports the attribute. It is also the name of the test case.
        let testDescription: String
        let weaken: @Sendable (inout PrivateKeyAttributes) -> Void
    }

    private static let weaknesses = [
        Weakness(testDescription: "CKA_SENSITIVE is false") { $0.sensitive = false },
        Weakness(testDescription: "The HSM token does not report CKA_SENSITIVE") { $0.sensitive = nil },
        Weakness(testDescription: "CKA_EXTRACTABLE is true") { $0.extractable = true },
        Weakness(testDescription: "The HSM token does not report CKA_EXTRACTABLE") { $0.extractable = nil },
        Weakness(testDescription: "CKA_PRIVATE is false") { $0.private = false },
        Weakness(testDescription: "CKA_TOKEN is false") { $0.token = false },
        Weakness(testDescription: "CKA_ALWAYS_SENSITIVE is false") { $0.alwaysSensitive = false },
        Weakness(testDescription: "CKA_NEVER_EXTRACTABLE is false") { $0.neverExtractable = false },
    ]

    @Test("reports each unwanted attribute with its own sentence only", arguments: weaknesses)
    func unwantedAttributes(_ weakness: Weakness) async throws {
        var key = Self.made
        weakness.weaken(&key)
        let shortcomings = try #require(await answer(key).first?.values).shortcomings
        #expect(shortcomings.count == 1)
        #expect(shortcomings.allSatisfy { $0.hasPrefix(weakness.testDescription) }, "\(shortcomings)")
    }

    @Test("reports an HSM token that shows no such key, and lists each copy with an element and a sentence")
    func copiesOfKey() async throws {
        let none = await answer()
        #expect(none.map { $0.values?.shortcomings } == [["The HSM token shows no private key with this CKA_ID now."]])
        let two = await answer(Self.made, Self.made)
        #expect(two.count == 2)
        #expect(two.allSatisfy { $0.values?.shortcomings.first?.contains("2 private keys") == true })
    }

    @Test("asks only HSM tokens that show the key, in the configuration's order, and explains which ones are away")
    func asksShowingHSMTokens() async throws {
        let failure = WorkerFailure(.hsmTokenUnavailable, "C_FindObjects: CKR_DEVICE_REMOVED.")
        let reading = KeyAttributeReading([
            Source(name: "a", answer: .failure(failure)), Source(name: "b", answer: .success([Self.made])),
            Source(name: "c", isServing: false, answer: .success([Self.made])),
            Source(name: "d", answer: .success([Self.made])),
        ])
        let answer = await reading.attributes(of: Self.hash, in: ["d", "c", "a"])
        #expect(answer.map(\.token) == ["a", "c", "d"])
        #expect(answer.map { $0.values == nil } == [true, true, false])
        #expect(answer[0].message == failure.message && answer[1].message?.contains("not open") == true)
    }
}
