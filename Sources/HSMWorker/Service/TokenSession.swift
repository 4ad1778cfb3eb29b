import Foundation
import PKCS11
import SecretMemory
import Synchronization
import WorkerProtocol

/// One PKCS#11 session with the open token, and the requests that are answered in it. Used by one thread at a time.
///
/// While its PKCS#11 session is lost, or could not be opened because the token has no room for it, it leaves the work to
/// the others and keeps trying to open one.
final class TokenSession: Sendable {
    // `Session` cannot be copied, and a thread's closure cannot own it: the Mutex holds it. No thread ever waits for it.
    private let session: Mutex<Session>
    /// Whether this one is among the token's ``OpenToken/openSessions``.
    private let isCounted = Mutex(false)
    private let token: OpenToken

    private static let shortestPause = 0.05
    private static let longestPause = 5.0

    init(_ token: OpenToken) {
        self.token = token
        session = Mutex(Session(closedIn: token.slot.withLock { $0 }))
    }

    /// Opens the session; waits within the deadline while the token has no room for it.
    func open(_ deadline: inout CallDeadline) throws(CallError) {
        defer { updateCount() }
        try session.withLock { (session) throws(CallError) in
            try deadline.retryingWhileBusy { () throws(CallError) in try token.reopen(&session) }
        }
    }

    /// Returns when this session is open, so that only threads with a session take requests from the queue. When none of
    /// the worker's sessions is open it returns too: requests must be answered then as well, be it with the reason.
    func waitForSession() {
        var pause = Self.shortestPause
        while true {
            let isOpen = session.withLock { session in
                if !session.isOpen { try? token.reopen(&session) }
                return session.isOpen
            }
            updateCount()
            if isOpen || token.openSessions.load(ordering: .relaxed) == 0 { return }
            Thread.sleep(forTimeInterval: pause)
            pause = min(pause * 2, Self.longestPause)
        }
    }

    private func updateCount() {
        let isOpen = session.withLock { $0.isOpen }
        let change = isCounted.withLock { isCounted in
            defer { isCounted = isOpen }
            return (isOpen ? 1 : 0) - (isCounted ? 1 : 0)
        }
        token.openSessions.add(change, ordering: .relaxed)
    }

    /// How much of this process's secret memory is not locked, in bytes, as the daemon is told.
    static var unlockedSecrets: UInt32 {
        min(UInt32(clamping: SecretBytes.unlockedByteCount), FieldBound.unlockedSecrets)
    }

    // MARK: Requests

    /// Blocks for as long as the token takes.
    func answer(_ request: WorkerRequest) -> WorkerAnswer {
        session.withLock { session in
            var deadline = CallDeadline(callTimeout: token.opening.callTimeout)
            do throws(WorkerFailure) {
                if case .decrypt(let input) = request {
                    // The session is not checked first, which would cost each decryption two calls into the library:
                    // where it is lost, the decryption fails with an error that says so and is repeated.
                    let (plaintext, tier) = try token.decrypt(input, in: &session, &deadline)
                    return .plaintext(plaintext, tier: tier, unlockedSecrets: Self.unlockedSecrets)
                }
                try token.restore(&session, &deadline)
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
        case .open, .decrypt:
            throw WorkerFailure(.protocolViolation, "The token is open already.")
        case .listKeys:
            return try listKeys(nil, &session, &deadline)
        case .listMoreKeys(let listing):
            return try listKeys(listing, &session, &deadline)
        case .describeKey(let publicKeyHash):
            return .keys(
                try listing(&deadline) { () throws(CallError) in
                    try token.exclusively { () throws(CallError) in
                        try token.describeKey(publicKeyHash, in: &session)
                    }
                })
        case .importPrivateKey(let request):
            try token.exclusively { () throws(WorkerFailure) in try token.importPrivateKey(request, in: &session) }
            return .done
        case .importCertificate(let request):
            try token.exclusively { () throws(WorkerFailure) in try token.importCertificate(request, in: &session) }
            return .done
        case .destroyKey(let hash):
            try token.exclusively { () throws(WorkerFailure) in try token.destroyKey(hash, in: &session) }
            return .done
        case .generateKey(let request):
            return .generatedKey(
                try token.exclusively { () throws(WorkerFailure) in try token.generateKey(request, in: &session) })
        case .signRequest(let signing):
            return .requestSignature(try token.sign(signing, in: &session))
        case .listAuditKeys:
            return .auditKeys(try token.auditKeys(in: &session))
        case .createAuditKey(let identifier):
            return .auditKey(try token.createAuditKey(identifier, in: &session))
        case .signCheckpoint(let signing):
            return .signature(try token.sign(signing, in: &session))
        case .listHeads:
            return .heads(try token.rememberedHeads(in: &session))
        case .rememberHead(let head):
            try token.remember(head, in: &session)
            return .done
        case .probe:
            // `restore` has just asked the token about the session.
            return .done
        }
    }

    private func listKeys(
        _ number: UInt64?, _ session: inout Session, _ deadline: inout CallDeadline
    ) throws(WorkerFailure) -> WorkerAnswer {
        let page = try listing(&deadline) { () throws(CallError) in
            try token.keyOperations.reading { () throws(CallError) in
                try token.listKeys(number, in: &session)
            }
        }
        guard let page else {
            throw WorkerFailure(.overloaded, "Another listing of the keys has begun meanwhile; list them again.")
        }
        return page
    }

    private func listing<Value>(
        _ deadline: inout CallDeadline, _ body: () throws(CallError) -> Value
    ) throws(WorkerFailure) -> Value {
        do {
            return try deadline.retryingWhileBusy(body)
        } catch {
            throw WorkerFailure(error.isBusy ? .overloaded : .tokenUnavailable, "The keys cannot be listed: \(error).")
        }
    }
}
