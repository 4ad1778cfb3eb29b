/// The largest size of every field, in bytes unless stated otherwise. Both ends apply the bounds when writing and when
/// reading, so a larger frame is neither sent nor accepted.
public enum FieldBound {
    /// A request's frame, without its length prefix.
    public static let requestFrame = 256 * 1024
    /// An answer's frame. The largest is a page of keys.
    public static let answerFrame = 8 * 1024 * 1024

    /// SHA-256 of a SubjectPublicKeyInfo, or another CKA_ID found in an HSM token.
    public static let identifier = 128
    /// A merchant identifier, a label, a name, a version.
    public static let name = 512
    /// A file's path (PATH_MAX) or an HSM token's URI.
    static let path = 4096
    /// A sentence for an operator; a longer one is truncated.
    static let sentence = 1024
    /// A payment token's ephemeral public key (65 bytes for P-256) or wrapped key (512 bytes for RSA-4096).
    static let keyMaterial = 1024
    static let otherInfo = 1024
    /// The payment data of one payment token with its tag, and the plaintext in it. The largest request is 64 KiB.
    static let paymentData = 128 * 1024
    public static let certificate = 16 * 1024
    static let subjectPublicKeyInfo = 1024
    /// An audit key's CKA_ID.
    static let auditKeyIdentifier = 16
    /// An audit key's public half: a point on P-256 of 65 bytes, or an RSA-2048 SubjectPublicKeyInfo of 294.
    static let auditPublicKey = 294
    /// A node's name.
    static let node = 64
    /// An audit checkpoint, in the signed form and as the line that the HSM token remembers.
    public static let checkpoint = 4096
    /// An audit checkpoint's signature: ECDSA on P-256 in DER has at most 72 bytes, RSA-2048 has 256.
    static let signature = 256
    /// A CertificationRequestInfo, which contains a name, a public key and perhaps an extension.
    public static let requestInformation = 8 * 1024
    /// A TLS 1.2 transcript with both sides' certificate chains.
    public static let tlsInput = 32 * 1024
    /// A certificate request's signature; RSA-2048 has the longest, 256 bytes.
    static let requestSignature = 256
    /// A JSON Web Token in compact form; a scope with the longest merchant identifier makes about 1,000 bytes.
    static let jsonWebToken = 4096
    /// The longest key that KeySealing seals, 8 KiB, and the bytes that sealing adds.
    static let sealedPrivateKey = 8 * 1024 + 16

    /// The number of bytes of secret memory that a worker may report as not locked. A worker uses a few hundred KiB.
    public static let unlockedSecrets: UInt32 = 1024 * 1024 * 1024

    /// The number of keys in one answer, which is one page of a listing.
    public static let keys = 1024
    /// The total size of keys and certificates, in bytes, at which a page ends. One more key, with all its
    /// certificates, still fits into the frame.
    public static let keyPage = 1024 * 1024
    /// The number of keys of one listing, in all its pages.
    public static let listedKeys = 100_000
    public static let certificatesPerKey = 32
    /// The number of private keys with one CKA_ID, which should be one.
    public static let privateKeysPerIdentifier = 8
    static let shortcomings = 16
    static let testKeys = 16
    static let deniedSystemCalls = 64
    /// The number of audit keys, or of remembered audit checkpoints, in one answer: one for each node that shares the
    /// HSM token. It is also the maximum number of nodes of a ledger. The longest list fits into one frame.
    public static let auditKeys = 1024
    public static let rememberedHeads = 1024
}

extension String {
    /// The longest prefix of at most this many bytes in UTF-8 that ends at a character boundary. If the first character
    /// is longer, the prefix ends at a code point boundary.
    public func prefix(utf8Count most: Int) -> String {
        guard utf8.count > most else { return self }
        var end = utf8.index(utf8.startIndex, offsetBy: most)
        while end > startIndex, end.samePosition(in: unicodeScalars) == nil { end = utf8.index(before: end) }
        // Character boundaries must be counted in the uncut text: the scalars after a position decide whether a
        // character ends there.
        var whole = startIndex
        while whole < end {
            let next = index(after: whole)
            guard next <= end else { break }
            whole = next
        }
        return String(self[..<(whole > startIndex ? whole : end)])
    }
}
