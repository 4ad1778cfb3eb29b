import WorkerProtocol

/// What a ``TokenWorker`` tells the rest of the daemon. Every closure is called from an arbitrary thread, returns
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

        /// How long its process may go on once its socket is closed. A worker that is able to ends by itself, and then
        /// never in the middle of a login, which can cost a token in files everything (SoftHSM). One that hangs is not
        /// able to.
        var timeToEnd: Duration {
            switch self {
            case .died, .timeout: .seconds(1)
            case .token, .recycled, .memory: .seconds(5)
            }
        }
    }

    /// The key pairs that the token shows, after each (re)opening and before the worker serves, and when their listing
    /// began: what is known to have changed since then is newer.
    var keys: @Sendable ([KeyDescription], ContinuousClock.Instant) async -> Void
    var condition: @Sendable (WorkerCondition) -> Void
    /// Seconds that a call waited for its turn: `paytokend_hsm_wait_seconds`.
    var waited: @Sendable (Double) -> Void
    /// Operation and seconds from the worker beginning with the call to its answer: `paytokend_hsm_call_seconds`.
    var called: @Sendable (WorkerOperation, Double) -> Void
    var restarted: @Sendable (RestartReason) -> Void

    init(
        keys: @escaping @Sendable ([KeyDescription], ContinuousClock.Instant) async -> Void = { _, _ in },
        condition: @escaping @Sendable (WorkerCondition) -> Void = { _ in },
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
