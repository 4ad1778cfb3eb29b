package import AuditChain
import Encodings
package import FairShares
import Foundation
package import HTTPListener
package import Ledger
import NIOPosix
package import Refusals

/// Allows one copy of the ledger at a time, since each copy needs as much disk space as the ledger itself.
package final class LedgerCopyLock: Sendable {
    private let lock = AsyncLock()

    package init() {}

    /// Acquires the lock, which is released with the lease.
    /// - Throws: overloaded while another copy is being made or sent.
    package func acquire() throws(Refusal) -> AsyncLock.Lease {
        guard let lease = lock.lease() else {
            throw Refusal(.overloaded, "Another backup of the ledger is under way; try again when it is done.")
        }
        return lease
    }
}

/// A copy of the ledger in a file without a name. The file is unlinked as soon as it is open. It therefore disappears when
/// the copy has been sent, or when this process ends.
package final class LedgerCopy: Sendable {
    /// The size of the copy in bytes.
    package let bytes: Int
    /// The SHA-256 of the copy.
    package let digest: AuditDigest
    private let file: FileHandle
    private let lease: AsyncLock.Lease

    private static let pieceBytes = 256 * 1024

    /// Copies the ledger to a new file in the ledger's directory, which only the daemon's user can read.
    ///
    /// - Parameter path: the path of the ledger's file.
    /// - Throws: ledger_unavailable.
    package static func make(
        of ledger: any Ledger, nextTo path: String, lease: AsyncLock.Lease
    ) async throws(Refusal) -> LedgerCopy {
        let name = path + Self.suffix + Hexadecimal.encode((0..<16).map { _ in UInt8.random(in: 0...255) })
        do {
            try await onAnotherThread { removeLeftOvers(of: path) }
            let backup = try await ledger.backup(to: name)
            let file = try await onAnotherThread {
                defer { try? FileManager.default.removeItem(atPath: name) }
                return try FileHandle(forReadingFrom: URL(filePath: name))
            }
            return LedgerCopy(bytes: backup.bytes, digest: backup.digest, file: file, lease: lease)
        } catch {
            let reason =
                switch error as? LedgerBackupError {
                case .cannotWrite(_, let reason): "the copy cannot be written in the ledger's directory: \(reason)"
                case .unavailable(let reason): reason
                case .exists, .notAbsolute, nil: "the copy cannot be opened"
                }
            throw Refusal(.ledgerUnavailable, "The ledger cannot be copied at present.", details: reason)
        }
    }

    private init(bytes: Int, digest: AuditDigest, file: FileHandle, lease: AsyncLock.Lease) {
        self.bytes = bytes
        self.digest = digest
        self.file = file
        self.lease = lease
    }

    deinit { try? file.close() }

    package func write(to writer: BodyWriter) async throws {
        while true {
            let piece = try await Self.onAnotherThread { [file] in
                Array(try file.read(upToCount: Self.pieceBytes) ?? Data())
            }
            if piece.isEmpty { return }
            try await writer.write(piece)
        }
    }

    // MARK: The file's name

    private static let suffix = ".backup-"

    /// Removes copies that a process made but did not unlink, because it ended too early. No running process can still
    /// need such a copy: this process holds the copy lock, and the ledger's lock excludes other processes.
    private static func removeLeftOvers(of path: String) {
        let ledger = URL(filePath: path)
        let directory = ledger.deletingLastPathComponent().path
        let beginning = ledger.lastPathComponent + suffix
        for name in (try? FileManager.default.contentsOfDirectory(atPath: directory)) ?? []
        where name.hasPrefix(beginning) {
            let rest = name.dropFirst(beginning.count)
            let digits = rest.hasSuffix(".partial") ? rest.dropLast(".partial".count) : rest
            guard digits.utf8.count == 32, Hexadecimal.isLowerCase(digits.utf8) else { continue }
            try? FileManager.default.removeItem(atPath: "\(directory)/\(name)")
        }
    }

    private static func onAnotherThread<Value: Sendable>(
        _ work: @escaping @Sendable () throws -> Value
    ) async throws -> Value {
        try await NIOThreadPool.singleton.runIfActive(work)
    }
}
