import Logging
import NIOCore
import NIOPosix
import PaymentToken
import ProductVersion
import Synchronization
import WorkerProtocol

/// One token, served by one `paytokend-hsm` process at a time. Keeps that process alive, and replaces it: at once
/// when it ends, with growing pauses when it ends again and again, and before it is worn out.
final class HSMToken: Sendable {
    let name: String
    let callTimeout: Duration

    private let calls: CallQueue
    private let supervisor: WorkerSupervisor
    private let task = Mutex<Task<Void, Never>?>(nil)

    /// Starts nothing yet.
    /// - Parameters:
    ///   - name: The token's name in the configuration; it stands in logs and metrics.
    ///   - executable: The worker's program.
    ///   - logger: Gets starts, ends with their reasons, and replacements; never a call's content.
    ///   - events: Metrics, and the key list after each (re)opening.
    ///   - refusedInputs: Inputs that no worker gets; tokens that hold the same keys share it.
    ///   - memoryGrowth: By so many bytes may a worker grow before a fresh one takes over.
    ///   - eventLoop: Where the worker's answers arrive.
    init(
        name: String, settings: HSMTokenSettings, executable: WorkerExecutable, logger: Logger,
        events: WorkerEvents = WorkerEvents(), refusedInputs: RefusedInputs = RefusedInputs(),
        memoryGrowth: Int = WorkerMemory.growthLimit,
        eventLoop: any EventLoop = MultiThreadedEventLoopGroup.singleton.next()
    ) {
        self.name = name
        callTimeout = settings.callTimeout
        let (signals, continuation) = AsyncStream.makeStream(of: WorkerSupervisor.Signal.self)
        calls = CallQueue(
            limits: CallQueue.Limits(
                window: max(settings.sessions, 1) * 8, waiting: 2048, callTimeout: settings.callTimeout,
                recycleAfter: settings.recycleAfter, sessions: max(settings.sessions, 1)),
            events: events, refusedInputs: refusedInputs,
            recycleDue: { continuation.yield(.recycleDue($0)) })
        supervisor = WorkerSupervisor(
            settings: settings, executable: executable, logger: logger, events: events, eventLoop: eventLoop,
            calls: calls, memoryGrowth: memoryGrowth, signals: signals, continuation: continuation)
    }

    /// Begins to open the token and returns at once. A token that is absent is looked for again every few seconds.
    func start() async {
        let supervisor = supervisor
        task.withLock { task in
            if task == nil { task = Task { await supervisor.run() } }
        }
    }

    var condition: HSMTokenCondition { supervisor.condition }

    /// How many calls wait for the token or are with its worker; nil while no worker serves.
    var load: Int? { calls.load }

    var isServing: Bool { load != nil }

    /// Bytes of secrets that its processes could not lock in memory.
    var unlockedSecrets: Int { calls.unlockedSecrets }

    /// The process that serves now.
    var processIdentifier: Int32? { supervisor.processIdentifier }

    /// Opens one token's payment data.
    /// - Returns: The plaintext as it was encrypted, and the tier that opened it.
    /// - Throws: ``CallFailure``; `decryptionFailed` is the input's fault, everything else is not.
    func decrypt(
        _ decryption: Decryption, terms: CallTerms = CallTerms()
    ) async throws(CallFailure) -> (plaintext: [UInt8], tier: ProtectionTier) {
        let answer = try await calls.submit(.decrypt(decryption), terms: terms).get()
        guard case .plaintext(let plaintext, let tier, _) = answer else {
            throw CallFailure(failure: Self.wrongAnswer, reach: .worker)
        }
        return (plaintext, tier)
    }

    /// The key pairs that the token shows now, read anew.
    func listKeys() async throws(WorkerFailure) -> [KeyDescription] {
        try await KeyPages.all { [self] (request) async throws(WorkerFailure) in try await answer(to: request) }
    }

    /// What the token shows of one key now; empty when it shows none.
    func describeKey(_ hash: PublicKeyHash) async throws(WorkerFailure) -> [KeyDescription] {
        guard case .keys(let keys) = try await answer(to: .describeKey(publicKeyHash: hash.bytes)) else {
            throw Self.wrongAnswer
        }
        return keys
    }

    /// Stores a private key. Not repeated when the worker ends meanwhile: the outcome is then read with ``listKeys()``.
    func importPrivateKey(_ keyImport: PrivateKeyImport) async throws(WorkerFailure) {
        guard case .done = try await answer(to: .importPrivateKey(keyImport)) else { throw Self.wrongAnswer }
    }

    /// Stores a certificate beside its private key. Not repeated when the worker ends meanwhile.
    func importCertificate(_ certificateImport: CertificateToStore) async throws(WorkerFailure) {
        guard case .done = try await answer(to: .importCertificate(certificateImport)) else { throw Self.wrongAnswer }
    }

    /// Removes a key's objects; nothing where there are none. The worker has looked whether they are gone.
    func destroyKey(_ hash: PublicKeyHash) async throws(WorkerFailure) {
        guard case .done = try await answer(to: .destroyKey(publicKeyHash: hash.bytes)) else { throw Self.wrongAnswer }
    }

    /// One cheap call through the worker into the token's library.
    func probe() async throws(WorkerFailure) {
        guard case .done = try await answer(to: .probe) else { throw Self.wrongAnswer }
    }

    /// Tries a refused PIN again: to be called when the PIN file has been read anew.
    func retry() {
        supervisor.retry()
    }

    /// Answers all calls, those under way and those to come, with `tokenUnavailable`, and kills the worker.
    func giveUp() {
        supervisor.giveUp()
    }

    /// Lets the calls under way end, then the worker. At most the call's limit and five seconds, less after
    /// ``giveUp()``.
    func shutdown() async {
        supervisor.stop()
        let running = task.withLock { $0 }
        await running?.value
    }

    static let wrongAnswer = WorkerFailure(.protocolViolation, "The worker answered something else.")

    func answer(to request: WorkerRequest) async throws(WorkerFailure) -> WorkerAnswer {
        try await calls.submit(request).answer()
    }
}

extension HSMToken {
    /// Makes a merchant's key pair inside the token. It is served from then on, as far as its state allows.
    ///
    /// When the worker ends meanwhile, the token is read instead of asked again: a pair that was left unfinished is
    /// finished, and one that is finished is found as the merchant's only key that nobody knew of.
    ///
    /// - Parameters:
    ///   - known: The publicKeyHashes of the keys that were there before.
    /// - Returns: The key, with its publicKeyHash as identifier and its SubjectPublicKeyInfo.
    /// - Throws: `importRefused` with the token's reason; `tokenUnavailable` when the outcome cannot be read, or when
    ///   the token shows that nothing was made.
    func generateKey(
        _ algorithm: KeyAlgorithm, merchantIdentifier: String, known: Set<[UInt8]>
    ) async throws(WorkerFailure) -> KeyDescription {
        var generation = KeyGeneration(merchantIdentifier: merchantIdentifier, algorithm: algorithm)
        let interruption: WorkerFailure
        do {
            return try await generated(generation)
        } catch {
            guard error.kind == .tokenUnavailable else { throw error }
            interruption = error
        }
        generation.onlyFinishes = true
        do {
            return try await generated(generation)
        } catch {
            guard error.kind == .keyNotFound else { throw error }
        }
        let new = try await listKeys().filter { key in
            key.label == merchantIdentifier && key.algorithm == algorithm && key.certificates.isEmpty
                && key.inconsistency == nil && !known.contains(key.identifier)
        }
        guard let key = new.first else { throw interruption }
        guard new.count == 1 else {
            throw WorkerFailure(
                .tokenUnavailable,
                "The worker ended while it made a key, and the token now shows \(new.count) new keys of the merchant.")
        }
        return key
    }

    private func generated(_ generation: KeyGeneration) async throws(WorkerFailure) -> KeyDescription {
        guard case .generatedKey(let key) = try await answer(to: .generateKey(generation)),
            key.label == generation.merchantIdentifier, key.algorithm == generation.algorithm
        else { throw Self.wrongAnswer }
        return key
    }

    /// Signs a PKCS#10 request with the merchant key that it is for.
    ///
    /// - Parameters:
    ///   - information: CertificationRequestInfo in DER (RFC 2986 §4.1), at most 8 KiB.
    /// - Returns: ECDSA with SHA-256 in DER (RFC 3279 §2.2.3), or RSA PKCS #1 v1.5 with SHA-256: verified.
    /// - Throws: `keyNotFound`; `importRefused` for bytes that are no request of that key.
    func signRequest(_ information: [UInt8], publicKeyHash: [UInt8]) async throws(WorkerFailure) -> [UInt8] {
        let signing = RequestSigning(publicKeyHash: publicKeyHash, information: information)
        guard case .requestSignature(let signature) = try await answer(to: .signRequest(signing)) else {
            throw Self.wrongAnswer
        }
        return signature
    }
}

/// Whether a token can be used now.
enum HSMTokenCondition: Sendable, Equatable {
    /// A worker is being started, for the first time or after one that ended.
    case starting
    case ready(HSMTokenDescription)
    /// The reason, one sentence for a person. The daemon keeps trying.
    case unavailable(WorkerFailure)
}

/// One entry of the configuration's `tokens`: a PKCS#11 token and how its worker process uses it.
struct HSMTokenSettings: Sendable, Equatable {
    /// The name in metrics, records and `--token`.
    var name: String
    /// Absolute path of the PKCS#11 library.
    var module: String
    /// RFC 7512 URI naming the token by label and serial number, without a pin-source.
    var uri: String
    /// Absolute path of the file with the user PIN.
    var pinFile: String
    /// Working sessions, besides the one that holds the login.
    var sessions: Int
    /// A call that takes longer ends the worker.
    var callTimeout: Duration
    /// After so many operations a fresh worker takes over.
    var recycleAfter: Int
    /// Tier C: one transaction's symmetric key may be read into the worker's memory.
    var allowExtractableSecret: Bool
    /// The worker's environment variables, besides the few it always has.
    var environment: [String: String]
    /// Library-specific initialisation string (NSS); empty for none.
    var initArgs: String
    /// Absolute path of the file in which the worker remembers PINs that the token refused; empty for none.
    var refusedLogins = ""
    /// System calls that the worker is denied, by ``DeniableSystemCalls``' names.
    var deniedSystemCalls: [String] = []
}

/// What a ``HSMToken`` tells the rest of the daemon. Every closure is called from an arbitrary thread, returns
/// soon (but `keys`, for which the worker waits) and does not call the worker back.
struct WorkerEvents: Sendable {
    /// Why a worker was replaced: the `reason` label of `paytokend_worker_restarts_total`.
    enum RestartReason: String, Sendable, CaseIterable {
        /// It ended by itself or by a signal.
        case died
        /// A call stayed unanswered for longer than `call_timeout`.
        case timeout
        /// It found its token unusable.
        case token
        /// It had answered `recycle_after` calls.
        case recycled
        /// It had grown past its limit.
        case memory
    }

    /// The key pairs that the token shows, after each (re)opening and before the worker serves, and when their listing
    /// began: what is known to have changed since then is newer.
    var keys: @Sendable ([KeyDescription], ContinuousClock.Instant) async -> Void
    var condition: @Sendable (HSMTokenCondition) -> Void
    /// Seconds that a call waited for its turn: `paytokend_hsm_wait_seconds`.
    var waited: @Sendable (Double) -> Void
    /// Operation and seconds from the worker beginning with the call to its answer: `paytokend_hsm_call_seconds`.
    var called: @Sendable (WorkerOperation, Double) -> Void
    var restarted: @Sendable (RestartReason) -> Void

    init(
        keys: @escaping @Sendable ([KeyDescription], ContinuousClock.Instant) async -> Void = { _, _ in },
        condition: @escaping @Sendable (HSMTokenCondition) -> Void = { _ in },
        waited: @escaping @Sendable (Double) -> Void = { _ in },
        called: @escaping @Sendable (WorkerOperation, Double) -> Void = { _, _ in },
        restarted: @escaping @Sendable (RestartReason) -> Void = { _ in }
    ) {
        self.keys = keys
        self.condition = condition
        self.waited = waited
        self.called = called
        self.restarted = restarted
    }
}

/// The kinds of calls, as the `operation` label of `paytokend_hsm_call_seconds` names them.
enum WorkerOperation: String, Sendable, CaseIterable {
    case open
    case listKeys = "list_keys"
    case describeKey = "describe_key"
    case decrypt
    case importPrivateKey = "import_private_key"
    case importCertificate = "import_certificate"
    case destroyKey = "destroy_key"
    case probe
    case listAuditKeys = "list_audit_keys"
    case createAuditKey = "create_audit_key"
    case signCheckpoint = "sign_checkpoint"
    case listHeads = "list_heads"
    case rememberHead = "remember_head"
    case generateKey = "generate_key"
    case signRequest = "sign_request"

    init(_ request: WorkerRequest) {
        self =
            switch request {
            case .open: .open
            case .listKeys, .listMoreKeys: .listKeys
            case .describeKey: .describeKey
            case .decrypt: .decrypt
            case .importPrivateKey: .importPrivateKey
            case .importCertificate: .importCertificate
            case .destroyKey: .destroyKey
            case .probe: .probe
            case .listAuditKeys: .listAuditKeys
            case .createAuditKey: .createAuditKey
            case .signCheckpoint: .signCheckpoint
            case .listHeads: .listHeads
            case .rememberHead: .rememberHead
            case .generateKey: .generateKey
            case .signRequest: .signRequest
            }
    }

    /// Whether a call whose worker died may be made again: it changes nothing in the token, or a second time nothing
    /// more. A key that is gone stays gone, an audit key is made once for its identifier, and a checkpoint that is remembered already stays.
    var isRepeatable: Bool {
        switch self {
        case .listKeys, .describeKey, .decrypt, .probe, .signRequest: true
        case .listAuditKeys, .createAuditKey, .signCheckpoint, .listHeads, .rememberHead, .destroyKey: true
        case .open, .importPrivateKey, .importCertificate, .generateKey: false
        }
    }

    /// How long the worker may take. Opening loads a library and tests the tiers, keys are read or made many at a
    /// time: neither is held to the limit of one decryption.
    func limit(callTimeout: Duration) -> Duration {
        switch self {
        case .decrypt, .probe, .signCheckpoint: callTimeout
        case .listKeys, .describeKey, .importPrivateKey, .importCertificate, .destroyKey, .listAuditKeys,
            .createAuditKey, .listHeads, .rememberHead, .signRequest:
            max(callTimeout, .seconds(30))
        // An RSA key takes a slow token many seconds.
        case .open, .generateKey: max(callTimeout, .seconds(60))
        }
    }
}
