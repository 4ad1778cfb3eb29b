import CLibpq
import Glibc
import Locks

// Unsafe: The list is read before freeaddrinfo(3), and getnameinfo(3) receives the buffer's own length.

/// The hosts of a URL. Opens sessions with the host that accepts writes.
///
/// libpq's asynchronous calls ignore `connect_timeout`, so one host that does not respond would use up all the time.
/// This type tries one address at a time and gives each a share of the time. The host of the newest session is tried
/// first. Hosts that did not respond when they were last tried come at the end.
///
/// Over a slow network, no share may be long enough. If all hosts failed and one of them for lack of time, every second
/// call gives one of them all the time, each in its turn; the calls between try all of them.
package final class PostgreSQLHosts: Sendable {
    /// A host in the URL's list, or one address of a host. libpq uses its default in place of a member that is nil.
    struct Endpoint: Hashable, Sendable {
        /// A host name, which the server's certificate must match, a numeric address, or the directory of a Unix
        /// socket.
        var host: String?
        /// The numeric address; nil until the name is resolved.
        var address: String?
        var port: String?

        /// The name to resolve. Nil if the address is known, or if `host` is a Unix socket. A Unix socket begins with
        /// `/`, or with `@` if it is abstract.
        fileprivate var name: String? {
            guard address == nil, let host, !host.hasPrefix("/"), !host.hasPrefix("@") else { return nil }
            return host
        }

        fileprivate var parameters: [String: String] {
            ["host": host, "hostaddr": address, "port": port].compactMapValues(\.self)
        }

        /// Returns true if the endpoints are equal, or if `other` is one address of this host.
        fileprivate func contains(_ other: Endpoint) -> Bool {
            host == other.host && port == other.port && (address == nil || address == other.address)
        }
    }

    /// The outcomes of each endpoint's last attempt to open a session.
    private struct LastAttempts {
        /// The endpoint of the newest session.
        var answered: Endpoint?
        /// The time that the newest session took to open.
        var answeredAfter = Duration.zero
        /// The endpoints that did not respond when they were last tried.
        var silent: Set<Endpoint> = []
        /// The number of calls since the newest session that failed for lack of time.
        var lateCalls = 0

        /// The position of the place that gets all the time of the next call; nil if all places get shares.
        func favoured(of places: Int) -> Int? {
            lateCalls.isMultiple(of: 2) || places == 0 ? nil : lateCalls / 2 % places
        }
    }

    package let url: PostgreSQLURL
    private let passwordFile: String?
    package let timeout: Duration
    private let parameters: [String: String]
    private let resolve: @Sendable (String) -> [String]
    private let lastAttempts = Mutex(LastAttempts())

    /// - Parameters:
    ///   - passwordFile: the file that contains the password; nil for authentication without a password. The file is
    ///     read again for each session.
    ///   - timeout: the maximum time for opening a session.
    ///   - application: the sessions' `application_name`, unless the URL sets another.
    ///   - resolve: a function that returns the numeric addresses of a name, and may block.
    package init(
        _ url: PostgreSQLURL, passwordFile: String?, timeout: Duration, application: String,
        resolve: @escaping @Sendable (String) -> [String] = PostgreSQLHosts.addresses(of:)
    ) {
        self.url = url
        self.passwordFile = passwordFile
        self.timeout = timeout
        self.resolve = resolve
        parameters = PostgreSQLSessionRules.parameters(url, timeout: timeout, application: application)
    }

    /// Opens a session with the host that accepts writes. Must run on a separate thread, for which callers wait only
    /// until `deadline`, because the resolver may block longer.
    package func connect(
        until deadline: ContinuousClock.Instant
    ) throws(PostgreSQLOpeningFailure) -> PostgreSQLConnection {
        let deadline = min(deadline, .now + timeout)
        // The parameters are read for each session, because the service file may have changed.
        let inForce = PostgreSQLConnection.parametersInForce(parameters)
        let limit = inForce["connect_timeout"].flatMap { Int64($0) }.map { $0 > 0 ? Duration.seconds($0) : timeout }
        var places = ordered(Self.places(inForce))
        let favoured = lastAttempts.withLock { $0.favoured(of: places.count) }
        if let favoured { places.insert(places.remove(at: favoured), at: 0) }
        var failures: [PostgreSQLOpeningFailure] = []
        while !places.isEmpty {
            let now = ContinuousClock.now
            guard now < deadline else {
                failures.append(.late)
                break
            }
            let place = places.removeFirst()
            if let name = place.name {
                let addresses = resolve(name).map { Endpoint(host: name, address: $0, port: place.port) }
                if addresses.isEmpty { failures.append(.unreachable) }
                places = ordered(addresses) + places
                continue
            }
            // This endpoint, each endpoint after it, and the first statements of the new session get equal shares of
            // the remaining time. A single or favoured endpoint gets all the time, and the one of the newest session at
            // least twice the time that it took.
            let hasAll = failures.isEmpty && (places.isEmpty || favoured != nil)
            let remaining = now.duration(to: deadline)
            let share = max(remaining / (hasAll ? 1 : places.count + 2), min(remaining, timeNeeded(by: place) * 2))
            do throws(PostgreSQLOpeningFailure) {
                let connection = try PostgreSQLConnection(
                    parameters.merging(place.parameters) { $1 }, passwordFile: passwordFile,
                    until: now + min(share, limit ?? share))
                remember(place, nil, after: now.duration(to: .now))
                return connection
            } catch {
                if case .passwordFile = error { throw error }
                remember(place, error)
                failures.append(error)
            }
        }
        let isLate = failures.contains(.late)
        lastAttempts.withLock { $0.lateCalls = isLate ? $0.lateCalls + 1 : 0 }
        throw .combined(failures)
    }

    private func timeNeeded(by place: Endpoint) -> Duration {
        lastAttempts.withLock { $0.answered == place ? $0.answeredAfter : .zero }
    }

    private func remember(_ place: Endpoint, _ failure: PostgreSQLOpeningFailure?, after time: Duration = .zero) {
        lastAttempts.withLock { attempts in
            switch failure {
            case nil:
                (attempts.answered, attempts.answeredAfter, attempts.lateCalls) = (place, time, 0)
                attempts.silent.remove(place)
            case .late, .unreachable:
                if attempts.answered == place { attempts.answered = nil }
                attempts.silent.insert(place)
            default: attempts.silent.remove(place)
            }
        }
    }

    private func ordered(_ places: [Endpoint]) -> [Endpoint] {
        let attempts = lastAttempts.withLock { $0 }
        let first = places.filter { place in attempts.answered.map(place.contains) == true }
        let last = places.filter { !first.contains($0) && attempts.silent.contains(where: $0.contains) }
        return first + places.filter { !first.contains($0) && !last.contains($0) } + last
    }

    /// Returns the hosts that libpq's parameters list (PostgreSQL documentation, *Specifying Multiple Hosts*).
    static func places(_ parameters: [String: String]) -> [Endpoint] {
        let lists = ["host", "hostaddr", "port"].map { name in
            (parameters[name] ?? "").split(separator: ",", omittingEmptySubsequences: false).map(String.init)
        }
        let count = max(lists[0].count, lists[1].count)
        // libpq refuses lists of hosts, addresses and ports whose lengths do not match. If libpq refused the URL's
        // parameters, `parameters` is empty and has no port.
        guard parameters["port"] != nil, [1, count].contains(lists[2].count),
            lists[...1].allSatisfy({ $0.count == count || $0 == [""] })
        else { return [Endpoint()] }
        return (0..<count).map { position in
            let words = lists.map { $0[$0.count == 1 ? 0 : position] }
            return Endpoint(
                host: words[0].isEmpty ? nil : words[0], address: words[1].isEmpty ? nil : words[1],
                port: words[2].isEmpty ? defaultPort : words[2])
        }
    }

    /// The port of a host whose entry in the URL's list of ports is empty.
    private static let defaultPort = "5432"

    /// Returns the addresses of a name in the resolver's order (RFC 6724 §6). The result is empty if the name cannot be
    /// resolved. Blocks until the resolver answers.
    package static func addresses(of name: String) -> [String] {
        var hints = unsafe addrinfo()
        unsafe hints.ai_socktype = Int32(SOCK_STREAM.rawValue)
        var first: UnsafeMutablePointer<addrinfo>?
        guard unsafe getaddrinfo(name, nil, &hints, &first) == 0 else { return [] }
        defer { unsafe freeaddrinfo(first) }
        var found: [String] = []
        var next = unsafe first
        while let entry = unsafe next {
            var text = [CChar](repeating: 0, count: Int(NI_MAXHOST))
            let result = unsafe getnameinfo(
                entry.pointee.ai_addr, entry.pointee.ai_addrlen, &text, socklen_t(text.count), nil, 0, NI_NUMERICHOST)
            if result == 0 {
                found.append(String(decoding: text.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self))
            }
            unsafe next = entry.pointee.ai_next
        }
        return found
    }
}

extension PostgreSQLOpeningFailure {
    /// Returns the reason to report after all hosts have failed.
    static func combined(_ failures: [Self]) -> Self {
        // If one host does not respond and another refuses the login, the refusal is not reported: the silent host may
        // be the one that accepts the login.
        let isSilent = failures.contains { [.unreachable, .late].contains($0) }
        let logins: [Self] = isSilent ? [] : [.login, .noDatabase]
        let order: [Self] = [.tls, .tooManyConnections] + logins + [.oldServer, .readOnly, .late]
        return order.first(where: failures.contains) ?? .unreachable
    }
}
