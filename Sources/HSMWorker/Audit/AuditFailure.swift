import PKCS11
import WorkerProtocol

extension OpenToken {
    /// Makes calls for the key-usage record. One that fails means a token that does not do this, or a token that does
    /// nothing any more: a transaction that is known to be good tells, so that the first does not cost a worker again
    /// and again.
    func forAuditRecord<Value>(
        _ task: String, _ session: inout Session,
        _ body: (inout Session) throws(CallError) -> Result<Value, WorkerFailure>
    ) throws(WorkerFailure) -> Value {
        let result: Result<Value, WorkerFailure>
        do throws(CallError) {
            result = try body(&session)
        } catch {
            let kind: WorkerFailure.Kind = works(&session) ? .auditRefused : .tokenUnavailable
            throw WorkerFailure(kind, "\(task): \(error)\(error.writeAdvice).")
        }
        return try result.get()
    }

    private func works(_ session: inout Session) -> Bool {
        guard (try? session.loggedInUser()) == .user else { return false }
        guard let entry = keys.all.values.first else { return true }
        let scheme: RestorationScheme = entry.publicKey.algorithm == .ec ? .ecV1 : .rsaV1
        guard let tier = tiers[scheme] else { return true }
        return tier.openingFailure(with: entry, in: &session) == nil
    }
}

extension Result where Failure == WorkerFailure {
    static func refused(_ message: String) -> Self { .failure(WorkerFailure(.auditRefused, message)) }
}

extension CallError {
    /// What to do about a token that cannot be written to; a fragment that follows the error.
    fileprivate var writeAdvice: String {
        switch returnValue {
        case .tokenWriteProtected, .sessionReadOnly: ": the token is read-only, make it writable for its user"
        case .deviceMemory: ": the token is full"
        default: ""
        }
    }
}
