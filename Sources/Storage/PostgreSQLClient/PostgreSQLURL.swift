import CLibpq

// Unsafe: libpq's list ends with an entry without a keyword. Its strings are copied before the list is freed.

/// The address of a database as one of libpq's connection URIs (PostgreSQL documentation, *Connection URIs*), such as
/// `postgresql://paytokend@db1,db2/paytokend?sslmode=verify-full`.
///
/// A URL with a secret is refused, because URLs are printed, logged, and visible in backups of the configuration.
public struct PostgreSQLURL: Sendable, Equatable {
    public let text: String
    /// The libpq parameters that the URL sets, by keyword.
    package let parameters: [String: String]

    /// The length limit of a URL in bytes.
    static let maximumBytes = 2048

    private static let secrets = ["password", "sslpassword"]
    /// The parameters that no URL may set. The program sets them itself, because durability and bounded waits depend on
    /// them.
    private static let reserved = ["target_session_attrs", "gssencmode", "replication", "client_encoding"]

    /// Parameters with a fixed set of values, which libpq checks only when it connects (PostgreSQL documentation,
    /// *Parameter Key Words*).
    private static let choices = [
        ("sslmode", ["disable", "allow", "prefer", "require", "verify-ca", "verify-full"]),
        ("channel_binding", ["disable", "prefer", "require"]),
        ("ssl_min_protocol_version", ["TLSv1", "TLSv1.1", "TLSv1.2", "TLSv1.3"]),
        ("ssl_max_protocol_version", ["TLSv1", "TLSv1.1", "TLSv1.2", "TLSv1.3"]),
    ]

    public init(_ text: String) throws(PostgreSQLURLError) {
        guard text.hasPrefix("postgresql://") || text.hasPrefix("postgres://"), text.utf8.count <= Self.maximumBytes
        else { throw .notAURL }
        guard let parameters = Self.parse(text) else { throw .unreadable }
        for name in Self.secrets where parameters[name] != nil { throw .secret(parameter: name) }
        for name in Self.reserved where parameters[name] != nil { throw .reserved(parameter: name) }
        for (name, values) in Self.choices {
            guard let chosen = parameters[name], !values.contains(chosen) else { continue }
            throw .choice(parameter: name, values: values)
        }
        let counts = ["host", "hostaddr", "port"].map { parameters[$0].map(Self.count) }
        let (addressed, ports) = (max(counts[0] ?? 0, counts[1] ?? 0), counts[2] ?? 1)
        // A single port applies to all hosts.
        guard ports == 1 || ports == max(addressed, 1) else { throw .ports(ports, hosts: max(addressed, 1)) }
        if let hosts = counts[0], let addresses = counts[1], hosts != addresses {
            throw .addresses(addresses, hosts: hosts)
        }
        for port in Self.list(parameters["port"]) where Int(port).map((1...65_535).contains) != true { throw .port }
        self.text = text
        self.parameters = parameters
    }

    /// The role to log in as; nil for libpq's default, the name of the process's account.
    public var user: String? { parameters["user"] }

    /// The hosts and the database for messages, such as `db1:5432,db2:5432/paytokend`.
    public var server: String {
        let hosts = hosts.isEmpty ? ["local socket"] : hosts
        let ports = (parameters["port"] ?? "").split(separator: ",").map(String.init)
        let named = hosts.enumerated().map { position, host in
            guard !ports.isEmpty else { return host }
            return "\(host):\(position < ports.count ? ports[position] : ports[0])"
        }
        let database = parameters["dbname"] ?? user
        return named.joined(separator: ",") + (database.map { "/" + $0 } ?? "")
    }

    private var hosts: [String] {
        Self.list(parameters["host"]).isEmpty ? Self.list(parameters["hostaddr"]) : Self.list(parameters["host"])
    }

    /// The files that libpq reads according to the URL, each with the name of its parameter.
    public var files: [(parameter: String, path: String)] {
        ["passfile", "sslcert", "sslcrl", "sslkey", "sslrootcert"].compactMap { name in
            // sslrootcert=system selects OpenSSL's own root certificates and names no file.
            parameters[name].flatMap { $0 == "system" ? nil : (name, $0) }
        }
    }

    /// The name of the section in libpq's service file that completes the URL; nil if the URL names none.
    public var service: String? { parameters["service"] }

    /// Returns the number of elements in a comma-separated list. Like libpq, it counts empty elements.
    private static func count(_ text: String) -> Int {
        text.split(separator: ",", omittingEmptySubsequences: false).count
    }

    package static func list(_ text: String?) -> [String] {
        (text ?? "").split(separator: ",").map(String.init)
    }

    /// Returns the parameters of a URL; nil if libpq refuses the URL. libpq's message may quote a password from the
    /// URL, so it is not passed on.
    private static func parse(_ text: String) -> [String: String]? {
        guard let options = unsafe PQconninfoParse(text, nil) else { return nil }
        defer { unsafe PQconninfoFree(options) }
        return unsafe values(options)
    }

    /// Returns the values of all options that are set, by keyword.
    static func values(_ options: UnsafePointer<PQconninfoOption>) -> [String: String] {
        var values: [String: String] = [:]
        var next = unsafe options
        while let keyword = unsafe next.pointee.keyword {
            if let value = unsafe next.pointee.val, unsafe value.pointee != 0 {
                unsafe values[String(cString: keyword)] = unsafe String(cString: value)
            }
            unsafe next += 1
        }
        return values
    }
}

/// The reason why a URL is refused.
public enum PostgreSQLURLError: Error, Sendable, Equatable, CustomStringConvertible {
    case notAURL
    case unreadable
    /// The URL contains a secret in this libpq parameter.
    case secret(parameter: String)
    /// The URL sets a libpq parameter that the program sets itself.
    case reserved(parameter: String)
    /// The URL gives a libpq parameter a value that libpq does not accept. The value may be a secret, so messages do
    /// not repeat it.
    case choice(parameter: String, values: [String])
    /// The number of ports is neither one nor the number of hosts.
    case ports(Int, hosts: Int)
    case addresses(Int, hosts: Int)
    /// A port is not a number from 1 to 65535. Its text may be a mistyped password, so messages do not repeat it.
    case port

    public var description: String {
        switch self {
        case .notAURL: "must begin with postgresql:// and have at most \(PostgreSQLURL.maximumBytes) bytes"
        case .unreadable:
            "is not a connection URI that libpq accepts, as in postgresql://paytokend@db1,db2/paytokend?sslmode=verify-full"
        case .secret(let parameter):
            "must not contain a \(parameter): use password_file, peer authentication, a client certificate or a "
                + "service file"
        case .reserved(let parameter): "must not set \(parameter), which the program sets itself"
        case .choice(let parameter, let values):
            "has a \(parameter) that is not one of \(values.joined(separator: ", "))"
        case .ports(let ports, let hosts):
            "has \(ports) ports for \(hosts == 1 ? "1 host" : "\(hosts) hosts"); give each host one, or one for all"
        case .addresses(let addresses, let hosts):
            "has \(addresses) addresses (hostaddr) for \(hosts) hosts; give each host one"
        case .port: "has a port that is not a number from 1 to 65535"
        }
    }
}
