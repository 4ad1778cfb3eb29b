import PKCS11
import Synchronization
import WorkerProtocol

/// One session and what is done with it. Used by one thread.
final class SessionSeat: Sendable {
    // A lock that nobody waits for: it lets the thread's closure hold what cannot be copied.
    private let session: Mutex<Session>
    private let token: OpenToken

    init(_ session: consuming sending Session, _ token: OpenToken) {
        self.session = Mutex(session)
        self.token = token
    }

    func serve(_ next: (identifier: UInt64, request: WorkerRequest), _ stream: FrameStream) {
        let result = session.withLock { session in
            do throws(WorkerFailure) {
                return try answer(next.request, &session)
            } catch {
                return WorkerAnswer.failed(error)
            }
        }
        stream.send(result, for: next.identifier)
    }

    private func answer(_ request: WorkerRequest, _ session: inout Session) throws(WorkerFailure) -> WorkerAnswer {
        switch request {
        case .open:
            throw WorkerFailure(.protocolViolation, "The token is open already.")
        case .decrypt(let input):
            let (plaintext, tier) = try token.decrypt(input, in: &session)
            return .plaintext(plaintext, tier: tier)
        case .listKeys:
            do {
                return .keys(try token.exclusively { () throws(CallError) in try token.listKeys(in: &session) })
            } catch {
                throw WorkerFailure(.tokenUnavailable, "The keys cannot be listed: \(error).")
            }
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
        case .probe:
            do {
                guard try session.loggedInUser() == .user else {
                    throw WorkerFailure(.tokenUnavailable, "The token has ended the login.")
                }
                return .done
            } catch let error as CallError {
                throw WorkerFailure(.tokenUnavailable, "\(error).")
            } catch let error as WorkerFailure {
                throw error
            } catch {
                throw WorkerFailure(.tokenUnavailable, "The token does not answer.")
            }
        }
    }
}
