import Glibc

/// The times at which requests are due.
struct Pace {
    /// The time between requests in nanoseconds; nil to send the next request as soon as a connection is free.
    private let interval: Double?
    /// The duration of the load in nanoseconds. No request is due afterwards.
    private let length: Double

    init(rate: Double?, seconds: Double?) {
        interval = rate.map { 1e9 / $0 }
        length = (seconds ?? .infinity) * 1e9
    }

    /// Returns the time at which request `number` is due; nil if it is not due any more. All times are in nanoseconds
    /// since the load began.
    func due(_ number: Int, now: UInt64) -> UInt64? {
        let due = interval.map { Double(number) * $0 } ?? Double(now)
        return due < length ? UInt64(due) : nil
    }
}

/// The loop that sends due requests over free connections, and reads their answers.
struct Load: ~Copyable {
    /// The longest wait for an answer, in nanoseconds. It only prevents the program from hanging.
    private static let longestWait: UInt64 = 300_000_000_000

    private let requests: RequestList
    private let pace: Pace
    private var connections: [Connection]
    private var poll: Poll
    private var buffer = [UInt8](repeating: 0, count: 64 * 1024)
    /// The numbers of free connections. The most recently used one is last, and is used next.
    private var idle: [Int]
    private var sent = 0
    private var underWay = 0
    private var began: UInt64 = 0
    private var measurement = Measurement()

    /// Opens the connections, and sends nothing.
    init(socket: String, connections count: Int, requests: RequestList, pace: Pace) throws(LoadFailure) {
        let poll = try Poll(capacity: count)
        var connections: [Connection] = []
        for number in 0..<count {
            let connection = try Connection(path: socket)
            try poll.add(connection.socket, number: number)
            connections.append(connection)
        }
        (self.requests, self.pace, self.connections) = (requests, pace, connections)
        self.poll = poll
        idle = Array((0..<count).reversed())
    }

    deinit { for var connection in connections { connection.close() } }

    mutating func run() throws(LoadFailure) -> Measurement {
        let processor = Clock.processor
        began = Clock.now
        var last = began
        while true {
            let now = Clock.now
            let next = try sendDue(now)
            guard underWay > 0 || next != nil else { break }
            // While all connections are busy, only an answer can end the wait, because a due request could not be sent.
            let limit = idle.isEmpty ? nil : next.map { began + $0 - min(now, began + $0) }
            let count = try poll.wait(nanoseconds: min(limit ?? Self.longestWait, Self.longestWait))
            if count == 0, limit == nil, Clock.now - now >= Self.longestWait {
                throw LoadFailure("no answer has come for 300 s, and \(underWay) are waited for")
            }
            for index in 0..<count { try serve(poll[index], &last) }
        }
        measurement.finish(
            requests: sent, seconds: Double(last - began) / 1e9, processor: Clock.processor - processor)
        return measurement
    }

    /// Sends as many due requests as there are free connections.
    ///
    /// - Returns: the time at which the next request is due, in nanoseconds since the load began; nil if no request
    ///   remains.
    private mutating func sendDue(_ now: UInt64) throws(LoadFailure) -> UInt64? {
        while sent < requests.count, measurement.lostConnections < connections.count {
            guard let due = pace.due(sent, now: now - began) else { return nil }
            guard due <= now - began, let number = idle.popLast() else { return due }
            connections[number].due = began + due
            connections[number].isBusy = true
            let range = requests[sent]
            sent += 1
            underWay += 1
            if !connections[number].send(range, of: requests.bytes) {
                try poll.watch(connections[number].socket, number: number, forRoom: true)
            }
        }
        return nil
    }

    private mutating func serve(_ event: (number: Int, hasRoom: Bool), _ last: inout UInt64) throws(LoadFailure) {
        let number = event.number
        if event.hasRoom, connections[number].sendRest(of: requests.bytes) {
            try poll.watch(connections[number].socket, number: number, forRoom: false)
        }
        switch try connections[number].receive(into: &buffer) {
        case .nothing: return
        case .answer(let status):
            last = Clock.now
            measurement.count(status: status, nanoseconds: last - connections[number].due)
            connections[number].isBusy = false
            underWay -= 1
            idle.append(number)
            // The service has answered a request that is only partly sent. The connection is useless, because the
            // service would misread the rest.
            if !connections[number].unsent.isEmpty { drop(number) }
            // The freed connection sends the next request at once, before the other answers are read.
            _ = try sendDue(last)
        case .lost:
            drop(number)
        }
    }

    /// Closes a connection, which is not replaced. Lost answers are a result of the measurement.
    private mutating func drop(_ number: Int) {
        connections[number].close()
        measurement.loseConnection(wasBusy: connections[number].isBusy)
        if connections[number].isBusy {
            underWay -= 1
        } else {
            idle.removeAll { $0 == number }
        }
    }
}
