import Foundation
import PKCS11
import SecretMemory
import Synchronization
import WorkerProtocol

/// One session and what is done with it. Used by one thread.
///
/// While its PKCS#11 session is lost, or could not be opened because the token has no room for it, it leaves the work to
/// the others and keeps trying to open one.
final class TokenSession: Sendable {
    // A lock that nobody waits for: it lets the thread's closure hold what cannot be copied.
    private let session: Mutex<Session>
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
        defer { count() }
        try session.withLock { (session) throws(CallError) in
            try deadline.retryingWhileBusy { () throws(CallError) in try token.reopen(&session) }
        }
    }

    /// Returns with an open session, or when none of them has one: then requests must be answered all the same.
    func waitForSession() {
        var pause = Self.shortestPause
        while true {
            let isOpen = session.withLock { session in
                if !session.isOpen { try? token.reopen(&session) }
                return session.isOpen
            }
            count()
            if isOpen || token.openSessions.load(ordering: .relaxed) == 0 { return }
            Thread.sleep(forTimeInterval: pause)
            pause = min(pause * 2, Self.longestPause)
        }
    }

    private func count() {
        let isOpen = session.withLock { $0.isOpen }
        let change = isCounted.withLock { isCounted in
            defer { isCounted = isOpen }
            return (isOpen ? 1 : 0) - (isCounted ? 1 : 0)
        }
        token.openSessions.add(change, ordering: .relaxed)
    }

    func serve(_ next: RequestQueue.Entry, _ stream: FrameStream) {
        stream.send(answer(next.request), for: next.identifier)
    }

    func answer(_ request: WorkerRequest) -> WorkerAnswer {
        session.withLock { session in
            var deadline = CallDeadline(callTimeout: token.opening.callTimeout)
            do throws(WorkerFailure) {
                return try answer(request, &session, &deadline)
            } catch {
                return WorkerAnswer.failed(error)
            }
        }
    }

    private func answer(
        _ request: WorkerRequest, _ session: inout Session, _ deadline: inout CallDeadline
    ) throws(WorkerFailure) -> WorkerAnswer {
        if case .decrypt(let input) = request {
            // Without a look at the session first: an error tells soon enough.
            let (plaintext, tier) = try token.decrypt(input, in: &session, &deadline)
            return .plaintext(plaintext, tier: tier, unlockedSecrets: UnlockedSecrets.inBytes)
        }
        try token.restore(&session, &deadline)
        return try answerRarer(request, &session, &deadline)
    }

    private func answerRarer(
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
                try Self.listing { () throws(CallError) in
                    try deadline.retryingWhileBusy { () throws(CallError) in
                        try token.exclusively { () throws(CallError) in
                            try token.describeKey(publicKeyHash, in: &session)
                        }
                    }
                })
        case .importPrivateKey(let request):
            try token.exclusively { () throws(WorkerFailure) in
                try token.importPrivateKey(request, in: &session)
            }
            return .done
        case .importCertificate(let request):
            try token.exclusively { () throws(WorkerFailure) in
                try token.importCertificate(request, in: &session)
            }
            return .done
        case .destroyKey(let publicKeyHash):
            try token.exclusively { () throws(WorkerFailure) in
                try token.destroyKey(publicKeyHash, in: &session)
            }
            return .done
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
        case .generateKey(let generation):
            return .generatedKey(
                try token.exclusively { () throws(WorkerFailure) in
                    try token.generateKey(generation, in: &session)
                })
        case .signRequest(let signing):
            return .requestSignature(try token.sign(signing, in: &session))
        case .probe:
            // The session was looked at already.
            return .done
        }
    }

    private func listKeys(
        _ listing: UInt64?, _ session: inout Session, _ deadline: inout CallDeadline
    ) throws(WorkerFailure) -> WorkerAnswer {
        let page = try Self.listing { () throws(CallError) in
            try deadline.retryingWhileBusy { () throws(CallError) in
                try token.keyOperations.reading { () throws(CallError) in
                    try token.listKeys(listing, in: &session)
                }
            }
        }
        guard let page else {
            throw WorkerFailure(.overloaded, "Another listing of the keys has begun meanwhile; list them again.")
        }
        return page
    }

    private static func listing<Value>(_ body: () throws(CallError) -> Value) throws(WorkerFailure) -> Value {
        do {
            return try body()
        } catch {
            throw WorkerFailure(
                error.isBusy ? .overloaded : .tokenUnavailable, "The keys cannot be listed: \(error).")
        }
    }
}

/// What the daemon is told of secrets that this process could not lock in memory.
enum UnlockedSecrets {
    static var inBytes: UInt32 {
        min(UInt32(clamping: SecretBytes.unlockedByteCount), FieldBound.unlockedSecrets)
    }
}
