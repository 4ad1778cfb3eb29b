public import KeyTypes

// The frames between paytokend and its worker, paytokend-hsm, and the values in them. One of these processes reads the
// input of untrusted callers, the other has the PIN, and nothing else passes between them. Both link this module.
//
// Both ends treat every frame as hostile. A length is compared with its bound in `FieldBound` before memory is
// allocated. Bytes that cannot be parsed completely are a `FrameError`, after which the reader closes the stream.
//
// Start here. `WorkerRequest` lists the requests, with one row and one description for each operation; `WorkerAnswer`
// lists the answers. `Frame` is the layout on the wire, `Fields` reads and writes it. A new operation is a case of
// `WorkerRequest` with its row, its fields and its `empty` value, and a case in the worker's dispatch
// (`HSMWorker/Service`).

/// The daemon's request to a worker. One request is one frame; its answer carries the same identifier.
public enum WorkerRequest: Sendable, Equatable {
    /// Loads the library, logs in and tests the tiers. The daemon sends this request first and only once.
    case open(HSMTokenOpening)
    /// Every merchant key pair and certificate that the HSM token shows now; the answer may be the first page of
    /// several.
    case listKeys
    /// The next page of a listing. The answer is `listingEnded` if that listing was abandoned.
    case listMoreKeys(listing: UInt64)
    /// Reads one key pair with its certificates again. `publicKeyHash` has 32 bytes. The answer lists no key if the HSM
    /// token shows none.
    case describeKey(publicKeyHash: [UInt8])
    /// Reads the current attributes of all private keys with this CKA_ID, a publicKeyHash of 32 bytes, from the HSM
    /// token.
    case readAttributes(publicKeyHash: [UInt8])
    /// Restores one transaction's symmetric key and opens its data. Every tier uses the same frame.
    case decrypt(Decryption)
    /// Stores a private key, which is then non-extractable and sensitive, with its public key and certificate.
    case importPrivateKey(PrivateKeyImport)
    /// Stores a certificate with the private key that it belongs to.
    case importCertificate(CertificateToStore)
    /// Destroys a merchant key's objects. `publicKeyHash` has 32 bytes. The answer is `done` if the private key no
    /// longer exists.
    case destroyKey(publicKeyHash: [UInt8])
    /// Removes the stored key pairs of the self-tests. The next worker makes those that it needs again.
    case removeTestKeys
    /// Answers immediately if the HSM token works: one cheap call into the library.
    case probe
    /// Every key in the HSM token for signing audit checkpoints.
    case listAuditKeys
    /// Makes the audit key with this CKA_ID, 16 bytes, or returns the existing one. Replaces an existing one with which
    /// the HSM token refuses to sign, so it must be a key that has sealed nothing.
    case createAuditKey(identifier: [UInt8])
    /// Signs an audit checkpoint.
    case signCheckpoint(CheckpointSigning)
    /// The audit checkpoints of all nodes that the HSM token stores.
    case listHeads
    /// Stores a node's audit checkpoint in the HSM token, in place of the previous one.
    case rememberHead(HeadToRemember)
    /// Makes a merchant's key pair inside the HSM token.
    case generateKey(KeyGeneration)
    /// Signs a certificate request with the merchant key that it is for.
    case signRequest(RequestSigning)
    /// Signs a TLS handshake with an identity key.
    case signTLS(TLSSigning)
    /// Builds and signs a JSON Web Token for Apple's API with a service key.
    case signJWT(JWTSigning)
}

/// The properties of a kind of request, apart from its fields.
public struct WorkerOperation: Sendable, Equatable {
    /// The frame's type, 1 to 63. A number that was ever used is never assigned to another operation.
    let type: UInt8
    /// The `operation` label of `paytokend_hsm_call_seconds`.
    public let name: String
    /// True if the request may be sent again after a worker ended while processing it: it changes nothing in the HSM
    /// token, or nothing more the second time. A destroyed key stays destroyed, an audit key is made once for its
    /// identifier, and a remembered audit checkpoint stays.
    public let isRepeatable: Bool
    /// True if everything else works without this operation. A request that hung is then not sent again.
    public let isOptional: Bool
    /// True if callers determine the request's content. A worker may then end because of it, again and again.
    public let hasCallersInput: Bool
    /// The time that the worker always has, even if `call_timeout` is shorter.
    private let leastLimit: Duration

    fileprivate init(
        _ type: UInt8, _ name: String, isRepeatable: Bool, isOptional: Bool = false, hasCallersInput: Bool = false,
        atLeast leastLimit: Duration = .zero
    ) {
        self.type = type
        self.name = name
        self.isRepeatable = isRepeatable
        self.isOptional = isOptional
        self.hasCallersInput = hasCallersInput
        self.leastLimit = leastLimit
    }

    /// The time that the worker may take.
    public func limit(callTimeout: Duration) -> Duration { max(callTimeout, leastLimit) }
}

extension WorkerRequest {
    /// The operation's row in the table. Some operations need more time than a decryption: opening loads a library and
    /// tests the tiers, and listing reads many keys. A slow HSM token needs many seconds to generate an RSA key.
    public var operation: WorkerOperation {
        switch self {
        case .open: WorkerOperation(1, "open", isRepeatable: false, atLeast: .seconds(60))
        case .listKeys: WorkerOperation(2, "list_keys", isRepeatable: true, atLeast: .seconds(30))
        case .decrypt: WorkerOperation(3, "decrypt", isRepeatable: true, hasCallersInput: true)
        case .importPrivateKey: WorkerOperation(4, "import_private_key", isRepeatable: false, atLeast: .seconds(30))
        case .importCertificate: WorkerOperation(5, "import_certificate", isRepeatable: false, atLeast: .seconds(30))
        case .probe: WorkerOperation(6, "probe", isRepeatable: true)
        case .listAuditKeys: WorkerOperation(7, "list_audit_keys", isRepeatable: true, atLeast: .seconds(30))
        case .createAuditKey: WorkerOperation(8, "create_audit_key", isRepeatable: true, atLeast: .seconds(30))
        case .signCheckpoint: WorkerOperation(9, "sign_checkpoint", isRepeatable: true)
        case .listHeads: WorkerOperation(10, "list_heads", isRepeatable: true, atLeast: .seconds(30))
        case .rememberHead:
            WorkerOperation(11, "remember_head", isRepeatable: true, isOptional: true, atLeast: .seconds(30))
        case .generateKey: WorkerOperation(12, "generate_key", isRepeatable: false, atLeast: .seconds(60))
        case .signRequest: WorkerOperation(13, "sign_request", isRepeatable: true, atLeast: .seconds(30))
        case .destroyKey: WorkerOperation(15, "destroy_key", isRepeatable: true, atLeast: .seconds(30))
        // The metric counts a further page under the same name as a listing's first page.
        case .listMoreKeys: WorkerOperation(16, "list_keys", isRepeatable: true, atLeast: .seconds(30))
        case .describeKey: WorkerOperation(17, "describe_key", isRepeatable: true, atLeast: .seconds(30))
        case .signTLS: WorkerOperation(18, "sign_tls", isRepeatable: true, hasCallersInput: true)
        case .readAttributes:
            WorkerOperation(19, "read_attributes", isRepeatable: true, atLeast: .seconds(30))
        // A second attempt would count only the pairs that the first one left.
        case .removeTestKeys: WorkerOperation(20, "remove_test_keys", isRepeatable: false, atLeast: .seconds(30))
        case .signJWT: WorkerOperation(21, "sign_jwt", isRepeatable: true)
        }
    }

    /// The fields of every request, for reading and for writing.
    private mutating func fields<Coder: FieldCoder>(_ coder: inout Coder) throws(FrameError) {
        switch self {
        case .listKeys, .removeTestKeys, .probe, .listAuditKeys, .listHeads:
            break
        case .listMoreKeys(var listing):
            try coder.integer(&listing)
            self = .listMoreKeys(listing: listing)
        case .describeKey(let publicKeyHash):
            self = .describeKey(publicKeyHash: try coder.coded(publicKeyHash, atMost: FieldBound.identifier))
        case .readAttributes(let publicKeyHash):
            self = .readAttributes(publicKeyHash: try coder.coded(publicKeyHash, atMost: FieldBound.identifier))
        case .destroyKey(let publicKeyHash):
            self = .destroyKey(publicKeyHash: try coder.coded(publicKeyHash, atMost: FieldBound.identifier))
        case .createAuditKey(let identifier):
            self = .createAuditKey(identifier: try coder.coded(identifier, atMost: FieldBound.auditKeyIdentifier))
        case .open(let opening): self = .open(try coder.coded(opening))
        case .decrypt(let decryption): self = .decrypt(try coder.coded(decryption))
        case .importPrivateKey(let key): self = .importPrivateKey(try coder.coded(key))
        case .importCertificate(let certificate): self = .importCertificate(try coder.coded(certificate))
        case .signCheckpoint(let signing): self = .signCheckpoint(try coder.coded(signing))
        case .rememberHead(let head): self = .rememberHead(try coder.coded(head))
        case .generateKey(let generation): self = .generateKey(try coder.coded(generation))
        case .signRequest(let signing): self = .signRequest(try coder.coded(signing))
        case .signTLS(let signing): self = .signTLS(try coder.coded(signing))
        case .signJWT(let signing): self = .signJWT(try coder.coded(signing))
        }
    }

    /// One empty request of each operation, by its frame's type. A reader fills the fields of a copy.
    private static let empty: [UInt8: WorkerRequest] = Dictionary(
        uniqueKeysWithValues: [
            .open(HSMTokenOpening()), .listKeys, .listMoreKeys(listing: 0), .describeKey(publicKeyHash: []),
            .readAttributes(publicKeyHash: []),
            .decrypt(Decryption()), .importPrivateKey(PrivateKeyImport()), .importCertificate(CertificateToStore()),
            .destroyKey(publicKeyHash: []), .removeTestKeys, .probe, .listAuditKeys, .createAuditKey(identifier: []),
            .signCheckpoint(CheckpointSigning()), .listHeads, .rememberHead(HeadToRemember()),
            .generateKey(KeyGeneration()), .signRequest(RequestSigning()), .signTLS(TLSSigning()),
            .signJWT(JWTSigning()),
        ].map { (request: WorkerRequest) in (request.operation.type, request) })

    /// The request as one frame with its length prefix.
    /// - Throws: ``FrameError/fieldTooLong`` or ``FrameError/length(_:)`` if a field exceeds its bound.
    public func encoded(identifier: UInt64) throws(FrameError) -> [UInt8] {
        let capacity = if case .decrypt(let decryption) = self { decryption.ciphertext.count + 512 } else { 256 }
        var writer = FieldWriter(type: operation.type, identifier: identifier, capacity: capacity)
        var request = self
        try request.fields(&writer)
        return try writer.frame(atMost: FieldBound.requestFrame)
    }

    /// Reads a frame that claims to be a request.
    public init(_ frame: Frame) throws(FrameError) {
        guard var request = Self.empty[frame.type] else { throw .unknownType(frame.type) }
        var reader = FieldReader(frame.fields)
        try request.fields(&reader)
        try reader.end()
        self = request
    }
}

/// A worker's answer. ``WorkerRequest`` determines the case for each request.
public enum WorkerAnswer: Sendable, Equatable {
    case opened(HSMTokenDescription)
    /// All keys of the request, or the last page of them.
    case keys([KeyDescription])
    /// A page of keys, at least one. The next page is requested with this listing's number.
    case keyPage([KeyDescription], listing: UInt64)
    /// The private keys with the requested CKA_ID; none if the HSM token shows none.
    case keyAttributes([PrivateKeyAttributes])
    /// The opened data, and the tier that opened it. Opening needs secrets, so this answer also reports the bytes of
    /// the worker's secret memory that are not locked, at most ``FieldBound/unlockedSecrets``.
    case plaintext([UInt8], tier: ProtectionTier, unlockedSecrets: UInt32 = 0)
    /// The result of an import, of a probe, or of an audit checkpoint to be remembered.
    case done
    case auditKeys([AuditKeyDescription])
    /// The audit key that was made, or existed.
    case auditKey(AuditKeyDescription)
    /// An audit checkpoint's signature: ECDSA in DER (RFC 3279 §2.2.3), 8 to 72 bytes, or RSA with the modulus's
    /// length.
    case signature([UInt8])
    /// Audit checkpoints' lines, 1 to 4096 bytes each, in the HSM token's order.
    case heads([[UInt8]])
    /// The merchant key that was generated and tested, and is served from now on.
    case generatedKey(KeyDescription)
    /// A certificate request's signature: ECDSA in DER (RFC 3279 §2.2.3), or RSA PKCS #1 v1.5 with the modulus's
    /// length; both over SHA-256.
    case requestSignature([UInt8])
    /// A TLS handshake's signature, as long as the modulus.
    case tlsSignature([UInt8])
    /// A JSON Web Token in compact form (RFC 7515 §7.1), whose signature was verified.
    case jsonWebToken([UInt8])
    /// The number of stored test pairs that were removed.
    case removedTestKeys(UInt32)
    case failed(WorkerFailure)
}

extension WorkerAnswer {
    /// The frame's type, 65 to 127.
    private var type: UInt8 {
        switch self {
        case .opened: 65
        case .keys: 66
        case .plaintext: 67
        case .done: 68
        case .failed: 69
        case .auditKeys: 70
        case .auditKey: 71
        case .signature: 72
        case .heads: 73
        case .generatedKey: 74
        case .requestSignature: 75
        case .keyPage: 76
        case .tlsSignature: 77
        case .keyAttributes: 78
        case .removedTestKeys: 79
        case .jsonWebToken: 80
        }
    }

    /// The fields of every answer, for reading and for writing.
    private mutating func fields<Coder: FieldCoder>(_ coder: inout Coder) throws(FrameError) {
        switch self {
        case .opened(let description): self = .opened(try coder.coded(description))
        case .keys(let keys): self = .keys(try coder.coded(keys, atMost: FieldBound.keys))
        case .keyPage(var keys, var listing):
            try coder.integer(&listing)
            try coder.messages(&keys, atMost: FieldBound.keys)
            self = .keyPage(keys, listing: listing)
        case .keyAttributes(let keys):
            self = .keyAttributes(try coder.coded(keys, atMost: FieldBound.privateKeysPerIdentifier))
        case .plaintext(var plaintext, var tier, var unlockedSecrets):
            try coder.octets(&plaintext, atMost: FieldBound.paymentData)
            try tier.field(&coder)
            try coder.integer(&unlockedSecrets, atMost: FieldBound.unlockedSecrets)
            self = .plaintext(plaintext, tier: tier, unlockedSecrets: unlockedSecrets)
        case .done: break
        case .failed(var failure):
            try coder.choice(&failure.kind)
            try coder.sentence(&failure.message)
            self = .failed(failure)
        case .auditKeys(let keys): self = .auditKeys(try coder.coded(keys, atMost: FieldBound.auditKeys))
        case .auditKey(let key): self = .auditKey(try coder.coded(key))
        case .signature(let signature):
            self = .signature(try coder.coded(signature, atMost: FieldBound.signature))
        case .heads(var lines):
            try coder.octetStrings(&lines, atMost: FieldBound.rememberedHeads, each: FieldBound.checkpoint)
            self = .heads(lines)
        case .generatedKey(let key): self = .generatedKey(try coder.coded(key))
        case .requestSignature(let signature):
            self = .requestSignature(try coder.coded(signature, atMost: FieldBound.requestSignature))
        case .tlsSignature(let signature):
            self = .tlsSignature(try coder.coded(signature, atMost: FieldBound.requestSignature))
        case .jsonWebToken(let token):
            self = .jsonWebToken(try coder.coded(token, atMost: FieldBound.jsonWebToken))
        case .removedTestKeys(var count):
            try coder.integer(&count)
            self = .removedTestKeys(count)
        }
    }

    /// One empty answer of each kind, by its frame's type. A reader fills the fields of a copy.
    private static let empty: [UInt8: WorkerAnswer] = Dictionary(
        uniqueKeysWithValues: [
            .opened(HSMTokenDescription()), .keys([]), .keyPage([], listing: 0), .plaintext([], tier: .c), .done,
            .auditKeys([]), .auditKey(AuditKeyDescription()), .signature([]), .heads([]),
            .generatedKey(KeyDescription()), .requestSignature([]), .tlsSignature([]), .keyAttributes([]),
            .removedTestKeys(0), .jsonWebToken([]),
            .failed(WorkerFailure(.hsmTokenUnavailable, "")),
        ].map { (answer: WorkerAnswer) in (answer.type, answer) })

    /// The answer as one frame with its length prefix.
    /// - Throws: ``FrameError/fieldTooLong`` or ``FrameError/length(_:)`` if a field exceeds its bound.
    public func encoded(identifier: UInt64) throws(FrameError) -> [UInt8] {
        let capacity = if case .plaintext(let plaintext, _, _) = self { plaintext.count + 12 } else { 256 }
        var writer = FieldWriter(type: type, identifier: identifier, capacity: capacity)
        var answer = self
        try answer.fields(&writer)
        return try writer.frame(atMost: FieldBound.answerFrame)
    }

    /// Reads a frame that claims to be an answer.
    public init(_ frame: Frame) throws(FrameError) {
        guard var answer = Self.empty[frame.type] else { throw .unknownType(frame.type) }
        var reader = FieldReader(frame.fields)
        try answer.fields(&reader)
        try reader.end()
        self = answer
    }
}

/// The reasons why a worker did not do its task. The set is closed, so that it reveals nothing else about an untrusted
/// caller's bytes or the library's state.
public struct WorkerFailure: Error, Sendable, Equatable {
    public enum Kind: UInt8, Sendable, CaseIterable {
        /// The ephemeral point is not on the curve, the wrapped key does not open, or the GCM tag is wrong. An
        /// untrusted caller's bytes can cause it, so it says nothing about the HSM token's health.
        case decryptionFailed = 1
        /// No private key with that CKA_ID.
        case keyNotFound = 2
        /// The HSM token has no tier for the request.
        case notSupported = 3
        /// The library or the HSM token is unavailable, or the login is lost; another attempt may succeed.
        case hsmTokenUnavailable = 4
        /// The PIN was refused. It must not be tried again until the PIN file or the HSM token changes.
        case loginRefused = 5
        /// The HSM token or the worker refuses an import, a generation or a signature. The key is unsuitable, the pair
        /// does not match or exists already, the request belongs to another key, or the input is not a TLS handshake.
        case importRefused = 6
        /// The frame was not understood or came at the wrong time, or the versions differ.
        case protocolViolation = 7
        /// The daemon's queue is full, and nothing was attempted. Or the HSM token was busy until the deadline (no
        /// memory, no session), or failed this call although it works otherwise. The worker is not at fault.
        case overloaded = 8
        /// Two workers ended while they had this input, so the daemon sends it to no worker for a while. Only the
        /// daemon uses this code.
        case inputRefused = 9
        /// The HSM token works, but not for this request about the audit key or the remembered audit checkpoint. The
        /// HSM token is read-only, accepts no data objects or shows too many of them, or the message is not an audit
        /// checkpoint.
        case auditRefused = 10
        /// Neither the call nor its second attempt was answered in time; or an optional call was not, which gets no
        /// second attempt. Only the daemon uses this code.
        case deadlineExceeded = 11
        /// The listing whose page was requested has ended: another has begun, or the HSM token has since ended the
        /// session or the login. The keys must be listed again.
        case listingEnded = 12
    }

    public var kind: Kind
    /// One sentence for an operator: the PKCS#11 call and its CKR, if there was one. It never contains an untrusted
    /// caller's bytes.
    public var message: String
    /// The seconds after which another attempt makes sense, if known. The daemon adds this value; no frame contains it.
    public var retryAfter: Int?
    /// True if the call was sent to no worker, so that no HSM token acted on it. The daemon adds this value; no frame
    /// contains it.
    public var isUnsent: Bool

    public init(_ kind: Kind, _ message: String, retryAfter: Int? = nil, isUnsent: Bool = false) {
        self.kind = kind
        self.message = message
        self.retryAfter = retryAfter
        self.isUnsent = isUnsent
    }
}
