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
