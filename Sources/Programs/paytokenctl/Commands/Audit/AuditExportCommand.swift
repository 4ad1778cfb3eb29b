import ArgumentParser
import AuditChain
import CommandOutput
import DaemonAPI
import Encodings
import StrictJSON

struct AuditExportCommand: AsyncParsableCommand {
    enum Format: String, ExpressibleByArgument, CaseIterable {
        case jsonl
        case csv
    }

    static let configuration = CommandConfiguration(
        commandName: "export",
        abstract: "Exports the record: JSON lines to verify and archive, CSV to read.",
        discussion: """
            JSON lines are the stored lines byte for byte with the checkpoints between them, and end with a checkpoint \
            made for the export. A part limited by time begins with the checkpoint before its first record, so it can \
            be verified separately. CSV cannot be verified.

              paytokenctl audit export --out record.jsonl
              paytokenctl audit verify --export record.jsonl --public-key key.pem
              paytokenctl audit export --since 30d --format csv --out month.csv

            With --key, --merchant, --caller, --outcome or --transaction only the records that meet all of these are \
            written. The records between them are missing, so such an export proves nothing by itself, as its first \
            line says, and audit verify calls it filtered. Each of its lines is, byte for byte, in the export without \
            conditions too. Who used that key in March:

              paytokenctl audit export --key 1f8b3c90 --since 2026-03-01 --until 2026-03-31

            With --out the file is readable by its owner only, is complete or does not exist, and never replaces \
            another. With --follow new records are written as they arrive, until the command is interrupted; then it \
            exits 0 and keeps the file:

              paytokenctl audit export --since 5m --follow | logger --size 16K -t paytokend

            --node all writes each node's record, this one's first, one after the other. Another node's record ends \
            with its last checkpoint, since only that node can seal more; standard error says where it ends, and with \
            --out and --output json standard output:

              paytokenctl audit export --node all --out records.jsonl
              paytokenctl audit export --node host-2 --out two.jsonl --output json
            """)

    @Option(
        help: ArgumentHelp("A new file to write to; default standard output.", valueName: "file"), completion: .file())
    var out: String?

    @Option(help: ArgumentHelp("JSON lines, or CSV for reading.", valueName: "jsonl|csv"))
    var format: Format = .jsonl

    @OptionGroup var whose: NodeOption
    @OptionGroup var period: PeriodOptions
    @OptionGroup var conditions: RecordConditions

    @Flag(help: "Continues with new records as they arrive.")
    var follow = false

    @OptionGroup var report: OutputOptions
    @OptionGroup var socket: AdminSocketOption

    func validate() throws {
        if report.output == .json, out == nil || follow {
            throw ValidationError("--output json describes the complete file that --out names: give --out.")
        }
        if follow, whose.node != nil {
            throw ValidationError(
                "--follow is only for the record of the daemon that is asked: another node's continues only with that node's checkpoints. Leave out --node."
            )
        }
        if follow, period.until != nil {
            throw ValidationError("--follow has no end, so --until cannot go with it.")
        }
        if follow, !conditions.query.isEmpty {
            throw ValidationError(
                "--follow writes every record as it arrives: leave out "
                    + "\(conditions.query.map { "--\($0.name)" }.joined(separator: ", ")), and filter where they arrive."
            )
        }
    }

    func run() async throws {
        let ends =
            if let node = whose.node { try await OtherNodesEnds.ask(node, socket.connection) } else {
                [AuditPublicKeyAnswer.Node]()
            }
        let lines: WholeLines
        if let out {
            guard let written = try await Interruption.cancelling({ try await write(to: out) }) else { return }
            lines = written
        } else if follow {
            lines = try await Interruption.ending { try await copy { try Console.output(part: $0) } }
        } else {
            lines = try await copy { try Console.output(part: $0) }
        }
        if follow {
            throw CommandFailure(.tryAgainLater, "The daemon has ended the export. Start it again to continue.")
        }
        OtherNodesEnds.tell(ends)
        if report.output == .json, let out {
            try Console.output(json: ExportReport(file: out, isSealed: lines.isSealed, nodes: ends).bytes)
        }
        if format == .jsonl, !lines.isSealed,
            !(ends.allSatisfy { !$0.isOwn && $0.sealedSequence == nil } && !ends.isEmpty)
        {
            Console.error("warning: the export is unsealed: it does not end with a checkpoint.")
        }
    }

    var target: String {
        var query = whose.query + period.query + conditions.query
        query.append(("format", format.rawValue))
        if follow { query.append(("follow", "true")) }
        query.append(("purpose", "export"))
        return "/v1/audit/export" + QueryText.of(query)
    }

    /// - Returns: nil if the user ended a followed export.
    private func write(to path: String) async throws -> WholeLines? {
        let file = try NewFile(path)
        var progress = ProgressLine()
        defer { progress.clear() }
        var written = 0
        do {
            let lines = try await copy { part in
                try file.write(part)
                written += part.count
                if progress.isDue { progress.show("\((written >> 10).grouped) KiB exported") }
            }
            try file.publish()
            return lines
        } catch  where follow && Task.isCancelled {
            // The user ended the export. The file contains only whole lines, so it is published as it is.
            try file.publish()
            return nil
        }
    }

    /// Passes the export to `take` in whole lines.
    private func copy(
        to take: (_ part: [UInt8]) throws -> Void
    ) async throws -> WholeLines {
        // Days may pass between two records.
        let answer = try await socket.connection.stream(.get(target), idle: follow ? nil : .seconds(60))
        var lines = WholeLines()
        try await answer.forEachPiece { piece in
            let whole = lines.take(piece)
            if !whole.isEmpty { try take(whole) }
            return true
        }
        if !lines.remainder.isEmpty { try take(lines.remainder) }
        return lines
    }
}

/// The report on an export to a file, for programs.
///
///     {"file":…,"sealed":true,"nodes":[{"node":…,"own":false,"sealed":1100,"last":1103,"sealedAt":…}]}
struct ExportReport {
    let file: String
    /// True if the file's last line is a checkpoint. A file in CSV contains no checkpoints.
    let isSealed: Bool
    /// The nodes that `--node` selects.
    let nodes: [AuditPublicKeyAnswer.Node]

    var bytes: [UInt8] {
        JSONWriter.object { json in
            json.member("file", file)
            json.member("sealed", isSealed)
            json.member("nodes", objects: nodes) { node, json in
                json.member("node", node.node)
                json.member("own", node.isOwn)
                // Report where another node's part ends; this node's part ends with a checkpoint made for the export.
                guard !node.isOwn else { return }
                json.member("sealed", node.sealedSequence ?? 0)
                json.member("last", node.lastSequence)
                json.member("sealedAt", node.sealedAt.map(RFC3339.string))
            }
        }
    }
}

/// Passes on only whole lines of a stream, so that an export that is stopped at any time ends with a whole line.
struct WholeLines {
    /// The longest incomplete line that is kept, 1 MiB. A longer one is passed on before its line feed has arrived.
    private static let maximumWait = 1 << 20

    /// The beginning of a line whose line feed has not arrived yet.
    private var rest: [UInt8] = []
    /// The beginning of the last whole line, which is enough to recognise a checkpoint.
    private var lastBeginning: [UInt8] = []

    private static let checkpoint = Array("{\"checkpoint\":".utf8)

    var isSealed: Bool { lastBeginning == Self.checkpoint }

    /// The bytes of an incomplete line, which have arrived but were not passed on.
    var remainder: [UInt8] { rest }

    /// Returns the lines that the next bytes complete.
    mutating func take(_ piece: [UInt8]) -> [UInt8] {
        guard let end = piece.lastIndex(of: 0x0A) else {
            rest += piece
            guard rest.count > Self.maximumWait else { return [] }
            defer { rest = [] }
            return rest
        }
        let lines = rest + piece[...end]
        rest = Array(piece[(end + 1)...])
        let before = lines.dropLast().lastIndex(of: 0x0A).map { $0 + 1 } ?? 0
        lastBeginning = Array(lines[before...].prefix(Self.checkpoint.count))
        return lines
    }
}
