import ConfigurationFile
import FixedHosts
import OutgoingConnections
import PortalRequests
import ServerProgram
import Telemetry

/// The content of paytoken-outbound's configuration file, after all checks. Missing settings have their defaults, and
/// paths are absolute. Reading changes nothing.
struct OutboundConfiguration: Sendable {
    /// `paytokend`: the daemon whose work this program does.
    struct Paytokend: Sendable, Equatable {
        /// The payments socket's absolute path.
        var socket: String
        /// The time limit for one call.
        var timeout: Duration

        static let keys = ["socket", "timeout"]

        init(_ section: ConfigurationSection) {
            socket = section.socketPath("socket", default: "/run/paytokend/paytokend.sock")
            timeout = section.duration("timeout", in: .milliseconds(100)...Duration.seconds(60), default: .seconds(10))
        }
    }

    var paytokend: Paytokend
    var appStoreConnect: AppStoreConnectSettings
    var log: LogSettings
    /// The permitted settings that weaken the service, or deserve attention for another reason.
    var warnings: [ConfigurationWarning]
}

/// `app_store_connect`: the way to Apple's API. The host is always Apple's.
struct AppStoreConnectSettings: Sendable, Equatable {
    var way = FixedHost.Way()

    static let keys = ["proxy", "trust", "test_server"]

    init() {}

    init(_ section: ConfigurationSection) {
        if let text = section.text("proxy"), !text.isEmpty {
            way.proxy = HTTPProxy(text)
            if way.proxy == nil {
                section.problem("proxy", "must be http://HOST:PORT, without a user, a password or a path")
            }
        }
        for element in section.texts("trust") ?? [] {
            let path = section.reader.absolute(element.value)
            guard let roots = FixedHost.Way.roots(inFile: path) else {
                section.reader.problem(element.key, line: element.line, "\(path) has no certificate in PEM")
                continue
            }
            way.trust += roots
        }
        if !way.trust.isEmpty {
            section.warning(
                .portalTrust, "trust",
                "the certificate of Apple's API is verified with these roots instead of the system's")
        }
        if let text = section.text("test_server"), !text.isEmpty {
            way.testServer = FixedHost.Way.testServer(text)
            guard way.testServer != nil else {
                section.problem("test_server", "must be a loopback address and a port, as in 127.0.0.1:9443")
                return
            }
            section.warning(
                .portalTestServer, "test_server",
                "Apple's lists come from a server on this host and not from Apple; leave it out")
        }
    }
}

extension ConfigurationWarning.Setting {
    /// A warning for every configuration: no version of this program was tried against Apple's API.
    static let untriedPortal = Self("untried_portal", isInsecure: false)
    static let portalTrust = Self("portal_trust")
    static let portalTestServer = Self("portal_test_server")
}

extension OutboundConfiguration: ServerConfiguration {
    static let keys = ["paytokend", "app_store_connect", "log"]

    static func read(_ root: ConfigurationSection, _ text: String) -> OutboundConfiguration? {
        root.warning(
            .untriedPortal, "app_store_connect",
            "this program was never tried against Apple's API, only against a simulator of its published specification")
        return OutboundConfiguration(
            paytokend: Paytokend(root.section("paytokend", keys: Paytokend.keys)),
            appStoreConnect: AppStoreConnectSettings(
                root.section("app_store_connect", keys: AppStoreConnectSettings.keys)),
            log: LogSettings(root.section("log", keys: LogSettings.keys)), warnings: [])
    }

    func fixedParts(in new: OutboundConfiguration) -> [(name: String, isUnchanged: Bool)] {
        [
            ("paytokend", paytokend == new.paytokend),
            ("app_store_connect", appStoreConnect == new.appStoreConnect),
        ]
    }

    mutating func applyReloadableParts(from new: OutboundConfiguration) { log.level = new.log.level }
}
