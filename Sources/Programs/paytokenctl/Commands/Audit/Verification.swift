import AuditChain
import CommandOutput
import DaemonAPI
import Encodings
import StrictJSON

/// The inputs of a verification: the checkpoints' public keys, and checkpoints that were stored elsewhere.
enum VerificationInputs {
    /// The public keys in a PEM file.
    static func keys(file: String) throws -> CheckpointKeys {
        let text = String(decoding: try InputFile.read(file), as: UTF8.self)
        guard let keys = CheckpointKeys(pem: text) else {
            throw CommandFailure(
                .unreadable,
                "\(InputFile.name(file)) holds no public key in PEM (BEGIN PUBLIC KEY), or one that is not on P-256. "
                    + "`paytokenctl audit public-key` prints the daemon's.")
        }
        return keys
    }

    /// The public keys in several files; nil for none.
    static func keys(_ files: [GivenKeyFile]) throws -> CheckpointKeys? {
        var all: CheckpointKeys?
        for given in files {
            let keys = try keys(file: given.file)
            all = all?.joined(by: keys) ?? keys
        }
        return all
    }

    /// The keys that are trusted for each node, according to the given files.
    static func trusted(_ files: [GivenKeyFile]) throws -> TrustedKeys {
        var trusted = TrustedKeys(given: try keys(files.filter { $0.node == nil }))
        for given in files {
            if let node = given.node { trusted.give(try keys(file: given.file), for: node) }
        }
        return trusted
    }

    /// The stored checkpoints: the argument is one line or a file of such lines; none for nil.
    static func heads(_ argument: String?) throws -> [SignedCheckpoint] {
        guard let argument else { return [] }
        let isLine = argument.hasPrefix("{")
        guard let heads = SignedCheckpoint.list(parsing: isLine ? Array(argument.utf8) : try InputFile.read(argument))
        else {
            throw CommandFailure(
                isLine ? .usage : .unreadable,
                (isLine
                    ? "--head is not a checkpoint"
                    : "\(InputFile.name(argument)) holds something else than checkpoints")
                    + ". A checkpoint is a whole line of an export that begins with {\"checkpoint\": and an export's "
                    + "last line is one.")
        }
        return heads
    }

    /// The keys in the daemon's response, in the same order.
    static func keys(_ given: [AuditPublicKeyAnswer.Key]) throws -> [CheckpointKey] {
        guard !given.isEmpty else {
            throw CommandFailure(
                .tryAgainLater,
                "hsm_unavailable: the daemon has no audit key yet. It is made in the HSM token the first time that the "
                    + "daemon opens it with this ledger; `paytokenctl status` says what is missing.")
        }
        let keys = given.compactMap { CheckpointKey(pem: $0.publicKey) }
        guard keys.map(\.keyId.hex) == given.map(\.keyId) else {
            throw CommandFailure(
                .unreachable,
                "The daemon's audit keys cannot be understood. \(otherVersion)")
        }
        return keys
    }

    /// The checkpoint that the HSM token remembers, according to the daemon.
    static func head(_ answer: AuditPublicKeyAnswer) throws -> [SignedCheckpoint] {
        guard let line = answer.head else {
            Console.error("The HSM token remembers no checkpoint, so a truncated end would not be found.")
            return []
        }
        guard let heads = SignedCheckpoint.list(parsing: Array(line.utf8)) else {
            throw CommandFailure(
                .unreachable,
                "The checkpoint that the HSM token remembers cannot be understood. \(otherVersion)")
        }
        return heads
    }

    /// All nodes that the daemon knows, and its own node.
    static func nodes(
        _ connection: DaemonConnection
    ) async throws -> (answer: AuditPublicKeyAnswer, own: AuditPublicKeyAnswer.Node, node: AuditNode) {
        let answer = try await connection.send(.get("/v1/audit/public-key?node=all"), for: AuditPublicKeyAnswer.self)
            .answer
        guard let own = answer.nodes?.first(where: \.isOwn), let node = AuditNode(own.node) else {
            throw CommandFailure(.unreachable, "The daemon does not say which nodes there are. \(otherVersion)")
        }
        return (answer, own, node)
    }

    static let otherVersion = "Do paytokend and paytokenctl have the same version?"

    /// Reads an export from its beginning, until `take` returns false.
    static func read(_ export: String, _ take: (_ block: [UInt8]) -> Bool) throws {
        var isFirst = true
        try InputFile.forEachBlock(of: export) { block in
            if isFirst, block.starts(with: AuditCSV.header.prefix(32)) {
                throw CommandFailure(
                    .unreadable,
                    "\(InputFile.name(export)) is CSV, which is for reading and cannot be verified. Export JSON lines: "
                        + "paytokenctl audit export --out record.jsonl")
            }
            isFirst = false
            return take(block)
        }
    }
}

extension VerificationInputs {

    /// The failure of chains that have no fault; nil if each is sealed to its known end and no node is absent.
    static func endFailure(of ranges: [ChainRange], absent: [AuditNode]) -> CommandFailure? {
        // A chain without any checkpoint comes first: nothing in it was verified.
        let unsealed = ranges.first { $0.sealedAt == nil } ?? ranges.first { !$0.isSealed }
        if unsealed != nil || ranges.isEmpty {
            let record = unsealed.map { "node \($0.node.name)'s record" } ?? "the record"
            return CommandFailure(
                unsealed?.sealedAt == nil ? .no : .endUnknown,
                "chain_unsealed: no checkpoint seals the end of \(record), so it may have been changed. An export's last line is "
                    + "a checkpoint: export again, and check that the HSM token is available (paytokenctl status).")
        }
        if !absent.isEmpty {
            let names = absent.prefix(20).map(\.name).joined(separator: ", ")
            return CommandFailure(
                .endUnknown,
                "chain_node_absent: the records name \(absent.count == 1 ? "node" : "nodes") \(names), of which there is no "
                    + "line here. Export all nodes (paytokenctl audit export --node all), or choose one with --node.")
        }
        guard let range = ranges.first(where: { !$0.endIsKnown }) else { return nil }
        return CommandFailure(
            .endUnknown,
            "chain_end_unknown: node \(range.node.name)'s record is intact up to record \(range.sealed), but nothing shows "
                + "that this was its end. Compare it with a head that was kept elsewhere, at most a day older than its last seal: "
                + "--head FILE.")
    }

    static var isFiltered: CommandFailure {
        CommandFailure(
            .no,
            "chain_filtered: this export was made with conditions, so it has gaps, and its hashes cannot be followed. "
                + "Export the same time without other conditions, verify that, and look these lines up in it.")
    }

    static func isBroken(_ fault: ChainBreak) -> CommandFailure {
        CommandFailure(
            .no,
            "chain_broken: \(fault.place). Later records were not checked. Keep this export, "
                + "and compare it with an older one or with a backup.")
    }
}

/// Passes an export through the verifier, showing its progress.
struct ExportVerification {
    private var verifier: ChainVerifier
    private var progress = ProgressLine()
    private var bytes = 0
    /// The number of bytes in total; nil if unknown.
    private let size: Int?

    /// - Parameter beginning: the required beginning of each chain; a daemon's own record begins with record 1 or after
    ///   its archives.
    ///   - isLive: true if a daemon returns the records, so that their end is the record's present end.
    init(
        keys: CheckpointKeys, heads: [SignedCheckpoint], size: Int?, beginning: ChainBeginning = .anyRecord,
        isLive: Bool = false
    ) {
        verifier = ChainVerifier(keys: keys, heads: heads, beginning: beginning, isLive: isLive)
        self.size = size
    }

    var lines: Int { verifier.lines }
    var records: Int { verifier.records }
    var archives: [AuditNode: [RecordArchive]] { verifier.archives }
    var absentNodes: [AuditNode] { verifier.absentNodes.sorted() }

    /// Takes the next bytes. Returns true if more bytes can change the verdict.
    mutating func consume(_ block: [UInt8]) -> Bool {
        verifier.consume(block[...])
        bytes += block.count
        if progress.isDue { progress.show(progressText) }
        return verifier.fault == nil
    }

    mutating func verdict() -> ChainVerdict {
        progress.clear()
        return verifier.verdict()
    }

    private var progressText: String {
        let share = size.flatMap { $0 > 0 ? ", \(min(100, bytes / max(1, $0 / 100))) %" : nil } ?? ""
        return "\(verifier.records.grouped) records verified\(share)"
    }
}

/// The result of a verification, for programs.
///
///     {"verdict":"filtered","lines":…,"records":…}
///     {"verdict":"intact","lines":…,"records":…,"nodes":[{"node":…,"first":…,"last":…,"sealed":…,"sealedAt":…}]}
///     {"verdict":"broken","lines":…,"records":…,"fault":{"line":…,"node":…,"kind":"record","sequence":…,"message":…}}
///
/// A node has `"unendorsedKeys":[{"keyId":…,"first":…}]` if there are any, and `"lateSeals":…`.
enum VerdictJSON {
    static func bytes(
        _ verdict: ChainVerdict, lines: Int, records: Int, archives: [ArchiveFiles.Named] = []
    ) -> [UInt8] {
        JSONWriter.object { json in
            json.member("verdict", word(verdict))
            json.member("lines", lines)
            json.member("records", records)
            switch verdict {
            case .intact(let ranges), .unsealed(let ranges): write(ranges, into: &json)
            case .filtered: break
            case .broken(let fault): write(fault, into: &json)
            }
            write(archives, into: &json)
        }
    }

    /// Writes `,"archives":[{"file":…,"node":…,"first":…,"last":…,"sha256":…}]`; nothing if there are none.
    static func write(_ archives: [ArchiveFiles.Named], into writer: inout JSONWriter) {
        if !archives.isEmpty { writer.member("archives", objects: archives) { $0.write(into: &$1) } }
    }

    private static func word(_ verdict: ChainVerdict) -> String {
        switch verdict {
        case .intact: "intact"
        case .unsealed: "unsealed"
        case .filtered: "filtered"
        case .broken: "broken"
        }
    }

    private static func write(_ ranges: [ChainRange], into writer: inout JSONWriter) {
        writer.member("nodes", objects: ranges) { range, json in
            json.member("node", range.node.name)
            write(range, into: &json)
            if range.sealedAt == nil {
                json.member("sealedAt")
                json.null()
            }
            json.member("endKnown", range.endIsKnown)
        }
    }

    static func write(_ range: ChainRange, into writer: inout JSONWriter) {
        writer.member("first", range.start + 1)
        writer.member("last", range.last)
        writer.member("sealed", range.sealed)
        writer.member("sealedAt", range.sealedAt?.text)
        if !range.unendorsedKeys.isEmpty {
            writer.member("unendorsedKeys", objects: range.unendorsedKeys) { key, json in
                json.member("keyId", key.keyId.hex)
                json.member("first", key.firstRecord)
            }
        }
        if range.lateSeals.count > 0 { writer.member("lateSeals", range.lateSeals.count) }
    }

    static func write(_ fault: ChainBreak, into writer: inout JSONWriter) {
        writer.member("fault") { json in
            json.member("line", fault.line)
            json.member("node", fault.position?.node.name)
            json.member("kind", fault.position?.kind.rawValue)
            json.member("sequence", fault.position?.sequence)
            json.member("message", fault.description)
        }
    }
}
