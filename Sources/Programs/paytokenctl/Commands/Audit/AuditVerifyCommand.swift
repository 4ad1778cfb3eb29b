import ArgumentParser
import AuditChain
import DaemonAPI

struct AuditVerifyCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "verify",
        abstract: "Verifies the record: that nothing in it was changed, removed, inserted or reordered.",
        discussion: """
            Every record's hash covers the record before it, and checkpoints that the token signs seal them. The \
            first fault is named with its line and record, and ends the verification.

            Live, the daemon is asked for the record and its public keys, and the end is compared with the checkpoint \
            that the token remembers, if it can (NSS softokn cannot):

              paytokenctl audit verify

            An auditor needs no daemon, but an export and the public key from somebody to be trusted:

              paytokenctl audit verify --export record.jsonl --public-key key.pem

            An end that was cut off at a checkpoint, or a ledger that was rolled back, shows only against a \
            checkpoint kept elsewhere. An export's last line is one; keep it for the next time:

              tail -n 1 record.jsonl > head.json
              paytokenctl audit verify --export next.jsonl --public-key key.pem \\
                  --head head.json

            Where several hosts share a ledger, --node verifies another node's record, or all, each by itself. Only a key that is \
            given counts for another node, or one that the asked daemon has pinned in its own record, which is verified \
            first; the output says which. Without either nothing is verified, and it says so. NODE=FILE gives a node's key:

              paytokenctl audit verify --node all
              paytokenctl audit verify --node host-2 --public-key host-2=key-2.pem

            In an export of all nodes, --pinned-by names the record whose pins count; it is verified with a given key:

              paytokenctl audit verify --export records.jsonl --node all \\
                  --public-key host-1=key.pem --pinned-by host-1

            Old records that left the ledger (ledger.retain_records) stand in files. Given with --archive, the oldest first, they are \
            verified together with what is left, as one chain from record 1 on:

              paytokenctl audit verify --archive host-1.1-204800.jsonl

            Exit status: 0 intact; 1 broken, unsealed (records at the end are in no checkpoint) or filtered (an export \
            with conditions has gaps and proves nothing by itself); 66 a file cannot be used. scripts/verify-audit says \
            the same of an export without any of this program's code.
            """)

    @Option(
        help: ArgumentHelp("An export in JSON lines, - for standard input; default the daemon's.", valueName: "file"),
        completion: .file())
    var export: String?

    @Option(
        help: ArgumentHelp(
            "The checkpoints' public keys in PEM, of one node or of any; may be repeated. Default the daemon's, for its own record.",
            valueName: "[node=]file"), completion: .file())
    var publicKey: [GivenKeyFile] = []

    @OptionGroup var archives: ArchiveOption

    @OptionGroup var whose: NodeOption

    @Option(
        help: ArgumentHelp(
            "The node in whose record, in an export, other nodes' keys are pinned; it needs a given key.",
            valueName: "node"),
        completion: .node)
    var pinnedBy: NodeName?

    @Option(
        help: ArgumentHelp("A checkpoint that was kept: a file of them, or the line itself.", valueName: "checkpoint"))
    var head: String?

    @OptionGroup var format: OutputOptions
    @OptionGroup var socket: AdminSocketOption

    func validate() throws {
        if pinnedBy == .all { throw ValidationError("--pinned-by is one node's name.") }
        if pinnedBy != nil, export == nil || export == "-" {
            throw ValidationError(
                "--pinned-by reads the export's file twice: name it with --export. Live, the asked daemon's pins count."
            )
        }
        if export != nil, publicKey.isEmpty {
            throw ValidationError(
                "--export is verified with --public-key FILE: an export does not say whom to trust. "
                    + "`paytokenctl audit public-key` prints the daemon's.")
        }
        if export == "-", publicKey.contains(where: { $0.file == "-" }) || head == "-" {
            throw ValidationError("Only one of the files can be standard input.")
        }
    }

    func run() async throws {
        guard whose.node == nil, pinnedBy == nil, publicKey.allSatisfy({ $0.node == nil }) else {
            return try await verifyNodes()
        }
        let keys = try VerificationInputs.keys(publicKey)
        let heads = try head.map { argument in try VerificationInputs.heads(argument) } ?? []
        var verification: ExportVerification
        if let export, let keys {
            verification = ExportVerification(
                keys: keys, heads: heads, size: archives.archive.isEmpty ? InputFile.size(export) : nil,
                beginning: archives.files.beginning(otherwise: .anywhere))
            try archives.files.read { verification.consume($0) }
            try verify(export, &verification)
        } else {
            verification = try await verifyLive(keys, heads)
        }
        let verdict = verification.verdict()
        let named = try verdict.exitStatus == 0 ? archives.files.named(by: verification.archives) : []
        try show(verdict, lines: verification.lines, records: verification.records, archives: named)
    }

    private func verify(_ export: String, _ verification: inout ExportVerification) throws(CommandFailure) {
        var isCSV = false
        try InputFile.forEachBlock(of: export) { block in
            isCSV = isCSV || verification.lines == 0 && block.starts(with: AuditCSV.header.prefix(32))
            return !isCSV && verification.consume(block)
        }
        guard !isCSV else { throw VerificationInputs.isCSV(export) }
    }

    private func verifyNodes() async throws(CommandFailure) {
        var trusted = TrustedKeys(given: try VerificationInputs.keys(publicKey.filter { $0.node == nil }))
        for given in publicKey {
            if let node = given.node { trusted.give(try VerificationInputs.keys(file: given.file), for: node) }
        }
        let heads = try head.map { argument throws(CommandFailure) in try VerificationInputs.heads(argument) } ?? []
        let verification = NodesVerification(
            trusted: trusted, heads: heads, wanted: whose.node ?? .all, archives: archives.files)
        let report: NodesReport
        if let export {
            guard case .one(let pinning)? = pinnedBy else {
                report = try verification.report(export: export, pinnedBy: nil)
                return try report.show(format.output)
            }
            report = try verification.report(export: export, pinnedBy: pinning)
        } else {
            report = try await verification.live(socket.connection)
        }
        try report.show(format.output)
    }

    private func verifyLive(
        _ keys: CheckpointKeys?, _ heads: [SignedCheckpoint]
    ) async throws(CommandFailure) -> ExportVerification {
        let connection = socket.connection
        // First what the token remembers, then the record: which is then at least as long.
        let known = try await connection.send(.get("/v1/audit/public-key"), for: AuditPublicKeyAnswer.self).answer
        let trusted = if let keys { keys } else { try VerificationInputs.keys(known) }
        var verification = ExportVerification(
            keys: trusted, heads: heads + (try VerificationInputs.head(known)), size: nil,
            beginning: archives.files.beginning(otherwise: .behindArchive))
        try archives.files.read { verification.consume($0) }
        let answer = try await connection.stream(.get("/v1/audit/export?purpose=verify"))
        try await answer.forEachPiece { piece in verification.consume(piece) }
        return verification
    }

    private func show(
        _ verdict: ChainVerdict, lines: Int, records: Int, archives: [ArchiveFiles.Named]
    ) throws(CommandFailure) {
        switch format.output {
        case .table: try Console.output(([verdict.description] + archives.map(\.text)).joined(separator: "\n") + "\n")
        case .json:
            try Console.output(json: VerdictJSON.bytes(verdict, lines: lines, records: records, archives: archives))
        }
        switch verdict {
        case .intact: return
        case .unsealed:
            throw CommandFailure(
                .no,
                "chain_unsealed: no checkpoint seals the end, so it may have been changed. An export's last line is a "
                    + "checkpoint: export again, and look whether the token is there (paytokenctl status).")
        case .filtered: throw VerificationInputs.isFiltered
        case .broken(let fault): throw VerificationInputs.isBroken(fault)
        }
    }
}
