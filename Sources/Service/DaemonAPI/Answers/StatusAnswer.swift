public import Foundation

/// The body of `GET /v1/status`: what `paytokenctl status` shows.
public struct StatusAnswer: Codable, Sendable, Equatable {
    /// The daemon's version.
    public var version: String
    /// This node's name in the ledger.
    public var node: String
    public var startedAt: Date
    public var ready: Bool
    public var reasons: [ReadinessAnswer.Reason]
    public var tokens: [HSMTokenStatus]
    public var ledger: LedgerStatus
    public var trust: TrustStatus
    /// Settings that weaken the service, a sentence each: window off, foreign roots, one person.
    public var warnings: [String]

    public init(
        version: String, node: String, startedAt: Date, ready: Bool, reasons: [ReadinessAnswer.Reason],
        tokens: [HSMTokenStatus], ledger: LedgerStatus, trust: TrustStatus, warnings: [String]
    ) {
        self.version = version
        self.node = node
        self.startedAt = startedAt
        self.ready = ready
        self.reasons = reasons
        self.tokens = tokens
        self.ledger = ledger
        self.trust = trust
        self.warnings = warnings
    }
}

public struct HSMTokenStatus: Codable, Sendable, Equatable {
    /// The name in the configuration.
    public var name: String
    /// `starting`, `ready` or `unavailable`.
    public var condition: String
    /// Why it is not ready.
    public var message: String?
    public var label: String?
    public var serialNumber: String?
    public var manufacturer: String?
    public var model: String?
    /// The device's, as `major.minor`; absent while the token is not ready.
    public var hardwareVersion: String?
    public var firmwareVersion: String?
    /// The PKCS#11 library's own description and version.
    public var library: String?
    public var sessions: Int?
    /// Protection tier `A`, `B` or `C` for each version; absent when the token cannot serve it.
    public var tierECv1: String?
    public var tierRSAv1: String?
    /// How the token makes PSS signatures for TLS: `token`, `worker` (padded outside, over the bare RSA operation), or absent
    /// when it makes none.
    public var pss: String?
    /// What identity keys sign TLS handshakes with, in the order of preference: `rsa_pss_rsae_sha256`, `rsa_pkcs1_sha256`.
    /// Absent while the token is not ready.
    public var tlsAlgorithms: [String]?
    public var shortcomings: [String]
    /// Base64 of the uncompressed P-256 point (65 bytes) to which private keys are sealed for an import.
    public var importKey: String?
    /// Private keys that the token shows.
    public var keys: Int?

    public init(
        name: String, condition: String, message: String? = nil, label: String? = nil, serialNumber: String? = nil,
        manufacturer: String? = nil, model: String? = nil, hardwareVersion: String? = nil,
        firmwareVersion: String? = nil, library: String? = nil, sessions: Int? = nil,
        tierECv1: String? = nil, tierRSAv1: String? = nil, pss: String? = nil, tlsAlgorithms: [String]? = nil,
        shortcomings: [String] = [], importKey: String? = nil,
        keys: Int? = nil
    ) {
        self.name = name
        self.condition = condition
        self.message = message
        self.label = label
        self.serialNumber = serialNumber
        self.manufacturer = manufacturer
        self.model = model
        self.hardwareVersion = hardwareVersion
        self.firmwareVersion = firmwareVersion
        self.library = library
        self.sessions = sessions
        self.tierECv1 = tierECv1
        self.tierRSAv1 = tierRSAv1
        self.pss = pss
        self.tlsAlgorithms = tlsAlgorithms
        self.shortcomings = shortcomings
        self.importKey = importKey
        self.keys = keys
    }
}

public struct LedgerStatus: Codable, Sendable, Equatable {
    /// `sqlite` or `postgresql`.
    public var engine: String
    /// `ready` or `unavailable`.
    public var condition: String
    /// Why it cannot be written.
    public var message: String?
    public var schemaVersion: Int?
    /// The last record of this node; 0 before the first.
    public var lastSequence: Int?
    /// The last record that stands in an archive; nil while all are in the ledger.
    public var archivedSequence: Int?
    /// The last record that a checkpoint seals, and when it was sealed.
    public var sealedSequence: Int?
    public var sealedAt: Date?
    /// Of PostgreSQL, while it answers.
    public var server: LedgerServerStatus?
    /// Of PostgreSQL: this daemon's hold on its node's name.
    public var lease: NodeLeaseAnswer?
    /// Of PostgreSQL, while it answers: the daemons that share the ledger, by name.
    public var nodes: [LedgerNodeStatus]?

    public init(
        engine: String, condition: String, message: String? = nil, schemaVersion: Int? = nil, lastSequence: Int? = nil,
        archivedSequence: Int? = nil, sealedSequence: Int? = nil, sealedAt: Date? = nil,
        server: LedgerServerStatus? = nil,
        lease: NodeLeaseAnswer? = nil, nodes: [LedgerNodeStatus]? = nil
    ) {
        self.engine = engine
        self.condition = condition
        self.message = message
        self.schemaVersion = schemaVersion
        self.lastSequence = lastSequence
        self.archivedSequence = archivedSequence
        self.sealedSequence = sealedSequence
        self.sealedAt = sealedAt
        self.server = server
        self.lease = lease
        self.nodes = nodes
    }
}

/// The PostgreSQL server on which the ledger is.
public struct LedgerServerStatus: Codable, Sendable, Equatable {
    /// The host and port in use, of those in `ledger.url`; a socket's directory.
    public var host: String
    public var database: String
    /// Who is logged in.
    public var role: String
    /// Such as `15.18`, with the packager's own words behind it.
    public var version: String
    /// What its standbys share with it, and no other cluster.
    public var systemIdentifier: String
    /// Counted up by every promotion.
    public var timeline: Int
    /// `synchronous_standby_names`; absent or null when no synchronous standby is named.
    public var standbys: String?

    public init(
        host: String, database: String, role: String, version: String, systemIdentifier: String, timeline: Int,
        standbys: String?
    ) {
        self.host = host
        self.database = database
        self.role = role
        self.version = version
        self.systemIdentifier = systemIdentifier
        self.timeline = timeline
        self.standbys = standbys
    }
}

/// A daemon's hold on its node's name in PostgreSQL.
public struct NodeLeaseAnswer: Codable, Sendable, Equatable {
    /// Counted up each time that a daemon takes the name.
    public var fencingNumber: Int
    /// Since it was renewed.
    public var ageSeconds: Double
    /// Another daemon has taken the name, and this one writes nothing any more.
    public var isLost: Bool

    public init(fencingNumber: Int, ageSeconds: Double, isLost: Bool) {
        self.fencingNumber = fencingNumber
        self.ageSeconds = ageSeconds
        self.isLost = isLost
    }
}

/// One of the daemons that share a ledger in PostgreSQL.
public struct LedgerNodeStatus: Codable, Sendable, Equatable {
    public var name: String
    /// The daemon's version.
    public var version: String
    /// Its last commit, by the server's clock.
    public var lastSeen: Date
    /// Whether its hold on its name has not run out.
    public var isLeased: Bool

    public init(name: String, version: String, lastSeen: Date, isLeased: Bool) {
        self.name = name
        self.version = version
        self.lastSeen = lastSeen
        self.isLeased = isLeased
    }
}

public struct TrustStatus: Codable, Sendable, Equatable {
    public var roots: [CertificateSummary]
    /// How many fingerprints `trust.distrusted` names.
    public var distrusted: Int
    /// As in the configuration: `5m`, or `off`.
    public var signingTimeWindow: String

    public init(roots: [CertificateSummary], distrusted: Int, signingTimeWindow: String) {
        self.roots = roots
        self.distrusted = distrusted
        self.signingTimeWindow = signingTimeWindow
    }
}

/// The body of `GET /readyz`, with 200 when `ready` and 503 when not.
public struct ReadinessAnswer: Codable, Sendable, Equatable {
    /// One thing that keeps the daemon from serving.
    public struct Reason: Codable, Sendable, Equatable {
        /// `ledger`, or `token` and its configured name: `token primary`.
        public var component: String
        /// The refusal that a decryption would meet: `hsm_unavailable`, `ledger_unavailable` …
        public var code: String
        public var message: String

        public init(component: String, code: String, message: String) {
            self.component = component
            self.code = code
            self.message = message
        }
    }

    public var ready: Bool
    /// Only to a peer that an access rule matches; nil to others.
    public var reasons: [Reason]?

    public init(ready: Bool, reasons: [Reason]? = nil) {
        self.ready = ready
        self.reasons = reasons
    }
}

/// The body of `GET /healthz`: answering at all is the answer.
public struct HealthAnswer: Codable, Sendable, Equatable {
    public var healthy = true

    public init() {}
}
