import ConfigurationFile
import HTTPListener
import HostSystem
import ServerProgram
import Telemetry

/// The content of the gateway's configuration file, after all checks. Missing settings have their defaults, and paths
/// are absolute.
///
/// The program reads it at startup, for `--check` and at SIGHUP (`ServerProgram`). One run finds every problem and
/// reports its file, line and key. Unknown and duplicate keys are problems, as are settings that this version does not
/// support yet. Reading changes nothing.
///
/// Each section has its own file: ListenerSection, TLSSection, LimitSettings, ClientSection, PaymentSection,
/// SessionSettings. Start reading at ``read(_:_:)``.
struct GatewayConfiguration: Sendable {
    /// The absolute path of the configuration file.
    var file: String
    var listener: GatewayListenerSettings
    var limits: LimitSettings
    var paytokend: PaytokendSettings
    var clients: [GatewayClient]
    /// The settings of payments; nil if no client can pay.
    var payments: PaymentSettings?
    var sessions: SessionSettings
    var admin: AdminSettings
    var log: LogSettings
    /// Warnings about permitted settings. The gateway logs them at startup. It shows those that weaken the service as
    /// `paytoken_gateway_insecure_settings`.
    var warnings: [ConfigurationWarning]
}

extension GatewayConfiguration: ServerConfiguration {
    static let keys =
        [
            "listener", "limits", "paytokend", "clients", "sessions", "admin", "log",
        ] + PaymentSettings.keys

    static func read(_ root: ConfigurationSection, _ text: String) -> GatewayConfiguration? {
        let payments = PaymentSettings(root)
        let listener = GatewayListenerSettings(root.section("listener", keys: GatewayListenerSettings.keys))
        let clients = GatewayClient.all(root, hasCertificateAuthorities: listener?.tls?.clientAuthorities != nil)
        if let listener, listener.tls == nil, let client = clients.first(where: \.usesCertificate) {
            root.problem(
                "clients",
                "\(client.name) authenticates with a certificate, which needs listener.tls; add it, or give a key_sha256"
            )
        }
        let configuration = listener.map { listener in
            GatewayConfiguration(
                file: root.reader.file, listener: listener,
                limits: LimitSettings(root.section("limits", keys: LimitSettings.keys)),
                paytokend: PaytokendSettings(root.section("paytokend", keys: PaytokendSettings.keys)), clients: clients,
                payments: payments,
                sessions: SessionSettings(root.section("sessions", keys: SessionSettings.keys)),
                admin: AdminSettings(root.section("admin", keys: AdminSettings.keys)),
                log: LogSettings(root.section("log", keys: LogSettings.keys)), warnings: [])
        }
        // With a single client there is no warning, because there is no other client whose connections it could use up.
        if let limits = configuration?.limits, clients.count > 1,
            clients.count * limits.maxConnectionsPerClient > limits.maxConnectionsOfClients
        {
            root.warning(
                .clientConnections, "limits",
                "max_connections leaves \(limits.maxConnectionsOfClients) connections for known clients, and max_connections_per_client allows \(limits.maxConnectionsPerClient) to each of \(clients.count), so a few clients can use all connections; raise max_connections, or lower max_connections_per_client"
            )
        }
        if root.node("processors") == nil, let client = clients.first(where: { $0.has(.pay) }) {
            root.problem(
                "processors", "is missing, but \(client.name) has the operation pay; name the processor of its payments"
            )
        } else if root.node("processors") == nil, let client = clients.first(where: { $0.has(.decrypt) }) {
            root.problem(
                "processors",
                "is missing, but \(client.name) has the operation decrypt, which needs the store of payments: a payment token that was paid is not decrypted for a client; name a processor"
            )
        }
        if case .unix(let path, _, _)? = configuration?.listener.address, path == configuration?.admin.socket {
            root.problem("admin", "has the listener's socket; give administration a separate socket")
        }
        return configuration
    }
}

/// The kinds of warnings that only the gateway's configuration check reports.
extension ConfigurationWarning.Setting {
    static let noTLS = Self("no_tls")
    static let testServer = Self("test_server")
    static let sessionTrust = Self("session_trust")
    /// A server certificate that expires soon or has expired. A metric with an alert also shows the expiry.
    static let certificateEnd = Self("certificate_end", isInsecure: false)
    static let clientConnections = Self("client_connections")

    /// True for the warnings about sections that a reload replaces.
    var isReloadable: Bool {
        [.noExpectations, .clientConnections, .certificateEnd, .unreachedRule].contains(self)
    }
}

/// `paytokend`: the daemon that this gateway calls.
struct PaytokendSettings: Sendable, Equatable {
    /// The payments socket's absolute path.
    var socket: String
    /// The time limit for one call, from connecting to the last byte of the response. The wait for a connection before
    /// that has the same limit.
    var timeout: Duration
    /// The maximum number of concurrent calls, not counting the readiness check; it is less than the daemon's
    /// `listener.max_connections_per_uid`.
    var maxConnections: Int

    static let keys = ["socket", "timeout", "max_connections"]
}

extension PaytokendSettings {
    init(_ section: ConfigurationSection) {
        socket = section.socketPath("socket", default: "/run/paytokend/paytokend.sock")
        timeout = section.duration("timeout", in: .milliseconds(100)...Duration.seconds(60), default: .seconds(5))
        maxConnections = section.integer("max_connections", in: 1...10_000, default: 100)
    }
}

/// `admin`: the socket for monitoring and administration.
struct AdminSettings: Sendable, Equatable {
    var socket: String
    /// Permission bits of the socket file.
    var mode: UInt32
    /// The group of the socket file; nil for the gateway's own group.
    var group: Account?
    /// The permissions of the accounts that can connect.
    var access: AdminAccess

    static let keys = ["socket", "mode", "group", "access"]

    init(_ section: ConfigurationSection) {
        socket = section.socketPath("socket", default: "/run/paytoken-gateway/admin.sock")
        section.examineSocket("socket", at: socket)
        mode = section.mode("mode", default: 0o600)
        let group = section.group("group")
        self.group = group
        access = AdminAccess(section, group: group)
    }

    func isSameSocket(as other: AdminSettings) -> Bool {
        socket == other.socket && mode == other.mode && group == other.group
    }
}

extension ConfigurationSection {
    func examineSocket(_ name: String, at path: String) {
        examine(name, at: path) { () throws(ListenerError) in try SocketFile.examine(path: path) }
    }
}
