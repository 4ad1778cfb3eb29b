import Dispatch
import Foundation
import Glibc

/// A private folder for this process's sockets and files. It is removed when the process exits.
enum ScratchFolder {
    /// The path without a final slash.
    static let path: String = {
        let path = name
        unsafe mkdir(path, 0o700)
        atexit { try? FileManager.default.removeItem(atPath: ScratchFolder.name) }
        return path
    }()

    private static let name = FileManager.default.temporaryDirectory.appending(path: "paytokend.fuzz.\(getpid())").path
}

/// Calls `body` with the address of a Unix socket.
func withSocketAddress(_ path: String, _ body: (UnsafePointer<sockaddr>, socklen_t) -> CInt) -> CInt {
    var address = sockaddr_un()
    address.sun_family = sa_family_t(AF_UNIX)
    unsafe withUnsafeMutableBytes(of: &address.sun_path) { unsafe $0.copyBytes(from: path.utf8) }
    return unsafe withUnsafePointer(to: &address) { pointer in
        unsafe pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
            unsafe body($0, socklen_t(MemoryLayout<sockaddr_un>.size))
        }
    }
}

/// Reads the bytes that have arrived. Returns an empty array at the connection's end, and nil if none arrive in time.
func receive(from connection: CInt) -> [UInt8]? {
    var buffer = [UInt8](repeating: 0, count: 16_384)
    while true {
        let count = unsafe read(connection, &buffer, buffer.count)
        if count > 0 { return Array(buffer[..<count]) }
        if count == 0 { return [] }
        switch errno {
        // libFuzzer's timer interrupts a read, whose socket has a timeout (signal(7)).
        case EINTR: continue
        case EAGAIN: return nil
        // A peer that sends after the last answer may find the connection reset.
        default: return []
        }
    }
}

/// A server on a Unix socket whose answers are the input. It plays one conversation at a time.
final class AnsweringSocket: Sendable {
    /// One answer. It is sent in these pieces, as soon as the bytes that were received since the last answer ask for it.
    struct Answer: Sendable {
        let pieces: [[UInt8]]
        let isAsked: @Sendable (_ received: [UInt8]) -> Bool

        /// - Parameter firstPiece: The size of the first piece in 256ths.
        init(_ bytes: [UInt8], firstPiece: UInt8 = 0, isAsked: @escaping @Sendable (_ received: [UInt8]) -> Bool) {
            let size = Int(firstPiece) * bytes.count / 256
            pieces = [Array(bytes[..<size]), Array(bytes[size...])].filter { !$0.isEmpty }
            self.isAsked = isAsked
        }
    }

    let path: String
    private let listener: CInt
    private let queue = DispatchQueue(label: "answering socket")

    init(named name: String) throws {
        path = ScratchFolder.path + "/" + name
        listener = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0)
        let isBound = unsafe withSocketAddress(path) { [listener] in unsafe bind(listener, $0, $1) }
        try expect(isBound == 0 && listen(listener, 8) == 0, "the socket cannot be made: errno \(errno)")
    }

    /// Plays the conversation with the next connection in another thread, and then ends the sending side.
    func play(_ answers: [Answer]) {
        queue.async { [listener] in
            let connection = accept(listener, nil, nil)
            defer { close(connection) }
            var limit = timeval(tv_sec: 5, tv_usec: 0)
            unsafe setsockopt(connection, SOL_SOCKET, SO_RCVTIMEO, &limit, socklen_t(MemoryLayout<timeval>.size))
            for answer in answers {
                var received: [UInt8] = []
                while !answer.isAsked(received) {
                    guard let piece = receive(from: connection), !piece.isEmpty else { return }
                    received += piece
                }
                for piece in answer.pieces {
                    _ = unsafe piece.withUnsafeBytes {
                        unsafe send(connection, $0.baseAddress, $0.count, CInt(MSG_NOSIGNAL))
                    }
                }
            }
            shutdown(connection, Int32(SHUT_WR))
            while receive(from: connection)?.isEmpty == false {}
        }
    }
}
