import AuditChain
import CommandOutput
import DaemonAPI
import Encodings
import StrictJSON

/// `audit verify` for other nodes' records, or for several.
struct NodesVerification {
    var trusted: TrustedKeys
    let heads: [SignedCheckpoint]
    let wanted: NodeName
    var archives = ArchiveFiles(paths: [])

    private var only: AuditNode? { wanted.one }

    // MARK: An export

    /// - Parameter pinning: the node whose record says which keys are trusted; the file is then read twice.
    func report(export: String, pinnedBy pinning: AuditNode?) throws -> NodesReport {
        var trusted = trusted
        var report = NodesReport()
        if let pinning {
            guard trusted.keys(of: pinning) != nil else {
                throw CommandFailure(
                    .usage,
                    "There is no trusted key for the record of \(pinning.name), so its pins prove nothing. Give its "
                        + "key: --public-key \(pinning.name)=FILE")
            }
            let verifier = try verified(export, trusted, only: pinning, readsPins: true)
            trusted.trust(verifier.pins, of: pinning)
            // This record says which keys of the other nodes are trusted. So a fault in it is reported, although the
            // user did not select its node.
            if let only, only != pinning { report.add(verifier, onlyIfFaulty: true) }
        }
        report.add(try verified(export, trusted, only: only))
        try report.name(archives)
        return report
    }

    private func verified(
        _ export: String, _ trusted: TrustedKeys, only node: AuditNode?, readsPins: Bool = false
    ) throws -> ChainVerifier {
        var verifier = ChainVerifier(
            separately: trusted, heads: heads, only: node, readsPins: readsPins,
            beginning: archives.beginning(otherwise: .anyRecord))
        var progress = ProgressLine()
        defer { progress.clear() }
        try archives.read { Self.take($0, &verifier) }
        try VerificationInputs.read(export) { block in
            if progress.isDue { progress.show("\(verifier.records.grouped) records verified") }
            return Self.take(block, &verifier)
        }
        return verifier
    }

    private static func take(_ block: [UInt8], _ verifier: inout ChainVerifier) -> Bool {
        verifier.consume(block[...])
        return !verifier.isOver
    }

    // MARK: Live

    func live(_ connection: DaemonConnection) async throws -> NodesReport {
        // Get the remembered checkpoint and the ends of the records before the records, so that the records reach at
        // least to these ends.
        let (known, own, ownNode) = try await VerificationInputs.nodes(connection)
        let nodes = known.nodes ?? []
        if let only, !nodes.contains(where: { $0.node == only.name }) {
            throw CommandFailure(
                .no,
                "node_not_found: this ledger has no node \(only.name); it has "
                    + nodes.prefix(20).map { Printable.text($0.node) }.joined(separator: ", "))
        }
        var trusted = trusted
        var report = NodesReport()
        if trusted.keys(of: ownNode) == nil {
            trusted.trust(
                own: CheckpointKeys(try VerificationInputs.keys(own.keys)), of: ownNode)
        }
        let beginning = archives.beginning(otherwise: .afterArchive)
        // The trusted keys in the daemon's own record are needed for every node for which no key is given.
        let needsOwn = only.map { $0 == ownNode || trusted.keys(of: $0) == nil } ?? true
        if needsOwn {
            let remembered = try VerificationInputs.head(known)
            var verifier = ChainVerifier(
                separately: trusted, heads: heads + remembered, only: ownNode, others: .refused, readsPins: true,
                beginning: beginning, isLive: true)
            try archives.read(of: ownNode) { Self.take($0, &verifier) }
            try await read(nil, connection, into: &verifier)
            trusted.trust(verifier.pins, of: ownNode)
            report.add(verifier, onlyIfFaulty: only != nil && only != ownNode)
        }
        let others = Set(nodes.filter { !$0.isOwn }.compactMap { AuditNode($0.node) })
            .union(trusted.pinnedNodes).union(trusted.boundNodes).subtracting([ownNode])
        for node in others.sorted() where only == nil || only == node {
            let info = nodes.first { $0.node == node.name }
            var verifier = ChainVerifier(
                separately: trusted, heads: heads, only: node, others: .refused, beginning: beginning, isLive: true)
            try archives.read(of: node) { Self.take($0, &verifier) }
            if info != nil { try await read(node, connection, into: &verifier) }
            report.add(verifier, lastSequence: info?.lastSequence)
        }
        try report.name(archives)
        return report
    }

    private func read(
        _ node: AuditNode?, _ connection: DaemonConnection, into verifier: inout ChainVerifier
    ) async throws {
        let query = (node.map { [("node", $0.name)] } ?? []) + [("purpose", "verify")]
        let answer = try await connection.stream(.get("/v1/audit/export" + QueryText.of(query)))
        var progress = ProgressLine()
        var running = verifier
        try await answer.forEachPiece { piece in
            if progress.isDue { progress.show("\(running.records.grouped) records verified") }
            return Self.take(piece, &running)
        }
        verifier = running
        progress.clear()
    }
}

/// The result for each node's record.
struct NodesReport {
    private struct Part {
        let verdict: NodeVerdict
        /// The number of records after the last checkpoint, which were not exported; nil if unknown.
        let later: Int?

        var text: String {
            guard let later, later > 0 else { return verdict.description }
            return verdict.description
                + "; \(later == 1 ? "1 later record is" : "\(later) later records are") not sealed yet"
        }
    }

    /// The verdict of the last record or export that was verified for its own result, and not only for the keys that it
    /// trusts.
    private(set) var verdict: NodesVerdict?
    private var parts: [Part] = []
    private var faults: [ChainBreak] = []
    /// The archives that the records name, and the given files.
    private var archives: [AuditNode: [RecordArchive]] = [:]
    private var files: [ArchiveFiles.Named] = []
    private var filteredRecords: Int?
    private var absentNodes: [AuditNode] = []
    private var lines = 0
    private var records = 0

    /// - Parameters:
    ///   - onlyIfFaulty: true if the record was verified only for the keys that it trusts.
    ///   - last: the record's last sequence in the ledger, including unsealed records.
    mutating func add(_ verifier: ChainVerifier, lastSequence last: Int? = nil, onlyIfFaulty: Bool = false) {
        let verdict = verifier.verdictOfNodes()
        if !onlyIfFaulty {
            self.verdict = verdict
            absentNodes += verdict.absentNodes
        }
        archives.merge(verifier.archives) { $0 + $1 }
        lines += verifier.lines
        records += verifier.records
        if let fault = verdict.fault { faults.append(fault) }
        filteredRecords = verdict.filteredRecords ?? filteredRecords
        for node in verdict.nodes where !onlyIfFaulty || !node.isIntact {
            let range = node.isVerified ? node.range : nil
            parts.append(Part(verdict: node, later: range.flatMap { range in last.map { $0 - range.last } }))
        }
    }

    /// Finds each given file among the archives that the records name, if all records are intact.
    mutating func name(_ archives: ArchiveFiles) throws {
        if faults.isEmpty, parts.allSatisfy(\.verdict.isIntact) { files = try archives.named(by: self.archives) }
    }

    private var text: String {
        let lines = faults.map(\.description) + parts.map(\.text) + files.map(\.text)
        if let filteredRecords { return ChainVerdict.filtered(records: filteredRecords).description }
        return lines.isEmpty ? ChainVerdict.unsealed([]).description : lines.joined(separator: "\n")
    }

    /// Shows the report, and throws unless every record is intact.
    func show(_ output: OutputFormat) throws {
        switch output {
        case .table: try Console.output(text + "\n")
        case .json: try Console.output(json: json)
        }
        if filteredRecords != nil { throw VerificationInputs.isFiltered }
        if let fault = faults.first { throw VerificationInputs.isBroken(fault) }
        for part in parts {
            let node = part.verdict.node.name
            switch part.verdict.finding {
            case .intact, .unsealed: continue
            case .broken(let fault): throw VerificationInputs.isBroken(fault)
            case .unverified:
                throw CommandFailure(
                    .no,
                    "chain_unverified: no key is given for node \(node), and the asked daemon's record pins none, so its record was not "
                        + "verified. Get its key on that host (paytokenctl audit public-key), and give it: --public-key "
                        + "\(node)=FILE")
            }
        }
        guard !parts.isEmpty else { throw CommandFailure(.no, "chain_unsealed: there is no record.") }
        let ranges = parts.compactMap(\.verdict.range)
        ranges.flatMap(\.remarks).forEach(Console.error)
        if let failure = VerificationInputs.endFailure(of: ranges, absent: absentNodes) { throw failure }
    }

    // MARK: For programs

    private var word: String {
        if filteredRecords != nil { return "filtered" }
        if !faults.isEmpty { return "broken" }
        let words = parts.map { Self.word($0.verdict.finding) }
        return ["broken", "unverified", "unsealed"].first { words.contains($0) }
            ?? (words.isEmpty ? "unsealed" : "intact")
    }

    private static func word(_ finding: NodeVerdict.Finding) -> String {
        switch finding {
        case .intact: "intact"
        case .unsealed: "unsealed"
        case .broken: "broken"
        case .unverified: "unverified"
        }
    }

    private var json: [UInt8] {
        JSONWriter.object { json in
            json.member("verdict", word)
            json.member("lines", lines)
            json.member("records", records)
            if let fault = faults.first { VerdictJSON.write(fault, into: &json) }
            json.member("nodes", objects: parts, Self.write)
            VerdictJSON.write(files, into: &json)
        }
    }

    private static func write(_ part: Part, into json: inout JSONWriter) {
        json.member("node", part.verdict.node.name)
        json.member("verdict", word(part.verdict.finding))
        if case .broken(let fault) = part.verdict.finding { VerdictJSON.write(fault, into: &json) }
        if let range = part.verdict.range { VerdictJSON.write(range, into: &json) }
        if part.verdict.isVerified { json.member("endKnown", part.verdict.range?.endIsKnown) }
        json.member("later", part.later)
        switch part.verdict.source {
        case .given?: json.member("key", "given")
        case .own?: json.member("key", "own")
        case .pinned(let node)?:
            json.member("key", "pinned")
            json.member("pinnedBy", node.name)
        case nil: break
        }
    }
}
