internal import BoundedTable
internal import Crypto
internal import Encodings
public import Foundation
internal import Locks
internal import PaymentToken
public import Refusals

/// A merchant's identifier in Google's business console, without the prefix `merchant:`.
public struct GooglePayMerchant: Sendable, Hashable {
    public static let maximumLength = 64
    public let identifier: String

    /// - Returns: nil unless the text has 1 to ``maximumLength`` ASCII letters, digits, `-` and `_`. Apple's merchant
    ///   identifiers have a point, and recipients a colon, so neither is accepted by mistake.
    public init?(_ identifier: String) {
        guard (1...Self.maximumLength).contains(identifier.utf8.count),
            identifier.utf8.allSatisfy({ byte in
                Base64.value(of: byte) != nil && byte != UInt8(ascii: "+") && byte != UInt8(ascii: "/")
                    || byte == UInt8(ascii: "-") || byte == UInt8(ascii: "_")
            })
        else { return nil }
        self.identifier = identifier
    }

    /// The recipient that Google signs into a merchant's payment tokens; payment providers' begin with `gateway:`.
    var recipient: String { "merchant:\(identifier)" }
}

extension GooglePayToken {
    /// Verifies that Google signed the payment token for the merchant: a root key signed the intermediate key, and the
    /// intermediate key the message.
    ///
    /// - Parameters:
    ///   - now: the time at which the root key and the intermediate key must not have expired.
    ///   - ignoresKeyExpiration: true to accept an intermediate key that has expired. The caller then calls
    ///     ``requireCurrentKey(at:)``, unless the message was released before.
    /// - Returns: the root key.
    /// - Throws: `signature_invalid`; `certificate_untrusted` for a key that has expired.
    public func verify(
        for merchant: GooglePayMerchant, under roots: GoogleRootKeys, at now: Date,
        ignoringKeyExpiration ignoresKeyExpiration: Bool = false
    ) throws(Refusal) -> GoogleRootKey {
        let valid = roots.keys.filter { root in now < root.expiration }
        guard !valid.isEmpty else {
            throw .certificateUntrusted(
                "no root key is trusted that has not expired; put Google's current keys in place")
        }
        let keySignedBytes = Self.signedBytes(
            ["Google", Self.version].map { Array($0.utf8) } + [intermediateKey.signedKey])
        guard let signer = Self.keySignatures.signer(of: keySignedBytes, intermediateKey.signatures, among: valid)
        else {
            throw .signatureInvalid("no signature of the intermediate signing key is by a trusted root key")
        }
        if !ignoresKeyExpiration { try requireCurrentKey(at: now) }
        let messageSignedBytes = Self.signedBytes(
            ["Google", merchant.recipient, Self.version].map { Array($0.utf8) } + [signedMessage])
        guard intermediateKey.key.hasSigned(messageSignedBytes, signature) else {
            throw .signatureInvalid(
                "the message's signature is not the intermediate signing key's for this merchant: it was forged, or made "
                    + "for another merchant")
        }
        return signer
    }

    private static let keySignatures = VerifiedKeySignatures()

    /// - Throws: `certificate_untrusted` if the intermediate key has expired.
    public func requireCurrentKey(at now: Date) throws(Refusal) {
        guard now < intermediateKey.expiration else {
            throw .certificateUntrusted(
                "the intermediate signing key expired at \(RFC3339.string(intermediateKey.expiration))")
        }
    }

    /// The bytes under a signature: each part after its length in four bytes, little-endian. The lengths keep bytes from
    /// being moved between the parts. ``GooglePayClaims`` hashes parts in the same form.
    static func signedBytes(_ parts: [[UInt8]]) -> [UInt8] {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(parts.reduce(0) { size, part in size + 4 + part.count })
        for part in parts {
            for shift in stride(from: 0, to: 32, by: 8) { bytes.append(UInt8(truncatingIfNeeded: part.count >> shift)) }
            bytes += part
        }
        return bytes
    }
}

/// The signatures of root keys over intermediate keys that were found valid. Google uses an intermediate key for days,
/// so nearly every payment token has one of them, and only the message's signature remains to be verified.
///
/// A signature that was valid stays so. Which root keys are trusted, and when keys expire, is checked for each payment
/// token. Only a root key's signature is added, so untrusted callers cannot displace genuine ones.
final class VerifiedKeySignatures: Sendable {
    private struct Signature: Hashable {
        let root: SubjectPublicKeyInfo
        let signedBytes: [UInt8]
        let signature: [UInt8]

        /// Hashes only the signature, which differs between intermediate keys. Equality compares everything.
        func hash(into hasher: inout Hasher) { hasher.combine(signature) }
    }

    private let known: Mutex<BoundedTable<Signature, Bool>>

    init(capacity: Int = 64) { known = Mutex(BoundedTable(capacity: capacity)) }

    var count: Int { known.withLock { $0.count } }

    /// Returns the first of these root keys that made one of the signatures, or a root key whose signature is remembered.
    func signer(of signedBytes: [UInt8], _ signatures: [[UInt8]], among roots: [GoogleRootKey]) -> GoogleRootKey? {
        let candidates = roots.flatMap { root in
            signatures.map { (root, Signature(root: root.key, signedBytes: signedBytes, signature: $0)) }
        }
        let remembered = known.withLock { known in candidates.first { _, signature in known[signature] != nil } }
        if let (root, _) = remembered { return root }
        guard let (root, signature) = candidates.first(where: { $0.key.hasSigned(signedBytes, $1.signature) }) else {
            return nil
        }
        known.withLock { $0.set(true, for: signature) }
        return root
    }
}

extension SubjectPublicKeyInfo {
    fileprivate func hasSigned(_ message: [UInt8], _ signature: [UInt8]) -> Bool {
        guard case .ec(let point) = key, let key = try? P256.Signing.PublicKey(x963Representation: point) else {
            return false
        }
        return key.hasMade(signature[...], over: message)
    }
}

extension Refusal {
    fileprivate static func signatureInvalid(_ details: String) -> Refusal {
        Refusal(
            .signatureInvalid,
            "The payment token does not carry a valid signature of Google's for this merchant; do not use it.",
            details: details)
    }

    fileprivate static func certificateUntrusted(_ details: String) -> Refusal {
        Refusal(
            .certificateUntrusted,
            "The payment token's signer is not trusted at this time; ask the customer to pay again, and check this host's "
                + "clock.", details: details)
    }
}
