import DaemonAPI
import Foundation
import StrictJSON

/// A document that goes to the daemon as it is.
enum InputFile {
    /// More than any token has and any request may have by default: 1 MiB.
    static let maximumByteCount = 1 << 20

    /// - Parameter path: `-` for standard input.
    static func read(_ path: String) throws(CommandFailure) -> [UInt8] {
        let bytes: [UInt8]
        do {
            let handle = path == "-" ? FileHandle.standardInput : try FileHandle(forReadingFrom: URL(filePath: path))
            var isDirectory: ObjCBool = false
            if path != "-", unsafe FileManager.default.fileExists(atPath: path, isDirectory: &isDirectory),
                isDirectory.boolValue
            {
                throw CommandFailure(.unreadable, "\(path) is a directory, not a file.")
            }
            var data = Data()
            // A pipe gives what it has, so until there is no more, and never more than one byte too many.
            while data.count <= maximumByteCount,
                let part = try handle.read(upToCount: maximumByteCount + 1 - data.count), !part.isEmpty
            {
                data.append(part)
            }
            bytes = Array(data)
        } catch let failure as CommandFailure {
            throw failure
        } catch CocoaError.fileReadNoSuchFile, CocoaError.fileNoSuchFile {
            throw CommandFailure(.unreadable, "\(path) does not exist.")
        } catch CocoaError.fileReadNoPermission {
            throw CommandFailure(.unreadable, "\(path) may not be read by this user.")
        } catch {
            throw CommandFailure(.unreadable, "\(path) cannot be read.")
        }
        let name = path == "-" ? "Standard input" : path
        guard !bytes.isEmpty else { throw CommandFailure(.unreadable, "\(name) is empty.") }
        guard bytes.count <= maximumByteCount else {
            throw CommandFailure(.unreadable, "\(name) is larger than \(maximumByteCount) bytes.")
        }
        return bytes
    }

    /// A payment token's bytes, one JSON document: checked here because they become part of a larger one.
    static func readToken(_ path: String) throws(CommandFailure) -> [UInt8] {
        let bytes = try read(path)
        do throws(JSONError) {
            _ = try JSONValue(parsing: bytes)
        } catch {
            let name = path == "-" ? "Standard input" : path
            throw CommandFailure(
                .no,
                "malformed_request: \(name) is not one JSON document: \(error). Give a PKPaymentToken or its paymentData."
            )
        }
        return bytes
    }
}
