import AuditChain
import CommandOutput
import Foundation

/// A directory of heads: checkpoints, each in its own file. The file's name contains the node, the time in UTC and the
/// sequence, such as `backend-1-2026-01-31T120002Z-1042.json`. A file appears either complete or not at all, and is
/// never replaced.
struct HeadDirectory {
    let directory: String
    /// The names of each node's newest file.
    private let newest: [AuditNode: HeadFileName]

    /// - Throws: if the directory cannot be read. Files with other names are ignored.
    init(directory: String) throws {
        let names: [String]
        do {
            names = try FileManager.default.contentsOfDirectory(atPath: directory)
        } catch {
            throw CommandFailure(
                .unreadable, "\(directory) is not a directory that this user may read; make it first, for this user.")
        }
        self.directory = directory
        var newest: [AuditNode: HeadFileName] = [:]
        for name in names.compactMap(HeadFileName.init(text:))
        where newest[name.node].map({ $0.sequence < name.sequence }) ?? true {
            newest[name.node] = name
        }
        self.newest = newest
    }

    /// True if there is no head for any node.
    var isEmpty: Bool { newest.isEmpty }

    /// The newest head of a node, with its file; nil if none is stored.
    ///
    /// - Throws: if the file's content contradicts its name.
    func newest(of node: AuditNode) throws -> (file: String, head: SignedCheckpoint)? {
        guard let name = newest[node] else { return nil }
        let file = path(name)
        guard let heads = SignedCheckpoint.list(parsing: try InputFile.read(file)), heads.count == 1,
            HeadFileName(heads[0].checkpoint) == name
        else {
            throw CommandFailure(
                .unreadable,
                "\(file) does not hold the checkpoint of its name, so it was changed. No head was kept: find out who changed it, and copy the "
                    + "original file from the other host.")
        }
        return (file, heads[0])
    }

    /// Stores a head in a new file, and returns the file's name.
    func keep(_ head: SignedCheckpoint) throws -> String {
        let path = path(HeadFileName(head.checkpoint))
        try Self.write([head], to: path)
        return path
    }

    /// Writes a file that every account with access to the directory can read. A head reveals only the number of
    /// records, and an account other than the daemon's should copy it to another host.
    static func write(_ heads: [SignedCheckpoint], to path: String) throws {
        let file = try NewFile(path, mode: 0o644)
        try file.write(heads.flatMap { $0.line + [0x0A] })
        try file.publish()
    }

    private func path(_ name: HeadFileName) -> String {
        directory.hasSuffix("/") ? directory + name.text : "\(directory)/\(name.text)"
    }
}

/// The name of a stored head's file.
struct HeadFileName: Equatable {
    let node: AuditNode
    /// The head's time, in the form of ``AuditTime/fileNameText``.
    private let time: String
    let sequence: Int

    init(_ checkpoint: Checkpoint) {
        node = checkpoint.node
        time = checkpoint.time.fileNameText
        sequence = checkpoint.sequence
    }

    /// Parses a file's name. Returns nil if it is not the name of a stored head's file.
    init?(text: String) {
        let pattern = /(.{1,64})-([0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{6}Z)-([1-9][0-9]{0,18})\.json/
        guard let match = text.wholeMatch(of: pattern), let node = AuditNode(String(match.1)),
            let sequence = Int(match.3)
        else { return nil }
        self.node = node
        time = String(match.2)
        self.sequence = sequence
    }

    var text: String { "\(node.name)-\(time)-\(sequence).json" }
}
