import AuditChain
import Foundation

/// The log of key uses in the HSM that all three nodes share. It contains every use, with or without an audit record, with the
/// times of the HSM's own clock.
final class TokenLog {
    private let file: FileHandle
    private var buffer: [UInt8] = []
    private var lines = 0
    /// The milliseconds by which the HSM's clock is slow.
    private static let slow: Int64 = 1_500

    init(_ path: URL, since: Int64, until: Int64) throws {
        guard FileManager.default.createFile(atPath: path.path, contents: nil) else {
            throw YearFailure("\(path.path) cannot be written")
        }
        file = try FileHandle(forWritingTo: path)
        write(
            #"{"format":"paytokend-token-uses","version":1,"kind":"log","since":"\#(Self.text(since))","#
                + #""until":"\#(Self.text(until))","token":"primary","serial":"\#(Year.serialNumber)"}"#)
    }

    /// Adds a use of a key to the log.
    ///
    /// - Parameter now: the actual time, in milliseconds since 1970.
    func use(_ key: AuditDigest, _ operation: RecordedKeyAttributes.Use, at now: Int64) throws {
        lines += 1
        write(
            #"{"time":"\#(Self.text(now - Self.slow))","publicKeyHash":"\#(key.base64)","#
                + #""operation":"\#(operation.rawValue)"}"#)
        guard buffer.count > 1 << 16 else { return }
        try flush()
    }

    func close() throws {
        write(#"{"end":\#(lines)}"#)
        try flush()
        try file.close()
    }

    private func write(_ line: String) { buffer += Array(line.utf8) + [0x0A] }

    private func flush() throws {
        try file.write(contentsOf: buffer)
        buffer.removeAll(keepingCapacity: true)
    }

    private static func text(_ time: Int64) -> String { AuditTime(milliseconds: time).text }
}
