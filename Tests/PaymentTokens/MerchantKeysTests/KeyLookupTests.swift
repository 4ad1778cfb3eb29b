import Foundation
import PaymentToken
import Testing
import WorkerProtocol

@testable import MerchantKeys

@Suite("Key lookups and use counts")
struct KeyLookupTests {
    private let now = Date(timeIntervalSince1970: 1_800_000_000)

    @Test("Finds a key by base64, by hex in either case, and by a unique prefix")
    func names() throws {
        let (index, hashes) = keys(50)
        let hash = hashes[17]
        #expect(try index.find(hash.base64).publicKeyHash == hash)
        #expect(try index.find(hash.hex).publicKeyHash == hash)
        #expect(try index.find(hash.hex.uppercased()).publicKeyHash == hash)
        #expect(try index.find(String(hash.hex.prefix(8))).publicKeyHash == hash)
        #expect(try index.find(String(hash.hex.prefix(9))).publicKeyHash == hash)
        #expect(try index.find(String(hash.hex.prefix(63))).publicKeyHash == hash)
    }

    @Test("Reads 44 characters as base64 and never as a hex prefix")
    func fortyFour() throws {
        let (index, hashes) = keys(3)
        #expect(failure { () throws(KeyLookupError) in try index.find(String(hashes[0].hex.prefix(44))) } == .notBase64)
    }

    @Test(
        "Finds no key for a short prefix, an unknown hash or an invalid name",
        arguments: [
            "", "0123456", "ffffffffffffffff", "not hexadecimal", "zzzzzzzz", "💳💳💳💳💳💳💳💳",
            String(repeating: "0", count: 65), "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=",
            "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA", String(repeating: "é", count: 22),
        ])
    func notFound(name: String) {
        let (index, _) = keys(3)
        let found = failure { () throws(KeyLookupError) in try index.find(name) }
        #expect(found != nil, "it names a key")
    }

    @Test("Refuses a prefix that two keys share, and states their number")
    func ambiguous() throws {
        let first = try #require(PublicKeyHash(hex: String(repeating: "ab", count: 31) + "01"))
        let second = try #require(PublicKeyHash(hex: String(repeating: "ab", count: 31) + "02"))
        let index = KeyIndex()
        index.rebuild(hsmTokens: [], keyRecords: [record(first), record(second)], now: now)
        #expect(failure { () throws(KeyLookupError) in try index.find("abababab") } == .ambiguous(count: 2))
        #expect(try index.find(second.hex).publicKeyHash == second)
    }

    @Test("Counts each key's uses with the time of the latest, and keeps both across a rebuild")
    func uses() {
        let (index, hashes) = keys(2)
        #expect(index.uses(hashes[0]) == (0, nil))
        index.countUse(hashes[0], at: now)
        index.countUse(hashes[0], at: now + 10)
        index.countUse(hashes[0], at: now + 5)
        index.rebuild(hsmTokens: [], keyRecords: hashes.map(record), now: now)
        #expect(index.uses(hashes[0]) == (3, now + 10))
        #expect(index.uses(hashes[1]) == (0, nil))
    }

    @Test("Finds a key among 10,000 in less than fifty times the time among 10")
    func tenThousand() {
        let (index, hashes) = keys(10_000)
        let (few, fewHashes) = keys(10)
        #expect(index.entries.count == 10_000)
        /// Returns the time of 10,000 lookups in `index`.
        func time(_ index: KeyIndex, _ hashes: [PublicKeyHash], times: Int) -> Duration {
            var found = 0
            let time = ContinuousClock().measure {
                for _ in 0..<times { for hash in hashes where index.entry(hash)?.publicKeyHash == hash { found += 1 } }
            }
            #expect(found == 10_000)
            return time
        }
        // Measures the two indexes alternately, and compares the shortest times, because other load lengthens some.
        let pairs = (0..<7).map { _ in (time(index, hashes, times: 1), time(few, fewHashes, times: 1000)) }
        let (many, alone) = (pairs.map(\.0).min() ?? .zero, pairs.map(\.1).min() ?? .zero)
        // A linear search would compare a thousand times as often.
        #expect(many < alone * 50, "\(many) among 10,000, \(alone) among 10")
        #expect(index.entry(PublicKeyHash.of(subjectPublicKeyInfo: [1, 2, 3])) == nil)
    }

    @Test("Shows a reader during a rebuild either the old keys or the new ones")
    func rebuildUnderReaders() async {
        let (index, hashes) = keys(200)
        await withTaskGroup(of: Int.self) { group in
            for _ in 0..<4 {
                group.addTask { (0..<200).filter { _ in index.entries.count != 200 }.count }
            }
            group.addTask {
                for _ in 0..<20 { index.rebuild(hsmTokens: [], keyRecords: hashes.map(record), now: now) }
                return 0
            }
            for await partial in group { #expect(partial == 0) }
        }
    }

    private func keys(_ count: Int) -> (KeyIndex, [PublicKeyHash]) {
        let descriptions = (0..<count).map { number in
            let info = Array("public key \(number)".utf8)
            return KeyDescription(
                identifier: PublicKeyHash.of(subjectPublicKeyInfo: info).bytes, label: "m", algorithm: .ec,
                subjectPublicKeyInfo: info, certificates: [], isProtected: true, inconsistency: nil)
        }
        let hashes = descriptions.map { PublicKeyHash.of(subjectPublicKeyInfo: $0.subjectPublicKeyInfo) }
        let index = KeyIndex()
        index.rebuild(hsmTokens: [("primary", descriptions)], keyRecords: hashes.map(record), now: now)
        return (index, hashes)
    }

    private func record(_ hash: PublicKeyHash) -> KeyRecord {
        KeyRecord(
            publicKeyHash: hash, merchantIdentifier: "merchant.com.example", algorithm: .ec, state: .active,
            createdAt: now, origin: .imported)
    }

    private func failure(_ body: () throws(KeyLookupError) -> KeyEntry) -> KeyLookupError? {
        do throws(KeyLookupError) {
            _ = try body()
            return nil
        } catch {
            return error
        }
    }
}
