import AccessControl
import AuditChain
import Crypto
import Foundation
import Ledger
import Locks
import Refusals
import SQLiteLedger
import ServerProgram
import Telemetry
import TestSupport
import Testing

@testable import Daemon
@testable import DaemonConfiguration
@testable import HTTPListener
@testable import UsageRecording

/// The audit record's routes with a ledger in a fresh directory, sealed by a key in software.
struct RecordRoutesFixture {
    let directory: FreshDirectory
    let path: String
    let ledger: SQLiteLedger
    let seals: SoftwareSeals
    let reads: LedgerReads
    let headAge: Stopwatch
    /// The clock that ``headAge`` reads.
    let clock = HandClock()
    let restores = RecordedRestores()
    let clocks = RecordedClocks()

    static let noon = Date(timeIntervalSince1970: 1_800_000_000)
    static let auditor = Caller(
        rule: AccessRule(name: "auditor", user: .init(name: "auditor", id: 1007), roles: [.audit, .admin]),
        peer: PeerCredentials(uid: 1007, gid: 1007))

    init() async throws {
        directory = try FreshDirectory()
        path = directory.path("ledger.sqlite")
        ledger = try await SQLiteLedger.open(SQLiteLedger.Settings(path: path, node: "node-1"))
        seals = SoftwareSeals(ledger: ledger)
        reads = LedgerReads(ledger: ledger)
        headAge = Stopwatch { [clock] in clock.now }
    }

    var audit: AuditRoutes {
        AuditRoutes(trail: ledger, nodes: ledger, reads: reads, checkpoints: seals, headAge: headAge)
    }
    var administration: LedgerRoutes {
        LedgerRoutes(ledger: ledger, path: path, reads: reads, checkpoints: seals, restores: restores, clocks: clocks)
    }

    /// Returns record `number`. Each record is a minute later than the previous one. Two callers, two merchants and
    /// three keys alternate.
    static func record(_ number: Int) -> AuditRecord {
        AuditRecord(
            time: AuditTime(noon.addingTimeInterval(Double(number) * 60)), event: .verify,
            outcome: number % 5 == 0 ? .refused(.signatureInvalid) : .ok,
            caller: number % 2 == 0
                ? AuditCaller(name: AuditText("billing"), uid: 1002, gid: 1002)
                : AuditCaller(name: AuditText("checkout"), uid: 1001, gid: 1001),
            merchant: AuditText(number <= 10 ? "merchant.one" : "merchant.two"), publicKeyHash: key(number),
            transactionId: .of([UInt8(number % 256), UInt8(number / 256)]))
    }

    static func key(_ number: Int) -> AuditDigest { .of([UInt8(number % 3)]) }

    /// Appends records, several in each commit. In an empty ledger, their sequence equals their number.
    func append(_ numbers: ClosedRange<Int>) async throws {
        for number in numbers { ledger.note(Self.record(number)) }
        try await wait(for: "the records") { try await ledger.head().sequence >= numbers.upperBound }
    }

    /// Appends many records, in steps that fit into the ledger's queue.
    func fill(_ count: Int) async throws {
        for start in stride(from: 1, through: count, by: 200) { try await append(start...min(start + 199, count)) }
    }

    /// Appends thirty records, with audit checkpoints after records 10 and 20.
    func thirty() async throws {
        for step in 0..<3 {
            try await append(step * 10 + 1...step * 10 + 10)
            if step < 2 { try await seals.seal() }
        }
    }

    static func request(
        _ query: [String: String] = [:], body: String = "", caller: Caller = auditor
    ) -> EndpointRequest {
        EndpointRequest(
            caller: caller, peer: caller.peer, pathArguments: [], query: query,
            body: Array(body.utf8), draft: AuditDraft())
    }

    var newest: AuditEntry {
        get async throws {
            let page = try await ledger.records(AuditFilter(), order: .newestFirst, after: nil, limit: 1)
            return try AuditEntry(line: try #require(page.records.first).line)
        }
    }

    func lines() async throws -> [String] {
        try await ledger.records(AuditFilter(), order: .oldestFirst, after: nil, limit: 1000).records
            .map { String(decoding: $0.line, as: UTF8.self) }
    }

    /// Verifies an export as an auditor with the public key would.
    func verdict(_ export: [UInt8], head: SignedCheckpoint? = nil) -> ChainVerdict {
        var verifier = ChainVerifier(keys: CheckpointKeys([seals.publicKey]), heads: head.map { [$0] } ?? [])
        verifier.consume(export[...])
        return verifier.verdict()
    }
}

extension EndpointAnswer {
    /// The whole body, complete or streamed.
    var bytes: [UInt8] {
        get async throws {
            switch http.body {
            case .bytes(let bytes): return bytes
            case .stream(let stream):
                let received = Shared([UInt8]())
                try await stream.produce(BodyWriter { piece in received.change { $0 += piece } })
                return received.current
            }
        }
    }

    var text: String { get async throws { String(decoding: try await bytes, as: UTF8.self) } }

    func header(_ name: String) -> String? { http.headers.first { $0.name == name }?.value }
}

extension ChainVerdict {
    /// The range of the only chain if it is intact.
    var intact: ChainRange? {
        if case .intact(let ranges) = self, ranges.count == 1 { ranges[0] } else { nil }
    }
}

/// Seals the record with a key in software.
final class SoftwareSeals: CheckpointSealing {
    private struct State {
        var remembered: SignedCheckpoint?
        var refusal: Refusal?
    }

    private let key = P256.Signing.PrivateKey()
    private let ledger: SQLiteLedger
    private let state = Mutex(State())
    let publicKey: CheckpointKey

    init(ledger: SQLiteLedger) {
        self.ledger = ledger
        guard let publicKey = CheckpointKey(point: Array(key.publicKey.x963Representation)) else {
            preconditionFailure("a key that was just made is on its curve")
        }
        self.publicKey = publicKey
    }

    func refuse(_ refusal: Refusal?) { state.withLock { $0.refusal = refusal } }

    private func checkAvailable() throws(Refusal) {
        if let refusal = state.withLock({ $0.refusal }) { throw refusal }
    }

    @discardableResult
    func seal() async throws(Refusal) -> SignedCheckpoint? {
        try checkAvailable()
        do {
            return try await insert(checkpointOf: try await ledger.head())
        } catch {
            throw .defect
        }
    }

    @discardableResult
    func insert(checkpointOf head: ChainHead) async throws -> SignedCheckpoint? {
        let time = AuditTime(RecordRoutesFixture.noon)
        guard let checkpoint = head.checkpoint(at: time, keyId: publicKey.keyId) else { return nil }
        let signed = try await checkpoint.signed { message in
            try #require(CheckpointSignature(der: Array(try key.signature(for: Data(message)).derRepresentation)))
        }
        try await ledger.insert(signed)
        state.withLock { $0.remembered = signed }
        return signed
    }

    var trail: any AuditTrail { ledger }

    func keys() async throws(Refusal) -> [CheckpointKey] {
        try checkAvailable()
        return [publicKey]
    }

    func remembered() async throws(Refusal) -> SignedCheckpoint? {
        try checkAvailable()
        return state.withLock { $0.remembered }
    }
}

/// Records each read of the audit record as the daemon does, unless the test makes the ledger unwritable.
final class LedgerReads: AuditReadRecording {
    private let ledger: SQLiteLedger
    private let isBroken = Mutex(false)

    init(ledger: SQLiteLedger) {
        self.ledger = ledger
    }

    func breakDown() { isBroken.withLock { $0 = true } }

    @discardableResult
    func recordRead(_ event: AuditEvent, by request: EndpointRequest) async throws(Refusal) -> Int {
        guard !isBroken.withLock({ $0 }) else { throw Refusal(.ledgerUnavailable, "The disk is full.") }
        do {
            return try await ledger.append(
                AuditRecord(
                    time: AuditTime(RecordRoutesFixture.noon.addingTimeInterval(86_400)), event: event,
                    caller: request.caller.map { AuditCaller($0) }))
        } catch {
            throw error.refusal
        }
    }
}

/// Accepts every restore, and keeps the arguments of the calls.
final class RecordedRestores: RestoreAccepting {
    private let accepted = Mutex<[(reason: String, caller: String, withoutFinding: Bool, dryRun: Bool)]>([])
    private let outcome = Mutex(
        RestoreAcceptance.Outcome.accepted(
            ledgerSequence: 17, hsmTokenSequence: 40, servedFrom: RecordRoutesFixture.noon + 300))

    var reasons: [String] { accepted.withLock { $0.map(\.reason) } }
    var callers: [String] { accepted.withLock { $0.map(\.caller) } }
    var withoutFinding: [Bool] { accepted.withLock { $0.map(\.withoutFinding) } }
    var dryRuns: [Bool] { accepted.withLock { $0.map(\.dryRun) } }

    func answer(_ answer: RestoreAcceptance.Outcome) { outcome.withLock { $0 = answer } }

    func accept(
        reason: AuditReason, withoutFinding: Bool, by caller: Caller, dryRun: Bool, draft: AuditDraft
    ) async throws(Refusal) -> RestoreAcceptance.Outcome {
        accepted.withLock { $0.append((reason.text, caller.name, withoutFinding, dryRun)) }
        return outcome.withLock { $0 }
    }
}

/// Accepts every clock, and keeps the requesters and parameters of the calls.
final class RecordedClocks: ClockAccepting {
    private let received = Mutex<[String]>([])

    var requests: [String] { received.withLock { $0 } }

    static let plan = ClockAcceptance.Plan(
        now: RecordRoutesFixture.noon, newestRecord: nil,
        forgottenBefore: RecordRoutesFixture.noon.addingTimeInterval(86_400),
        servedFrom: RecordRoutesFixture.noon.addingTimeInterval(300))

    func accept(
        reason: AuditReason, by caller: Caller, dryRun: Bool, draft: AuditDraft
    ) async throws(Refusal) -> ClockAcceptance.Outcome {
        received.withLock { $0.append("\(caller.name): \(reason.text)\(dryRun ? " (dry run)" : "")") }
        return dryRun ? .wouldAccept(Self.plan) : .accepted(Self.plan)
    }
}
