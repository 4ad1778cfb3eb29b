public import TLSHandshake

/// The input that a TLS client has to sign with its certificate's key.
public struct TLSSigning: Sendable, Equatable, Message {
    /// The identity key's CKA_ID, 32 bytes.
    public var publicKeyHash: [UInt8] = []
    public var algorithm: TLSSignatureAlgorithm = .pssSHA256
    /// Unhashed, at most 32 KiB: the content of a TLS 1.3 client CertificateVerify, or a whole TLS 1.2 transcript up to
    /// the ClientKeyExchange. The worker refuses all other input, so an identity key signs nothing else.
    public var input: [UInt8] = []

    public init(publicKeyHash: [UInt8], algorithm: TLSSignatureAlgorithm, input: [UInt8]) {
        self.publicKeyHash = publicKeyHash
        self.algorithm = algorithm
        self.input = input
    }

    init() {}

    mutating func fields<Coder: FieldCoder>(_ coder: inout Coder) throws(FrameError) {
        try coder.octets(&publicKeyHash, atMost: FieldBound.identifier)
        var codePoint = algorithm.codePoint
        try coder.integer(&codePoint)
        guard let known = TLSSignatureAlgorithm(codePoint: codePoint) else { throw .invalidValue }
        algorithm = known
        try coder.octets(&input, atMost: FieldBound.tlsInput)
    }
}

/// The place where PSS signatures are padded, determined by a known-answer test when the HSM token is opened.
public enum PSSSignatures: UInt8, Sendable, Equatable, CaseIterable {
    /// The HSM token pads (CKM_SHA256_RSA_PKCS_PSS or CKM_RSA_PKCS_PSS).
    case byToken = 1
    /// The worker pads, and the HSM token computes the bare RSA operation (CKM_RSA_X_509).
    case byWorker = 2
    /// Neither works.
    case none = 3
}

/// The signatures that an HSM token can make for TLS handshakes.
public struct TLSSignatures: Sendable, Equatable, Message {
    public var pss: PSSSignatures = .none
    /// True if RSASSA-PKCS1-v1_5 with SHA-256 works.
    public var pkcs1: Bool = false

    public init(pss: PSSSignatures, pkcs1: Bool) {
        self.pss = pss
        self.pkcs1 = pkcs1
    }

    /// An HSM token that signs nothing.
    public init() {}

    /// The algorithms, in the order of preference.
    public var algorithms: [TLSSignatureAlgorithm] {
        (pss == .none ? [] : [.pssSHA256]) + (pkcs1 ? [.pkcs1SHA256] : [])
    }

    mutating func fields<Coder: FieldCoder>(_ coder: inout Coder) throws(FrameError) {
        try coder.choice(&pss)
        try coder.boolean(&pkcs1)
    }
}
