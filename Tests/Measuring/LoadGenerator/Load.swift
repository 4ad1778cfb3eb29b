import Glibc

/// The times at which requests are due.
struct Pace {
    /// Nanoseconds between requests; nil to send whenever a connection has its answer.
    private let interval: Double?
    /// Nanoseconds after which no request is due any more.
    private let length: Double

    init(rate: Double?, seconds: Double?) {
        interval = rate.map { 1e9 / $0 }
        length = (seconds ?? .infinity) * 1e9
    }

    /// The time at which request `number` is due; nil for never. All times are nanoseconds since the beginning.
    func due(_ number: Int, now: UInt64) -> UInt64? {
        let due = interval.map { Double(number) * $0 } ?? Double(now)
        return due < length ? UInt64(due) : nil
    }
}

/// The loop: sends due requests over any free connection, and takes the answers.
struct Load: ~Copyable {
    /// The longest wait for an answer, in nanoseconds. It measures nothing, and only ends a wait without end.
    private static let longestWait: UInt64 = 300_000_000_000

    private let requests: RequestList
    private let pace: Pace
    private var connections: [Connection]
    private var poll: Poll
    private var buffer = [UInt8](repeating: 0, count: 64 * 1024)
    /// Connections without a request, the last one used at the end.
    private var idle: [Int]
    private var sent = 0
    private var underWay = 0
    private var began: UInt64 = 0
    private var measurement = Measurement()

    /// Connects, and sends nothing yet.
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
            // While all connections are busy, the loop waits for an answer, and ignores due requests.
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
    /// - Returns: the time at which the next is due, since the beginning; nil if none is to come, or no connection is
    ///   free.
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
            // An answer to half a request: the rest would be misunderstood.
            if !connections[number].unsent.isEmpty { drop(number) }
            // At once, and not after all the others have been read.
            _ = try sendDue(last)
        case .lost:
            drop(number)
        }
    }

    /// Drops a connection without replacing it. Lost answers are a result, and end the measurement on that connection.
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
