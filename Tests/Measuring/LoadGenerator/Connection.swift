import CLinux
import Glibc

/// A connection to the service. At most one request is under way on it.
struct Connection {
    let socket: Int32
    /// The time at which the current request was due, in nanoseconds of ``Clock``.
    var due: UInt64 = 0
    var isBusy = false
    private(set) var isClosed = false
    /// The part of the current request that is still unsent because the socket's buffer was full; otherwise empty.
    private(set) var unsent = 0..<0
    private var reader = AnswerReader()

    /// Connects, and waits if the service's backlog is full.
    init(path: String) throws(LoadFailure) {
        socket = Glibc.socket(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0)
        guard socket >= 0 else { throw LoadFailure(call: "socket") }
        let error = unsafe paytokend_unix_connect(socket, path)
        guard error == 0, fcntl(socket, F_SETFL, O_NONBLOCK) == 0 else {
            Glibc.close(socket)
            throw LoadFailure(call: "connect to \(path)", error: error == 0 ? errno : error)
        }
    }

    mutating func close() {
        if !isClosed { Glibc.close(socket) }
        isClosed = true
    }

    /// Sends a request, which is a range of `bytes`.
    ///
    /// - Returns: true if nothing is left to send. A broken connection returns true too, and the next read detects
    ///   it.
    mutating func send(_ range: Range<Int>, of bytes: [UInt8]) -> Bool {
        unsent = range
        return sendRest(of: bytes)
    }

    mutating func sendRest(of bytes: [UInt8]) -> Bool {
        while !unsent.isEmpty {
            let count = unsafe bytes.withUnsafeBytes { buffer in
                unsafe Glibc.send(
                    socket, buffer.baseAddress.unsafelyUnwrapped + unsent.lowerBound, unsent.count, Int32(MSG_NOSIGNAL))
            }
            if count >= 0 {
                unsent = unsent.lowerBound + count..<unsent.upperBound
            } else if errno == EAGAIN {
                return false
            } else if errno != EINTR {
                unsent = 0..<0
            }
        }
        return true
    }

    enum Received {
        case answer(status: Int)
        case nothing, lost
    }

    /// Reads the bytes that have arrived.
    ///
    /// - Parameter buffer: memory for the bytes, which all connections share.
    mutating func receive(into buffer: inout [UInt8]) throws(LoadFailure) -> Received {
        let count = unsafe buffer.withUnsafeMutableBytes { buffer in
            unsafe recv(socket, buffer.baseAddress, buffer.count, 0)
        }
        if count < 0 { return errno == EAGAIN || errno == EINTR ? .nothing : .lost }
        // The service has closed the connection. The caller counts a lost request only if one was under way.
        if count == 0 { return .lost }
        guard isBusy else { throw LoadFailure("an answer came that was not asked for") }
        return try reader.take(buffer, count: count).map { .answer(status: $0) } ?? .nothing
    }
}

/// The clocks of a measurement.
enum Clock {
    /// The time of CLOCK_MONOTONIC, in nanoseconds.
    static var now: UInt64 {
        var time = timespec()
        unsafe clock_gettime(CLOCK_MONOTONIC, &time)
        return UInt64(time.tv_sec) * 1_000_000_000 + UInt64(time.tv_nsec)
    }

    /// The processor time of this process, in seconds.
    static var processor: Double {
        var usage = rusage()
        guard unsafe getrusage(__rusage_who_t(RUSAGE_SELF.rawValue), &usage) == 0 else { return 0 }
        return Double(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec)
            + Double(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6
    }
}
