/// What the daemon asks of a worker. One request is one frame; its answer carries the same identifier.
public enum WorkerRequest: Sendable, Equatable {
    /// The first frame, and only the first: loads the library, logs in, tests the tiers.
    case open(HSMTokenOpening)
    /// Every merchant key pair and certificate that the token shows now; the answer may be the first page of several.
    case listKeys
    /// The page after the one that named this listing. A listing that was given up for another is `overloaded`.
    case listMoreKeys(listing: UInt64)
    /// One key pair with its certificates, 32 bytes of publicKeyHash, read anew; no key when there is none.
    case describeKey(publicKeyHash: [UInt8])
    /// Restores one transaction's symmetric key and opens its data. The same frame for every tier.
    case decrypt(Decryption)
    /// Stores a private key, non-extractable and sensitive from then on, with its public key and certificate.
    case importPrivateKey(PrivateKeyImport)
    /// Stores a certificate beside the private key that it belongs to.
    case importCertificate(CertificateToStore)
    /// Removes a merchant key's objects, 32 bytes of publicKeyHash; `done` when there are none any more.
    case destroyKey(publicKeyHash: [UInt8])
    /// Answers at once while the token does its work: one cheap call into the library.
    case probe
    /// Every key that the token has for signing checkpoints.
    case listAuditKeys
    /// Makes the audit key with this CKA_ID, 16 bytes, or answers with the one that has it already.
    case createAuditKey(identifier: [UInt8])
    /// Signs a checkpoint.
    case signCheckpoint(CheckpointSigning)
    /// The checkpoints that the token keeps, of every node.
    case listHeads
    /// Keeps a node's checkpoint in the token instead of the one before.
    case rememberHead(HeadToRemember)
    /// Makes a merchant's key pair inside the token.
    case generateKey(KeyGeneration)
    /// Signs a certificate request with the merchant key that it is for.
    case signRequest(RequestSigning)
}

/// Everything a worker needs to open its one token. PINs are not in it, only where to read them.
public struct HSMTokenOpening: Sendable, Equatable {
    /// ``WorkerProtocolVersion/current`` of the sender; another one is refused.
    public var protocolVersion: UInt16
    /// The daemon's version; a worker of another version refuses to serve.
    public var programVersion: String
    /// Absolute path of the PKCS#11 library.
    public var modulePath: String
    /// RFC 7512 URI naming the token by label and serial number.
    public var tokenURI: String
    /// Absolute path of the file with the user PIN.
    public var pinFile: String
    /// Working sessions, besides the anchor session that holds the login.
    public var sessions: UInt16
    /// Library-specific initialisation string (NSS); empty for none.
    public var initializationString: String
    /// Tier C: the transaction's symmetric key may be read into the worker's memory.
    public var allowExtractableSecret: Bool
    /// How long the daemon waits for one answer, in milliseconds, before it ends the worker: a token that throttles is
    /// waited for within that time.
    public var callTimeout: UInt32
    /// Absolute path of the file that keeps, as keyed digests, the PINs that this token has refused; it is made when it
    /// is not there. Empty for none: a refusal is then forgotten when the worker ends.
    public var refusedLogins: String
    /// Names of system calls that the worker denies itself before it loads the library; empty for none.
    public var deniedSystemCalls: [String]

    public init(
        protocolVersion: UInt16 = WorkerProtocolVersion.current, programVersion: String, modulePath: String,
        tokenURI: String, pinFile: String, sessions: UInt16, initializationString: String,
        allowExtractableSecret: Bool, callTimeout: UInt32 = 10_000, refusedLogins: String = "",
        deniedSystemCalls: [String] = []
    ) {
        self.protocolVersion = protocolVersion
        self.programVersion = programVersion
        self.modulePath = modulePath
        self.tokenURI = tokenURI
        self.pinFile = pinFile
        self.sessions = sessions
        self.initializationString = initializationString
        self.allowExtractableSecret = allowExtractableSecret
        self.callTimeout = callTimeout
        self.refusedLogins = refusedLogins
        self.deniedSystemCalls = deniedSystemCalls
    }
}

public enum WorkerProtocolVersion {
    public static let current: UInt16 = 4
}

/// Which of Apple's two key restorations a token asks for.
public enum RestorationScheme: UInt8, Sendable, Equatable, CaseIterable {
    /// ECDH on P-256, one-step KDF, AES-256-GCM.
    case ecV1 = 1
    /// RSA-OAEP with SHA-256, AES-128-GCM.
    case rsaV1 = 2
}

public struct Decryption: Sendable, Equatable {
    /// 32 bytes, SHA-256 of the merchant key's SubjectPublicKeyInfo: the private key's CKA_ID.
    public var publicKeyHash: [UInt8]
    public var scheme: RestorationScheme
    /// EC_v1: the ephemeral public key as an uncompressed point, 65 bytes (SEC 1 §2.3.3). RSA_v1: the wrapped key.
    public var keyMaterial: [UInt8]
    /// EC_v1: OtherInfo of the one-step KDF (SP 800-56A §5.8.2.1), without the counter. RSA_v1: empty.
    public var otherInfo: [UInt8]
    /// Ciphertext with its 16-byte GCM tag at the end.
    public var ciphertext: [UInt8]

    public init(
        publicKeyHash: [UInt8], scheme: RestorationScheme, keyMaterial: [UInt8], otherInfo: [UInt8],
        ciphertext: [UInt8]
    ) {
        self.publicKeyHash = publicKeyHash
        self.scheme = scheme
        self.keyMaterial = keyMaterial
        self.otherInfo = otherInfo
        self.ciphertext = ciphertext
    }
}

/// A private key on its way into the token, sealed so that only the worker can read it.
public struct PrivateKeyImport: Sendable, Equatable {
    /// CKA_LABEL: the merchant identifier.
    public var merchantIdentifier: String
    /// The certificate in DER. Its public key must be the private key's.
    public var certificate: [UInt8]
    /// HPKE (RFC 9180), base mode, DHKEM(P-256, HKDF-SHA256), HKDF-SHA256, AES-256-GCM, to
    /// ``HSMTokenDescription/importKey``: the encapsulated key, 65 bytes.
    public var encapsulatedKey: [UInt8]
    /// PKCS#8 PrivateKeyInfo in DER (RFC 5958), sealed under that key with `info` = "paytokend key import v1"
    /// and the certificate's DER as associated data: KeySealing does it at both ends.
    public var sealedPrivateKey: [UInt8]

    public init(
        merchantIdentifier: String, certificate: [UInt8], encapsulatedKey: [UInt8], sealedPrivateKey: [UInt8]
    ) {
        self.merchantIdentifier = merchantIdentifier
        self.certificate = certificate
        self.encapsulatedKey = encapsulatedKey
        self.sealedPrivateKey = sealedPrivateKey
    }
}

public struct CertificateToStore: Sendable, Equatable {
    /// 32 bytes: the CKA_ID of the private key that the certificate belongs to.
    public var publicKeyHash: [UInt8]
    /// CKA_LABEL: the merchant identifier.
    public var merchantIdentifier: String
    /// The certificate in DER.
    public var certificate: [UInt8]

    public init(publicKeyHash: [UInt8], merchantIdentifier: String, certificate: [UInt8]) {
        self.publicKeyHash = publicKeyHash
        self.merchantIdentifier = merchantIdentifier
        self.certificate = certificate
    }
}
