import Encodings
public import Foundation
public import StrictJSON

/// One merchant key as `GET /v1/keys`, `GET /v1/keys/{hex}` and the import answers show it.
///
/// All members but ``replacementDue`` and ``attributes`` are always present. An unknown value is null, so that scripts need not test for presence.
public struct KeySummary: Codable, Sendable, Equatable {
    /// Base64 of the key's 32-byte publicKeyHash, as in Apple's payment tokens.
    public var publicKeyHash: String
    @Nullable public var merchantIdentifier: String?
    /// `EC` or `RSA`.
    public var algorithm: String
    /// `processing` (decrypts), `identity` (signs TLS handshakes for merchant sessions) or `service` (signs for Apple's
    /// API).
    @KeyUseField public var use: String
    /// The state's name, SP 800-57 part 1 §7: `pre-activation`, `active`, `suspended`, `deactivated`, `compromised`,
    /// `destroyed`.
    public var state: String
    /// The time until which a deactivated key decrypts; null if no such time was set.
    @Nullable public var cutOff: Date?
    /// The certificate's notAfter; null without a certificate.
    @Nullable public var notAfter: Date?
    /// Whole days until `notAfter`, rounded down; negative when it has passed.
    @Nullable public var daysLeft: Int?
    /// The protection tier in which the key is served now: `A`, `B` or `C`. Null for identity keys, and while no HSM token
    /// serves the key.
    @Nullable public var tier: String?
    /// The time of the last release or signature with this key since this process started; null for none.
    @Nullable public var lastUse: Date?
    /// The number of releases or signatures with this key since this process started.
    public var uses: Int
    /// The key's availability. `served`: an HSM token shows the key and agrees with the ledger, so the key's use depends
    /// only on ``state``. `external`: in an HSM token, but not adopted into the ledger. `missing`: in the ledger, but no
    /// HSM token shows it. `inconsistent`: HSM token, certificate and ledger disagree.
    public var condition: String
    /// The reason for a ``condition`` other than `served`; null for `served`.
    @Nullable public var remark: String?
    /// The configured names of the HSM tokens that hold the key.
    public var tokens: [String]
    /// The nodes whose HSM tokens hold the key, according to each node's last report. They include nodes that hold a
    /// destroyed key's objects. Null if a single host uses the ledger, and in answers to requests that change the key.
    @Nullable public var nodes: [String]?
    /// The time at which the newest active Google Pay key of a merchant is a year old. Google then asks for a new key, and
    /// nothing fails. Absent for every other key.
    public var replacementDue: Date?
    /// The key's attributes, read from each HSM token that shows the key. Absent in lists and in answers to requests that
    /// change the key, since the daemon asks no HSM token for those.
    public var attributes: [KeyAttributes]?

    public init(
        publicKeyHash: String, merchantIdentifier: String?, algorithm: String, use: String = "processing",
        state: String,
        notAfter: Date?,
        daysLeft: Int?, tier: String?, lastUse: Date?, uses: Int, condition: String, remark: String?, tokens: [String],
        cutOff: Date? = nil, nodes: [String]? = nil, attributes: [KeyAttributes]? = nil
    ) {
        self.publicKeyHash = publicKeyHash
        self.merchantIdentifier = merchantIdentifier
        self.algorithm = algorithm
        self.use = use
        self.state = state
        self.cutOff = cutOff
        self.notAfter = notAfter
        self.daysLeft = daysLeft
        self.tier = tier
        self.lastUse = lastUse
        self.uses = uses
        self.condition = condition
        self.remark = remark
        self.tokens = tokens
        self.nodes = nodes
        self.attributes = attributes
    }

    /// Returns the whole days from `now` to `notAfter`, rounded down; negative when `notAfter` has passed.
    public static func daysLeft(until notAfter: Date, now: Date) -> Int {
        Int((notAfter.timeIntervalSince(now) / 86_400).rounded(.down))
    }
}

extension KeySummary {
    /// Writes the same members as ``JSONCoding``, except ``attributes``, which lists do not have. A page has up to a
    /// thousand keys, and Codable takes far longer to encode them.
    fileprivate func write(to json: inout JSONWriter) {
        func nullable(_ name: String, _ value: String?) {
            if let value { return json.member(name, value) }
            json.member(name)
            json.null()
        }
        json.member("algorithm", algorithm)
        json.member("condition", condition)
        nullable("cutOff", cutOff.map(RFC3339.string))
        json.member("daysLeft")
        if let daysLeft { json.number(daysLeft) } else { json.null() }
        nullable("lastUse", lastUse.map(RFC3339.string))
        nullable("merchantIdentifier", merchantIdentifier)
        if let nodes { json.member("nodes", nodes) } else { nullable("nodes", nil) }
        nullable("notAfter", notAfter.map(RFC3339.string))
        json.member("publicKeyHash", publicKeyHash)
        nullable("remark", remark)
        if let replacementDue { json.member("replacementDue", RFC3339.string(replacementDue)) }
        json.member("state", state)
        nullable("tier", tier)
        json.member("tokens", tokens)
        json.member("use", use)
        json.member("uses", uses)
    }
}

extension ListAnswer where Item == KeySummary {
    public func json() -> [UInt8] {
        JSONWriter.object(capacity: items.count * 512 + 128) { json in
            json.member("items", objects: items) { $0.write(to: &$1) }
            json.member("next", next)
        }
    }
}

extension ListAnswer {
    /// Reads a page of a list. Returns the decoded page, and its elements as received; nil if the body is not such a page.
    /// Unknown members are ignored.
    public static func read(_ body: [UInt8]) -> (page: ListAnswer, items: [JSONValue])? {
        guard let items = (try? JSONValue(parsing: body))?.objectValue?["items"]?.arrayValue,
            let page = try? JSONCoding.decode(ListAnswer.self, from: body)
        else { return nil }
        return (page, items)
    }
}

/// One page of a list.
public struct ListAnswer<Item: Codable & Sendable>: Codable, Sendable {
    public var items: [Item]
    /// An opaque cursor that continues the list as `?after=`; absent on the last page.
    public var next: String?

    public init(items: [Item], next: String? = nil) {
        self.items = items
        self.next = next
    }
}

extension ListAnswer: Equatable where Item: Equatable {}

/// The 200 answer of `POST /v1/keys?dry_run=true`, which generates no key. Without `dry_run` the answer is a
/// ``KeySummary``.
public struct KeyGenerationDryRun: Codable, Sendable, Equatable {
    public var merchantIdentifier: String
    /// `EC` or `RSA`.
    public var algorithm: String
    /// `processing` or `identity`.
    @KeyUseField public var use: String
    /// The name of the HSM token that would generate the key.
    public var token: String

    public init(merchantIdentifier: String, algorithm: String, use: String = "processing", token: String) {
        self.merchantIdentifier = merchantIdentifier
        self.use = use
        self.algorithm = algorithm
        self.token = token
    }
}

/// The 200 answer of `POST /v1/keys/{key}/csr`.
public struct CertificateRequestAnswer: Codable, Sendable, Equatable {
    /// Base64 of 32 bytes.
    public var publicKeyHash: String
    @Nullable public var merchantIdentifier: String?
    /// `EC` or `RSA`.
    public var algorithm: String
    /// PKCS#10 (RFC 2986) in PEM, as Apple's developer portal takes it; null in a dry run, which signs nothing.
    @Nullable public var csr: String?

    public init(publicKeyHash: String, merchantIdentifier: String?, algorithm: String, csr: String?) {
        self.publicKeyHash = publicKeyHash
        self.merchantIdentifier = merchantIdentifier
        self.algorithm = algorithm
        self.csr = csr
    }
}

/// The 200 answer of `GET /v1/keys/{key}/public-key`.
public struct PublicKeyAnswer: Codable, Sendable, Equatable {
    /// Base64 of 32 bytes.
    public var publicKeyHash: String
    public var merchantIdentifier: String?
    /// Base64 of the uncompressed point of an EC key, 65 bytes: the form of Google's console. Absent for an RSA key.
    public var point: String?
    /// Base64 of the SubjectPublicKeyInfo in DER.
    public var subjectPublicKeyInfo: String

    public init(publicKeyHash: String, merchantIdentifier: String?, point: String?, subjectPublicKeyInfo: String) {
        self.publicKeyHash = publicKeyHash
        self.merchantIdentifier = merchantIdentifier
        self.point = point
        self.subjectPublicKeyInfo = subjectPublicKeyInfo
    }
}
