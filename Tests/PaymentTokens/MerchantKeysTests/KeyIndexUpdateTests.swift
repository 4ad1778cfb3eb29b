import Foundation
import PaymentToken
import TestSupport
import Testing
import TokenForge
import WorkerProtocol

@testable import MerchantKeys

@Suite("Key index, updated one key at a time")
struct KeyIndexUpdateTests {
    private let now = Date()

    @Test("Has the same content after single updates as after a rebuild", arguments: [1, 2, 3])
    func sameAsWhole(seed: Int) throws {
        var random = Steps(state: UInt64(seed))
        let pairs = try (0..<12).map { try Self.pair($0) }
        let index = KeyIndex()
        index.rebuild(hsmTokens: [("a", []), ("b", [])], keyRecords: [], now: now)
        var shown: [String: [PublicKeyHash: KeyDescription]] = ["a": [:], "b": [:]]
        var keyRecords: [PublicKeyHash: KeyRecord] = [:]
        for _ in 0..<200 {
            let (key, record) = try #require(pairs.randomElement(using: &random))
            let hash = record.publicKeyHash
            let hsmToken = Bool.random(using: &random) ? "a" : "b"
            var hsmTokens: [(name: String, keys: [KeyDescription])] = []
            switch Int.random(in: 0..<4, using: &random) {
            case 0:
                shown[hsmToken]?[hash] = nil
                hsmTokens = [(hsmToken, [])]
            case 1:
                var key = key
                if Bool.random(using: &random) { key.inconsistency = "The pair failed its test." }
                shown[hsmToken]?[hash] = key
                hsmTokens = [(hsmToken, [key])]
            case 2:
                var record = record
                record.state = try #require(KeyState.allCases.randomElement(using: &random))
                keyRecords[hash] = record
            default:
                hsmTokens = []
            }
            index.update(hash, hsmTokens: hsmTokens, keyRecord: keyRecords[hash], now: now)
        }
        let whole = KeyIndex()
        // A key that was listed once stays in the index, so the compared index must list every key once too.
        whole.rebuild(
            hsmTokens: [
                (
                    "a",
                    index.entries.compactMap { entry in pairs.first { $0.1.publicKeyHash == entry.publicKeyHash }?.0 }
                )
            ],
            keyRecords: [], now: now)
        let known = keyRecords.values.sorted { $0.publicKeyHash.hex < $1.publicKeyHash.hex }
        whole.rebuild(
            hsmTokens: ["a", "b"].map { ($0, Array((shown[$0] ?? [:]).values)) }, keyRecords: known, now: now)
        #expect(index.entries.map(\.publicKeyHash) == whole.entries.map(\.publicKeyHash))
        for entry in whole.entries {
            let other = try #require(index.entry(entry.publicKeyHash))
            #expect(other.condition == entry.condition)
            #expect(other.state == entry.state)
            #expect(other.hsmTokens == entry.hsmTokens)
            #expect(other.warnings == entry.warnings)
            #expect(index.entries.first { $0.publicKeyHash == entry.publicKeyHash } == other)
        }
        #expect(index.warnings == whole.warnings)
    }

    @Test("Lists a removed key as missing, and adds no key that never existed")
    func gone() throws {
        let (key, record) = try Self.pair(1)
        let index = KeyIndex()
        index.update(record.publicKeyHash, hsmTokens: [("a", [])], keyRecord: nil, now: now)
        #expect(index.entries.isEmpty)
        index.update(record.publicKeyHash, hsmTokens: [("a", [key])], keyRecord: nil, now: now)
        #expect(index.entry(record.publicKeyHash)?.condition == .external)
        index.update(record.publicKeyHash, hsmTokens: [("a", [])], keyRecord: nil, now: now)
        #expect(index.entry(record.publicKeyHash)?.condition == .missing)
    }

    @Test("Does not confuse a key with another one that has its CKA_ID")
    func other() throws {
        let (key, record) = try Self.pair(1)
        var other = try Self.pair(2).0
        other.identifier = key.identifier
        let index = KeyIndex()
        index.update(record.publicKeyHash, hsmTokens: [("a", [other])], keyRecord: record, now: now)
        #expect(index.entry(record.publicKeyHash)?.condition == .missing)
        #expect(index.entries.count == 1)
    }

    @Test("Lists the keys after any hash, or after a prefix of one")
    func after() throws {
        let pairs = try (0..<9).map { try Self.pair($0) }
        let index = KeyIndex()
        index.rebuild(hsmTokens: [("a", pairs.map(\.0))], keyRecords: [], now: now)
        let hashes = index.entries.map(\.publicKeyHash.hex)
        #expect(hashes == hashes.sorted())
        for (number, hash) in hashes.enumerated() {
            #expect(index.entries(after: hash).map(\.publicKeyHash.hex) == Array(hashes[(number + 1)...]))
            #expect(index.entries(after: String(hash.prefix(20))).first?.publicKeyHash.hex == hash)
        }
        #expect(index.entries(after: "").count == 9)
        #expect(index.entries(after: "g").isEmpty)
    }

    /// SplitMix64, which gives the same values for the same seed.
    private struct Steps: RandomNumberGenerator {
        var state: UInt64

        mutating func next() -> UInt64 {
            state &+= 0x9E37_79B9_7F4A_7C15
            var mixed = state
            mixed = (mixed ^ (mixed >> 30)) &* 0xBF58_476D_1CE4_E5B9
            mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
            return mixed ^ (mixed >> 31)
        }
    }

    /// A key and its record. The public key's bytes are not a real key, because the index only hashes them.
    private static func pair(_ number: Int) throws -> (KeyDescription, KeyRecord) {
        let information = [UInt8](repeating: UInt8(number), count: 91)
        let hash = PublicKeyHash.of(subjectPublicKeyInfo: information)
        let key = KeyDescription(
            identifier: hash.bytes, label: "m", algorithm: .ec, subjectPublicKeyInfo: information, certificates: [],
            isProtected: true, inconsistency: nil)
        let record = KeyRecord(
            publicKeyHash: hash, merchantIdentifier: "merchant.com.example.\(number)", algorithm: .ec, state: .active,
            createdAt: Date(timeIntervalSince1970: 0), origin: .imported)
        return (key, record)
    }
}
