import Foundation

/// A small file system in memory, which is mounted for one test.
public final class SmallDisk: Sendable {
    private let directory: FreshDirectory
    public let path: String

    public static var isPermitted: Bool {
        get async {
            guard let disk = try? await SmallDisk(kibibytes: 64) else { return false }
            return (try? await disk.unmount()) != nil
        }
    }

    public init(kibibytes: Int) async throws {
        directory = try FreshDirectory()
        path = try directory.makeDirectory("disk")
        let result = try await Program.run(
            Program.installed("mount"), ["-t", "tmpfs", "-o", "size=\(kibibytes)k,mode=0700", "tmpfs", path])
        guard result.status == 0 else { throw NotMounted(reason: result.error) }
    }

    /// Fills the file system, except for `room` bytes.
    public func fill(leaving room: UInt64 = 0) throws {
        guard FileManager.default.createFile(atPath: path + "/filler", contents: nil),
            let filler = FileHandle(forWritingAtPath: path + "/filler")
        else { throw NotMounted(reason: "the filler cannot be written") }
        defer { try? filler.close() }
        var size = 65_536
        while size > 0 {
            do {
                try filler.write(contentsOf: Data(repeating: 1, count: size))
            } catch {
                size /= 2
            }
        }
        if room > 0 { try filler.truncate(atOffset: try filler.offset() - room) }
    }

    public func free() throws { try FileManager.default.removeItem(atPath: path + "/filler") }

    public func unmount() async throws {
        // A child that another test has just forked holds copies of open descriptors until it executes its program, so
        // umount may fail at first.
        try await wait(for: "umount") { try await Program.run(Program.installed("umount"), [path]).status == 0 }
    }

    public struct NotMounted: Error { public let reason: String }
}
