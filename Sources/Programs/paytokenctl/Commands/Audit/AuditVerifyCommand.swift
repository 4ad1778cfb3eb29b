import ArgumentParser
import AuditChain
import CommandOutput
import DaemonAPI

struct AuditVerifyCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "verify",
        abstract: "Verifies the record: that nothing in it was changed, removed, inserted or reordered.",
        discussion: """
            Every record's hash covers the record before it, and checkpoints that the HSM token signs seal them. The \
            first fault is named with its line and record, and ends the verification.

            By default the daemon returns the record and its public keys, and the end is compared with the checkpoint \
            that the HSM token remembers, if it can (NSS softokn cannot):

              paytokenctl audit verify

            An auditor needs no daemon, only an export, and the public key from a trusted person:

              paytokenctl audit verify --export record.jsonl --public-key key.pem

            An end that was cut off at a checkpoint, or a ledger that was rolled back, shows only against a \
            checkpoint kept elsewhere. An export's last line is one; keep it for the next time:

              tail -n 1 record.jsonl > head.json
              paytokenctl audit verify --export next.jsonl --public-key key.pem \\
                  --head head.json

            If several hosts share a ledger, --node verifies another node's record, or all, each separately. For \
            another node only a given key counts, or one that the asked daemon has pinned in its own record, which is \
            verified first; the output says which. Without either, the node's record is not verified, and the output \
            says so. NODE=FILE gives a node's key:

              paytokenctl audit verify --node all
              paytokenctl audit verify --node host-2 --public-key host-2=key-2.pem

            In an export of all nodes, --pinned-by names the record whose pins count; it is verified with a given key:

              paytokenctl audit verify --export records.jsonl --node all \\
                  --public-key host-1=key.pem --pinned-by host-1

            Old records that left the ledger (ledger.retain_records) are in files. Given with --archive, the oldest \
            first, they are verified together with the remaining records, as one chain from record 1 on:

              paytokenctl audit verify --archive host-1.1-204800.jsonl

            Exit status: 0 intact, up to the given head or the daemon's present end; 2 intact up to its last checkpoint, \
            but no head shows that this was the end, records after it are not sealed, or a node that the records name \
            is absent; 1 broken, without any checkpoint, or filtered (an export with conditions has gaps and proves \
            nothing by itself); 66 a file cannot be used. scripts/verify-audit verifies an export without any of this \
            program's code.
            """)

    @OptionGroup var given: ExportOptions
    @OptionGroup var archives: ArchiveOption
    @OptionGroup var whose: NodeOption
    @OptionGroup var format: OutputOptions
    @OptionGroup var socket: AdminSocketOption

    func validate() throws {
        if given.pinnedBy != nil, given.export == nil || given.export == "-" {
            throw ValidationError(
                "--pinned-by reads the export's file twice: name it with --export. Without --export, the asked daemon's pins are used."
            )
        }
        if given.export == "-", given.publicKey.contains(where: { $0.file == "-" }) || given.head == "-" {
            throw ValidationError("Only one of the files can be standard input.")
        }
    }

    func run() async throws {
        guard whose.node == nil, given.pinnedBy == nil, given.publicKey.allSatisfy({ $0.node == nil }) else {
            return try await verifyNodes()
        }
        let keys = try VerificationInputs.keys(given.publicKey)
        let heads = try VerificationInputs.heads(given.head)
        var verification: ExportVerification
        if let export = given.export, let keys {
            verification = ExportVerification(
                keys: keys, heads: heads, size: archives.archive.isEmpty ? InputFile.size(export) : nil,
                beginning: archives.files.beginning(otherwise: .anyRecord))
            try archives.files.read { verification.consume($0) }
            try VerificationInputs.read(export) { verification.consume($0) }
        } else {
            verification = try await verifyLive(keys, heads)
        }
        let verdict = verification.verdict()
        let named = try verdict.isIntact ? archives.files.named(by: verification.archives) : []
        try show(verdict, of: verification, archives: named)
    }

    private func verifyNodes() async throws {
        let verification = NodesVerification(
            trusted: try VerificationInputs.trusted(given.publicKey), heads: try VerificationInputs.heads(given.head),
            wanted: whose.node ?? .all, archives: archives.files)
        let report =
            if let export = given.export { try verification.report(export: export, pinnedBy: given.pinnedBy?.one) } else
            {
                try await verification.live(socket.connection)
            }
        try report.show(format.output)
    }

    private func verifyLive(
        _ keys: CheckpointKeys?, _ heads: [SignedCheckpoint]
    ) async throws -> ExportVerification {
        let connection = socket.connection
        // Get the remembered checkpoint before the record, so that the record reaches at least to that checkpoint.
        let known = try await connection.send(.get("/v1/audit/public-key"), for: AuditPublicKeyAnswer.self).answer
        let trusted = if let keys { keys } else { CheckpointKeys(try VerificationInputs.keys(known.keys)) }
        var verification = ExportVerification(
            keys: trusted, heads: heads + (try VerificationInputs.head(known)), size: nil,
            beginning: archives.files.beginning(otherwise: .afterArchive), isLive: true)
        try archives.files.read { verification.consume($0) }
        let answer = try await connection.stream(.get("/v1/audit/export?purpose=verify"))
        try await answer.forEachPiece { piece in verification.consume(piece) }
        return verification
    }

    private func show(
        _ verdict: ChainVerdict, of verification: ExportVerification, archives: [ArchiveFiles.Named]
    ) throws {
        switch format.output {
        case .table: try Console.output(([verdict.description] + archives.map(\.text)).joined(separator: "\n") + "\n")
        case .json:
            try Console.output(
                json: VerdictJSON.bytes(
                    verdict, lines: verification.lines, records: verification.records, archives: archives))
        }
        switch verdict {
        case .intact(let ranges), .unsealed(let ranges):
            ranges.flatMap(\.remarks).forEach(Console.error)
            // The daemon itself returns the record of its own node only.
            let absent = given.export == nil ? [] : verification.absentNodes
            if let failure = VerificationInputs.endFailure(of: ranges, absent: absent) { throw failure }
        case .filtered: throw VerificationInputs.isFiltered
        case .broken(let fault): throw VerificationInputs.isBroken(fault)
        }
    }
}
