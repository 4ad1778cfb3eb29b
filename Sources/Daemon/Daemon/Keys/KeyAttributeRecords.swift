import AuditChain
import Ledger
import MerchantKeys
import PaymentToken
import StrictJSON
import UsageRecording
import WorkerProtocol
import WorkerSupervision

/// Records what only an HSM token knows: its description of itself, and the attributes of the keys that it holds. A reader
/// of an export then needs no access to the HSM token to know them.
///
/// Descriptions and attributes are recorded if this node's record does not contain them yet, or if the newest recorded
/// ones differ. Each key is read after the start, after it has appeared in the HSM token, and once a day, since a
/// person with the PIN can change attributes at any time. Keys that the ledger does not know are not read.
actor KeyAttributeRecords {
    /// The maximum number of keys of one HSM token that are read.
    private static let maximumKeys = 4096
    private static let interval = Duration.seconds(86_400)
    /// The pause after a failed read of a key before the next attempt.
    private static let retryPause = Duration.seconds(600)
    private static let longestPause = Duration.seconds(5)

    private let ledger: any Ledger
    private let index: KeyIndex
    private let reading: KeyAttributeReading
    private let clock: WallClock
    private let isOpen: @Sendable () -> Bool
    /// The digest of the members that were last recorded for each HSM token and for each key in it.
    private var recorded: [Subject: AuditDigest] = [:]
    /// The part of this node's record that has not been searched for earlier attributes. A search reads backwards from
    /// the newest record, and stops once it has found the attributes that it needs. Nil before the first search.
    private var unsearched: Range<Int>?
    private var dueAt: [Subject: ContinuousClock.Instant] = [:]
    private var lastCheck: (generation: Int, serving: [String], next: ContinuousClock.Instant)?

    /// An HSM token, or one key in it.
    private struct Subject: Hashable {
        let hsmToken: String
        var key: AuditDigest?
    }

    /// - Parameter isOpen: returns true once the ledger has been compared with the HSM token. Before that, the ledger
    ///   may be an older copy that lacks the attributes that were recorded last.
    init(
        ledger: any Ledger, index: KeyIndex, reading: KeyAttributeReading, clock: WallClock,
        isOpen: @escaping @Sendable () -> Bool
    ) {
        self.ledger = ledger
        self.index = index
        self.reading = reading
        self.clock = clock
        self.isOpen = isOpen
    }

    nonisolated func start() -> Task<Void, Never> {
        Task.repeating(every: .seconds(1)) { await self.check() }
    }

    /// Records the descriptions and attributes that are due. If the ledger fails, a later check tries again. The
    /// ledger's writers log the failure.
    func check(now: ContinuousClock.Instant = .now) async {
        guard isOpen() else { return }
        let generation = index.generation
        let serving = reading.hsmTokens.filter { $0.isServing && $0.openDescription != nil }
        let names = serving.map(\.name)
        if let last = lastCheck, last.generation == generation, last.serving == names, now < last.next { return }
        do throws(LedgerFailure) {
            for hsmToken in serving {
                if let description = hsmToken.openDescription {
                    let event = AuditEvent.tokenAttributes(RecordedHSMToken(description))
                    try await record(event, of: Subject(hsmToken: hsmToken.name))
                }
                for entry in keys(in: hsmToken) { try await read(entry, in: hsmToken, now: now) }
            }
            // A new worker may describe its HSM token differently, and workers are replaced at any time. The next check
            // therefore comes after a minute at the latest.
            lastCheck = (generation, names, min(dueAt.values.min() ?? now, now + .seconds(60)))
        } catch {
            lastCheck = nil
        }
    }

    private func keys(in hsmToken: any KeyAttributeSource) -> ArraySlice<KeyEntry> {
        index.entries.filter {
            $0.shownBy.contains(hsmToken.name) && $0.condition != .external && $0.state != .destroyed
        }.prefix(Self.maximumKeys)
    }

    private func read(
        _ entry: KeyEntry, in hsmToken: any KeyAttributeSource, now: ContinuousClock.Instant
    ) async throws(LedgerFailure) {
        guard let key = AuditDigest(bytes: entry.publicKeyHash.bytes) else { return }
        let subject = Subject(hsmToken: hsmToken.name, key: key)
        guard dueAt[subject].map({ $0 <= now }) ?? true, hsmToken.isServing, !Task.isCancelled else { return }
        dueAt[subject] = now + Self.retryPause
        let began = ContinuousClock.now
        guard let keys = try? await reading.keys(entry.publicKeyHash, in: hsmToken), !keys.isEmpty else { return }
        // In some HSM tokens a search reads every object. This pause leaves the session slot free for nine tenths of
        // the time, or for 5 seconds after a long search.
        let pause = min(began.duration(to: .now) * 9, Self.longestPause)
        try await record(
            .keyAttributes(keys.map(RecordedKeyAttributes.init)), of: subject, merchant: entry.auditMerchant)
        dueAt[subject] = now + Self.interval
        try? await Task.sleep(for: pause)
    }

    private func record(
        _ event: AuditEvent, of subject: Subject, merchant: AuditText? = nil
    ) async throws(LedgerFailure) {
        let digest = AuditDigest.of(event.details)
        guard try await lastRecorded(subject) != digest else { return }
        _ = try await ledger.append(
            AuditRecord(
                time: AuditTime(clock.now()), event: event, merchant: merchant, publicKeyHash: subject.key,
                hsmToken: AuditText(subject.hsmToken)))
        recorded[subject] = digest
    }

    private func lastRecorded(_ subject: Subject) async throws(LedgerFailure) -> AuditDigest? {
        var left: Range<Int>
        if let unsearched {
            left = unsearched
        } else {
            let first = try await ledger.lastArchive()?.last ?? 0
            left = first..<(try await ledger.head().sequence)
        }
        while recorded[subject] == nil, !left.isEmpty {
            let page = max(left.lowerBound, left.upperBound - 1000)..<left.upperBound
            for line in try await ledger.lines(page.lowerBound + 1...page.upperBound, limit: page.count).reversed() {
                guard let (found, digest) = Self.recorded(line.bytes), recorded[found] == nil else { continue }
                recorded[found] = digest
            }
            left = left.lowerBound..<page.lowerBound
        }
        unsearched = left
        return recorded[subject]
    }

    private static func recorded(_ line: [UInt8]) -> (Subject, AuditDigest)? {
        guard
            AuditEvent.Name.keyAttributes.isEvent(ofRecord: line)
                || AuditEvent.Name.tokenAttributes.isEvent(ofRecord: line),
            let entry = try? AuditEntry(line: line), let hsmToken = entry.hsmToken
        else { return nil }
        let digest = AuditDigest.of(JSONValue.object(entry.details).compact)
        return (Subject(hsmToken: hsmToken, key: entry.publicKeyHash), digest)
    }
}

extension RecordedKeyAttributes {
    init(_ key: PrivateKeyAttributes) {
        self.init(
            algorithm: key.algorithm, bits: key.bits.map(Int.init), sensitive: key.sensitive,
            extractable: key.extractable, alwaysSensitive: key.alwaysSensitive,
            neverExtractable: key.neverExtractable, local: key.local, token: key.token, private: key.private,
            modifiable: key.modifiable, uses: Set(key.permittedUses))
    }
}

extension RecordedHSMToken {
    init(_ description: HSMTokenDescription) {
        self.init(
            label: AuditText(description.label), serialNumber: AuditText(description.serialNumber),
            manufacturer: AuditText(description.manufacturer), model: AuditText(description.model),
            hardwareVersion: AuditText(description.hardwareVersion),
            firmwareVersion: AuditText(description.firmwareVersion), library: AuditText(description.library),
            tierECv1: description.tierECv1.map(AuditProtection.init),
            tierRSAv1: description.tierRSAv1.map(AuditProtection.init),
            tierECv2: description.tierECv2.map(AuditProtection.init),
            shortcomings: description.shortcomings.map { AuditText($0) })
    }
}
