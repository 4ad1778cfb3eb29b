package import KeyTypes
import Locks
package import Logging
package import NIOCore
import NIOPosix
package import PaymentToken
package import PortalRequests
package import WorkerProtocol

/// One HSM token: a PKCS#11 token of the configuration, served by one `paytokend-hsm` process at a time.
///
/// Start here to read this folder. `Assembly` makes an ``HSMToken`` for each HSM token of the configuration and puts all of
/// them into a ``HSMTokenPool``. The pool decrypts payment tokens' data; administration and the key-usage record call an
/// HSM token directly. Each request goes through ``CallQueue``, which queues, sends and repeats it, and then through
/// ``WorkerConnection``. ``WorkerSupervisor`` starts a new process when the old one ends, after growing pauses if that
/// happens repeatedly. It also replaces a process that has grown too large or has answered too many calls.
///
/// The folder guarantees that no call blocks a thread, and that no call waits without a limit. A PKCS#11 library that
/// hangs, crashes or returns wrong results costs at most the calls in flight. Those are repeated where that is safe.
package final class HSMToken: Sendable {
    package let name: String
    let callTimeout: Duration

    /// Yields an element each time a worker has opened the HSM token and serves. Only one task may read it, and only the
    /// newest element is buffered.
    package let openings: AsyncStream<Void>
    let calls: CallQueue
    let signatures: SignatureLimit
    private let supervisor: WorkerSupervisor
    private let task = Mutex<Task<Void, Never>?>(nil)

    /// Creates the HSM token without starting its worker.
    /// - Parameters:
    ///   - executable: the worker's program.
    ///   - logger: receives the workers' starts, replacements, and ends with their reasons; never a call's content.
    ///   - events: receives metrics, and the key list each time a worker has opened the HSM token.
    ///   - refusedInputs: inputs that are sent to no worker, shared by HSM tokens with the same keys.
    ///   - memoryGrowth: the number of bytes by which a worker may grow before a new one replaces it.
    ///   - eventLoop: the event loop on which the worker's answers arrive.
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
        signatures = SignatureLimit(sessions: max(settings.sessions, 1))
        var logger = logger
        logger[metadataKey: "token"] = "\(name)"
        let workers = RunningWorkers(
            settings: settings, executable: executable, logger: logger, events: events, eventLoop: eventLoop,
            calls: calls, ended: { continuation.yield(.ended(worker: $0, wasUseful: $1)) })
        supervisor = WorkerSupervisor(
            workers, memoryGrowth: memoryGrowth, signals: signals, continuation: continuation)
    }

    /// Starts opening the HSM token and returns at once. If the HSM token is absent, the daemon tries again every few
    /// seconds.
    func start() async {
        let supervisor = supervisor
        task.withLock { task in
            if task == nil { task = Task { await supervisor.run() } }
        }
    }

    package var condition: HSMTokenCondition { supervisor.condition }

    /// The number of calls that wait for the HSM token or are with a worker; nil while no worker serves.
    var load: Int? { calls.load }

    package var isServing: Bool { load != nil }

    /// The number of bytes of secrets that the HSM token's workers could not lock in memory.
    package var unlockedSecrets: Int { calls.unlockedSecrets }

    /// The serving worker's process identifier; nil while no worker serves.
    var processIdentifier: Int32? { supervisor.processIdentifier }

    /// Tries to log in again after a refused PIN. Call it after the PIN file has been read again.
    func retry() {
        supervisor.retry()
    }

    /// Fails all present and later calls with `hsmTokenUnavailable`, and kills the workers.
    func giveUp() {
        supervisor.giveUp()
    }

    /// Ends the workers after the calls under way. Takes at most `call_timeout` plus five seconds, and less after
    /// ``giveUp()``.
    func shutdown() async {
        supervisor.stop()
        let running = task.withLock { $0 }
        await running?.value
    }

    // MARK: Calls

    /// Returns the key pairs that the HSM token shows now.
    func listKeys() async throws(WorkerFailure) -> [KeyDescription] {
        try await KeyPages.all { [self] (request) async throws(WorkerFailure) in try await call(request) { $0 } }
    }

    /// Returns the description of each key pair with this hash that the HSM token shows now; an empty array if it shows
    /// none.
    package func describeKey(_ hash: PublicKeyHash) async throws(WorkerFailure) -> [KeyDescription] {
        try await call(.describeKey(publicKeyHash: hash.bytes)) {
            if case .keys(let keys) = $0 { keys } else { nil }
        }
    }

    /// Returns the current attributes of the private keys with this CKA_ID; an empty array if the HSM token shows none. The
    /// call has the same deadline as a payment's call, since a person waits for the answer.
    package func attributes(of hash: PublicKeyHash) async throws(WorkerFailure) -> [PrivateKeyAttributes] {
        let terms = CallTerms(deadline: .now + HSMTokenPool.deadline(callTimeout: callTimeout))
        return try await call(.readAttributes(publicKeyHash: hash.bytes), terms: terms) {
            if case .keyAttributes(let keys) = $0 { keys } else { nil }
        }
    }

    /// Stores a private key. If the worker ends during the call, the call is not repeated; the caller finds the outcome
    /// with ``listKeys()``.
    package func importPrivateKey(_ keyImport: PrivateKeyImport) async throws(WorkerFailure) {
        try await done(.importPrivateKey(keyImport))
    }

    /// Stores a certificate with its private key. If the worker ends during the call, the call is not repeated.
    package func importCertificate(_ certificate: CertificateToStore) async throws(WorkerFailure) {
        try await done(.importCertificate(certificate))
    }

    /// Destroys a key's objects; does nothing if there are none. The worker verifies that they are gone.
    package func destroyKey(_ hash: PublicKeyHash) async throws(WorkerFailure) {
        try await done(.destroyKey(publicKeyHash: hash.bytes))
    }

    /// Removes the stored key pairs of the self-tests, and returns their number. If the worker ends during the call, the
    /// call is not repeated.
    package func removeTestKeys() async throws(WorkerFailure) -> Int {
        try await call(.removeTestKeys) { if case .removedTestKeys(let count) = $0 { Int(count) } else { nil } }
    }

    /// Makes one cheap call into the HSM token's PKCS#11 library, to test that the HSM token responds.
    func probe() async throws(WorkerFailure) {
        try await done(.probe)
    }

    /// Generates a merchant's key pair inside the HSM token.
    ///
    /// If the worker ends during the call, the call is not repeated, since it could generate a second pair. Instead the
    /// next worker completes an unfinished pair. If there is none, the HSM token's keys are listed, to find a pair of the
    /// merchant that is not in `known`.
    ///
    /// - Parameters:
    ///   - known: the publicKeyHashes of the keys that existed before.
    /// - Returns: the key, with its publicKeyHash as identifier and its SubjectPublicKeyInfo.
    /// - Throws: `importRefused` with the HSM token's reason; `hsmTokenUnavailable` if the outcome cannot be determined, or
    ///   if the HSM token shows that no key was generated.
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
            key.label == merchantIdentifier && key.algorithm == algorithm && key.use == use.inHSMToken
                && key.certificates.isEmpty && key.inconsistency == nil && !known.contains(key.identifier)
        }
        guard let key = new.first else { throw interruption }
        guard new.count == 1 else {
            throw WorkerFailure(
                .hsmTokenUnavailable,
                "The worker ended while it made a key, and the HSM token now shows \(new.count) new keys of the merchant."
            )
        }
        return key
    }

    private func generated(_ generation: KeyGeneration) async throws(WorkerFailure) -> KeyDescription {
        try await call(.generateKey(generation)) { answer -> KeyDescription? in
            guard case .generatedKey(let key) = answer, key.label == generation.merchantIdentifier,
                key.algorithm == generation.algorithm, key.use == generation.use.inHSMToken
            else { return nil }
            return key
        }
    }

    /// Signs a PKCS#10 certificate request with the merchant key that it is for.
    ///
    /// - Parameters:
    ///   - information: CertificationRequestInfo in DER (RFC 2986 §4.1), at most 8 KiB.
    /// - Returns: the signature, which the worker has verified: ECDSA with SHA-256 in DER (RFC 3279 §2.2.3), or RSA PKCS #1
    ///   v1.5 with SHA-256.
    /// - Throws: `keyNotFound`; `importRefused` for bytes that are not a request of that key.
    package func signRequest(_ information: [UInt8], publicKeyHash: [UInt8]) async throws(WorkerFailure) -> [UInt8] {
        try await call(.signRequest(RequestSigning(publicKeyHash: publicKeyHash, information: information))) {
            if case .requestSignature(let signature) = $0 { signature } else { nil }
        }
    }

    /// Makes a call at this HSM token only. ``CallQueue/call(_:terms:orAt:_:)`` decides whether to repeat it.
    /// - Parameter read: a function that parses the answer; it returns nil for an answer that does not match this request.
    func call<Value: Sendable>(
        _ request: WorkerRequest, terms: CallTerms = CallTerms(), _ read: (WorkerAnswer) -> Value?
    ) async throws(WorkerFailure) -> Value {
        try await calls.call(request, terms: terms, read).result.answer()
    }

    private func done(_ request: WorkerRequest) async throws(WorkerFailure) {
        try await call(request) { $0 == .done ? () : nil }
    }
}

/// The current availability of an HSM token.
package enum HSMTokenCondition: Sendable, Equatable {
    /// A worker is starting: the first one, or the next after one that ended.
    case starting
    case ready(HSMTokenDescription)
    /// The HSM token cannot serve, for this reason. The daemon keeps trying to open it.
    case unavailable(WorkerFailure)
}

/// One entry of the configuration's `tokens`: a PKCS#11 token and how its worker process uses it.
package struct HSMTokenSettings: Sendable, Equatable {
    /// The HSM token's name in metrics, records and the option `--token`.
    package var name: String
    /// Absolute path of the PKCS#11 library.
    package var module: String
    /// The RFC 7512 URI that identifies the HSM token by label and serial number, without a pin-source.
    package var uri: String
    /// Absolute path of the file with the user PIN.
    package var pinFile: String
    /// The number of sessions that process calls. The session that holds the login is not among them.
    package var sessions: Int
    /// The limit beyond which a call ends the worker.
    package var callTimeout: Duration
    /// The number of answers after which a new worker replaces the old one.
    package var recycleAfter: Int
    /// True if the worker may decrypt in tier C, in which it reads one transaction's symmetric key into its memory.
    package var allowExtractableSecret: Bool
    /// The worker's configured environment variables, in addition to the few that every worker has.
    package var environment: [String: String]
    /// The string for the library's C_Initialize (NSS needs one); empty for none.
    package var initArgs: String
    /// Absolute path of the file in which the worker remembers PINs that the HSM token refused; empty for none.
    package var refusedLogins = ""
    /// The names of the system calls that the worker is denied, as in ``DeniableSystemCalls``.
    package var deniedSystemCalls: [String] = []
    /// The program that prints the HSM token's own counter or log of its keys' uses; nil if none is configured.
    package var useLog: UseLogProgram?
    /// The HSM's validation, such as a certificate of FIPS 140-3, as the operator states it for the record; empty for
    /// none. The daemon does not check it.
    package var validation: String
    /// The names of the service key at Apple, for the JSON Web Tokens that the worker builds; nil if none is
    /// configured.
    package var portalKey: PortalKeyName?

    package init(
        name: String, module: String, uri: String, pinFile: String, sessions: Int, callTimeout: Duration,
        recycleAfter: Int, allowExtractableSecret: Bool, environment: [String: String], initArgs: String,
        refusedLogins: String = "", deniedSystemCalls: [String] = [], useLog: UseLogProgram? = nil,
        validation: String = ""
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
        self.validation = validation
    }
}

/// The events that an ``HSMToken`` reports to the rest of the daemon. Any thread may call these closures. They must return
/// soon (except `keys`, for which the worker waits), and must not call the HSM token.
package struct WorkerEvents: Sendable {
    /// The reason why a worker was replaced: the `reason` label of `paytokend_worker_restarts_total`.
    package enum RestartReason: String, Sendable, CaseIterable {
        /// The worker ended by itself or by a signal.
        case died
        /// A call was unanswered for longer than `call_timeout`.
        case timeout
        /// The worker found its HSM token unusable.
        case hsmToken = "token"
        /// The worker had answered `recycle_after` calls.
        case recycled
        /// The worker had grown past its limit.
        case memory

        /// The time that the worker's process gets to end after its connection is closed; then it is killed. A worker that
        /// responds gets enough time to finish a login, since killing it during one can destroy an HSM token that is stored
        /// in files (SoftHSM). A worker that hangs or has died gets less time.
        var timeToEnd: Duration {
            switch self {
            case .died, .timeout: .seconds(1)
            case .hsmToken, .recycled, .memory: .seconds(5)
            }
        }
    }

    /// Receives the key pairs that the HSM token shows, and the time at which their listing began. It is called after a
    /// worker has opened the HSM token, before that worker serves. Changes that the daemon learned of after that time are
    /// newer than the listing.
    var keys: @Sendable ([KeyDescription], ContinuousClock.Instant) async -> Void
    var condition: @Sendable (HSMTokenCondition) -> Void
    var restarted: @Sendable (RestartReason) -> Void
    /// The metrics of the calls; nil if they are not measured.
    let metrics: CallMetrics?

    package init(
        keys: @escaping @Sendable ([KeyDescription], ContinuousClock.Instant) async -> Void = { _, _ in },
        condition: @escaping @Sendable (HSMTokenCondition) -> Void = { _ in },
        restarted: @escaping @Sendable (RestartReason) -> Void = { _ in }, metrics: CallMetrics? = nil
    ) {
        self.keys = keys
        self.condition = condition
        self.restarted = restarted
        self.metrics = metrics
    }
}
