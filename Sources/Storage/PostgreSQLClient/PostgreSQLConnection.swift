import CLibpq
import Glibc
import Locks
package import SecretMemory

/// A session with a PostgreSQL server through libpq in non-blocking mode. It sends statements together (pipeline mode),
/// and a deadline bounds every wait. Sendable because only one thread at a time uses a session; its owner ensures that.
/// Statements are never cancelled, because both of libpq's functions for cancelling a statement can block without a
/// limit. A session that does not respond is abandoned.
// Unsafe: `handle` is valid until deinit. Results are copied before PQclear, and libpq copies what it receives.
@safe package final class PostgreSQLConnection: @unchecked Sendable {
    private let handle: OpaquePointer
    private let warnings: Warnings
    private var prepared: Set<String> = []

    /// The number of round trips, for metrics.
    package private(set) var roundTrips = 0

    /// The facts that the server reported when ``PostgreSQLSession`` opened the session.
    package var facts = PostgreSQLSessionFacts()

    /// Connects to a server. ``PostgreSQLHosts`` calls this initializer for each host of a URL in turn.
    ///
    /// - Parameters:
    ///   - parameters: libpq's connection parameters by keyword. A host name needs `hostaddr` as well, because libpq's
    ///     resolver may block beyond `deadline`.
    ///   - passwordFile: the file that contains the password; nil for authentication without a password.
    package init(
        _ parameters: [String: String], passwordFile: String?, until deadline: ContinuousClock.Instant
    ) throws(PostgreSQLOpeningFailure) {
        unsafe handle = try Self.start(parameters, passwordFile: passwordFile)
        warnings = Warnings()
        unsafe PQsetNoticeReceiver(
            handle, { context, result in unsafe Warnings.receive(context, result) },
            Unmanaged.passUnretained(warnings).toOpaque())
        // All properties are initialised, so deinit closes the connection if the next call throws.
        try finishConnecting(until: deadline)
        guard serverVersion >= PostgreSQLSessionRules.oldestServer else { throw .oldServer }
    }

    deinit {
        unsafe PQfinish(handle)
    }

    private static func start(
        _ parameters: [String: String], passwordFile: String?
    ) throws(PostgreSQLOpeningFailure) -> OpaquePointer {
        var words = parameters.flatMap { [CString(Array($0.key.utf8)), CString(Array($0.value.utf8))] }
        if let passwordFile {
            do throws(SecretFileError) {
                // libpq keeps its own copy of the password until the connection is closed. The copies that this method
                // makes are wiped.
                let secret = try SecretBytes(contentsOfFile: passwordFile)
                words += [CString(Array("password".utf8)), unsafe secret.withUnsafeBytes { unsafe CString(Array($0)) }]
            } catch {
                throw .passwordFile(error)
            }
        }
        let places = stride(from: 0, to: words.count, by: 2)
        let keywords = unsafe places.map { unsafe UnsafePointer(words[$0].characters) as UnsafePointer<CChar>? } + [nil]
        let values =
            unsafe places.map { unsafe UnsafePointer(words[$0 + 1].characters) as UnsafePointer<CChar>? } + [nil]
        let handle = unsafe withExtendedLifetime(words) { unsafe PQconnectStartParams(keywords, values, 0) }
        guard let handle = unsafe handle else { throw .unreachable }
        // Verbose errors contain the SQLSTATE, which does not depend on the server's language.
        unsafe PQsetErrorVerbosity(handle, PQERRORS_VERBOSE)
        return unsafe handle
    }

    private func finishConnecting(until deadline: ContinuousClock.Instant) throws(PostgreSQLOpeningFailure) {
        // PQconnectPoll's documentation says to begin as if it had returned PGRES_POLLING_WRITING.
        var state = PGRES_POLLING_WRITING
        while state != PGRES_POLLING_OK {
            guard state != PGRES_POLLING_FAILED, unsafe PQstatus(handle) != CONNECTION_BAD else {
                throw openingFailure()
            }
            let wanted = state == PGRES_POLLING_READING ? POLLIN : POLLOUT
            guard wait(for: Int16(wanted), until: deadline) != nil else { throw .late }
            state = unsafe PQconnectPoll(handle)
        }
        guard unsafe PQsetnonblocking(handle, 1) == 0, unsafe PQenterPipelineMode(handle) == 1 else {
            throw .unreachable
        }
    }

    /// Returns the reason why the connection failed. libpq reports the reason only as text, which this method searches
    /// for an SQLSTATE or a known phrase. The text itself is not passed on.
    private func openingFailure() -> PostgreSQLOpeningFailure {
        Self.openingFailure(saying: unsafe PQerrorMessage(handle).map { unsafe String(cString: $0) } ?? "")
    }

    package static func openingFailure(saying text: String) -> PostgreSQLOpeningFailure {
        // A later attempt may succeed if the server disappeared during the TLS handshake. Other TLS errors are
        // permanent.
        let isBroken = ["SSL SYSCALL", "closed the connection", "has been closed", "reset by peer"].contains(
            where: text.contains)
        if text.contains("certificate") || (!isBroken && (text.contains("SSL") || text.contains("TLS"))) { return .tls }
        if text.contains("53300: ") || text.contains("too many connections")
            || text.contains("remaining connection slots")
        {
            return .tooManyConnections
        }
        if text.contains("28P01: ") || text.contains("28000: ") || text.contains("authentication failed")
            || text.contains("no pg_hba.conf entry")
            || text.contains("no password supplied") || text.contains("role \"")
        {
            return .login
        }
        if text.contains("3D000: ") { return .noDatabase }
        if text.contains("database \"") && text.contains("does not exist") { return .noDatabase }
        if text.contains("read-only") || text.contains("in recovery") || text.contains("hot standby") {
            return .readOnly
        }
        return .unreachable
    }

    /// The connection's parameters without secrets. They include libpq's defaults and the parameters of a service file.
    package var parameters: [String: String] { unsafe Self.parameters(of: handle) }

    /// Returns the parameters that a connection would use, without connecting. The result is empty if libpq refuses
    /// them.
    static func parametersInForce(_ parameters: [String: String]) -> [String: String] {
        // libpq refuses this invalid value before connecting, but after filling in all other parameters.
        let refused = parameters.merging(["sslmode": "none-such"]) { $1 }
        guard let handle = unsafe try? start(refused, passwordFile: nil) else { return [:] }
        defer { unsafe PQfinish(handle) }
        return unsafe Self.parameters(of: handle)
    }

    private static func parameters(of handle: OpaquePointer) -> [String: String] {
        guard let options = unsafe PQconninfo(handle) else { return [:] }
        defer { unsafe PQconninfoFree(options) }
        return unsafe PostgreSQLURL.values(options).filter { !["password", "sslpassword"].contains($0.key) }
    }

    /// The host in use with its port, or the directory of a Unix socket.
    package var host: String {
        let name = unsafe PQhost(handle).map { unsafe String(cString: $0) } ?? ""
        let port = unsafe PQport(handle).map { unsafe String(cString: $0) } ?? ""
        return name.hasPrefix("/") || port.isEmpty ? name : "\(name):\(port)"
    }

    package var database: String { unsafe PQdb(handle).map { unsafe String(cString: $0) } ?? "" }

    /// The process ID that the peer reported. The peer is the server or a connection pooler.
    package var serverProcess: Int64 { Int64(unsafe PQbackendPID(handle)) }

    /// The server's version as libpq encodes it: 150018 is 15.18.
    private var serverVersion: Int { Int(unsafe PQserverVersion(handle)) }

    /// Sends statements together and reads all their results in one round trip.
    ///
    /// If the server refuses a statement, it skips the later ones.
    ///
    /// - Returns: one result for each statement, in order.
    package func exchange(
        _ statements: [PostgreSQLStatement], until deadline: ContinuousClock.Instant
    ) throws(PostgreSQLFailure) -> [PostgreSQLResult] {
        warnings.forget()
        var commands: [Command] = []
        var preparing: Set<String> = []
        for (position, statement) in statements.enumerated() {
            if let name = statement.name, !prepared.contains(name), preparing.insert(name).inserted {
                try send(prepare: statement, as: name)
                commands.append(.preparation(of: name))
            }
            try send(statement)
            commands.append(.statement(position))
        }
        guard unsafe PQpipelineSync(handle) == 1 else { throw .lost(nil) }
        roundTrips += 1
        return try receive(commands, results: statements.count, until: deadline)
    }

    /// Waits for a notification that the session has requested with LISTEN. Returns at `deadline` if none arrives.
    package func awaitNotification(until deadline: ContinuousClock.Instant) throws(PostgreSQLFailure) {
        while true {
            var isNotified = false
            while let notification = unsafe PQnotifies(handle) {
                unsafe PQfreemem(notification)
                isNotified = true
            }
            if isNotified { return }
            guard wait(for: Int16(POLLIN), until: deadline) != nil else { return }
            guard unsafe PQconsumeInput(handle) == 1 else { throw .lost(nil) }
        }
    }

    /// A command in a pipeline. libpq returns the results in the order of the commands.
    private enum Command {
        /// The preparation of a statement. The session keeps the prepared statement under this name, even if the
        /// transaction fails.
        case preparation(of: String)
        /// The statement's position in the exchange.
        case statement(Int)
    }

    /// True if the server sent a warning during the last exchange.
    package var hasWarned: Bool { warnings.any }

    private func send(prepare statement: PostgreSQLStatement, as name: String) throws(PostgreSQLFailure) {
        let (sql, types) = (statement.sql, statement.values.map { $0.type.rawValue })
        guard unsafe PQsendPrepare(handle, name, sql, Int32(types.count), types) == 1 else { throw .lost(nil) }
    }

    private func send(_ statement: PostgreSQLStatement) throws(PostgreSQLFailure) {
        let types = statement.values.map { $0.type.rawValue }
        let count = Int32(types.count)
        let encoded = statement.values.map(\.encoded)
        let lengths = encoded.map { Int32($0?.count ?? 0) }
        let formats = [Int32](repeating: 1, count: encoded.count)
        // One buffer contains all values, so only one pointer must stay valid. A byte follows each value, so that even
        // an empty value has an address.
        let bytes = encoded.reduce(into: [UInt8]()) { $0 += ($1 ?? []) + [0] }
        let sent = unsafe bytes.withUnsafeBytes { buffer in
            var offset = 0
            let pointers = unsafe encoded.map { value -> UnsafePointer<CChar>? in
                defer { offset += (value?.count ?? 0) + 1 }
                guard value != nil, let base = buffer.baseAddress else { return nil }
                return unsafe (base + offset).assumingMemoryBound(to: CChar.self)
            }
            if let name = statement.name {
                return unsafe PQsendQueryPrepared(handle, name, count, pointers, lengths, formats, 1)
            }
            return unsafe PQsendQueryParams(handle, statement.sql, count, types, pointers, lengths, formats, 1)
        }
        guard sent == 1 else { throw .lost(nil) }
    }

    /// Writes the rest, and reads until the server confirms the pipeline's end. Requires a result of each statement.
    private func receive(
        _ commands: [Command], results count: Int, until deadline: ContinuousClock.Instant
    ) throws(PostgreSQLFailure) -> [PostgreSQLResult] {
        var results: [PostgreSQLResult] = []
        var refusal: PostgreSQLFailure?
        var command = 0
        while true {
            let unsent = unsafe PQflush(handle)
            guard unsent >= 0 else { throw .lost(nil) }
            while unsafe PQisBusy(handle) == 0 {
                guard let result = unsafe PQgetResult(handle) else {
                    // Null means that the command has no further results. After the connection is lost, libpq returns
                    // null at every call, and the loop would not end.
                    guard unsafe PQstatus(handle) == CONNECTION_OK else { throw .lost(nil) }
                    command += 1
                    continue
                }
                defer { unsafe PQclear(result) }
                switch unsafe PQresultStatus(result) {
                case PGRES_PIPELINE_SYNC:
                    // libpq also returns the rows of a command that never completed. Only the tag is missing.
                    guard refusal == nil, results.count == count, results.allSatisfy({ !$0.tag.isEmpty })
                    else { throw refusal ?? .lost(nil) }
                    return results
                case PGRES_COMMAND_OK, PGRES_TUPLES_OK:
                    guard commands.indices.contains(command) else { throw .lost(nil) }
                    switch commands[command] {
                    case .preparation(let name): prepared.insert(name)
                    case .statement: results.append(unsafe Self.read(result))
                    }
                case PGRES_PIPELINE_ABORTED: break
                default:
                    let state = unsafe Self.state(of: result)
                    // FATAL and PANIC end the session, even if libpq has not noticed yet.
                    guard unsafe Self.severity(of: result) == "ERROR", let state else { throw .lost(state) }
                    // Only the first refusal is reported. The number of results before it is the position of the
                    // refused statement.
                    refusal = refusal ?? .refused(state, statement: results.count)
                }
            }
            let events = Int16(POLLIN) | (unsent > 0 ? Int16(POLLOUT) : 0)
            guard let ready = wait(for: events, until: deadline) else { throw .late }
            if ready & ~Int16(POLLOUT) != 0, unsafe PQconsumeInput(handle) == 0 { throw .lost(nil) }
        }
    }

    /// Waits until the socket is ready for one of the events.
    ///
    /// - Returns: the events for which it is ready; nil after the deadline, or if `poll` fails.
    private func wait(for events: Int16, until deadline: ContinuousClock.Instant) -> Int16? {
        while true {
            var descriptor = pollfd(fd: unsafe PQsocket(handle), events: events, revents: 0)
            let left = ContinuousClock.now.duration(to: deadline)
            guard left > .zero else { return nil }
            // Round up: a wait of 0 ms would be a busy loop.
            let milliseconds = min(left.wholeMilliseconds + 1, 60_000)
            let count = unsafe poll(&descriptor, 1, Int32(milliseconds))
            if count > 0 { return descriptor.revents }
            if count < 0, errno != EINTR { return nil }
        }
    }

    private static func read(_ result: OpaquePointer) -> PostgreSQLResult {
        let (rows, columns) = unsafe (Int(PQntuples(result)), Int(PQnfields(result)))
        let types = (0..<columns).map { unsafe PQftype(result, Int32($0)) }
        let read = (0..<rows).map { row in
            PostgreSQLRow(
                types: types,
                cells: (0..<columns).map { column -> [UInt8]? in
                    let (row, column) = (Int32(row), Int32(column))
                    guard unsafe PQgetisnull(result, row, column) == 0 else { return nil }
                    return unsafe Array(
                        UnsafeRawBufferPointer(
                            start: PQgetvalue(result, row, column), count: Int(PQgetlength(result, row, column))))
                })
        }
        let tag = unsafe PQcmdStatus(result).map { unsafe String(cString: $0) } ?? ""
        let changes = unsafe PQcmdTuples(result).map { unsafe String(cString: $0) }.flatMap { Int($0) } ?? 0
        return PostgreSQLResult(rows: read, tag: tag, changes: changes)
    }

    private static func state(of result: OpaquePointer) -> SQLState? {
        unsafe field(clibpq_field_sqlstate, of: result).flatMap { SQLState($0) }
    }

    fileprivate static func severity(of result: OpaquePointer?) -> String? {
        unsafe field(clibpq_field_severity, of: result)
    }

    private static func field(_ code: some BinaryInteger, of result: OpaquePointer?) -> String? {
        unsafe PQresultErrorField(result, Int32(code)).map { unsafe String(cString: $0) }
    }
}

/// A null-terminated C string that is wiped before its memory is freed.
@safe private final class CString {
    let characters: UnsafeMutablePointer<CChar>
    private let count: Int

    init(_ bytes: [UInt8]) {
        count = bytes.count
        unsafe characters = .allocate(capacity: bytes.count + 1)
        for (position, byte) in bytes.enumerated() { unsafe characters[position] = CChar(bitPattern: byte) }
        unsafe characters[count] = 0
    }

    deinit {
        unsafe explicit_bzero(characters, count)
        unsafe characters.deallocate()
    }
}

/// Records that the server sent a warning. libpq calls ``receive(_:_:)`` on the thread that reads from the connection.
private final class Warnings: Sendable {
    private let state = Mutex(false)

    var any: Bool { state.withLock { $0 } }

    func forget() { state.withLock { $0 = false } }

    static func receive(_ context: UnsafeMutableRawPointer?, _ result: OpaquePointer?) {
        guard let context = unsafe context else { return }
        // A message without a severity counts as a warning too.
        let severity = unsafe PostgreSQLConnection.severity(of: result)
        guard severity.map({ !["NOTICE", "INFO", "LOG", "DEBUG"].contains($0) }) ?? true else { return }
        unsafe Unmanaged<Warnings>.fromOpaque(context).takeUnretainedValue().state.withLock { $0 = true }
    }
}

/// The reason why a session was not opened.
package enum PostgreSQLOpeningFailure: Error, Sendable, Equatable {
    case unreachable
    case late
    case tls
    case login
    case noDatabase
    /// No host accepts writes.
    case readOnly
    case tooManyConnections
    /// The server is older than PostgreSQL 13.
    case oldServer
    case passwordFile(SecretFileError)

    /// True if a later attempt may succeed with the same configuration.
    package var isTransient: Bool {
        switch self {
        case .unreachable, .late, .readOnly, .tooManyConnections: true
        case .tls, .login, .noDatabase, .oldServer, .passwordFile: false
        }
    }
}

/// The identity of a session's server, which does not change during the session. A restore from a dump changes the
/// system identifier. A promotion or a restore to a point in time changes the timeline.
package struct ServerIdentity: Sendable, Equatable {
    package let systemIdentifier: String
    package let timeline: Int64

    package init(systemIdentifier: String, timeline: Int64) {
        self.systemIdentifier = systemIdentifier
        self.timeline = timeline
    }
}

extension Duration {
    /// The whole milliseconds, rounded down.
    fileprivate var wholeMilliseconds: Int64 {
        components.seconds * 1000 + components.attoseconds / 1_000_000_000_000_000
    }
}
