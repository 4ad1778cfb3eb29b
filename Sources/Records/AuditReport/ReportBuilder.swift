// The assessor's page, an HTML report that counts the records of an export. This target uses no database, no daemon and
// no HSM.
//
// Caller: `paytokenctl audit report`, which makes and verifies the export and requests the daemon's current state.
// Guarantees: every figure is a count of records in the export, refers to them by node and sequence, and is also in the
// page's JSON. scripts/verify-audit --report makes the page again from that JSON, and compares the JSON with its own
// count. Documentation.docc/ReportFigures.md defines the figures.
//
// Where to start: this file (the export is read twice or three times), Tally (the counts), Page/ReportPage.swift (the JSON and the
// page), Facts (the JSON's members), Page/report.template.html (the page's text).

public import AuditChain

/// Counts an export's records. It reads the export twice, because an export contains one node after the other. A key's
/// deactivation on a later node decides which releases on an earlier node are late. A third pass follows if HSM tokens'
/// logs have uses that no record explains.
///
/// Memory grows with the keys, callers, days and administrative acts, all of which are bounded. With HSM tokens' logs it
/// grows with their lines and with the records of uses, eight bytes for each, but not with the number of other records.
public struct ReportBuilder: Sendable {
    public let period: ReportPeriod
    public private(set) var system = SystemHistory()
    public private(set) var keys: [AuditDigest: KeyHistory] = [:]
    public private(set) var acts = AdministrativeActs()
    private(set) var auditKeys = AuditKeyHistory()
    private(set) var uses = KeyUseTally()
    private(set) var refusals = RefusalsByCaller()
    private(set) var incidents = RecordIncidents()
    /// The times in which each key's state forbade its use, and the requests in them. The first pass has collected the
    /// times.
    private(set) var blocks: [AuditDigest: [KeyBlock]] = [:]
    /// The keys that an HSM token described with a warning, which the first pass has collected.
    private(set) var warnedKeys: [AuditDigest: WarnedKey] = [:]
    /// The keys that have a successor, which the first pass has collected.
    private(set) var successions: [AuditDigest: Succession] = [:]
    private var hasEndedSurvey = false
    public private(set) var reconciliation: Reconciliation
    private(set) var hsmTokens = HSMTokenRecords()
    /// The number of lines that are neither a record nor a checkpoint; a verified export has none.
    public private(set) var unreadable = 0
    /// The number of steps that were not kept because the export has more than ``maximumKeys`` keys.
    public private(set) var stepsNotKept = 0
    /// The nodes whose first line has been read, each as the bytes from `{"node":` to the end of its name, with the text
    /// of the last record's time.
    private var nodesSeen: [[UInt8]: ArraySlice<UInt8>] = [:]
    /// A time after all records that are missing before the nodes' parts: the latest first time of those parts that do
    /// not begin with record 1. Nil if every part begins with record 1.
    private var missingBefore: AuditTime?
    /// The nodes whose keys a record names as trusted, in the form of ``nodesSeen``. These nodes share the ledger, so
    /// the export should contain their records.
    private var nodesExpected: Set<[UInt8]> = []

    static let maximumKeys = 100_000
    private static let keyEvents: Set<String> = Set(
        [
            AuditEvent.Name.keyImport, .keyGenerate, .keyAdopt, .csrCreate, .certificateImport, .keyStateChange,
            .keyObjectsDestroy,
        ].map(\.rawValue))
    private static let statements: Set<String> = Set(
        [AuditEvent.Name.tokenAttributes, .keyAttributes].map(\.rawValue))
    private static let states = AuditEvent.Name.keyStates.rawValue
    private static let pin = AuditEvent.Name.auditKeyPinned.rawValue
    private static let uses: Set<String> = Set([AuditEvent.Name.decrypt, .tlsSignature].map(\.rawValue))

    /// The lists of the packages' components, with which recorded programs are compared.
    let listed: [ListedPrograms]

    /// - Parameters:
    ///   - tokenUses: the HSM tokens' logs of their keys' uses. No two logs may cover the same uses, which would then
    ///     be compared twice.
    ///   - listed: the packages' lists of components.
    public init(period: ReportPeriod, tokenUses: [TokenUseLog] = [], listed: [ListedPrograms] = []) {
        self.period = period
        self.listed = listed
        reconciliation = Reconciliation(tokenUses, in: period)
    }

    /// Reads a line in the first pass, which collects the keys' histories.
    ///
    /// - Parameter line: a line of the export, without its line feed.
    public mutating func survey(line: [UInt8]) {
        let (name, time, isReplay) = Self.event(of: line)
        noteNode(line, time)
        if isReplay, let entry = try? AuditEntry(line: line) { refusals.survey(entry) }
        if name == Self.states, let entry = try? AuditEntry(line: line), let part = KeyStatesPart(entry) {
            for (key, state) in part.states { add(KeyHistory.Event(entry, states: state), of: key) }
        }
        if name == Self.pin, let node = (try? AuditEntry(line: line))?.details["ofNode"]?.stringValue {
            nodesExpected.insert(Array("{\"node\":\"\(node)\"".utf8))
        }
        if Self.statements.contains(name), let entry = try? AuditEntry(line: line) { hsmTokens.take(entry) }
        guard Self.keyEvents.contains(name), let entry = try? AuditEntry(line: line),
            let key = entry.publicKeyHash, let event = KeyHistory.Event(entry)
        else { return }
        add(event, of: key, merchant: entry.merchant)
        keys[key]?.takeFacts(entry)
    }

    private mutating func add(_ event: KeyHistory.Event, of key: AuditDigest, merchant: String? = nil) {
        guard keys[key] != nil || keys.count < Self.maximumKeys else {
            stepsNotKept += 1
            return
        }
        keys[key, default: KeyHistory(key: key)].merchant = keys[key]?.merchant ?? merchant
        keys[key]?.add(event)
    }

    /// Takes note of a node's first line, and of a record whose time is earlier than that of the record before it.
    ///
    /// - Parameter time: the text of a record's time; empty for a checkpoint.
    private mutating func noteNode(_ line: [UInt8], _ time: ArraySlice<UInt8>) {
        // Identify the node by the bytes from `{"node":` to the end of its name; in a checkpoint's line, a prefix
        // precedes them.
        let start = time.isEmpty ? Self.checkpoint.count : 0
        guard line.count > start else { return }
        let node = Array(line[start...].prefix { $0 != UInt8(ascii: ",") })
        let last = nodesSeen[node]
        if last == nil || !time.isEmpty { nodesSeen[node] = time }
        if let last {
            if !last.isEmpty, !time.isEmpty, time.lexicographicallyPrecedes(last),
                let entry = try? AuditEntry(line: line),
                let before = AuditTime(stored: String(decoding: last, as: UTF8.self))
            {
                incidents.survey(entry, after: before)
            }
            return
        }
        var beginning: AuditTime?
        if time.isEmpty {
            beginning = SignedCheckpoint(line: line)?.checkpoint.time
        } else if let entry = try? AuditEntry(line: line), entry.sequence > 1 {
            beginning = entry.time
        }
        if let beginning { missingBefore = max(missingBefore ?? beginning, beginning) }
    }

    /// Returns the time after which a key's releases are late; nil if the key was never deactivated.
    func lateAfter(_ key: AuditDigest) -> AuditTime? {
        guard let event = keys[key]?.superseded else { return nil }
        // A statement does not show when the key was deactivated. The record of that step is missing from the export,
        // so it is older than `missingBefore`. If all records of a node are missing, the step can have any time before
        // the statement.
        guard event.isStatement, let missingBefore, nodesExpected.isSubset(of: nodesSeen.keys) else {
            return event.time
        }
        return min(event.time, missingBefore)
    }

    /// Reads a line in the second pass, which counts everything else.
    public mutating func count(line: [UInt8]) {
        if !hasEndedSurvey {
            (hasEndedSurvey, warnedKeys) = (true, HSMTokenFacts(builder: self).warnedKeys)
            (blocks, successions) = (keys.mapValues(\.blocks), collectSuccessions())
        }
        guard !Self.event(of: line).name.isEmpty else {
            if !line.starts(with: Self.checkpoint) {
                unreadable += 1
            } else if let signed = SignedCheckpoint(line: line) {
                if !reconciliation.logs.isEmpty {
                    let seal = signed.checkpoint
                    reconciliation.take(seal, misdated: incidents.misdated(seal.node, seal.time, in: period))
                }
                incidents.take(signed.checkpoint, in: period)
                auditKeys.take(signed.checkpoint)
            }
            return
        }
        guard let entry = try? AuditEntry(line: line) else {
            unreadable += 1
            return
        }
        let inPeriod = period.contains(entry.time)
        system.take(entry, inPeriod: inPeriod)
        auditKeys.take(entry)
        incidents.take(entry, inPeriod: inPeriod)
        acts.take(entry, inPeriod: inPeriod)
        reconciliation.take(entry, misdated: incidents.misdated(entry.node, entry.time, in: period))
        refusals.take(opening: entry)
        guard inPeriod else { return }
        refusals.take(entry)
        if Self.uses.contains(entry.event) {
            let superseded = entry.publicKeyHash.flatMap { lateAfter($0) }
            uses.take(entry, superseded: superseded)
            guard let key = entry.publicKeyHash else { return }
            for block in blocks[key]?.indices ?? 0..<0 { blocks[key]?[block].take(entry) }
            warnedKeys[key]?.take(entry)
            successions[key]?.take(entry)
        }
    }

    /// Compares the HSM tokens' logs with the record, after the second pass.
    ///
    /// - Returns: true if a third pass is needed: logs have uses that neither the record nor a loss of records explains.
    public mutating func beginThirdPass() -> Bool { reconciliation.compare(losses: incidents.findings.findings) }

    /// Reads a line in the third pass, which looks for the records nearest to unexplained uses.
    public mutating func search(line: [UInt8]) {
        guard let start = RecordStart(line) else { return }
        let moment = RecordMoment(time: start.time, place: RecordPlace(start.node, start.sequence))
        reconciliation.search(moment, of: Self.key(of: line))
    }

    private static let keyMember = Array("\"publicKeyHash\":\"".utf8)

    /// Returns the key of a record's line without parsing the whole line.
    private static func key(of line: [UInt8]) -> AuditDigest? {
        for start in line.indices.dropLast(keyMember.count) where line[start + 1] == keyMember[1] {
            guard line[start...].starts(with: keyMember) else { continue }
            let value = line[(start + keyMember.count)...].prefix { $0 != UInt8(ascii: "\"") }
            return AuditDigest(base64: String(decoding: value, as: UTF8.self))
        }
        return nil
    }

    private static let checkpoint = Array("{\"checkpoint\":".utf8)
    /// The length of a time such as `2026-01-31T12:00:00.000Z`, which a quotation mark follows.
    private static let timeLength = 24
    private static let member = Array(",\"event\":\"".utf8)
    private static let replay = Array("\",\"outcome\":\"transaction_replayed\"".utf8)

    /// Returns the event and the time of a record's line without parsing the whole line, and whether its outcome is
    /// `transaction_replayed`. Event and time are empty if the line is not a record.
    ///
    /// Only node, sequence and time precede the event, and their values contain no quotation marks. The first
    /// `"event":` in the line is therefore the member. The outcome follows it.
    static func event(of line: [UInt8]) -> (name: String, time: ArraySlice<UInt8>, isReplay: Bool) {
        guard line.first == UInt8(ascii: "{"), !line.starts(with: checkpoint) else { return ("", [], false) }
        let end = min(line.count, 256)
        var start = 0
        while start + member.count < end {
            if line[start] == member[0], line[start..<end].starts(with: member) {
                let word = line[(start + member.count)..<end].prefix { $0 != UInt8(ascii: "\"") }
                let time = line[max(0, start - timeLength - 1)..<max(0, start - 1)]
                return (String(decoding: word, as: UTF8.self), time, line[word.endIndex...].starts(with: replay))
            }
            start += 1
        }
        return ("", [], false)
    }
}
