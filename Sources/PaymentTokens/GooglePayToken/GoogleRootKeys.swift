public import Encodings
public import Foundation
internal import StrictJSON

/// The public keys that sign Google's intermediate keys, from the file that Google publishes.
public struct GoogleRootKeys: Sendable, Equatable {
    /// The most entries of a file. Google's has about four.
    public static let maximumEntries = 16

    /// The keys for ECv2, in the order of the file. An expired key stays in the list, and counts no more from its
    /// expiration on. A file has at least one key; ``GoogleRootTrust`` may leave none.
    public let keys: [GoogleRootKey]

    init(_ keys: [GoogleRootKey]) { self.keys = keys }

    /// Parses Google's file: `{"keys": [{"keyValue", "protocolVersion", "keyExpiration"}]}`.
    ///
    /// Only entries for ECv2 with an expiration count: Google's keys without one are for ECv1 alone. The keys of other
    /// entries are not read. Further members are permitted, since Google may add some.
    ///
    /// - Throws: ``UnsuitableKey`` with the reason.
    public init(parsing bytes: [UInt8]) throws(UnsuitableKey) {
        try self.init(Self.document(parsing: bytes))
    }

    static func document(parsing bytes: [UInt8]) throws(UnsuitableKey) -> JSONValue {
        do {
            return try JSONValue(parsing: bytes)
        } catch {
            throw UnsuitableKey(reason: "\(error)")
        }
    }

    init(_ json: JSONValue) throws(UnsuitableKey) {
        guard let entries = json.objectValue?["keys"]?.arrayValue, entries.count <= Self.maximumEntries else {
            throw UnsuitableKey(reason: "not an object with an array keys of at most \(Self.maximumEntries) entries")
        }
        var keys: [GoogleRootKey] = []
        for (place, entry) in entries.enumerated() {
            guard let members = entry.objectValue, let version = members["protocolVersion"]?.stringValue else {
                throw UnsuitableKey(reason: "keys[\(place)] has no text protocolVersion")
            }
            guard version.utf8.elementsEqual(GooglePayToken.version.utf8), let expiration = members["keyExpiration"]
            else { continue }
            guard let key = members["keyValue"]?.stringValue.flatMap(GoogleForm.key(in:)) else {
                throw UnsuitableKey(reason: "keys[\(place)].keyValue is not \(GoogleForm.key)")
            }
            guard let expiration = expiration.stringValue.flatMap(GoogleForm.time(in:)) else {
                throw UnsuitableKey(reason: "keys[\(place)].keyExpiration is not \(GoogleForm.time)")
            }
            keys.append(GoogleRootKey(key: key, expiration: expiration))
        }
        guard !keys.isEmpty else {
            throw UnsuitableKey(
                reason: "no entry has the protocolVersion \(GooglePayToken.version) and a keyExpiration")
        }
        self.keys = keys
    }
}

/// A root key of Google's for ECv2.
public struct GoogleRootKey: Sendable, Equatable {
    public let key: SubjectPublicKeyInfo
    /// The time from which the key counts no more.
    public let expiration: Date

    /// SHA-256 of the SubjectPublicKeyInfo in DER, 32 bytes.
    public var sha256: [UInt8] { key.publicKeyHash }

    /// True for the key of Google's TEST environment, whose payment tokens anyone can order with test cards.
    public var isTest: Bool { sha256 == Self.testFingerprint }

    /// The SHA-256 of the key for ECv2 in the file of the TEST environment
    /// (https://payments.developers.google.com/paymentmethodtoken/test/keys.json), which expires in 2038.
    private static let testFingerprint =
        Hexadecimal.decode("ae7746900a7fac6e132119106be290d9d67425989734d23e594e81685bab5f97") ?? []
}
