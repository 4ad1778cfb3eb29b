import Foundation
import MerchantKeys
import PaymentToken
import Synchronization
import TestSupport
import WorkerProtocol

@testable import Ledger

/// A ledger of a test's own, with one active key.
final class LedgerFixture: Sendable {
    let directory: FreshDirectory
    let settings: SQLiteLedger.Settings
    let ledger: SQLiteLedger
    let key: PublicKeyHash
    let events = LedgerEvents()

    static let noon = Date(timeIntervalSince1970: 1_800_000_000)

    init(
        repeatFor: Duration = .seconds(3600), busyTimeout: Duration = .milliseconds(200),
        faults: SQLiteFaults = SQLiteFaults(), waiting: Int = 1024, at path: String? = nil,
        timeout: Duration = .seconds(3600)
    ) async throws {
        directory = try FreshDirectory()
        settings = SQLiteLedger.Settings(
            path: path ?? directory.path("ledger.sqlite"), node: "node-1", repeatFor: repeatFor,
            busyTimeout: busyTimeout, waiting: waiting, timeout: timeout)
        let events = events
        ledger = try await SQLiteLedger.open(settings, faults: faults) { events.add($0) }
        key = Self.hash(1)
        try await ledger.record(Self.record(key))
    }

    static func hash(_ number: UInt8) -> PublicKeyHash {
        PublicKeyHash.of(subjectPublicKeyInfo: [0x30, number])
    }

    static func record(
        _ hash: PublicKeyHash, state: KeyState = .active, cutOff: Date? = nil,
        merchant: String = "merchant.com.example", algorithm: KeyAlgorithm = .ec
    ) -> KeyRecord {
        KeyRecord(
            publicKeyHash: hash, merchantIdentifier: merchant, algorithm: algorithm, state: state, cutOff: cutOff,
            createdAt: noon, origin: .imported)
    }

    /// A release of transaction `number`, by default with a reference.
    func request(
        _ number: Int, caller: String = "checkout", reference: UInt8? = 7, content: UInt8 = 9,
        key: PublicKeyHash? = nil,
        at time: Date = LedgerFixture.noon
    ) throws -> Release {
        var bytes = [UInt8](repeating: 0, count: 32)
        (bytes[0], bytes[1], bytes[2]) = (UInt8(number >> 16 & 0xff), UInt8(number >> 8 & 0xff), UInt8(number & 0xff))
        guard let transaction = TransactionIdentifier(bytes: bytes) else { throw Broken() }
        return Release(
            transactionId: transaction, publicKeyHash: key ?? self.key, caller: caller,
            referenceDigest: reference.map { [UInt8](repeating: $0, count: 32) },
            contentDigest: [UInt8](repeating: content, count: 32), at: time)
    }

    struct Broken: Error {}
}

/// What the writer told.
final class LedgerEvents: Sendable {
    private let events = Mutex<[LedgerEvent]>([])

    func add(_ event: LedgerEvent) { events.withLock { $0.append(event) } }

    /// How many writes each acknowledged commit had, the oldest first.
    var committed: [Int] {
        events.withLock { events in
            events.compactMap { event in if case .committed(let writes, _) = event { writes } else { nil } }
        }
    }

    /// How far the record reaches, as the writer has told.
    var recorded: Int {
        events.withLock { events in
            events.reduce(0) { end, event in if case .recorded(let sequence) = event { sequence } else { end } }
        }
    }

    var dropped: Int {
        events.withLock { events in
            events.reduce(0) { sum, event in if case .dropped(let notes) = event { sum + notes } else { sum } }
        }
    }
}

extension Ledger {
    /// Without a record.
    func release(_ release: Release) async throws(LedgerFailure) -> ReleaseVerdict {
        try await self.release(release, recording: nil).verdict
    }

    func record(_ key: KeyRecord) async throws(LedgerFailure) {
        try await record(key, recording: nil)
    }
}
