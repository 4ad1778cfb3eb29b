import AuditChain
import CommandOutput
import DaemonAPI
import Foundation
import StrictJSON

// Unsafe: Foundation writes the Boolean whose address it receives before it returns.

/// A file on the command line; `-` is standard input.
enum InputFile {
    /// The default size limit of a file, 1 MiB. Payment tokens are smaller, and so are requests by default.
    static let maximumByteCount = 1 << 20

    /// The content of a file that is not larger than the limit.
    static func read(
        _ path: String, atMost maximumByteCount: Int = maximumByteCount
    ) throws -> [UInt8] {
        var bytes: [UInt8] = []
        // A read from a pipe returns what is available, so read until its end, and at most one byte too many.
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
    ///   - byteCount: the largest number of bytes that is read at once.
    ///   - take: takes the next bytes; returns false to stop.
    static func forEachBlock(
        of path: String, byteCount: Int = 1 << 18, _ take: (_ block: [UInt8]) throws -> Bool
    ) throws {
        var isDirectory: ObjCBool = false
        if path != "-", unsafe FileManager.default.fileExists(atPath: path, isDirectory: &isDirectory),
            isDirectory.boolValue
        {
            throw CommandFailure(.unreadable, "\(path) is a directory, not a file.")
        }
        let handle = try reading(path) {
            path == "-" ? FileHandle.standardInput : try FileHandle(forReadingFrom: URL(filePath: path))
        }
        while let part = try reading(path, { try handle.read(upToCount: byteCount) }), !part.isEmpty {
            guard try take(Array(part)) else { return }
        }
    }

    private static func reading<Result>(_ path: String, _ body: () throws -> Result) throws(CommandFailure) -> Result {
        do {
            return try body()
        } catch CocoaError.fileReadNoSuchFile, CocoaError.fileNoSuchFile {
            throw CommandFailure(.unreadable, "\(path) does not exist.")
        } catch CocoaError.fileReadNoPermission {
            throw CommandFailure(.unreadable, "\(path) may not be read by this user.")
        } catch {
            throw CommandFailure(.unreadable, "\(name(path)) cannot be read.")
        }
    }

    /// Reads a file of lines from its beginning to its end, and shows the progress.
    ///
    /// - Parameters:
    ///   - progress: returns a sentence about the number of bytes read.
    ///   - readBlock: takes the bytes of each block before its lines.
    ///   - take: takes a line without its line feed.
    /// - Returns: the state of the splitter where reading ended: at the end of the file, or at the first line that is
    ///   longer than any record.
    static func forEachLine(
        of path: String, progress: (_ read: Int) -> String, readBlock: ([UInt8]) -> Void = { _ in },
        take: (_ line: [UInt8]) throws -> Void
    ) throws -> LineSplitter {
        var (shown, lines, read) = (ProgressLine(), LineSplitter(), 0)
        defer { shown.clear() }
        try forEachBlock(of: path) { block in
            readBlock(block)
            for line in lines.take(block[...]) { try take(line) }
            read += block.count
            if shown.isDue { shown.show(progress(read)) }
            return !lines.isOverlong
        }
        return lines
    }

    /// The file's size in bytes; nil for standard input, and for anything but a regular file.
    static func size(_ path: String) -> Int? {
        guard path != "-", let attributes = try? FileManager.default.attributesOfItem(atPath: path),
            attributes[.type] as? FileAttributeType == .typeRegular
        else { return nil }
        return attributes[.size] as? Int
    }

    /// Reads a payment token's bytes, and checks that they are one JSON document, because they become part of a larger
    /// document.
    static func readPaymentToken(_ path: String) throws -> [UInt8] {
        let bytes = try read(path)
        do {
            _ = try JSONValue(parsing: bytes)
        } catch {
            throw CommandFailure(
                .no,
                "malformed_request: \(name(path)) is not one JSON document: \(error). Give the payment token as the wallet made it."
            )
        }
        return bytes
    }

    /// True for a payment token of Google Pay: an object with one of the members that only Google's have, or a string
    /// with such an object.
    static func isGooglePay(paymentToken: [UInt8]) -> Bool {
        var json = try? JSONValue(parsing: paymentToken)
        if let text = json?.stringValue { json = try? JSONValue(parsing: text) }
        return json?.objectValue.map { $0["protocolVersion"] != nil || $0["signedMessage"] != nil } ?? false
    }

    /// The predicate of a message about a file that is no payment token of Google Pay. Users often pass the enclosing object.
    static let isNoGooglePay =
        "is no payment token of Google Pay, which is the value of paymentMethodData.tokenizationData.token"

    static func name(_ path: String) -> String { path == "-" ? "Standard input" : path }
}
