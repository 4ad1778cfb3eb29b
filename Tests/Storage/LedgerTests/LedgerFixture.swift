import AuditChain
import Dispatch
import Foundation
import GRDB
import KeyTypes
import Locks
import MerchantKeys
import PaymentToken
import PostgreSQLClient
import TestSupport

@testable import Ledger
@testable import PostgreSQLLedger
@testable import SQLiteLedger

/// A ledger for one test, with one active key, in the current storage engine.
final class LedgerFixture: Sendable {
    /// The location of the ledger.
    enum Store: Sendable {
        case sqlite(SQLiteLedger.Settings)
        case postgresql(LedgerDatabase, PostgreSQLLedger.Settings)
    }

    let directory: FreshDirectory
    let store: Store
    let ledger: any TestedLedger
    let key: PublicKeyHash
    let events = LedgerEvents()
    /// A proxy to PostgreSQL, for a ledger that loses acknowledgements.
    private let proxy: PostgreSQLProxy?
    private let commits = CommitFaults()

    static let noon = Date(timeIntervalSince1970: 1_800_000_000)

    /// - Parameters:
    ///   - isFaulty: true if ``breakCommits()`` and ``loseAcknowledgement()`` are to be called.
    ///   - path: SQLite's file; nil for one in a fresh directory.
    init(
        repeatFor: Duration = .seconds(3600), busyTimeout: Duration = .milliseconds(200), isFaulty: Bool = false,
        waiting: Int = 1024, at path: String? = nil,
        timeout: Duration = .seconds(3600), engine: StorageEngine = .current
    ) async throws {
        directory = try FreshDirectory()
        switch engine {
        case .sqlite:
            proxy = nil
            store = .sqlite(
                SQLiteLedger.Settings(
                    path: path ?? directory.path("ledger.sqlite"), node: "node-1", repeatFor: repeatFor,
                    busyTimeout: busyTimeout, waiting: waiting, timeout: timeout))
        case .postgresql:
            let database = try await LedgerDatabases.shared.make()
            proxy = isFaulty ? try await PostgreSQLProxy(to: database.server) : nil
            let url = try proxy.map { try PostgreSQLURL($0.url(database.name, user: LedgerDatabases.daemon)) }
            var settings = PostgreSQLLedger.Settings(
                url: try url ?? database.url(), node: "node-1", repeatFor: repeatFor, waiting: waiting, timeout: timeout
            )
            settings.lockTimeout = busyTimeout
            // A renewal of the lease would be an additional batch, which these tests do not expect.
            settings.lease = .seconds(3600)
            store = .postgresql(database, settings)
        }
        let events = events
        ledger = try await Self.open(store) { events.add($0) }
        key = Self.hash(1)
        if isFaulty, let ledger = ledger as? SQLiteLedger { try await commits.install(on: ledger.writer.connection) }
        try await ledger.store(Self.record(key))
    }

    /// Opens the same ledger again, as a later process would.
    func reopened() async throws -> any TestedLedger { try await Self.open(store) }

    private static func open(
        _ store: Store, observe: @escaping @Sendable (LedgerEvent) -> Void = { _ in }
    ) async throws -> any TestedLedger {
        switch store {
        case .sqlite(let settings): try await SQLiteLedger.open(settings, observe: observe)
        case .postgresql(_, let settings): try await PostgreSQLLedger.open(settings, observe: observe)
        }
    }

    /// Makes every commit fail until ``repairCommits()``.
    func breakCommits() async throws {
        guard case .postgresql(let database, _) = store else {
            commits.isBroken = true
            return
        }
        // Each batch updates the node's row, so a trigger on that row can make every commit fail.
        try await database.sql(
            """
            CREATE FUNCTION break_commit() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'broken'; END $$;
            CREATE TRIGGER break_commit BEFORE UPDATE ON node FOR EACH ROW EXECUTE FUNCTION break_commit()
            """)
    }

    func repairCommits() async throws {
        guard case .postgresql(let database, _) = store else {
            commits.isBroken = false
            return
        }
        try await database.sql("DROP TRIGGER break_commit ON node; DROP FUNCTION break_commit()")
    }

    /// Makes the next commit succeed but loses its acknowledgement.
    func loseAcknowledgement() {
        if let proxy { proxy.fault = .loseAcknowledgement(then: .none) } else { commits.loseNext() }
    }

    /// The number of lost acknowledgements.
    var lostAcknowledgements: Int { proxy?.cuts ?? commits.lost }

    /// SQLite's engine, for tests of this engine only.
    var sqlite: SQLiteLedger {
        guard let ledger = ledger as? SQLiteLedger else { preconditionFailure("this is a test of SQLite") }
        return ledger
    }

    /// SQLite's settings, for tests of this engine only.
    var settings: SQLiteLedger.Settings {
        guard case .sqlite(let settings) = store else { preconditionFailure("this is a test of SQLite") }
        return settings
    }

    static func hash(_ number: UInt8) -> PublicKeyHash {
        PublicKeyHash.of(subjectPublicKeyInfo: [0x30, number])
    }

    static func record(
        _ hash: PublicKeyHash, state: KeyState = .active, cutOff: Date? = nil,
        merchant: String = "merchant.com.example", algorithm: KeyAlgorithm = .ec, use: KeyUse = .processing
    ) -> KeyRecord {
        KeyRecord(
            publicKeyHash: hash, merchantIdentifier: merchant, algorithm: algorithm, use: use, state: state,
            cutOff: cutOff,
            createdAt: noon, origin: .imported)
    }

    /// Returns a request to release transaction `number`, by default with a reference.
    func request(
        _ number: Int, caller: String = "checkout", reference: UInt8? = 7, content: UInt8 = 9,
        key: PublicKeyHash? = nil, named: NamedAttempt? = nil,
        at time: Date = LedgerFixture.noon
    ) throws -> Release {
        var bytes = [UInt8](repeating: 0, count: 32)
        (bytes[0], bytes[1], bytes[2]) = (UInt8(number >> 16 & 0xff), UInt8(number >> 8 & 0xff), UInt8(number & 0xff))
        guard let transaction = TransactionIdentifier(bytes: bytes) else { throw Broken() }
        return Release(
            transactionId: transaction, publicKeyHash: key ?? self.key, caller: caller,
            referenceDigest: reference.map { [UInt8](repeating: $0, count: 32) },
            contentDigest: [UInt8](repeating: content, count: 32), named: named, at: time)
    }

    struct Broken: Error {}
}

/// The events that the ledger's writer has reported.
final class LedgerEvents: Sendable {
    private let events = Mutex<[LedgerEvent]>([])

    func add(_ event: LedgerEvent) { events.withLock { $0.append(event) } }

    var all: [LedgerEvent] { events.withLock { $0 } }

    /// The number of writes in each acknowledged commit, the oldest commit first.
    var committed: [Int] {
        events.withLock { events in
            events.compactMap { event in if case .committed(let writes, _) = event { writes } else { nil } }
        }
    }

    /// The sequence of the last record, as reported by the writer.
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
    /// Releases without an audit record.
    func release(_ release: Release) async throws(LedgerFailure) -> ReleaseVerdict {
        try await self.release(release, recording: nil).verdict
    }

    /// Adds a key, or changes the state of a known key.
    /// - Returns: the audit record's sequence, if a record is requested.
    @discardableResult
    func store(_ keyRecord: KeyRecord, recording auditRecord: AuditRecord? = nil) async throws(LedgerFailure) -> Int? {
        let records = auditRecord.map { [$0] } ?? []
        return try await apply(AdministrativeChange(at: Date(), key: keyRecord, records: records)).first
    }
}

/// A pause of the ledger's writer. Writes that are requested during the pause share a batch.
final class WriterPause: Sendable {
    private let ledger: any TestedLedger
    private let release = DispatchSemaphore(value: 0)

    /// Starts the pause. Returns when the writer has finished all earlier work and waits.
    init(_ ledger: any TestedLedger) async {
        self.ledger = ledger
        let release = release
        await withCheckedContinuation { (begun: CheckedContinuation<Void, Never>) in
            ledger.onWriter {
                begun.resume()
                release.wait()
            }
        }
    }

    /// Waits until this many writes are queued.
    func wait(for writes: Int) async throws {
        try await TestSupport.wait(for: "\(writes) waiting writes") { self.ledger.waitingWrites >= writes }
    }

    func end() { release.signal() }
}

extension LedgerFixture {
    /// Runs all operations as one batch, and returns their answers in the same order.
    func inOneBatch<Answer: Sendable>(
        _ operations: [@Sendable (any TestedLedger) async throws -> Answer]
    ) async throws -> [Result<Answer, any Error>] {
        let pause = await WriterPause(ledger)
        return try await withThrowingTaskGroup(of: (Int, Result<Answer, any Error>).self) { group in
            for (position, operation) in operations.enumerated() {
                let ledger = ledger
                group.addTask {
                    do {
                        return (position, .success(try await operation(ledger)))
                    } catch {
                        return (position, .failure(error))
                    }
                }
                // Start them in sequence, so that they are queued in this order.
                try await pause.wait(for: position + 1)
            }
            pause.end()
            var answers: [Int: Result<Answer, any Error>] = [:]
            for try await (position, answer) in group { answers[position] = answer }
            return operations.indices.compactMap { answers[$0] }
        }
    }

    /// Returns the audit record that the daemon writes for a release.
    static func record(of release: Release, at time: AuditTime = AuditTime(noon)) -> AuditRecord {
        AuditRecord(
            time: time, event: .decrypt(reference: release.referenceDigest.flatMap { AuditDigest(bytes: $0) }),
            caller: AuditCaller(name: AuditText(release.caller), uid: 1001, gid: 1002),
            merchant: AuditText("merchant.com.example"), publicKeyHash: AuditDigest(bytes: release.publicKeyHash.bytes),
            transactionId: AuditDigest(bytes: release.transactionId.bytes), protection: .c,
            hsmToken: AuditText("primary"))
    }

    /// An operation that releases and records the release.
    func releasing(
        _ number: Int, caller: String = "checkout", reference: UInt8? = 7
    ) throws -> @Sendable (any TestedLedger) async throws -> RecordedVerdict {
        let request = try request(number, caller: caller, reference: reference)
        return { try await $0.release(request, recording: Self.record(of: request)) }
    }
}

extension SQLiteConnections {
    /// Runs `body` on the writing connection, outside the commit queue.
    func write<T: Sendable>(_ body: @escaping @Sendable (Database) throws -> T) async throws -> T {
        try await writer.writeWithoutTransaction(body)
    }
}

/// The faults that a test gives to the commits of a SQLite ledger.
private final class CommitFaults: Sendable {
    private struct Broken: Error {}

    private let state = Mutex((isBroken: false, losesNext: false, lost: 0))

    var isBroken: Bool {
        get { state.withLock { $0.isBroken } }
        set { state.withLock { $0.isBroken = newValue } }
    }

    var lost: Int { state.withLock { $0.lost } }

    func loseNext() { state.withLock { $0.losesNext = true } }

    func install(on connection: DatabaseQueue) async throws {
        try await SQLiteFaults(
            beforeCommit: { [self] in if isBroken { throw Broken() } },
            losesAcknowledgement: { [self] in
                state.withLock { state in
                    defer { state.losesNext = false }
                    if state.losesNext { state.lost += 1 }
                    return state.losesNext
                }
            }
        ).install(on: connection)
    }
}
