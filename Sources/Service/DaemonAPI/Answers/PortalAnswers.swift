public import Foundation

/// The answer of `POST /v1/portal/work`: one request to Apple's App Store Connect API, or nothing to do.
public struct PortalWorkAnswer: Codable, Sendable, Equatable {
    public var work: PortalWork?

    public init(work: PortalWork?) { self.work = work }
}

/// One request to Apple's API, which the outbound program makes once.
public struct PortalWork: Codable, Sendable, Equatable {
    /// The name under which the result is reported, `POST /v1/portal/work/{id}`.
    public var id: String
    /// `find_merchant`, `list_certificates`, `create_certificate`, `activate_certificate` or `revoke_certificate`.
    public var kind: String
    /// The merchant identifier or the id of Apple's resource that the request names.
    public var name: String
    /// Apple's `certificateType` of a certificate to be created; otherwise absent.
    public var certificateType: String?
    /// The certificate request of a certificate to be created: base64 of its DER, at most 4096 bytes; otherwise absent.
    public var csr: String?
    /// The JSON Web Token that permits this request. It is a secret for as long as it is valid. Without a scope, as a
    /// write needs it, it permits everything that the team's key permits.
    public var jwt: String
    /// The time after which nothing must be sent, and the result is no longer needed.
    public var deadline: Date

    public init(
        id: String, kind: String, name: String, certificateType: String? = nil, csr: String? = nil, jwt: String,
        deadline: Date
    ) {
        self.id = id
        self.kind = kind
        self.name = name
        self.certificateType = certificateType
        self.csr = csr
        self.jwt = jwt
        self.deadline = deadline
    }
}

/// The answer of `GET /v1/portal/certificates` and of `POST /v1/portal/checks`: Apple's list for one merchant
/// identifier, compared with the keys here.
public struct PortalCheckAnswer: Codable, Sendable, Equatable {
    public struct Certificate: Codable, Sendable, Equatable {
        /// The id of Apple's resource.
        public var certificateId: String
        /// Apple's `certificateType`, such as `APPLE_PAY`.
        public var type: String
        /// True if wallets use the certificate; absent if Apple does not say.
        public var activated: Bool?
        /// Base64 of 32 bytes; absent if the certificate cannot be read.
        public var publicKeyHash: String?
        public var notAfter: Date?

        public init(certificateId: String, type: String, activated: Bool?, publicKeyHash: String?, notAfter: Date?) {
            self.certificateId = certificateId
            self.type = type
            self.activated = activated
            self.publicKeyHash = publicKeyHash
            self.notAfter = notAfter
        }
    }

    public struct Finding: Codable, Sendable, Equatable {
        /// Such as `active_unknown_here`.
        public var kind: String
        /// `critical`, `warning` or `note`.
        public var severity: String
        public var certificateId: String?
        /// Base64 of 32 bytes.
        public var publicKeyHash: String?
        /// One sentence for a person.
        public var text: String

        public init(kind: String, severity: String, certificateId: String?, publicKeyHash: String?, text: String) {
            self.kind = kind
            self.severity = severity
            self.certificateId = certificateId
            self.publicKeyHash = publicKeyHash
            self.text = text
        }
    }

    public var merchantIdentifier: String
    /// The time of the request that this answer is about.
    public var requestedAt: Date
    /// The time at which Apple's list was read; absent before, and after a failure.
    public var readAt: Date?
    /// The reason why the list could not be read, as a sentence; absent otherwise.
    public var fault: String?
    /// The id of the merchant identifier's resource at Apple.
    public var appleId: String?
    public var certificates: [Certificate]
    public var findings: [Finding]

    public init(
        merchantIdentifier: String, requestedAt: Date, readAt: Date? = nil, fault: String? = nil,
        appleId: String? = nil, certificates: [Certificate] = [], findings: [Finding] = []
    ) {
        self.merchantIdentifier = merchantIdentifier
        self.requestedAt = requestedAt
        self.readAt = readAt
        self.fault = fault
        self.appleId = appleId
        self.certificates = certificates
        self.findings = findings
    }
}

/// The answer of `POST /v1/portal/work/{id}`, an empty object: the daemon has taken the result.
public struct PortalReportAnswer: Codable, Sendable, Equatable {
    public init() {}
}
