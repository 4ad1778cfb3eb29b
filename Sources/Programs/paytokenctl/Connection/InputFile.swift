import DaemonAPI
import Foundation
import StrictJSON

/// A file that was named on the command line; `-` is standard input.
enum InputFile {
    /// More than any token has and any request may have by default: 1 MiB.
    static let maximumByteCount = 1 << 20

    /// All of a file that is not larger than a limit.
    static func read(
        _ path: String, atMost maximumByteCount: Int = maximumByteCount
    ) throws(CommandFailure) -> [UInt8] {
        var bytes: [UInt8] = []
        // A pipe gives what it has, so until there is no more, and never more than one byte too many.
        try forEachBlock(of: path, byteCount: maximumByteCount + 1) { block in
            bytes += block
            return bytes.count <= maximumByteCount
        }
        guard !bytes.isEmpty else { throw CommandFailure(.unreadable, "\(name(path)) is empty.") }
        guard bytes.count <= maximumByteCount else {
            throw CommandFailure(.unreadable, "\(name(path)) is larger than \(maximumByteCount) bytes.")
        }
        return bytes
    }

    /// Reads a file of any size from its beginning to its end.
    ///
    /// - Parameters:
    ///   - byteCount: how much is read at once at most.
    ///   - take: takes the next bytes, and says whether it wants more.
    static func forEachBlock(
        of path: String, byteCount: Int = 1 << 18, _ take: (_ block: [UInt8]) -> Bool
    ) throws(CommandFailure) {
        do {
            var isDirectory: ObjCBool = false
            if path != "-", unsafe FileManager.default.fileExists(atPath: path, isDirectory: &isDirectory),
                isDirectory.boolValue
            {
                throw CommandFailure(.unreadable, "\(path) is a directory, not a file.")
            }
            let handle = path == "-" ? FileHandle.standardInput : try FileHandle(forReadingFrom: URL(filePath: path))
            while let part = try handle.read(upToCount: byteCount), !part.isEmpty {
                guard take(Array(part)) else { return }
            }
        } catch let failure as CommandFailure {
            throw failure
        } catch CocoaError.fileReadNoSuchFile, CocoaError.fileNoSuchFile {
            throw CommandFailure(.unreadable, "\(path) does not exist.")
        } catch CocoaError.fileReadNoPermission {
            throw CommandFailure(.unreadable, "\(path) may not be read by this user.")
        } catch {
            throw CommandFailure(.unreadable, "\(name(path)) cannot be read.")
        }
    }

    /// How many bytes there will be, where that can be known.
    static func size(_ path: String) -> Int? {
        guard path != "-", let attributes = try? FileManager.default.attributesOfItem(atPath: path),
            attributes[.type] as? FileAttributeType == .typeRegular
        else { return nil }
        return attributes[.size] as? Int
    }

    /// A payment token's bytes, one JSON document: checked here because they become part of a larger one.
    static func readPaymentToken(_ path: String) throws(CommandFailure) -> [UInt8] {
        let bytes = try read(path)
        do throws(JSONError) {
            _ = try JSONValue(parsing: bytes)
        } catch {
            throw CommandFailure(
                .no,
                "malformed_request: \(name(path)) is not one JSON document: \(error). Give a PKPaymentToken or its paymentData."
            )
        }
        return bytes
    }

    static func name(_ path: String) -> String { path == "-" ? "Standard input" : path }
}
