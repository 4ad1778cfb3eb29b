import ArgumentParser
import AuditChain
import CommandOutput
import DaemonAPI
import StrictJSON

struct AuditHeadCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "head",
        abstract: "Prints the record's newest checkpoint, made now, to be kept on another host.",
        discussion: """
            The output is the line that an export would end with. With it, anyone can show at any later time that no \
            record up to it was changed or removed: audit verify and scripts/verify-audit take it with --head. Keep \
            heads where this host's administrators cannot change them.

              paytokenctl audit head | ssh auditor@archive 'cat >> heads.jsonl'
              paytokenctl audit head --out head.json

            With --directory each head becomes a new file there, named by node, time and sequence. First the record is \
            verified from the newest head in the directory to the new one: a record that was rolled back or rewritten \
            is refused with chain_broken, and no head is kept. If no head of the node is kept, its first one is \
            refused too if the record is older than a day, or if there are heads of other nodes: its heads may have \
            been removed, or the node renamed. --first confirms that there were none. --compare verifies from a head \
            that is kept elsewhere. The systemd unit paytokend-audit-head.timer runs this each hour:

              paytokenctl audit head --directory /var/lib/paytokend-heads

            --node selects another node's head, or all: this node's is made now, another node's is the last that it \
            made.

            Exit status: 0 done; 1 the record does not continue from the kept head, none is kept of an old record, or \
            there is no head; 66 a file cannot be used; 75 the HSM token or the ledger is unavailable: try again \
            later.
            """)

    @Option(
        help: ArgumentHelp("A new file to write to; default standard output.", valueName: "file"), completion: .file())
    var out: String?

    @Option(
        help: ArgumentHelp(
            "A directory in which each head is kept in a new file, once it is compared with the newest there.",
            valueName: "directory"), completion: .directory)
    var directory: String?

    @Option(
        help: ArgumentHelp(
            "A kept checkpoint, from which the record must continue: a file of checkpoints, or the line itself.",
            valueName: "checkpoint"))
    var compare: String?

    @Flag(help: "Confirms that no head of the node's record was ever kept in the directory.")
    var first = false

    @OptionGroup var whose: NodeOption
    @OptionGroup var report: OutputOptions
    @OptionGroup var socket: AdminSocketOption

    func validate() throws {
        if out != nil, directory != nil { throw ValidationError("Give --out or --directory, not both.") }
        if compare != nil, directory != nil {
            throw ValidationError("--directory compares with the newest head in it: leave out --compare.")
        }
        if first, directory == nil { throw ValidationError("--first needs --directory.") }
        if report.output == .json, out == nil, directory == nil {
            throw ValidationError(
                "--output json describes the files that --out or --directory write; the head itself is already JSON.")
        }
    }

    func run() async throws {
        let kept = try directory.map { try HeadDirectory(directory: $0) }
        let known = try VerificationInputs.heads(compare)
        let heads = try await newest()
        var reports: [HeadReport] = []
        for head in heads {
            let node = head.checkpoint.node
            let former = try kept?.newest(of: node)
            if let kept, former == nil { try await requireBeginning(of: head, in: kept) }
            for earlier in former.map({ [$0.head] }) ?? known.filter({ $0.checkpoint.node == node }) {
                try await requireContinuation(of: earlier, by: head, keptIn: former?.file ?? "--compare")
            }
            reports.append(HeadReport(head: head, file: out, after: former?.head.checkpoint.sequence))
        }
        if let stray = known.first(where: { earlier in !heads.contains { $0.checkpoint.node == earlier.checkpoint.node }
        }) {
            throw CommandFailure(
                .no,
                "The head of --compare is of node \(stray.checkpoint.node.name), which was not requested; see --node.")
        }
        // Compare all heads before storing the first one.
        if let kept {
            for index in reports.indices { reports[index].file = try reports[index].file(in: kept) }
        } else if let out {
            try HeadDirectory.write(heads, to: out)
        } else {
            return try Console.output(heads.map { String(decoding: $0.line, as: UTF8.self) + "\n" }.joined())
        }
        switch report.output {
        case .table: for head in reports { try Console.output(head.sentence + "\n") }
        case .json: try Console.output(json: HeadReport.json(reports))
        }
    }

    private func newest() async throws -> [SignedCheckpoint] {
        let connection = socket.connection
        let answer = try await connection.send(.get("/v1/audit/head" + QueryText.of(whose.query)))
        guard !answer.body.isEmpty else {
            throw CommandFailure(
                .no, "There is no head: the node has sealed nothing yet, and only that node can seal its record.")
        }
        guard let heads = SignedCheckpoint.list(parsing: answer.body),
            Set(heads.map(\.checkpoint.node)).count == heads.count
        else { throw connection.unexpectedAnswer(answer.status) }
        return heads
    }

    /// Verifies the record from one head to another, reading only the records in between.
    private func requireContinuation(
        of earlier: SignedCheckpoint, by head: SignedCheckpoint, keptIn file: String
    ) async throws {
        let (old, new) = (earlier.checkpoint, head.checkpoint)
        guard new.sequence >= old.sequence else {
            throw Self.broken(
                old, file, "its newest checkpoint is of record \(new.sequence): the ledger was rolled back")
        }
        let connection = socket.connection
        let node = [("node", old.node.name)]
        let answer = try await connection.send(
            .get("/v1/audit/public-key" + QueryText.of(node)), for: AuditPublicKeyAnswer.self
        ).answer
        var verification = ExportVerification(
            keys: CheckpointKeys(try VerificationInputs.keys(answer.keys)), heads: [earlier, head], size: nil)
        let between = node + [("from", String(old.sequence + 1)), ("purpose", "verify")]
        let export = try await connection.stream(.get("/v1/audit/export" + QueryText.of(between)))
        try await export.forEachPiece { piece in verification.consume(piece) }
        guard case .intact = verification.verdict() else {
            throw Self.broken(old, file, verification.verdict().description)
        }
    }

    /// Throws unless this head can be accepted as the node's first one. If no head of the node is stored, nothing
    /// proves that the record continues an earlier one. Therefore the first head is accepted only for a young record
    /// and an empty directory, unless the operator states that it is the first. A node with another name has a
    /// different record.
    private func requireBeginning(of head: SignedCheckpoint, in kept: HeadDirectory) async throws {
        let node = head.checkpoint.node
        guard !first else { return }
        guard kept.isEmpty else {
            throw CommandFailure(
                .no,
                "\(kept.directory) has heads of other nodes but none of \(node.name): another daemon answers, or ledger.node has "
                    + "a new name.",
                more: ["No head was kept. If \(node.name) is a new node, run the command once with --first."])
        }
        let connection = socket.connection
        let query = [("node", node.name), ("order", "oldest"), ("limit", "1")]
        let answer = try await connection.send(.get("/v1/audit/records" + QueryText.of(query)))
        guard let items = (try? JSONValue(parsing: answer.body))?.objectValue?["items"]?.arrayValue, items.count == 1,
            let text = items[0].objectValue?["time"]?.stringValue, let oldest = AuditTime(rfc3339: text)
        else { throw connection.unexpectedAnswer(answer.status) }
        if head.checkpoint.time.date.timeIntervalSince(oldest.date) > Self.youngRecord {
            throw CommandFailure(
                .no,
                "\(kept.directory) has no head of node \(node.name), whose record goes back to \(oldest.text): nothing shows "
                    + "that it continues an earlier one.",
                more: [
                    "No head was kept. If there were heads, they were removed, or another daemon answers: copy them "
                        + "back from the other host. If this is the first, run the command once with --first."
                ])
        }
    }

    /// The age in seconds up to which the first head of a record is accepted without ``first``.
    private static let youngRecord = 86_400.0

    private static func broken(_ kept: Checkpoint, _ file: String, _ what: String) -> CommandFailure {
        CommandFailure(
            .no,
            "chain_broken: node \(kept.node.name)'s record does not continue from record \(kept.sequence) of "
                + "\(kept.time.text), whose head was kept (\(file)): \(what)",
            more: [
                "No head was kept. Either an older ledger was restored, or the record was changed: look for "
                    + "ledger_accept_restore in paytokenctl audit list, and compare an export with the heads on the other host. "
                    + "After a known restore, move the heads of records that it has lost to another directory; keep "
                    + "them, since they prove what was lost. If no head is left, use --first."
            ])
    }
}

/// The report on a head, for users and for programs.
///
///     {"heads":[{"node":…,"sequence":…,"time":…,"file":…,"after":…}]}
private struct HeadReport {
    let head: SignedCheckpoint
    var file: String?
    /// The sequence of the stored head from which the record was verified to continue; nil if none was stored.
    let after: Int?

    /// Stores the head in a file, unless the same head is already stored because the node has sealed nothing since.
    func file(in kept: HeadDirectory) throws -> String {
        if let same = try kept.newest(of: head.checkpoint.node), same.head == head { return same.file }
        return try kept.keep(head)
    }

    var sentence: String {
        let checkpoint = head.checkpoint
        return "\(file ?? "-"): node \(checkpoint.node.name), record \(checkpoint.sequence), "
            + (after.map { "intact from record \($0), whose head was kept" } ?? "the first head here")
    }

    static func json(_ reports: [HeadReport]) -> [UInt8] {
        JSONWriter.object { json in
            json.member("heads", objects: reports) { report, json in
                json.member("node", report.head.checkpoint.node.name)
                json.member("sequence", report.head.checkpoint.sequence)
                json.member("time", report.head.checkpoint.time.text)
                json.member("file", report.file)
                json.member("after", report.after)
            }
        }
    }
}
