import ArgumentParser
import AuditChain
import CommandOutput
import Crypto
import Foundation
import StrictJSON

/// `--archive`: the daemon's archive files, in the given order.
struct ArchiveOption: ParsableArguments {
    @Option(
        help: ArgumentHelp(
            "A file of old records that left the ledger (ledger.retain_records); may be repeated, the oldest first. Then the record has to "
                + "begin with record 1.", valueName: "file"), completion: .file())
    var archive: [String] = []

    func validate() throws {
        if archive.contains("-") {
            throw ValidationError("--archive names a file, and is not read from standard input.")
        }
    }

    var files: ArchiveFiles { ArchiveFiles(paths: archive) }
}

/// Files of archived records, which are read before the remaining records.
struct ArchiveFiles {
    let paths: [String]

    /// Returns the required beginning of each chain: record 1 if archives are given.
    ///
    /// - Parameter otherwise: the required beginning if no archives are given.
    func beginning(otherwise: ChainBeginning) -> ChainBeginning { paths.isEmpty ? otherwise : .record1 }

    /// Reads the files in sequence.
    ///
    /// - Parameters:
    ///   - node: the node whose files are read; nil for all.
    ///   - take: returns false to stop.
    func read(of node: AuditNode? = nil, _ take: ([UInt8]) -> Bool) throws {
        var isWanted = true
        for path in paths where isWanted {
            if let node, try Self.node(of: path) != node { continue }
            try InputFile.forEachBlock(of: path) { block in
                isWanted = take(block)
                return isWanted
            }
        }
    }

    /// Concatenates the files into one.
    func copy(to file: NewFile) throws {
        for path in paths {
            try InputFile.forEachBlock(of: path) { block in
                try file.write(block)
                return true
            }
        }
    }

    /// The node whose records a file contains, according to its first line; nil if there is none.
    private static func node(of path: String) throws -> AuditNode? {
        var line: [UInt8] = []
        try InputFile.forEachBlock(of: path) { block in
            line += block
            return !line.contains(0x0A) && line.count <= AuditLine.maximumBytes
        }
        let first = Array(line.prefix { $0 != 0x0A })
        return SignedCheckpoint(line: first)?.checkpoint.node ?? (try? AuditEntry(line: first))?.node
    }

    /// A file, and the archive in the verified record that it belongs to.
    struct Named {
        let path: String
        let node: AuditNode
        let archive: RecordArchive

        /// `archive node-1.1-20.jsonl: records 1 to 20 of node node-1, SHA-256 as recorded`
        var text: String {
            "archive \(InputFile.name(path)): records \(archive.first) to \(archive.last) of node \(node.name), SHA-256 as recorded"
        }

        func write(into writer: inout JSONWriter) {
            writer.member("file", path)
            writer.member("node", node.name)
            writer.member("first", archive.first)
            writer.member("last", archive.last)
            writer.member("sha256", archive.digest.hex)
        }
    }

    /// Finds each file's SHA-256 among the archives that the verified record names.
    ///
    /// - Throws: an error if the record names no archive with a file's SHA-256. The file's records were verified
    ///   before, so the difference is in another part of the file.
    func named(by archives: [AuditNode: [RecordArchive]]) throws -> [Named] {
        var found: [Named] = []
        for path in paths {
            var hash = SHA256()
            try InputFile.forEachBlock(of: path) { block in
                hash.update(data: block)
                return true
            }
            let digest = AuditDigest(bytes: Array(hash.finalize()))
            let named = archives.lazy.compactMap { node, archives in
                archives.first { $0.digest == digest }.map { Named(path: path, node: node, archive: $0) }
            }.first
            guard let named else {
                throw CommandFailure(
                    .no,
                    "archive_changed: no record names a file with the SHA-256 of \(InputFile.name(path)), \(digest?.hex ?? ""). Its "
                        + "records form an unbroken chain; other parts of the file were changed, or it is a copy that was made by "
                        + "other means.")
            }
            found.append(named)
        }
        return found
    }
}
