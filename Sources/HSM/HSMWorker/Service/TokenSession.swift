import Locks
import PKCS11
import SecretMemory
import WorkerProtocol

/// One PKCS#11 session with the open HSM token, and the functions that answer requests in that session. One thread at a
/// time uses it.
///
/// If its PKCS#11 session is lost, or the HSM token has no room for a session, this object takes no requests. The other
/// sessions then do the work, while this object keeps trying to open a new session.
final class TokenSession: Sendable {
    // `Session` cannot be copied, and a thread's closure cannot own it, so a Mutex holds it. The Mutex is never
    // contended.
    private let session: Mutex<Session>
    /// True while this session is counted in ``OpenToken/openSessions``.
    private let isCounted = Mutex(false)
    private let hsmToken: OpenToken

    private static let shortestPause = 0.05
    private static let longestPause = 5.0

    init(_ hsmToken: OpenToken) {
        self.hsmToken = hsmToken
        session = Mutex(Session(closedIn: hsmToken.slot.withLock { $0 }))
    }

    /// Opens the session. Waits until the deadline while the HSM token has no room for it.
    func open(_ deadline: inout CallDeadline) throws(CallError) {
        defer { updateCount() }
        try session.withLock { (session) throws(CallError) in
            try deadline.retryingWhileBusy { () throws(CallError) in try hsmToken.reopen(&session) }
        }
    }

    /// Returns when this session is open, so that only threads with a session take requests from the queue. It also
    /// returns when none of the worker's sessions is open: requests must then still be answered, with the reason.
    func waitForSession() {
        var pause = Self.shortestPause
        while true {
            let isOpen = session.withLock { session in
                if !session.isOpen { try? hsmToken.reopen(&session) }
                return session.isOpen
            }
            updateCount()
            if isOpen || hsmToken.openSessions.load(ordering: .relaxed) == 0 { return }
            BlockingThread.sleep(pause)
            pause = min(pause * 2, Self.longestPause)
        }
    }

    private func updateCount() {
        let isOpen = session.withLock { $0.isOpen }
        let change = isCounted.withLock { isCounted in
            defer { isCounted = isOpen }
            return (isOpen ? 1 : 0) - (isCounted ? 1 : 0)
        }
        hsmToken.openSessions.add(change, ordering: .relaxed)
    }

    /// The number of bytes of this process's secret memory that are not locked (mlock(2)), at most
    /// ``FieldBound/unlockedSecrets``. Answers report it to the daemon.
    static var unlockedSecrets: UInt32 {
        min(UInt32(clamping: SecretBytes.unlockedByteCount), FieldBound.unlockedSecrets)
    }

    // MARK: Requests

    /// Executes a request and returns the answer, which may be a failure. Blocks for as long as the HSM token takes.
    func answer(_ request: WorkerRequest) -> WorkerAnswer {
        session.withLock { session in
            var deadline = CallDeadline(callTimeout: hsmToken.opening.callTimeout)
            do throws(WorkerFailure) {
                // Using a key does not check the session first, since that would cost two more calls into the library.
                // If the session is lost, the call fails with an error that says so, and is repeated.
                if case .decrypt(let input) = request {
                    let (plaintext, tier) = try hsmToken.decrypt(input, in: &session, &deadline)
                    return .plaintext(plaintext, tier: tier, unlockedSecrets: Self.unlockedSecrets)
                }
                if case .signTLS(let signing) = request {
                    return .tlsSignature(try hsmToken.sign(signing, in: &session, &deadline))
                }
                try hsmToken.restore(&session, &deadline)
                return try answer(request, &session, &deadline)
            } catch {
                return .failed(error)
            }
        }
    }

    private func answer(
        _ request: WorkerRequest, _ session: inout Session, _ deadline: inout CallDeadline
    ) throws(WorkerFailure) -> WorkerAnswer {
        switch request {
        case .open, .decrypt, .signTLS:
            throw WorkerFailure(.protocolViolation, "The HSM token is open already.")
        case .listKeys:
            return try listKeys(nil, &session, &deadline)
        case .listMoreKeys(let listing):
            return try listKeys(listing, &session, &deadline)
        case .describeKey(let publicKeyHash):
            return .keys(
                try listing(&deadline) { () throws(CallError) in
                    try hsmToken.exclusively { () throws(CallError) in
                        try hsmToken.describeKey(publicKeyHash, in: &session)
                    }
                })
        case .readAttributes(let publicKeyHash):
            return .keyAttributes(
                try listing(&deadline) { () throws(CallError) in
                    try hsmToken.keyOperations.reading { () throws(CallError) in
                        try hsmToken.attributes(of: publicKeyHash, in: &session)
                    }
                })
        case .importPrivateKey(let request):
            try hsmToken.exclusively { () throws(WorkerFailure) in
                try hsmToken.importPrivateKey(request, in: &session)
            }
            return .done
        case .importCertificate(let request):
            try hsmToken.exclusively { () throws(WorkerFailure) in
                try hsmToken.importCertificate(request, in: &session)
            }
            return .done
        case .destroyKey(let hash):
            try hsmToken.exclusively { () throws(WorkerFailure) in try hsmToken.destroyKey(hash, in: &session) }
            return .done
        case .removeTestKeys:
            return .removedTestKeys(
                try hsmToken.exclusively { () throws(WorkerFailure) in try hsmToken.removeTestKeys(in: &session) })
        case .generateKey(let request):
            return .generatedKey(
                try hsmToken.exclusively { () throws(WorkerFailure) in
                    try hsmToken.generateKey(request, in: &session)
                })
        case .signRequest(let signing):
            return .requestSignature(
                try hsmToken.exclusively { () throws(WorkerFailure) in try hsmToken.sign(signing, in: &session) })
        case .signJWT(let signing):
            return .jsonWebToken(try hsmToken.sign(signing, in: &session, &deadline))
        case .listAuditKeys:
            return .auditKeys(try hsmToken.auditKeys(in: &session))
        case .createAuditKey(let identifier):
            return .auditKey(try hsmToken.createAuditKey(identifier, in: &session))
        case .signCheckpoint(let signing):
            return .signature(try hsmToken.sign(signing, in: &session))
        case .listHeads:
            return .heads(try hsmToken.rememberedHeads(in: &session))
        case .rememberHead(let head):
            try hsmToken.remember(head, in: &session)
            return .done
        case .probe:
            // Nothing remains to be done: `restore`, which runs before this method, has checked the session and the
            // login.
            return .done
        }
    }

    private func listKeys(
        _ number: UInt64?, _ session: inout Session, _ deadline: inout CallDeadline
    ) throws(WorkerFailure) -> WorkerAnswer {
        let page = try listing(&deadline) { () throws(CallError) in
            try hsmToken.keyOperations.reading { () throws(CallError) -> WorkerAnswer? in
                do throws(CallError) {
                    return try hsmToken.listKeys(number, in: &session)
                } catch {
                    // The answer `listingEnded` makes the daemon begin another listing. The next request in this
                    // session repairs the session and the login.
                    guard error.isSessionLost || error.returnValue == .userNotLoggedIn else { throw error }
                    return nil
                }
            }
        }
        guard let page else {
            throw WorkerFailure(
                .listingEnded,
                "Another listing of the keys has begun, or the HSM token has ended the session or the login."
            )
        }
        return page
    }

    private func listing<Value>(
        _ deadline: inout CallDeadline, _ body: () throws(CallError) -> Value
    ) throws(WorkerFailure) -> Value {
        do {
            return try deadline.retryingWhileBusy(body)
        } catch {
            throw WorkerFailure(
                error.isBusy ? .overloaded : .hsmTokenUnavailable, "The keys cannot be listed: \(error).")
        }
    }
}

/// The time until which the worker may repeat a failed call into the library. It is earlier than the daemon's limit for
/// the request, at which the daemon ends the worker.
struct CallDeadline: Sendable {
    private let end: ContinuousClock.Instant
    private var pause = Self.shortestPause

    private static let shortestPause = 0.004
    private static let longestPause = 0.25

    /// - Parameters:
    ///   - start: The time when a session began to process the request. The time that the request waited for a session
    ///     does not count.
    ///   - callTimeout: The daemon's limit, in milliseconds.
    init(from start: ContinuousClock.Instant = .now, callTimeout: UInt32) {
        end = start + .milliseconds(Int64(callTimeout) * 3 / 4)
    }

    var isOver: Bool { ContinuousClock.now >= end }

    /// Blocks for a time that doubles with each call. The time is partly random, so that threads do not repeat their
    /// calls at the same moment.
    /// - Returns: false, without waiting, if no time is left.
    mutating func wait() -> Bool {
        let duration = pause * .random(in: 0.5...1)
        guard ContinuousClock.now + .seconds(duration) < end else { return false }
        BlockingThread.sleep(duration)
        pause = min(pause * 2, Self.longestPause)
        return true
    }

    /// Repeats a call while the HSM token reports that it is busy and time is left.
    mutating func retryingWhileBusy<Value>(_ body: () throws(CallError) -> Value) throws(CallError) -> Value {
        while true {
            do throws(CallError) {
                return try body()
            } catch {
                guard error.isBusy, wait() else { throw error }
            }
        }
    }

    /// Runs a test, and runs it once more if it fails. Otherwise one transient error would disable the tested function
    /// for as long as the worker runs. A test that fails because the HSM token is busy is repeated while time is left.
    ///
    /// - Returns: nil if the test passed, otherwise the last fault.
    mutating func failureAfterRetry(_ test: () -> SelfTestFailure?) -> SelfTestFailure? {
        var isSecond = false
        while let failure = test() {
            if failure.call?.isBusy == true, wait() { continue }
            if isSecond { return failure }
            isSecond = true
        }
        return nil
    }
}
