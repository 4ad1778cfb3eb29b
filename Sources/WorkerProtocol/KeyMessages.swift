/// A merchant's key pair to be made inside the token: sensitive, non-extractable, for key restoration and for the
/// signature of its own certificate request.
///
/// Its CKA_ID is the publicKeyHash, which is known only afterwards: until then it is ``unfinishedIdentifier`` and some
/// random bytes, so that what an interruption leaves behind is recognised and finished instead of made anew.
public struct KeyGeneration: Sendable, Equatable {
    /// CKA_LABEL: the merchant identifier.
    public var merchantIdentifier: String
    public var algorithm: KeyAlgorithm
    /// Makes nothing, but finishes what an earlier generation for this merchant left unfinished; `keyNotFound` when
    /// there is nothing of that kind. For reading back after a worker's end.
    public var onlyFinishes: Bool

    public init(merchantIdentifier: String, algorithm: KeyAlgorithm, onlyFinishes: Bool = false) {
        self.merchantIdentifier = merchantIdentifier
        self.algorithm = algorithm
        self.onlyFinishes = onlyFinishes
    }

    /// How the CKA_ID of a pair begins that has not got its own yet. No publicKeyHash begins so by chance.
    public static let unfinishedIdentifier: [UInt8] = Array("paytokend unfinished ".utf8)
}

/// A PKCS#10 request to be signed by the merchant key that it is for.
public struct RequestSigning: Sendable, Equatable {
    /// The key's CKA_ID, 32 bytes.
    public var publicKeyHash: [UInt8]
    /// CertificationRequestInfo in DER (RFC 2986 §4.1), at most 8 KiB, whose public key is that key's. The worker
    /// refuses everything else, so that a merchant key's signature never means something else.
    public var information: [UInt8]

    public init(publicKeyHash: [UInt8], information: [UInt8]) {
        self.publicKeyHash = publicKeyHash
        self.information = information
    }
}

extension KeyGeneration {
    func write(to writer: inout FieldWriter) throws(FrameError) {
        try writer.text(merchantIdentifier, atMost: FieldBound.name)
        writer.integer(algorithm.rawValue)
        writer.boolean(onlyFinishes)
    }

    init(from reader: inout FieldReader) throws(FrameError) {
        let merchantIdentifier = try reader.text(atMost: FieldBound.name)
        guard let algorithm = KeyAlgorithm(rawValue: try reader.integer()) else { throw .invalidValue }
        self.init(
            merchantIdentifier: merchantIdentifier, algorithm: algorithm, onlyFinishes: try reader.boolean())
    }
}

extension RequestSigning {
    func write(to writer: inout FieldWriter) throws(FrameError) {
        try writer.octets(publicKeyHash, atMost: FieldBound.identifier)
        try writer.octets(information, atMost: FieldBound.requestInformation)
    }

    init(from reader: inout FieldReader) throws(FrameError) {
        self.init(
            publicKeyHash: try reader.octets(atMost: FieldBound.identifier),
            information: try reader.octets(atMost: FieldBound.requestInformation))
    }
}
