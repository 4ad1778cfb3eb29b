import ArgumentParser
import AuditChain
import Foundation

/// Writes the audit records of a simulated year of three nodes, as an export of all nodes. A truth file states the
/// year's actual events.
///
/// Tests compare a report on the records with the truth file. The same seed gives the same year, except for the
/// signatures of audit checkpoints.
@main
struct YearOfRecords: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "paytokend-year", abstract: "Writes a simulated year of the key-usage record, for tests.")

    @Option(help: "How many records all nodes have together; the year's fixed events are the least.")
    var records = 20_000
    @Option(help: "Of all that is left to chance.")
    var seed: UInt64 = 1
    @Option(
        help: "The age in seconds at which a record gets an audit checkpoint; one also comes after 1,000 records.")
    var sealAfter = CheckpointSchedule.maximumAge.components.seconds
    @Option(help: "When the year begins, RFC 3339.")
    var start = "2025-11-01T00:00:00Z"
    @Option(
        help:
            "The directory to make: records.jsonl, truth.json, uses.jsonl (the HSM's own log), and keys with each node's public keys."
    )
    var out: String

    func validate() throws {
        guard records > 0 else { throw ValidationError("--records is at least 1.") }
        guard AuditTime(rfc3339: start) != nil else {
            throw ValidationError("--start is a time such as 2025-11-01T00:00:00Z.")
        }
        guard !FileManager.default.fileExists(atPath: out) else { throw ValidationError("--out is there already.") }
    }

    func run() async throws {
        let directory = URL(filePath: out)
        let keys = directory.appending(path: "keys")
        try FileManager.default.createDirectory(at: keys, withIntermediateDirectories: true)
        guard let start = AuditTime(rfc3339: start) else { throw YearFailure("--start is no time") }
        let year = try Year(
            records: records, seed: seed, sealAfter: sealAfter * 1000, start: start, directory: directory)
        try await year.live(Story(of: year).acts)
        try join(year.nodes.map(\.part), into: directory.appending(path: "records.jsonl"))
        for node in year.nodes {
            let pem = node.keys.map(\.pem).joined()
            try Data(pem.utf8).write(to: keys.appending(path: "\(node.name).pem"))
        }
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.prettyPrinted, .sortedKeys, .withoutEscapingSlashes]
        try (encoder.encode(year.truth) + [0x0A]).write(to: directory.appending(path: "truth.json"))
    }

    /// Appends the nodes' files one after another to the export, copying one mebibyte at a time.
    private func join(_ parts: [URL], into export: URL) throws {
        guard FileManager.default.createFile(atPath: export.path, contents: nil) else {
            throw YearFailure("\(export.path) cannot be written")
        }
        let whole = try FileHandle(forWritingTo: export)
        for part in parts {
            let file = try FileHandle(forReadingFrom: part)
            while let bytes = try file.read(upToCount: 1 << 20), !bytes.isEmpty { try whole.write(contentsOf: bytes) }
            try file.close()
            try FileManager.default.removeItem(at: part)
        }
        try whole.close()
    }
}
