public import AuditChain
import StrictJSON

/// The history of the hosts according to the record: versions, configurations, and events of the ledger and the clock.
public struct SystemHistory: Sendable {
    public struct Moment: Sendable, Equatable {
        public let time: AuditTime
        public let place: RecordPlace
        public let text: String
        /// The caller's name in the record; nil if the daemon acted.
        public let by: String?
        public let approval: String?
    }

    /// The files whose code takes part in decrypting payments from the record at `place` on. Each is given by its
    /// SHA-256 in hexadecimal, which is nil if the record does not contain it.
    public struct Programs: Sendable, Equatable {
        public let time: AuditTime
        public let place: RecordPlace
        public let daemon: String?
        public let worker: String?
        /// The digest of the package's list of components.
        public let sbom: String?
        /// The PKCS#11 libraries, by the HSM token's name.
        public internal(set) var modules: [String: String]

        /// True if the record contains at least one digest. Older versions recorded no digests.
        var isRecorded: Bool { daemon != nil || worker != nil || sbom != nil || !modules.isEmpty }

        func hasSameFiles(as other: Programs) -> Bool {
            (daemon, worker, sbom) == (other.daemon, other.worker, other.sbom) && modules == other.modules
        }
    }

    /// The time from a recorded stop to the next start.
    struct Downtime: Sendable, Equatable {
        let since: AuditTime
        let place: RecordPlace
        fileprivate(set) var until: AuditTime?
    }

    public struct Node: Sendable, Equatable {
        public let node: AuditNode
        public internal(set) var first: Int
        public internal(set) var last: Int
        /// The times of the first and the last record of the export.
        public internal(set) var firstTime: AuditTime
        public internal(set) var lastTime: AuditTime
        public internal(set) var records = 0
        /// The people who had the daemon print an audit checkpoint of this node (`audit_head`), with the number of times by
        /// day. Days are counted from 1970-01-01.
        fileprivate(set) var headReaders: [String: [Int: Int]] = [:]
        public internal(set) var inPeriod = 0
        public internal(set) var starts = RecordReferences()
        public internal(set) var stops = RecordReferences()
        /// The weekly readings of the programs' files.
        public internal(set) var programReadings = RecordReferences()
        /// The downtimes in the period, at most ``maximumMoments``.
        fileprivate(set) var downtimes: [Downtime] = []
        /// The last stop, unless a start came after it.
        fileprivate var stopped: Downtime?
        /// The starts at which the version differed from that of the previous start.
        public internal(set) var versions: [Moment] = []
        /// The programs after each start, weekly reading or change of a PKCS#11 library, that changed at least one file.
        public internal(set) var programs: [Programs] = []
        /// The loads of a configuration file whose SHA-256 differed from that of the previous load.
        public internal(set) var configurations: [Moment] = []
        /// The number of elements that ``versions``, ``programs``, ``configurations`` and ``downtimes`` lack, because each
        /// is limited to ``maximumMoments``.
        public internal(set) var omitted = 0
        /// The settings that were last in force.
        fileprivate(set) var values: [String: String] = [:]
        /// The time and the record since which HSM tokens have had their present module, and secrets their present
        /// digest, by the setting's name.
        fileprivate(set) var settingsSince: [String: RecordMoment] = [:]
        fileprivate var incoming: [String: String] = [:]
    }

    /// A setting of one node that was added, removed or changed.
    public struct ConfigurationChange: Sendable, Equatable {
        public let node: AuditNode
        public let time: AuditTime
        public let place: RecordPlace
        public let name: String
        public let before: String?
        public let after: String?
    }

    public private(set) var nodes: [AuditNode: Node] = [:]
    var sortedNodes: [Node] { nodes.values.sorted { $0.node < $1.node } }
    /// The events in the period that concern the record itself: accepted restores and clocks, and archives, by the names
    /// in ``kindsOfMoments``.
    private(set) var moments: [String: [Moment]] = [:]
    static let kindsOfMoments = ["restore", "clock", "archive"]
    public private(set) var omittedArchives = 0
    public private(set) var changes: [ConfigurationChange] = []
    public private(set) var omittedChanges = 0
    /// ``changes`` in order of time, with the same change of several nodes on one day as one element.
    var changesOfNodes: [[ConfigurationChange]] {
        struct Change: Hashable { let day: Int, name: String, before: String?, after: String? }
        let groups = Dictionary(grouping: changes.sorted { ($0.time, $0.place) < ($1.time, $1.place) }) { change in
            Change(
                day: KeyUseTally.index(change.time, 86_400_000), name: change.name, before: change.before,
                after: change.after)
        }
        return groups.values.sorted { ($0[0].time, $0[0].place, $0[0].name) < ($1[0].time, $1[0].place, $1[0].name) }
    }
    /// The settings that were last in force, by node.
    public var values: [AuditNode: [String: String]] { nodes.mapValues(\.values) }

    fileprivate static let (maximumMoments, maximumChanges) = (500, 5_000)

    mutating func take(_ entry: AuditEntry, inPeriod: Bool) {
        var node =
            nodes[entry.node]
            ?? Node(
                node: entry.node, first: entry.sequence, last: entry.sequence, firstTime: entry.time,
                lastTime: entry.time)
        defer { nodes[entry.node] = node }
        (node.last, node.lastTime) = (entry.sequence, entry.time)
        node.records += 1
        if inPeriod { node.inPeriod += 1 }
        let isDone = entry.outcome == AuditOutcome.ok.text
        switch AuditEvent.Name(rawValue: entry.event) {
        case .start:
            let version = entry.details["version"]?.stringValue ?? "-"
            if inPeriod { node.starts.add(entry) }
            node.endDowntime(entry.time)
            Self.note(version, entry, in: &node.versions, &node.omitted)
            Self.note(
                Self.programs(entry, modules: entry.details["modules"]?.objectValue?.members ?? []), in: &node)
        case .programDigests:
            if inPeriod { node.programReadings.add(entry) }
            Self.note(
                Self.programs(entry, modules: entry.details["modules"]?.objectValue?.members ?? []), in: &node)
        case .moduleChange: takeModuleChange(entry, of: &node)
        case .stop where inPeriod:
            node.stops.add(entry)
            node.endDowntime(nil)
            node.stopped = Downtime(since: entry.time, place: RecordPlace(entry))
        case .auditHead where isDone && node.headReaders.count < Self.maximumMoments:
            node.headReaders[entry.callerText ?? "the daemon", default: [:]][
                KeyUseTally.index(entry.time, 86_400_000), default: 0] += 1
        case .configurationLoad, .configurationReload:
            if isDone, let file = entry.details["fileSha256"]?.stringValue {
                Self.note(file, entry, in: &node.configurations, &node.omitted)
            }
        case .ledgerAcceptRestore where isDone && inPeriod:
            Self.add(
                entry,
                "it ended with record \(entry.number("ledgerSequence")) when it was accepted"
                    + (entry.details["tokenSequence"].map { _ in
                        "; the HSM token remembered record \(entry.number("tokenSequence"))"
                    } ?? "")
                    + (entry.details["servedFrom"]?.stringValue.map {
                        "; payment tokens were refused until \($0.prefix(19).replacing("T", with: " "))"
                    } ?? "") + entry.quoted("reason"), to: &moments["restore", default: []])
        case .ledgerAcceptClock where isDone && inPeriod:
            Self.add(
                entry, "the present clock was accepted as right" + entry.quoted("reason"),
                to: &moments["clock", default: []])
        case .recordArchive where inPeriod && isDone:
            guard let archive = RecordArchive(entry) else { return }
            Self.note(
                "records \(archive.first) to \(archive.last), file \(archive.fileName(of: entry.node)), SHA-256 \(archive.digest.hex)",
                entry, in: &moments["archive", default: []], &omittedArchives)
        case .configurationValues: take(values: entry, of: &node, inPeriod: inPeriod)
        default: break
        }
    }

    // MARK: Programs

    private static func programs(_ entry: AuditEntry, modules: [(name: String, value: JSONValue)]) -> Programs {
        Programs(
            time: entry.time, place: RecordPlace(entry), daemon: entry.details["paytokendSha256"]?.stringValue,
            worker: entry.details["workerSha256"]?.stringValue, sbom: entry.details["sbomSha256"]?.stringValue,
            modules: Dictionary(
                modules.compactMap { member in member.value.stringValue.map { (member.name, $0) } },
                uniquingKeysWith: { first, _ in first }))
    }

    private func takeModuleChange(_ entry: AuditEntry, of node: inout Node) {
        guard let hsmToken = entry.hsmToken else { return }
        let last = node.programs.last
        var modules = last?.modules ?? [:]
        modules[hsmToken] = entry.details["to"]?.stringValue
        Self.note(
            Programs(
                time: entry.time, place: RecordPlace(entry), daemon: last?.daemon, worker: last?.worker,
                sbom: last?.sbom, modules: modules), in: &node)
    }

    /// Appends the programs to the node's list, unless their files equal those of the last element.
    private static func note(_ programs: Programs, in node: inout Node) {
        guard node.programs.last?.hasSameFiles(as: programs) != true else { return }
        guard node.programs.count < maximumMoments else {
            node.omitted += 1
            return
        }
        node.programs.append(programs)
    }

    // MARK: Configuration

    /// Takes one `configuration_values` record, a part of the values of one load. After the last part, compares the
    /// complete values with those of the previous load.
    private mutating func take(values entry: AuditEntry, of node: inout Node, inPeriod: Bool) {
        if entry.details["part"]?.numberValue?.int == 1 { node.incoming = [:] }
        for member in entry.details["values"]?.objectValue?.members ?? [] where node.incoming.count < 10_000 {
            node.incoming[member.name] = member.value.stringValue
        }
        guard entry.details["part"]?.numberValue?.int == entry.details["parts"]?.numberValue?.int else { return }
        let isFirst = node.values.isEmpty
        if !isFirst, inPeriod {
            for name in Set(node.values.keys).union(node.incoming.keys).sorted()
            where node.values[name] != node.incoming[name] {
                guard changes.count < Self.maximumChanges else {
                    omittedChanges += 1
                    continue
                }
                changes.append(
                    ConfigurationChange(
                        node: entry.node, time: entry.time, place: RecordPlace(entry), name: name,
                        before: node.values[name], after: node.incoming[name]))
            }
        }
        for (name, value) in node.incoming where Self.isDated(name) && node.values[name] != value {
            node.settingsSince[name] = RecordMoment(time: entry.time, place: RecordPlace(entry))
        }
        node.values = node.incoming
        node.incoming = [:]
    }

    static func isSecret(_ name: String) -> Bool { name.hasSuffix(".pin_digest") || name.hasSuffix(".password_digest") }

    private static func isDated(_ name: String) -> Bool {
        isSecret(name) || name.hasSuffix(".module") || name == "credentials.key"
    }

    /// Appends a moment with the text, unless the text equals that of the last element.
    private static func note(_ text: String, _ entry: AuditEntry, in moments: inout [Moment], _ omitted: inout Int) {
        guard moments.last?.text != text else { return }
        guard moments.count < maximumMoments else {
            omitted += 1
            return
        }
        add(entry, text, to: &moments)
    }

    private static func add(_ entry: AuditEntry, _ text: String, to moments: inout [Moment]) {
        moments.append(
            Moment(
                time: entry.time, place: RecordPlace(entry), text: text, by: entry.callerText,
                approval: entry.details["approval"]?.stringValue))
    }
}

extension SystemHistory.Node {
    /// The downtimes, including one that lasts to the end of the export.
    var allDowntimes: [SystemHistory.Downtime] { downtimes + [stopped].compactMap(\.self) }

    fileprivate mutating func endDowntime(_ until: AuditTime?) {
        guard var stopped else { return }
        self.stopped = nil
        stopped.until = until
        if downtimes.count < SystemHistory.maximumMoments { downtimes.append(stopped) } else { omitted += 1 }
    }
}

extension AuditEntry {
    fileprivate func number(_ name: String) -> String { details[name]?.numberValue?.int.map { "\($0)" } ?? "-" }

    fileprivate func quoted(_ name: String) -> String { details[name]?.stringValue.map { ": \($0)" } ?? "" }
}
