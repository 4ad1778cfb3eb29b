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

/// Requests have the types 1 to 63.
extension WorkerRequest {
    private enum FrameType: UInt8 {
        case open = 1
        case listKeys = 2
        case decrypt = 3
        case importPrivateKey = 4
        case importCertificate = 5
        case probe = 6
        case listAuditKeys = 7
        case createAuditKey = 8
        case signCheckpoint = 9
        case listHeads = 10
        case rememberHead = 11
        case generateKey = 12
        case signRequest = 13
        case destroyKey = 15
        case listMoreKeys = 16
        case describeKey = 17
    }

    /// The request as one frame with its length prefix.
    /// - Throws: ``FrameError/fieldTooLong`` or ``FrameError/length(_:)`` when a field exceeds its bound.
    public func encoded(identifier: UInt64) throws(FrameError) -> [UInt8] {
        var writer: FieldWriter
        switch self {
        case .open(let opening):
            writer = FieldWriter(type: FrameType.open.rawValue, identifier: identifier)
            try opening.write(to: &writer)
        case .listKeys:
            writer = FieldWriter(type: FrameType.listKeys.rawValue, identifier: identifier)
        case .listMoreKeys(let listing):
            writer = FieldWriter(type: FrameType.listMoreKeys.rawValue, identifier: identifier)
            writer.integer(listing)
        case .describeKey(let publicKeyHash):
            writer = FieldWriter(type: FrameType.describeKey.rawValue, identifier: identifier)
            try writer.octets(publicKeyHash, atMost: FieldBound.identifier)
        case .decrypt(let decryption):
            writer = FieldWriter(
                type: FrameType.decrypt.rawValue, identifier: identifier,
                capacity: decryption.ciphertext.count + 512)
            try decryption.write(to: &writer)
        case .importPrivateKey(let keyImport):
            writer = FieldWriter(type: FrameType.importPrivateKey.rawValue, identifier: identifier)
            try keyImport.write(to: &writer)
        case .importCertificate(let certificateImport):
            writer = FieldWriter(type: FrameType.importCertificate.rawValue, identifier: identifier)
            try certificateImport.write(to: &writer)
        case .destroyKey(let publicKeyHash):
            writer = FieldWriter(type: FrameType.destroyKey.rawValue, identifier: identifier)
            try writer.octets(publicKeyHash, atMost: FieldBound.identifier)
        case .probe:
            writer = FieldWriter(type: FrameType.probe.rawValue, identifier: identifier)
        case .listAuditKeys:
            writer = FieldWriter(type: FrameType.listAuditKeys.rawValue, identifier: identifier)
        case .createAuditKey(let key):
            writer = FieldWriter(type: FrameType.createAuditKey.rawValue, identifier: identifier)
            try writer.octets(key, atMost: FieldBound.auditKeyIdentifier)
        case .signCheckpoint(let signing):
            writer = FieldWriter(type: FrameType.signCheckpoint.rawValue, identifier: identifier)
            try signing.write(to: &writer)
        case .listHeads:
            writer = FieldWriter(type: FrameType.listHeads.rawValue, identifier: identifier)
        case .rememberHead(let head):
            writer = FieldWriter(type: FrameType.rememberHead.rawValue, identifier: identifier)
            try head.write(to: &writer)
        case .generateKey(let generation):
            writer = FieldWriter(type: FrameType.generateKey.rawValue, identifier: identifier)
            try generation.write(to: &writer)
        case .signRequest(let signing):
            writer = FieldWriter(type: FrameType.signRequest.rawValue, identifier: identifier)
            try signing.write(to: &writer)
        }
        return try writer.frame(atMost: FieldBound.requestFrame)
    }

    /// Reads a frame that claims to be a request.
    public init(_ frame: Frame) throws(FrameError) {
        guard let type = FrameType(rawValue: frame.type) else { throw .unknownType(frame.type) }
        var reader = FieldReader(frame.fields)
        switch type {
        case .open: self = .open(try HSMTokenOpening(from: &reader))
        case .listKeys: self = .listKeys
        case .listMoreKeys: self = .listMoreKeys(listing: try reader.integer())
        case .describeKey: self = .describeKey(publicKeyHash: try reader.octets(atMost: FieldBound.identifier))
        case .decrypt: self = .decrypt(try Decryption(from: &reader))
        case .importPrivateKey: self = .importPrivateKey(try PrivateKeyImport(from: &reader))
        case .importCertificate: self = .importCertificate(try CertificateToStore(from: &reader))
        case .destroyKey: self = .destroyKey(publicKeyHash: try reader.octets(atMost: FieldBound.identifier))
        case .probe: self = .probe
        case .listAuditKeys: self = .listAuditKeys
        case .createAuditKey:
            self = .createAuditKey(identifier: try reader.octets(atMost: FieldBound.auditKeyIdentifier))
        case .signCheckpoint: self = .signCheckpoint(try CheckpointSigning(from: &reader))
        case .listHeads: self = .listHeads
        case .rememberHead: self = .rememberHead(try HeadToRemember(from: &reader))
        case .generateKey: self = .generateKey(try KeyGeneration(from: &reader))
        case .signRequest: self = .signRequest(try RequestSigning(from: &reader))
        }
        try reader.end()
    }
}

extension HSMTokenOpening {
    fileprivate func write(to writer: inout FieldWriter) throws(FrameError) {
        writer.integer(protocolVersion)
        try writer.text(programVersion, atMost: FieldBound.name)
        try writer.text(modulePath, atMost: FieldBound.path)
        try writer.text(tokenURI, atMost: FieldBound.path)
        try writer.text(pinFile, atMost: FieldBound.path)
        writer.integer(sessions)
        try writer.text(initializationString, atMost: FieldBound.path)
        writer.boolean(allowExtractableSecret)
        writer.integer(callTimeout)
        try writer.text(refusedLogins, atMost: FieldBound.path)
        try writer.list(deniedSystemCalls, atMost: FieldBound.deniedSystemCalls) { writer, name throws(FrameError) in
            try writer.text(name, atMost: FieldBound.name)
        }
    }

    fileprivate init(from reader: inout FieldReader) throws(FrameError) {
        self.init(
            protocolVersion: try reader.integer(),
            programVersion: try reader.text(atMost: FieldBound.name),
            modulePath: try reader.text(atMost: FieldBound.path),
            tokenURI: try reader.text(atMost: FieldBound.path),
            pinFile: try reader.text(atMost: FieldBound.path),
            sessions: try reader.integer(),
            initializationString: try reader.text(atMost: FieldBound.path),
            allowExtractableSecret: try reader.boolean(),
            callTimeout: try reader.integer(),
            refusedLogins: try reader.text(atMost: FieldBound.path),
            deniedSystemCalls: try reader.list(atMost: FieldBound.deniedSystemCalls) { reader throws(FrameError) in
                try reader.text(atMost: FieldBound.name)
            })
    }
}

extension Decryption {
    fileprivate func write(to writer: inout FieldWriter) throws(FrameError) {
        try writer.octets(publicKeyHash, atMost: FieldBound.identifier)
        writer.integer(scheme.rawValue)
        try writer.octets(keyMaterial, atMost: FieldBound.keyMaterial)
        try writer.octets(otherInfo, atMost: FieldBound.otherInfo)
        try writer.octets(ciphertext, atMost: FieldBound.paymentData)
    }

    fileprivate init(from reader: inout FieldReader) throws(FrameError) {
        let publicKeyHash = try reader.octets(atMost: FieldBound.identifier)
        guard let scheme = RestorationScheme(rawValue: try reader.integer()) else { throw .invalidValue }
        self.init(
            publicKeyHash: publicKeyHash, scheme: scheme,
            keyMaterial: try reader.octets(atMost: FieldBound.keyMaterial),
            otherInfo: try reader.octets(atMost: FieldBound.otherInfo),
            ciphertext: try reader.octets(atMost: FieldBound.paymentData))
    }
}

extension PrivateKeyImport {
    fileprivate func write(to writer: inout FieldWriter) throws(FrameError) {
        try writer.text(merchantIdentifier, atMost: FieldBound.name)
        try writer.octets(certificate, atMost: FieldBound.certificate)
        try writer.octets(encapsulatedKey, atMost: FieldBound.keyMaterial)
        try writer.octets(sealedPrivateKey, atMost: FieldBound.sealedPrivateKey)
    }

    fileprivate init(from reader: inout FieldReader) throws(FrameError) {
        self.init(
            merchantIdentifier: try reader.text(atMost: FieldBound.name),
            certificate: try reader.octets(atMost: FieldBound.certificate),
            encapsulatedKey: try reader.octets(atMost: FieldBound.keyMaterial),
            sealedPrivateKey: try reader.octets(atMost: FieldBound.sealedPrivateKey))
    }
}

extension CertificateToStore {
    fileprivate func write(to writer: inout FieldWriter) throws(FrameError) {
        try writer.octets(publicKeyHash, atMost: FieldBound.identifier)
        try writer.text(merchantIdentifier, atMost: FieldBound.name)
        try writer.octets(certificate, atMost: FieldBound.certificate)
    }

    fileprivate init(from reader: inout FieldReader) throws(FrameError) {
        self.init(
            publicKeyHash: try reader.octets(atMost: FieldBound.identifier),
            merchantIdentifier: try reader.text(atMost: FieldBound.name),
            certificate: try reader.octets(atMost: FieldBound.certificate))
    }
}
