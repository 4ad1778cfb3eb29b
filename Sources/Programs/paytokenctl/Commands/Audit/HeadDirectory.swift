import AuditChain
import CommandOutput
import Foundation

/// A directory of heads: checkpoints, each in a file of its own whose name says the node, the time in UTC and the sequence, as
/// `backend-1-2026-01-31T120002Z-1042.json`. A file is there whole or not at all, and is never replaced.
struct HeadDirectory {
    let directory: String
    /// The names of the newest of each node.
    private let newest: [AuditNode: HeadFileName]

    /// - Throws: where it cannot be read. What has another name than a head is left alone.
    init(directory: String) throws {
        let names: [String]
        do {
            names = try FileManager.default.contentsOfDirectory(atPath: directory)
        } catch {
            throw CommandFailure(
                .unreadable, "\(directory) is no directory that this user may read; make it first, for this user.")
        }
        self.directory = directory
        var newest: [AuditNode: HeadFileName] = [:]
        for name in names.compactMap(HeadFileName.init(text:))
        where newest[name.node].map({ $0.sequence < name.sequence }) ?? true {
            newest[name.node] = name
        }
        self.newest = newest
    }

    /// Whether there is a head of any node.
    var isEmpty: Bool { newest.isEmpty }

    /// The newest head of a node, with its file; nil when none is kept.
    ///
    /// - Throws: when its file holds something else than its name says.
    func newest(of node: AuditNode) throws -> (file: String, head: SignedCheckpoint)? {
        guard let name = newest[node] else { return nil }
        let file = path(name)
        guard let heads = SignedCheckpoint.list(parsing: try InputFile.read(file)), heads.count == 1,
            HeadFileName(heads[0].checkpoint) == name
        else {
            throw CommandFailure(
                .unreadable,
                "\(file) does not hold the checkpoint that its name says. Nothing was kept: look who changed it, and take the "
                    + "file as it was from the other host.")
        }
        return (file, heads[0])
    }

    /// Keeps a head in a new file, and says which.
    func keep(_ head: SignedCheckpoint) throws -> String {
        let path = path(HeadFileName(head.checkpoint))
        try Self.write([head], to: path)
        return path
    }

    /// Readable by all whom the directory lets in: a head says how many records there are and no more, and who copies it to
    /// another host is better another account than the daemon's.
    static func write(_ heads: [SignedCheckpoint], to path: String) throws {
        let file = try NewFile(path, mode: 0o644)
        try file.write(heads.flatMap { $0.line + [0x0A] })
        try file.publish()
    }

    private func path(_ name: HeadFileName) -> String {
        directory.hasSuffix("/") ? directory + name.text : "\(directory)/\(name.text)"
    }
}

/// The name of a kept head's file.
struct HeadFileName: Equatable {
    let node: AuditNode
    /// ``AuditTime/fileNameText``.
    private let time: String
    let sequence: Int

    init(_ checkpoint: Checkpoint) {
        node = checkpoint.node
        time = checkpoint.time.fileNameText
        sequence = checkpoint.sequence
    }

    /// Nil for any other file's name.
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
