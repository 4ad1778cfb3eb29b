import Glibc

/// Reads and writes of whole pieces, which block. With what FoundationEssentials lacks: all of Foundation, with its ICU, would be
/// most of the program, in the process that holds the PIN.
package enum BlockingDescriptor {
    /// One read(2): nil at the end, and when the descriptor broke.
    static func read(atMost count: Int, from descriptor: Int32) -> [UInt8]? {
        let piece = unsafe [UInt8](unsafeUninitializedCapacity: count) { buffer, initializedCount in
            var got: Int
            repeat {
                got = unsafe Glibc.read(descriptor, buffer.baseAddress, buffer.count)
            } while got < 0 && errno == EINTR
            initializedCount = max(got, 0)
        }
        return piece.isEmpty ? nil : piece
    }

    /// - Returns: false when the descriptor broke, or takes no more.
    @discardableResult
    package static func write(_ bytes: [UInt8], to descriptor: Int32) -> Bool {
        unsafe bytes.withUnsafeBytes { buffer in
            var written = 0
            while written < buffer.count {
                let count = unsafe Glibc.write(
                    descriptor, buffer.baseAddress.unsafelyUnwrapped + written, buffer.count - written)
                if count < 0 && errno == EINTR { continue }
                guard count > 0 else { return false }
                written += count
            }
            return true
        }
    }
}
