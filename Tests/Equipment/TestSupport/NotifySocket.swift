import CLinux
import Glibc

/// The service manager's end of the socket that NOTIFY_SOCKET names.
public final class NotifySocket: Sendable {
    private let descriptor: CInt

    public init(path: String) throws {
        descriptor = socket(AF_UNIX, CInt(SOCK_DGRAM.rawValue) | CInt(SOCK_NONBLOCK.rawValue), 0)
        let error = unsafe paytokend_unix_bind(descriptor, path)
        guard error == 0 else { throw NotifySocketFailure(errno: error) }
    }

    deinit { close(descriptor) }

    /// Returns the oldest unread datagram; nil if there is none.
    public func next() -> String? {
        var bytes = [UInt8](repeating: 0, count: 4096)
        let count = unsafe recv(descriptor, &bytes, bytes.count, 0)
        return count < 0 ? nil : String(decoding: bytes.prefix(count), as: UTF8.self)
    }
}

public struct NotifySocketFailure: Error {
    public let errno: CInt
}
