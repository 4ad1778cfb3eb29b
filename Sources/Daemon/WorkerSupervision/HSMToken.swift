package import KeyTypes
package import Logging
package import NIOCore
import NIOPosix
package import PaymentToken
import Synchronization
package import WorkerProtocol

/// One HSM token: a PKCS#11 token of the configuration, served by one `paytokend-hsm` process at a time.
///
/// Start here for what this folder does. `Assembly` makes one of these for each token of the configuration and puts them
/// into a ``HSMTokenPool``, which opens payment tokens' data; administration and the key-usage record call a token by
/// itself. A request passes ``CallQueue`` (who waits, what a worker gets, what is made twice) and ``WorkerConnection``;
/// ``WorkerSupervisor`` replaces the process: at once when it ends, with growing pauses when it ends again and again, and
/// before it is worn out.
///
/// What the folder guarantees: no call blocks a thread, none waits without a bound, and a library that hangs, crashes or
/// lies costs the calls in flight at most; those are made once more where that is safe.
package final class HSMToken: Sendable {
    package let name: String
    let callTimeout: Duration

    /// An element each time the token has been opened and serves, for one reader; of several the newest waits for it.
    package let openings: AsyncStream<Void>
    let calls: CallQueue
    let signatures: SignatureShare
    private let supervisor: WorkerSupervisor
    private let task = Mutex<Task<Void, Never>?>(nil)

    /// Starts nothing yet.
    /// - Parameters:
    ///   - executable: The worker's program.
    ///   - logger: Gets starts, ends with their reasons, and replacements; never a call's content.
    ///   - events: Metrics, and the key list after each (re)opening.
    ///   - refusedInputs: Inputs that no worker gets; tokens that hold the same keys share it.
    ///   - memoryGrowth: By so many bytes may a worker grow before a fresh one takes over.
    ///   - eventLoop: Where the worker's answers arrive.
    package init(
        _ settings: HSMTokenSettings, executable: WorkerExecutable, logger: Logger,
        events: WorkerEvents = WorkerEvents(), refusedInputs: RefusedInputs = RefusedInputs(),
        memoryGrowth: Int = WorkerSupervisor.memoryGrowth,
        eventLoop: any EventLoop = MultiThreadedEventLoopGroup.singleton.next()
    ) {
        name = settings.name
        callTimeout = settings.callTimeout
        let (openings, opened) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
        self.openings = openings
        var events = events
        events.condition = { [told = events.condition] condition in
            told(condition)
            if case .ready = condition { opened.yield() }
        }
        let (signals, continuation) = AsyncStream.makeStream(of: WorkerSupervisor.Signal.self)
        calls = CallQueue(
            limits: CallQueue.Limits(
                window: max(settings.sessions, 1) * 8, waiting: 2048, callTimeout: settings.callTimeout,
                recycleAfter: settings.recycleAfter, sessions: max(settings.sessions, 1)),
            events: events, refusedInputs: refusedInputs,
            recycleDue: { continuation.yield(.recycleDue($0)) })
        signatures = SignatureShare(sessions: max(settings.sessions, 1))
        var logger = logger
        logger[metadataKey: "token"] = "\(name)"
        let workers = RunningWorkers(
            settings: settings, executable: executable, logger: logger, events: events, eventLoop: eventLoop,
            calls: calls, ended: { continuation.yield(.ended(worker: $0, wasUseful: $1)) })
        supervisor = WorkerSupervisor(
            workers, memoryGrowth: memoryGrowth, signals: signals, continuation: continuation)
    }

    /// Begins to open the token and returns at once. A token that is absent is looked for again every few seconds.
    func start() async {
        let supervisor = supervisor
        task.withLock { task in
            if task == nil { task = Task { await supervisor.run() } }
        }
    }

    package var condition: HSMTokenCondition { supervisor.condition }

    /// How many calls wait for the token or are with its worker; nil while no worker serves.
    var load: Int? { calls.load }

    package var isServing: Bool { load != nil }

    /// Bytes of secrets that its processes could not lock in memory.
    package var unlockedSecrets: Int { calls.unlockedSecrets }

    /// The process that serves now.
    var processIdentifier: Int32? { supervisor.processIdentifier }

    /// Tries a refused PIN again: to be called when the PIN file has been read anew.
    func retry() {
        supervisor.retry()
    }

    /// Answers all calls, those under way and those to come, with `hsmTokenUnavailable`, and kills the worker.
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

    // MARK: Calls

    /// The key pairs that the token shows now, read anew.
    func listKeys() async throws(WorkerFailure) -> [KeyDescription] {
        try await KeyPages.all { [self] (request) async throws(WorkerFailure) in try await call(request) { $0 } }
    }

    /// What the token shows of one key now; empty when it shows none.
    package func describeKey(_ hash: PublicKeyHash) async throws(WorkerFailure) -> [KeyDescription] {
        try await call(.describeKey(publicKeyHash: hash.bytes)) {
            if case .keys(let keys) = $0 { keys } else { nil }
        }
    }

    /// What the token says now of the private keys with this CKA_ID; none where it shows none. A person waits for it, so it
    /// ends at the deadline that a payment's call has.
    package func attributes(of hash: PublicKeyHash) async throws(WorkerFailure) -> [PrivateKeyAttributes] {
        let terms = CallTerms(deadline: .now + HSMTokenPool.deadline(callTimeout: callTimeout))
        return try await call(.readAttributes(publicKeyHash: hash.bytes), terms: terms) {
            if case .keyAttributes(let keys) = $0 { keys } else { nil }
        }
    }

    /// Stores a private key. Not repeated when the worker ends meanwhile: the outcome is then read with ``listKeys()``.
    package func importPrivateKey(_ keyImport: PrivateKeyImport) async throws(WorkerFailure) {
        try await done(.importPrivateKey(keyImport))
    }

    /// Stores a certificate beside its private key. Not repeated when the worker ends meanwhile.
    package func importCertificate(_ certificate: CertificateToStore) async throws(WorkerFailure) {
        try await done(.importCertificate(certificate))
    }

    /// Removes a key's objects; nothing where there are none. The worker has looked whether they are gone.
    package func destroyKey(_ hash: PublicKeyHash) async throws(WorkerFailure) {
        try await done(.destroyKey(publicKeyHash: hash.bytes))
    }

    /// One cheap call through the worker into the token's library.
    func probe() async throws(WorkerFailure) {
        try await done(.probe)
    }

    /// Makes a merchant's key pair inside the token. It is served from then on, as far as its state allows.
    ///
    /// When the worker ends meanwhile, the token is read instead of asked again: a pair that was left unfinished is
    /// finished, and one that is finished is found as the merchant's only key that nobody knew of.
    ///
    /// - Parameters:
    ///   - known: The publicKeyHashes of the keys that were there before.
    /// - Returns: The key, with its publicKeyHash as identifier and its SubjectPublicKeyInfo.
    /// - Throws: `importRefused` with the token's reason; `hsmTokenUnavailable` when the outcome cannot be read, or when
    ///   the token shows that nothing was made.
    package func generateKey(
        _ algorithm: KeyAlgorithm, use: KeyUse, merchantIdentifier: String, known: Set<[UInt8]>
    ) async throws(WorkerFailure) -> KeyDescription {
        var generation = KeyGeneration(merchantIdentifier: merchantIdentifier, algorithm: algorithm, use: use)
        let interruption: WorkerFailure
        do {
            return try await generated(generation)
        } catch {
            guard error.kind == .hsmTokenUnavailable else { throw error }
            interruption = error
        }
        generation.onlyFinishes = true
        do {
            return try await generated(generation)
        } catch {
            guard error.kind == .keyNotFound else { throw error }
        }
        let new = try await listKeys().filter { key in
            key.label == merchantIdentifier && key.algorithm == algorithm && key.use == use && key.certificates.isEmpty
                && key.inconsistency == nil && !known.contains(key.identifier)
        }
        guard let key = new.first else { throw interruption }
        guard new.count == 1 else {
            throw WorkerFailure(
                .hsmTokenUnavailable,
                "The worker ended while it made a key, and the token now shows \(new.count) new keys of the merchant.")
        }
        return key
    }

    private func generated(_ generation: KeyGeneration) async throws(WorkerFailure) -> KeyDescription {
        try await call(.generateKey(generation)) { answer -> KeyDescription? in
            guard case .generatedKey(let key) = answer, key.label == generation.merchantIdentifier,
                key.algorithm == generation.algorithm, key.use == generation.use
            else { return nil }
            return key
        }
    }

    /// Signs a PKCS#10 request with the merchant key that it is for.
    ///
    /// - Parameters:
    ///   - information: CertificationRequestInfo in DER (RFC 2986 §4.1), at most 8 KiB.
    /// - Returns: ECDSA with SHA-256 in DER (RFC 3279 §2.2.3), or RSA PKCS #1 v1.5 with SHA-256: verified.
    /// - Throws: `keyNotFound`; `importRefused` for bytes that are no request of that key.
    package func signRequest(_ information: [UInt8], publicKeyHash: [UInt8]) async throws(WorkerFailure) -> [UInt8] {
        try await call(.signRequest(RequestSigning(publicKeyHash: publicKeyHash, information: information))) {
            if case .requestSignature(let signature) = $0 { signature } else { nil }
        }
    }

    /// Makes a call at this token. It is made twice where ``CallQueue/call(_:terms:orAt:_:)`` says so.
    /// - Parameter read: what the answer says; nil when it does not answer this request.
    func call<Value: Sendable>(
        _ request: WorkerRequest, terms: CallTerms = CallTerms(), _ read: (WorkerAnswer) -> Value?
    ) async throws(WorkerFailure) -> Value {
        try await calls.call(request, terms: terms, read).result.answer()
    }

    private func done(_ request: WorkerRequest) async throws(WorkerFailure) {
        try await call(request) { $0 == .done ? () : nil }
    }
}

/// Whether a token can be used now.
package enum HSMTokenCondition: Sendable, Equatable {
    /// A worker is being started, for the first time or after one that ended.
    case starting
    case ready(HSMTokenDescription)
    /// The reason, one sentence for a person. The daemon keeps trying.
    case unavailable(WorkerFailure)
}

/// One entry of the configuration's `tokens`: a PKCS#11 token and how its worker process uses it.
package struct HSMTokenSettings: Sendable, Equatable {
    /// The name in metrics, records and `--token`.
    package var name: String
    /// Absolute path of the PKCS#11 library.
    package var module: String
    /// RFC 7512 URI naming the token by label and serial number, without a pin-source.
    package var uri: String
    /// Absolute path of the file with the user PIN.
    package var pinFile: String
    /// Working sessions, besides the one that holds the login.
    package var sessions: Int
    /// A call that takes longer ends the worker.
    package var callTimeout: Duration
    /// After so many operations a fresh worker takes over.
    package var recycleAfter: Int
    /// Tier C: one transaction's symmetric key may be read into the worker's memory.
    package var allowExtractableSecret: Bool
    /// The worker's environment variables, besides the few it always has.
    package var environment: [String: String]
    /// Library-specific initialisation string (NSS); empty for none.
    package var initArgs: String
    /// Absolute path of the file in which the worker remembers PINs that the token refused; empty for none.
    package var refusedLogins = ""
    /// System calls that the worker is denied, by ``DeniableSystemCalls``' names.
    package var deniedSystemCalls: [String] = []
    /// What prints the token's own counter or log of its keys' uses; nil for none.
    package var useLog: UseLogProgram?

    package init(
        name: String, module: String, uri: String, pinFile: String, sessions: Int, callTimeout: Duration,
        recycleAfter: Int, allowExtractableSecret: Bool, environment: [String: String], initArgs: String,
        refusedLogins: String = "", deniedSystemCalls: [String] = [], useLog: UseLogProgram? = nil
    ) {
        self.name = name
        self.module = module
        self.uri = uri
        self.pinFile = pinFile
        self.sessions = sessions
        self.callTimeout = callTimeout
        self.recycleAfter = recycleAfter
        self.allowExtractableSecret = allowExtractableSecret
        self.environment = environment
        self.initArgs = initArgs
        self.refusedLogins = refusedLogins
        self.deniedSystemCalls = deniedSystemCalls
        self.useLog = useLog
    }
}

/// What a ``HSMToken`` tells the rest of the daemon. Every closure is called from an arbitrary thread, returns
/// soon (but `keys`, for which the worker waits) and does not call the worker back.
package struct WorkerEvents: Sendable {
    /// Why a worker was replaced: the `reason` label of `paytokend_worker_restarts_total`.
    package enum RestartReason: String, Sendable, CaseIterable {
        /// It ended by itself or by a signal.
        case died
        /// A call stayed unanswered for longer than `call_timeout`.
        case timeout
        /// It found its token unusable.
        case hsmToken = "token"
        /// It had answered `recycle_after` calls.
        case recycled
        /// It had grown past its limit.
        case memory

        /// How long its process may go on once its socket is closed. A worker that is able to ends by itself, and then
        /// never in the middle of a login, which can cost a token in files everything (SoftHSM). One that hangs is not
        /// able to.
        var timeToEnd: Duration {
            switch self {
            case .died, .timeout: .seconds(1)
            case .hsmToken, .recycled, .memory: .seconds(5)
            }
        }
    }

    /// The key pairs that the token shows, after each (re)opening and before the worker serves, and when their listing
    /// began: what is known to have changed since then is newer.
    var keys: @Sendable ([KeyDescription], ContinuousClock.Instant) async -> Void
    var condition: @Sendable (HSMTokenCondition) -> Void
    /// Seconds that a call waited for a session: `paytokend_hsm_wait_seconds`.
    var waited: @Sendable (Double) -> Void
    /// Operation and seconds from the worker beginning with the call to its answer: `paytokend_hsm_call_seconds`.
    var called: @Sendable (WorkerOperation, Double) -> Void
    var restarted: @Sendable (RestartReason) -> Void

    package init(
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
