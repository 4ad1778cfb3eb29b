import Encodings
public import Foundation
public import StrictJSON

/// One merchant key as `GET /v1/keys`, `GET /v1/keys/{hex}` and the import answers show it.
///
/// The members are always there: what is not known is null, so that scripts need not test for presence.
public struct KeySummary: Codable, Sendable, Equatable {
    /// Base64 of the 32 bytes, as it stands in Apple's tokens.
    public var publicKeyHash: String
    @Nullable public var merchantIdentifier: String?
    /// `EC` or `RSA`.
    public var algorithm: String
    /// `processing` (decrypts) or `identity` (signs TLS handshakes for merchant sessions).
    @StatedUse public var use: String
    /// The state's name, SP 800-57 part 1 §7: `pre-activation`, `active`, `suspended`, `deactivated`, `compromised`,
    /// `destroyed`.
    public var state: String
    /// Until when a deactivated key still decrypts, or did; null where it was given no time.
    @Nullable public var cutOff: Date?
    /// The certificate's end; null without a certificate.
    @Nullable public var notAfter: Date?
    /// Whole days until `notAfter`, rounded down; negative when it has passed.
    @Nullable public var daysLeft: Int?
    /// The protection tier that serves the key now, `A`, `B` or `C`; null when none does, and for identity keys.
    @Nullable public var tier: String?
    /// The last release or signature with this key that this process made.
    @Nullable public var lastUse: Date?
    /// Releases or signatures with this key since this process started.
    public var uses: Int
    /// `served`, `external`, `inconsistent` or `missing`.
    public var condition: String
    /// Why, where the condition is not `served`.
    @Nullable public var remark: String?
    /// The configured names of the tokens that hold the key.
    public var tokens: [String]
    /// The nodes whose tokens hold the key, as each has said last, destroyed keys included; null where one host alone uses the
    /// ledger, and in the answers to changes.
    @Nullable public var nodes: [String]?
    /// What the HSM tokens that show the key say of it at this moment. Absent in lists and in the answers to changes, which
    /// ask no token.
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

    /// Whole days from `now` to `notAfter`, rounded down.
    public static func daysLeft(until notAfter: Date, now: Date) -> Int {
        Int((notAfter.timeIntervalSince(now) / 86_400).rounded(.down))
    }
}

// A list has thousands of keys, for which Codable takes seconds.
extension KeySummary {
    /// Writes the summary as ``JSONCoding`` does, as an element of a list: without ``attributes``.
    public func write(to json: inout JSONWriter) {
        func member(_ name: String, _ value: String?) {
            json.member(name)
            if let value { json.string(value) } else { json.null() }
        }
        json.beginObject()
        member("algorithm", algorithm)
        member("condition", condition)
        member("cutOff", cutOff.map(RFC3339.string))
        json.member("daysLeft")
        if let daysLeft { json.number(daysLeft) } else { json.null() }
        member("lastUse", lastUse.map(RFC3339.string))
        member("merchantIdentifier", merchantIdentifier)
        json.member("nodes")
        if let nodes {
            json.beginArray()
            for node in nodes { json.string(node) }
            json.endArray()
        } else {
            json.null()
        }
        member("notAfter", notAfter.map(RFC3339.string))
        member("publicKeyHash", publicKeyHash)
        member("remark", remark)
        member("state", state)
        member("tier", tier)
        json.member("tokens")
        json.beginArray()
        for hsmToken in tokens { json.string(hsmToken) }
        json.endArray()
        json.member("use")
        json.string(use)
        json.member("uses")
        json.number(uses)
        json.endObject()
    }

    /// Reads what ``write(to:)`` wrote, this version's or a newer one's; nil when it is none.
    public init?(_ json: JSONValue) {
        guard let object = json.objectValue, let publicKeyHash = object["publicKeyHash"]?.stringValue,
            let algorithm = object["algorithm"]?.stringValue, let state = object["state"]?.stringValue,
            let condition = object["condition"]?.stringValue,
            let use = object.optional("use", \.stringValue), let uses = object["uses"]?.numberValue?.int,
            let hsmTokens = object["tokens"]?.arrayValue,
            let daysLeft = object.optional("daysLeft", { $0.numberValue?.int }),
            let merchantIdentifier = object.optional("merchantIdentifier", \.stringValue),
            let remark = object.optional("remark", \.stringValue), let tier = object.optional("tier", \.stringValue),
            let cutOff = object.optional("cutOff", { $0.stringValue.flatMap(RFC3339.date) }),
            let notAfter = object.optional("notAfter", { $0.stringValue.flatMap(RFC3339.date) }),
            let lastUse = object.optional("lastUse", { $0.stringValue.flatMap(RFC3339.date) }),
            let nodes = object.optional("nodes", { $0.arrayValue?.compactMap(\.stringValue) })
        else { return nil }
        let names = hsmTokens.compactMap(\.stringValue)
        guard names.count == hsmTokens.count else { return nil }
        self.init(
            publicKeyHash: publicKeyHash, merchantIdentifier: merchantIdentifier, algorithm: algorithm,
            // A daemon that says no use knows processing keys only.
            use: use ?? "processing", state: state, notAfter: notAfter, daysLeft: daysLeft, tier: tier,
            lastUse: lastUse, uses: uses, condition: condition,
            remark: remark, tokens: names, cutOff: cutOff, nodes: nodes)
    }
}

extension JSONObject {
    /// The member's value, or nil in it where it is absent or null; nil when it is of another type.
    fileprivate func optional<Value>(_ name: String, _ read: (JSONValue) -> Value?) -> Value?? {
        guard let value = self[name], !value.isNull else { return .some(nil) }
        return read(value).map { .some($0) }
    }
}

extension ListAnswer where Item == KeySummary {
    public func json() -> [UInt8] {
        var json = JSONWriter(capacity: items.count * 512 + 128)
        json.beginObject()
        json.member("items")
        json.beginArray()
        for item in items { item.write(to: &json) }
        json.endArray()
        if let next {
            json.member("next")
            json.string(next)
        }
        json.endObject()
        return json.bytes
    }

    /// Reads a page, and its keys as they came; nil when it is none. Unknown members are ignored.
    public static func read(_ body: [UInt8]) -> (page: ListAnswer, items: [JSONValue])? {
        guard let object = (try? JSONValue(parsing: body))?.objectValue, let items = object["items"]?.arrayValue,
            let next = object.optional("next", \.stringValue)
        else { return nil }
        let keys = items.compactMap { KeySummary($0) }
        guard keys.count == items.count else { return nil }
        return (ListAnswer(items: keys, next: next), items)
    }
}

/// One page of a list.
public struct ListAnswer<Item: Codable & Sendable>: Codable, Sendable {
    public var items: [Item]
    /// Opaque; given back as `?after=` it continues the list. Absent on the last page.
    public var next: String?

    public init(items: [Item], next: String? = nil) {
        self.items = items
        self.next = next
    }
}

extension ListAnswer: Equatable where Item: Equatable {}

/// The 200 answer of `POST /v1/keys?dry_run=true`: nothing was made. Without the dry run the answer is a ``KeySummary``.
public struct KeyGenerationDryRun: Codable, Sendable, Equatable {
    public var merchantIdentifier: String
    /// `EC` or `RSA`.
    public var algorithm: String
    /// `processing` or `identity`.
    @StatedUse public var use: String
    /// The token that the key would be made in.
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
