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
    /// The first frame, and only the first: loads the library, logs in, tests the tiers.
    case open(HSMTokenOpening)
    /// Every merchant key pair and certificate that the HSM token shows now; the answer may be the first page of
    /// several.
    case listKeys
    /// The page after the one that named this listing; `listingEnded` if the listing was abandoned.
    case listMoreKeys(listing: UInt64)
    /// One key pair with its certificates, 32 bytes of publicKeyHash, read again; no key if there is none.
    case describeKey(publicKeyHash: [UInt8])
    /// The current attributes, in the HSM token, of the private keys with this CKA_ID, 32 bytes of publicKeyHash.
    case readAttributes(publicKeyHash: [UInt8])
    /// Restores one transaction's symmetric key and opens its data. The same frame for every tier.
    case decrypt(Decryption)
    /// Stores a private key, which is then non-extractable and sensitive, with its public key and certificate.
    case importPrivateKey(PrivateKeyImport)
    /// Stores a certificate with the private key that it belongs to.
    case importCertificate(CertificateToStore)
    /// Removes a merchant key's objects, 32 bytes of publicKeyHash; `done` if none remains.
    case destroyKey(publicKeyHash: [UInt8])
    /// Answers immediately if the HSM token works: one cheap call into the library.
    case probe
    /// Every key in the HSM token for signing audit checkpoints.
    case listAuditKeys
    /// Makes the audit key with this CKA_ID, 16 bytes, or returns the existing one.
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
    /// The time that the worker always has, even if `call_timeout` is shorter.
    private let leastLimit: Duration

    fileprivate init(_ type: UInt8, _ name: String, isRepeatable: Bool, atLeast leastLimit: Duration = .zero) {
        self.type = type
        self.name = name
        self.isRepeatable = isRepeatable
        self.leastLimit = leastLimit
    }

    /// The time that the worker may take.
    public func limit(callTimeout: Duration) -> Duration { max(callTimeout, leastLimit) }
}

extension WorkerRequest {
    /// One row for each operation. Opening loads a library and tests the tiers, and other requests read many keys or
    /// generate one. The time limit of one decryption is too short for these. A slow HSM token needs many seconds for
    /// an RSA key.
    public var operation: WorkerOperation {
        switch self {
        case .open: WorkerOperation(1, "open", isRepeatable: false, atLeast: .seconds(60))
        case .listKeys: WorkerOperation(2, "list_keys", isRepeatable: true, atLeast: .seconds(30))
        case .decrypt: WorkerOperation(3, "decrypt", isRepeatable: true)
        case .importPrivateKey: WorkerOperation(4, "import_private_key", isRepeatable: false, atLeast: .seconds(30))
        case .importCertificate: WorkerOperation(5, "import_certificate", isRepeatable: false, atLeast: .seconds(30))
        case .probe: WorkerOperation(6, "probe", isRepeatable: true)
        case .listAuditKeys: WorkerOperation(7, "list_audit_keys", isRepeatable: true, atLeast: .seconds(30))
        case .createAuditKey: WorkerOperation(8, "create_audit_key", isRepeatable: true, atLeast: .seconds(30))
        case .signCheckpoint: WorkerOperation(9, "sign_checkpoint", isRepeatable: true)
        case .listHeads: WorkerOperation(10, "list_heads", isRepeatable: true, atLeast: .seconds(30))
        case .rememberHead: WorkerOperation(11, "remember_head", isRepeatable: true, atLeast: .seconds(30))
        case .generateKey: WorkerOperation(12, "generate_key", isRepeatable: false, atLeast: .seconds(60))
        case .signRequest: WorkerOperation(13, "sign_request", isRepeatable: true, atLeast: .seconds(30))
        case .destroyKey: WorkerOperation(15, "destroy_key", isRepeatable: true, atLeast: .seconds(30))
        // A further page counts as a listing.
        case .listMoreKeys: WorkerOperation(16, "list_keys", isRepeatable: true, atLeast: .seconds(30))
        case .describeKey: WorkerOperation(17, "describe_key", isRepeatable: true, atLeast: .seconds(30))
        case .signTLS: WorkerOperation(18, "sign_tls", isRepeatable: true)
        case .readAttributes:
            WorkerOperation(19, "read_attributes", isRepeatable: true, atLeast: .seconds(30))
        }
    }

    /// The fields of every request, for reading and for writing.
    private mutating func fields<Coder: FieldCoder>(_ coder: inout Coder) throws(FrameError) {
        switch self {
        case .listKeys, .probe, .listAuditKeys, .listHeads:
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
        }
    }

    /// One empty request of each operation, by its frame's type, whose fields are then read.
    private static let empty: [UInt8: WorkerRequest] = Dictionary(
        uniqueKeysWithValues: [
            .open(HSMTokenOpening()), .listKeys, .listMoreKeys(listing: 0), .describeKey(publicKeyHash: []),
            .readAttributes(publicKeyHash: []),
            .decrypt(Decryption()), .importPrivateKey(PrivateKeyImport()), .importCertificate(CertificateToStore()),
            .destroyKey(publicKeyHash: []), .probe, .listAuditKeys, .createAuditKey(identifier: []),
            .signCheckpoint(CheckpointSigning()), .listHeads, .rememberHead(HeadToRemember()),
            .generateKey(KeyGeneration()), .signRequest(RequestSigning()), .signTLS(TLSSigning()),
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
