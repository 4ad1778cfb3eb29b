import AuditChain
import DaemonAPI
import Foundation
import Ledger
import Locks
import Logging
import NIOCore
import NIOPosix
import PaymentToken
import SQLiteLedger
import ServerProgram
import TestSupport
import Testing
import WorkerProtocol

@testable import Daemon
@testable import DaemonConfiguration
@testable import HTTPListener
@testable import UsageRecording

/// The audit record's routes on a listener, for the peers that an access policy admits.
struct RecordServiceFixture {
    let record: RecordRoutesFixture
    let trail: CountingTrail
    let policies: CurrentPolicies
    let instruments = Instruments()
    let router: DaemonRouter
    let listener: Listener

    var socket: String { record.directory.path("a.sock") }
    var client: UnixSocketClient { UnixSocketClient(path: socket) }

    static func policies(_ roles: Set<Role>, uid: UInt32 = getuid()) -> Policies {
        Policies(
            access: AccessPolicy(rules: [AccessRule(name: "tester", user: .init(name: "tester", id: uid), roles: roles)]
            ),
            trust: TrustPolicy(roots: [], distrusted: []), roots: [], distrusted: 0, signingTimeWindow: .off)
    }

    init(roles: Set<Role> = [.audit, .admin], idle: TimeAmount = .seconds(60)) async throws {
        record = try await RecordRoutesFixture()
        trail = CountingTrail(record.ledger)
        policies = CurrentPolicies(Self.policies(roles))
        let logger = ListenerFixture.quiet
        router = Router(
            routes: RouteTable.audit(
                AuditRoutes(
                    trail: trail, nodes: record.ledger, reads: record.reads, checkpoints: record.seals,
                    headAge: record.headAge),
                record.administration),
            rules: DaemonRules(
                policies: policies,
                recorder: UsageRecorder(
                    ledger: record.ledger, tally: RefusalTally(clock: .system), faults: FaultLog(logger: logger),
                    clock: .system)),
            log: RequestLog(requests: instruments.requests, seconds: instruments.requestSeconds, logger: logger))
        var settings = ListenerFixture.settings(in: record.directory)
        settings.adminMode = 0o600
        listener = try await Listener.start(
            settings.sockets(
                handler: router, instruments: instruments, logger: logger, requestLimits: .init(idle: idle)),
            group: MultiThreadedEventLoopGroup.singleton, logger: logger)
    }

    /// Runs `body`, and then shuts the listener down, even if `body` throws.
    func use(_ body: (RecordServiceFixture) async throws -> Void) async throws {
        do {
            try await body(self)
            await listener.shutdown(grace: .seconds(5))
        } catch {
            await listener.shutdown(grace: .zero)
            throw error
        }
    }

    func get(_ target: String) async throws -> ClientAnswer { try await client.send(.get(target)) }
}

/// Forwards the routes' reads to the ledger, and counts them.
final class CountingTrail: AuditTrail {
    private let ledger: SQLiteLedger
    private let pages = Mutex(0)

    init(_ ledger: SQLiteLedger) {
        self.ledger = ledger
    }

    /// The number of pages of lines that the routes have read from the chain.
    var pagesRead: Int { pages.withLock { $0 } }

    func append(_ record: AuditRecord) async throws(LedgerFailure) -> Int { try await ledger.append(record) }
    func note(_ record: AuditRecord) { ledger.note(record) }
    func head() async throws(LedgerFailure) -> ChainHead { try await ledger.head() }
    func lastArchive() async throws(LedgerFailure) -> RecordArchive? { try await ledger.lastArchive() }
    func records(
        _ filter: AuditFilter, order: AuditOrder, after cursor: Int?, limit: Int
    ) async throws(LedgerFailure) -> AuditPage {
        try await ledger.records(filter, order: order, after: cursor, limit: limit)
    }
    func extent(since: AuditTime?, until: AuditTime?) async throws(LedgerFailure) -> ClosedRange<Int>? {
        try await ledger.extent(since: since, until: until)
    }
    func lines(_ sequences: ClosedRange<Int>, limit: Int) async throws(LedgerFailure) -> [StoredLine] {
        pages.withLock { $0 += 1 }
        return try await ledger.lines(sequences, limit: limit)
    }
    func insert(_ checkpoint: SignedCheckpoint) async throws(LedgerFailure) { try await ledger.insert(checkpoint) }
    func latestCheckpoint(below limit: Int?) async throws(LedgerFailure) -> SignedCheckpoint? {
        try await ledger.latestCheckpoint(below: limit)
    }
    func firstCheckpoint(from sequence: Int) async throws(LedgerFailure) -> SignedCheckpoint? {
        try await ledger.firstCheckpoint(from: sequence)
    }
    func checkpoints(after sequence: Int, limit: Int) async throws(LedgerFailure) -> [SignedCheckpoint] {
        try await ledger.checkpoints(after: sequence, limit: limit)
    }
}
