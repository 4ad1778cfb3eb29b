public import Foundation

/// The body of `GET /v1/status`, which `paytokenctl status` shows.
public struct StatusAnswer: Codable, Sendable, Equatable {
    /// The daemon's version.
    public var version: String
    /// This node's name in the ledger.
    public var node: String
    public var startedAt: Date
    /// The digests of the installed programs; absent in answers of earlier daemons.
    public var programs: ProgramsStatus?
    public var ready: Bool
    public var reasons: [ReadinessAnswer.Reason]
    public var tokens: [HSMTokenStatus]
    public var ledger: LedgerStatus
    public var trust: TrustStatus
    /// The warnings, one sentence each. Among them is one for each setting that weakens the service, such as an unlimited
    /// signing-time window.
    public var warnings: [String]

    public init(
        version: String, node: String, startedAt: Date, programs: ProgramsStatus? = nil, ready: Bool,
        reasons: [ReadinessAnswer.Reason], tokens: [HSMTokenStatus], ledger: LedgerStatus, trust: TrustStatus,
        warnings: [String]
    ) {
        self.version = version
        self.node = node
        self.startedAt = startedAt
        self.programs = programs
        self.ready = ready
        self.reasons = reasons
        self.tokens = tokens
        self.ledger = ledger
        self.trust = trust
        self.warnings = warnings
    }
}

/// The SHA-256 digests of the running programs' files, as 64 lower-case hexadecimal digits. The record's `start` event
/// contains the same digests.
public struct ProgramsStatus: Codable, Sendable, Equatable {
    /// The digest of `paytokend`; absent if the file cannot be read.
    public var paytokendSha256: String?
    /// The digest of `paytokend-hsm`; absent if the file cannot be read.
    public var workerSha256: String?
    /// The digest of `sbom.cdx.json`, the package's software bill of materials; absent if the file is not installed.
    public var sbomSha256: String?

    public init(paytokendSha256: String? = nil, workerSha256: String? = nil, sbomSha256: String? = nil) {
        self.paytokendSha256 = paytokendSha256
        self.workerSha256 = workerSha256
        self.sbomSha256 = sbomSha256
    }
}

public struct HSMTokenStatus: Codable, Sendable, Equatable {
    /// The HSM token's name in the configuration.
    public var name: String
    /// `starting`, `ready` or `unavailable`. An HSM token that is open but can serve nothing is `unavailable` too. Its
    /// description and shortcomings are present.
    public var condition: String
    /// The reason why the HSM token is unavailable; absent otherwise.
    public var message: String?
    public var label: String?
    public var serialNumber: String?
    public var manufacturer: String?
    public var model: String?
    /// The device's hardware version as `major.minor`; absent while the HSM token is not open.
    public var hardwareVersion: String?
    public var firmwareVersion: String?
    /// The description and version that the PKCS#11 library reports about itself.
    public var library: String?
    public var sessions: Int?
    /// The protection tier, `A`, `B` or `C`, in which the HSM token serves `EC_v1`; absent if it cannot serve that version.
    public var tierECv1: String?
    public var tierRSAv1: String?
    /// The tier in which the HSM token can decrypt Google Pay's `ECv2`; absent if it cannot.
    public var tierECv2: String?
    /// The maker of RSASSA-PSS signatures for TLS. `token`: the HSM token. `worker`: the worker pads, and the HSM token
    /// performs the bare RSA operation. Absent if the HSM token makes no such signatures.
    public var pss: String?
    /// The algorithms with which this HSM token's identity keys sign TLS handshakes, in order of preference:
    /// `rsa_pss_rsae_sha256`, `rsa_pkcs1_sha256`. Absent while the HSM token is not open.
    public var tlsAlgorithms: [String]?
    public var shortcomings: [String]
    /// The stored key pairs that the self-tests use: `EC_v1`, `RSA_v1`, `TLS`; absent if there are none.
    public var testKeys: [String]?
    /// The worker's public key, for which private keys are sealed for an import: base64 of the uncompressed P-256 point, 65
    /// bytes. New at each start of the worker.
    public var importKey: String?
    /// The number of keys that the HSM token holds; absent while it is not open.
    public var keys: Int?
    /// SHA-256 of the PKCS#11 library's file, 64 lower-case hexadecimal digits; absent if the file cannot be read.
    public var moduleSha256: String?

    public init(
        name: String, condition: String, message: String? = nil, label: String? = nil, serialNumber: String? = nil,
        manufacturer: String? = nil, model: String? = nil, hardwareVersion: String? = nil,
        firmwareVersion: String? = nil, library: String? = nil, sessions: Int? = nil,
        tierECv1: String? = nil, tierRSAv1: String? = nil, tierECv2: String? = nil, pss: String? = nil,
        tlsAlgorithms: [String]? = nil, shortcomings: [String] = [], testKeys: [String]? = nil,
        importKey: String? = nil,
        keys: Int? = nil, moduleSha256: String? = nil
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
        self.tierECv2 = tierECv2
        self.pss = pss
        self.tlsAlgorithms = tlsAlgorithms
        self.shortcomings = shortcomings
        self.testKeys = testKeys
        self.importKey = importKey
        self.keys = keys
        self.moduleSha256 = moduleSha256
    }
}

public struct LedgerStatus: Codable, Sendable, Equatable {
    /// `sqlite` or `postgresql`.
    public var engine: String
    /// `ready` or `unavailable`.
    public var condition: String
    /// The reason why the ledger is unavailable; absent while it is ready.
    public var message: String?
    public var schemaVersion: Int?
    /// The sequence of this node's last record; 0 before the first record.
    public var lastSequence: Int?
    /// The sequence of the last record that was moved to an archive; absent while the ledger still has all records.
    public var archivedSequence: Int?
    /// The sequence of the last record that this node's last audit checkpoint seals; absent if there is no audit
    /// checkpoint.
    public var sealedSequence: Int?
    public var sealedAt: Date?
    /// The configured name of the HSM token that seals this node's record; absent in answers of earlier daemons.
    public var sealingToken: String?
    /// The algorithm of this node's last audit checkpoint: `ecdsa_secp256r1_sha256`, `rsa_pss_rsae_sha256` or
    /// `rsa_pkcs1_sha256`. Absent if there is no audit checkpoint.
    public var sealingAlgorithm: String?
    /// The database server; absent for SQLite, and while PostgreSQL does not answer.
    public var server: LedgerServerStatus?
    /// This daemon's node lease; absent for SQLite.
    public var lease: NodeLeaseAnswer?
    /// The daemons that share the ledger, in the order of their names; absent for SQLite, and while PostgreSQL does not
    /// answer.
    public var nodes: [LedgerNodeStatus]?

    public init(
        engine: String, condition: String, message: String? = nil, schemaVersion: Int? = nil, lastSequence: Int? = nil,
        archivedSequence: Int? = nil, sealedSequence: Int? = nil, sealedAt: Date? = nil, sealingToken: String? = nil,
        sealingAlgorithm: String? = nil, server: LedgerServerStatus? = nil,
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
        self.sealingToken = sealingToken
        self.sealingAlgorithm = sealingAlgorithm
        self.server = server
        self.lease = lease
        self.nodes = nodes
    }
}

/// The PostgreSQL server that stores the ledger.
public struct LedgerServerStatus: Codable, Sendable, Equatable {
    /// The host and port of the connection, one of those in `ledger.url`; for a Unix socket, the socket's directory.
    public var host: String
    public var database: String
    /// The database role of the connection.
    public var role: String
    /// The server's version, such as `15.18`, followed by text that the packager added.
    public var version: String
    /// The cluster's system identifier. A cluster shares it with its standbys only.
    public var systemIdentifier: String
    /// The number of the server's WAL timeline. Each promotion of a standby increments it.
    public var timeline: Int
    /// The server's setting `synchronous_standby_names`; absent or null if it is empty.
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

/// A daemon's node lease in a shared ledger.
public struct NodeLeaseAnswer: Codable, Sendable, Equatable {
    /// The lease's number, incremented each time a daemon acquires the node's name.
    public var fencingNumber: Int
    /// The seconds since the last renewal.
    public var ageSeconds: Double
    /// True if another daemon has acquired the node's name; the answering daemon then writes nothing any more.
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
    /// The time of the daemon's last commit, by the server's clock.
    public var lastSeen: Date
    /// True while the daemon's node lease has not expired.
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
    /// The number of fingerprints in `trust.distrusted`.
    public var distrusted: Int
    /// The configured signing-time window, such as `5m`, or `off`.
    public var signingTimeWindow: String
    /// Google's root keys; absent without Google Pay, and in answers of earlier daemons.
    public var googlePay: [GoogleKeySummary]?

    public init(
        roots: [CertificateSummary], distrusted: Int, signingTimeWindow: String, googlePay: [GoogleKeySummary]? = nil
    ) {
        self.roots = roots
        self.distrusted = distrusted
        self.signingTimeWindow = signingTimeWindow
        self.googlePay = googlePay
    }
}

/// The body of `GET /readyz`. The HTTP status is 200 if ``ready`` is true, otherwise 503.
public struct ReadinessAnswer: Codable, Sendable, Equatable {
    /// A reason why the daemon is not ready.
    public struct Reason: Codable, Sendable, Equatable {
        /// The component that is not ready: `ledger`, `clock`, or `token` followed by the HSM token's configured name, as
        /// in `token primary`.
        public var component: String
        /// The code with which the daemon would refuse a decryption now, such as `hsm_unavailable` or `ledger_unavailable`.
        public var code: String
        public var message: String

        public init(component: String, code: String, message: String) {
            self.component = component
            self.code = code
            self.message = message
        }
    }

    public var ready: Bool
    /// The reasons why the daemon is not ready; absent for a peer that matches no access rule.
    public var reasons: [Reason]?

    public init(ready: Bool, reasons: [Reason]? = nil) {
        self.ready = ready
        self.reasons = reasons
    }
}

/// The body of `GET /healthz`. A daemon that answers at all is healthy, so the body is always the same.
public struct HealthAnswer: Codable, Sendable, Equatable {
    public var healthy = true

    public init() {}
}
