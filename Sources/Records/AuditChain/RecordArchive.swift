internal import StrictJSON

/// An archive file of a node's oldest records, which the ledger removes after archiving: event `record_archive`.
///
/// The file is an export of the records ``first`` to ``last``, with the same bytes as in the ledger. It begins with
/// record 1, or with the checkpoint that ends the previous file, and ends with the checkpoint of record ``last``. The
/// ledger's exports then begin with that same checkpoint. The files followed by an export are therefore one chain.
public struct RecordArchive: Sendable, Equatable {
    /// The sequence of the archive's first record: 1, or the sequence after the previous archive's ``last``.
    public let first: Int
    /// The sequence of the archive's last record; at least ``first``.
    public let last: Int
    /// The hash of record ``last``.
    public let hash: AuditDigest
    /// The SHA-256 of the archive file.
    public let digest: AuditDigest
    /// The size of the archive file in bytes.
    public let size: Int

    /// Returns nil unless `first` is at least 1, `last` at least `first`, and the size positive.
    public init?(first: Int, last: Int, hash: AuditDigest, digest: AuditDigest, size: Int) {
        guard first > 0, last >= first, size > 0 else { return nil }
        self.first = first
        self.last = last
        self.hash = hash
        self.digest = digest
        self.size = size
    }

    /// Reads the event from a record's line. Returns nil if the line has another event, or values that no daemon could
    /// have written.
    public init?(line: [UInt8]) {
        // Most lines are of other events, and need not be parsed as JSON.
        guard RecordFrame(line)?.isEvent(Self.mark) == true, let entry = try? AuditEntry(line: line) else { return nil }
        self.init(entry)
    }

    static let mark = RecordFrame.EventMark(.recordArchive)

    /// Reads the event from a parsed record. Returns nil for another event, a refused archive, or values that no daemon
    /// could have written.
    public init?(_ entry: AuditEntry) {
        guard entry.event == AuditEvent.Name.recordArchive.rawValue, entry.outcome == AuditOutcome.ok.text,
            let first = entry.details["first"]?.numberValue?.int, let last = entry.details["last"]?.numberValue?.int,
            last < entry.sequence,
            let hash = entry.details["lastHash"]?.stringValue.flatMap(AuditDigest.init(hex:)),
            let digest = entry.details["fileSha256"]?.stringValue.flatMap(AuditDigest.init(hex:)),
            let size = entry.details["bytes"]?.numberValue?.int
        else { return nil }
        self.init(first: first, last: last, hash: hash, digest: digest, size: size)
    }

    /// Returns the archive's file name, such as `backend-1.1-204800.jsonl`. It has the sequences, so that a
    /// directory listing shows which archives exist.
    public func fileName(of node: AuditNode) -> String { "\(node.name).\(first)-\(last).jsonl" }

    func write(into writer: inout JSONWriter) {
        writer.member("first", first)
        writer.member("last", last)
        writer.member("lastHash", hash.hex)
        writer.member("fileSha256", digest.hex)
        writer.member("bytes", size)
    }
}

/// The states of the keys at the time of archiving: event `key_states`.
///
/// No hash covers the database row with a key's state. A program checks such a row against the records of the key's
/// changes of state. It cannot read archived records, so this event contains the states that result from them.
public struct KeyStatesPart: Sendable, Equatable {
    /// The maximum number of keys in one record, so that the record fits into a line.
    public static let maximumKeys = 64

    public let states: [AuditDigest: AuditKeyState]

    /// Returns the parts, one for each record that is needed for these keys; empty if there are no keys.
    public static func parts(of states: [(key: AuditDigest, state: AuditKeyState)]) -> [KeyStatesPart] {
        stride(from: 0, to: states.count, by: maximumKeys).map { start in
            KeyStatesPart(
                states: Dictionary(
                    states[start..<min(start + maximumKeys, states.count)].map { ($0.key, $0.state) },
                    uniquingKeysWith: { first, _ in first }))
        }
    }

    private init(states: [AuditDigest: AuditKeyState]) {
        self.states = states
    }

    /// Reads the event from a parsed record. Returns nil for another event, or values that no daemon could have
    /// written.
    public init?(_ entry: AuditEntry) {
        guard entry.event == AuditEvent.Name.keyStates.rawValue,
            let members = entry.details["keys"]?.objectValue?.members, members.count <= Self.maximumKeys
        else { return nil }
        var states: [AuditDigest: AuditKeyState] = [:]
        for member in members {
            guard let key = AuditDigest(hex: member.name),
                let state = member.value.stringValue.flatMap(AuditKeyState.init)
            else { return nil }
            states[key] = state
        }
        self.states = states
    }

    func write(into writer: inout JSONWriter) {
        writer.member("keys") { writer in
            for (key, state) in states.sorted(by: { $0.key.hex < $1.key.hex }) {
                writer.member(key.hex, state.rawValue)
            }
        }
    }
}
