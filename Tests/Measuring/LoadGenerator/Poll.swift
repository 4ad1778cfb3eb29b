import CEpoll
import Glibc

/// A level-triggered epoll(7) instance, whose caller gives each socket a number.
@safe struct Poll: ~Copyable {
    private let descriptor: Int32
    private var events: [epoll_event]

    /// Creates an epoll instance.
    ///
    /// - Parameter capacity: the maximum number of events that one wait returns.
    init(capacity: Int) throws(LoadFailure) {
        descriptor = epoll_create1(Int32(EPOLL_CLOEXEC))
        guard descriptor >= 0 else { throw LoadFailure(call: "epoll_create1") }
        unsafe events = [epoll_event](repeating: epoll_event(), count: capacity)
    }

    deinit { close(descriptor) }

    /// Adds a socket, which is reported under `number` when it is readable.
    func add(_ socket: Int32, number: Int) throws(LoadFailure) {
        try change(EPOLL_CTL_ADD, socket, number, EPOLLIN.rawValue)
    }

    /// Starts or stops reporting the socket as writable. Readability is always reported.
    func watch(_ socket: Int32, number: Int, forRoom: Bool) throws(LoadFailure) {
        try change(EPOLL_CTL_MOD, socket, number, EPOLLIN.rawValue | (forRoom ? EPOLLOUT.rawValue : 0))
    }

    private func change(_ operation: Int32, _ socket: Int32, _ number: Int, _ wanted: UInt32) throws(LoadFailure) {
        var event = unsafe epoll_event(events: wanted, data: epoll_data_t(u64: UInt64(number)))
        guard unsafe epoll_ctl(descriptor, operation, socket, &event) == 0 else { throw LoadFailure(call: "epoll_ctl") }
    }

    /// Waits until a socket has an event or the time has passed.
    ///
    /// - Parameter nanoseconds: the maximum time of the wait.
    /// - Returns: the number of sockets with an event.
    mutating func wait(nanoseconds: UInt64) throws(LoadFailure) -> Int {
        var limit = timespec(tv_sec: Int(nanoseconds / 1_000_000_000), tv_nsec: Int(nanoseconds % 1_000_000_000))
        let count = unsafe epoll_pwait2(descriptor, &events, Int32(events.count), &limit, nil)
        if count < 0, errno != EINTR { throw LoadFailure(call: "epoll_pwait2") }
        return max(0, Int(count))
    }

    /// The event `index` of the last wait: the socket's number, and true if the socket is writable.
    subscript(index: Int) -> (number: Int, hasRoom: Bool) {
        let event = unsafe events[index]
        return unsafe (Int(event.data.u64), event.events & EPOLLOUT.rawValue != 0)
    }
}
