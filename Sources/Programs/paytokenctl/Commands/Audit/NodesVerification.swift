import AuditChain
import CommandOutput
import DaemonAPI
import Encodings
import StrictJSON

/// `audit verify` of other nodes' records, or of several.
struct NodesVerification {
    var trusted: TrustedKeys
    let heads: [SignedCheckpoint]
    let wanted: NodeName
    var archives = ArchiveFiles(paths: [])

    private var only: AuditNode? { if case .one(let node) = wanted { node } else { nil } }

    // MARK: An export

    /// - Parameter pinning: whose record pins keys; the file is read twice then.
    func report(export: String, pinnedBy pinning: AuditNode?) throws(CommandFailure) -> NodesReport {
        var trusted = trusted
        var report = NodesReport()
        if let pinning {
            guard trusted.keys(of: pinning) != nil else {
                throw CommandFailure(
                    .usage,
                    "Nothing says whose signatures are right in the record of \(pinning.name), so its pins prove nothing. Give its "
                        + "key: --public-key \(pinning.name)=FILE")
            }
            var verifier = NodesVerifier(
                trusted, heads: heads, only: pinning, readsPins: true,
                beginning: archives.beginning(otherwise: .anywhere))
            try archives.read { Self.take($0, &verifier) }
            try read(export, into: &verifier)
            trusted.believe(verifier.pins, of: pinning)
            // What it is pinned by is part of the verdict.
            if let only, only != pinning { report.add(verifier.verdict(), verifier, onlyIfFaulty: true) }
        }
        var verifier = NodesVerifier(
            trusted, heads: heads, only: only, beginning: archives.beginning(otherwise: .anywhere))
        try archives.read { Self.take($0, &verifier) }
        try read(export, into: &verifier)
        report.add(verifier.verdict(), verifier)
        try report.name(archives)
        return report
    }

    private static func take(_ block: [UInt8], _ verifier: inout NodesVerifier) -> Bool {
        verifier.consume(block[...])
        return !verifier.isOver
    }

    private func read(_ export: String, into verifier: inout NodesVerifier) throws(CommandFailure) {
        var isCSV = false
        var progress = ProgressLine()
        try InputFile.forEachBlock(of: export) { block in
            isCSV = isCSV || verifier.lines == 0 && block.starts(with: AuditCSV.header.prefix(32))
            verifier.consume(block[...])
            if progress.isDue { progress.show("\(verifier.records.grouped) records verified") }
            return !isCSV && !verifier.isOver
        }
        progress.clear()
        guard !isCSV else { throw VerificationInputs.isCSV(export) }
    }

    // MARK: Live

    func live(_ connection: DaemonConnection) async throws(CommandFailure) -> NodesReport {
        // First what the token remembers and where the records end, then the records: which are then at least as long.
        let known = try await connection.send(.get("/v1/audit/public-key?node=all"), for: AuditPublicKeyAnswer.self)
            .answer
        let nodes = known.nodes ?? []
        guard let own = nodes.first(where: \.isOwn), let ownNode = AuditNode(own.node) else {
            throw CommandFailure(
                .unreachable,
                "The daemon does not say which nodes there are. Have paytokend and paytokenctl the same version?")
        }
        if let only, !nodes.contains(where: { $0.node == only.name }) {
            throw CommandFailure(
                .no,
                "node_not_found: this ledger has no node \(only.name); it has "
                    + nodes.prefix(20).map { Printable.text($0.node) }.joined(separator: ", "))
        }
        var trusted = trusted
        var report = NodesReport()
        if trusted.keys(of: ownNode) == nil {
            trusted.believe(
                own: try VerificationInputs.keys(AuditPublicKeyAnswer(keys: own.keys)), of: ownNode)
        }
        let beginning = archives.beginning(otherwise: .behindArchive)
        // Its pins are needed for every node that no key is given for.
        let needsOwn = only.map { $0 == ownNode || trusted.keys(of: $0) == nil } ?? true
        if needsOwn {
            let remembered = try VerificationInputs.head(known)
            var verifier = NodesVerifier(
                trusted, heads: heads + remembered, only: ownNode, others: .refused, readsPins: true,
                beginning: beginning)
            try archives.read(of: ownNode) { Self.take($0, &verifier) }
            try await read(nil, connection, into: &verifier)
            trusted.believe(verifier.pins, of: ownNode)
            report.add(verifier.verdict(), verifier, onlyIfFaulty: only != nil && only != ownNode)
        }
        let others = Set(nodes.filter { !$0.isOwn }.compactMap { AuditNode($0.node) })
            .union(trusted.pinnedNodes).union(trusted.boundNodes).subtracting([ownNode])
        for node in others.sorted() where only == nil || only == node {
            let info = nodes.first { $0.node == node.name }
            var verifier = NodesVerifier(trusted, heads: heads, only: node, others: .refused, beginning: beginning)
            try archives.read(of: node) { Self.take($0, &verifier) }
            if info != nil { try await read(node, connection, into: &verifier) }
            report.add(verifier.verdict(), verifier, lastSequence: info?.lastSequence)
        }
        try report.name(archives)
        return report
    }

    private func read(
        _ node: AuditNode?, _ connection: DaemonConnection, into verifier: inout NodesVerifier
    ) async throws(CommandFailure) {
        let query = (node.map { [("node", $0.name)] } ?? []) + [("purpose", "verify")]
        let answer = try await connection.stream(.get("/v1/audit/export" + QueryText.of(query)))
        var progress = ProgressLine()
        var running = verifier
        try await answer.forEachPiece { piece in
            running.consume(piece[...])
            if progress.isDue { progress.show("\(running.records.grouped) records verified") }
            return !running.isOver
        }
        verifier = running
        progress.clear()
    }
}

/// What was found of each node's record.
struct NodesReport {
    private struct Part {
        let verdict: NodeVerdict
        /// Records behind the last checkpoint, which were not exported; nil where that is not known.
        let later: Int?

        var text: String {
            guard let later, later > 0 else { return verdict.description }
            return verdict.description
                + "; \(later == 1 ? "1 later record is" : "\(later) later records are") not sealed yet"
        }
    }

    /// Of the last record or export that was verified for itself.
    private(set) var verdict: NodesVerdict?
    private var parts: [Part] = []
    private var faults: [ChainBreak] = []
    /// What the records say of archives, and the files that were given.
    private var archives: [AuditNode: [RecordArchive]] = [:]
    private var files: [ArchiveFiles.Named] = []
    private var filteredRecords: Int?
    private var lines = 0
    private var records = 0

    /// - Parameters:
    ///   - onlyIfFaulty: it was verified for its pins, and not asked for.
    ///   - last: where the record ends in the ledger, with what is not sealed.
    mutating func add(
        _ verdict: NodesVerdict, _ verifier: NodesVerifier, lastSequence last: Int? = nil, onlyIfFaulty: Bool = false
    ) {
        if !onlyIfFaulty { self.verdict = verdict }
        archives.merge(verifier.archives) { $0 + $1 }
        lines += verifier.lines
        records += verifier.records
        if let fault = verdict.fault { faults.append(fault) }
        filteredRecords = verdict.filteredRecords ?? filteredRecords
        for node in verdict.nodes where !onlyIfFaulty || !node.isIntact {
            let range: ChainRange? =
                switch node.finding {
                case .intact(let range), .unsealed(let range): range
                case .broken, .unverified: nil
                }
            parts.append(Part(verdict: node, later: range.flatMap { range in last.map { $0 - range.last } }))
        }
    }

    /// Looks the files up in what the records say, where these are intact.
    mutating func name(_ archives: ArchiveFiles) throws(CommandFailure) {
        if faults.isEmpty, parts.allSatisfy(\.verdict.isIntact) { files = try archives.named(by: self.archives) }
    }

    private var text: String {
        let lines = faults.map(\.description) + parts.map(\.text) + files.map(\.text)
        if let filteredRecords { return ChainVerdict.filtered(records: filteredRecords).description }
        return lines.isEmpty ? ChainVerdict.unsealed([]).description : lines.joined(separator: "\n")
    }

    /// Shows it, and throws unless every record is intact.
    func show(_ output: OutputFormat) throws(CommandFailure) {
        switch output {
        case .table: try Console.output(text + "\n")
        case .json: try Console.output(json: json)
        }
        if filteredRecords != nil { throw VerificationInputs.isFiltered }
        if let fault = faults.first { throw VerificationInputs.isBroken(fault) }
        for part in parts {
            let node = part.verdict.node.name
            switch part.verdict.finding {
            case .intact: continue
            case .broken(let fault): throw VerificationInputs.isBroken(fault)
            case .unsealed:
                throw CommandFailure(
                    .no,
                    "chain_unsealed: no checkpoint seals the end of node \(node)'s record, so it may have been changed."
                )
            case .unverified:
                throw CommandFailure(
                    .no,
                    "chain_unverified: no key is given for node \(node), and the record that was asked pins none, so nothing of it was "
                        + "verified. Get its key on that host (paytokenctl audit public-key), and give it: --public-key "
                        + "\(node)=FILE")
            }
        }
        guard !parts.isEmpty else { throw CommandFailure(.no, "chain_unsealed: there is no record.") }
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
        var writer = JSONWriter()
        writer.beginObject()
        writer.member("verdict", word)
        writer.member("lines", lines)
        writer.member("records", records)
        if let fault = faults.first { VerdictJSON.write(fault, into: &writer) }
        writer.member("nodes")
        writer.beginArray()
        for part in parts { Self.write(part, into: &writer) }
        writer.endArray()
        VerdictJSON.write(files, into: &writer)
        writer.endObject()
        return writer.bytes
    }

    private static func write(_ part: Part, into writer: inout JSONWriter) {
        writer.beginObject()
        writer.member("node", part.verdict.node.name)
        writer.member("verdict", word(part.verdict.finding))
        switch part.verdict.finding {
        case .intact(let range), .unsealed(let range): write(range, into: &writer)
        case .unverified(let range?): write(range, into: &writer)
        case .unverified(nil): break
        case .broken(let fault): VerdictJSON.write(fault, into: &writer)
        }
        writer.member("later", part.later)
        switch part.verdict.source {
        case .given?: writer.member("key", "given")
        case .own?: writer.member("key", "own")
        case .pinned(let node)?:
            writer.member("key", "pinned")
            writer.member("pinnedBy", node.name)
        case nil: break
        }
        writer.endObject()
    }

    private static func write(_ range: ChainRange, into writer: inout JSONWriter) {
        writer.member("first", range.start + 1)
        writer.member("last", range.last)
        writer.member("sealed", range.sealed)
        writer.member("sealedAt", range.sealedAt?.text)
    }
}
