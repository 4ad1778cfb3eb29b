import AccessControl
import AuditChain
import KeyTypes
import MerchantKeys
import PaymentToken
import Synchronization
import Telemetry

/// The audit record of a request in progress. A refused request is recorded with what was known at the refusal.
///
/// It can contain only identifiers, digests and words from closed sets, so no part of a request body can get into it.
final class AuditDraft: Sendable {
    /// The facts known so far.
    struct Facts: Sendable, Equatable {
        /// `request` until the endpoint sets its own event.
        var event = AuditEvent.request
        var merchant: AuditText?
        var publicKeyHash: AuditDigest?
        var transactionId: AuditDigest?
        var protection: AuditProtection?
        var hsmToken: AuditText?
        /// True once a key may have been used, even if no HSM token has answered.
        var mayHaveReachedHSM = false
        /// The value of the caller's `traceparent` header.
        var trace: AuditTrace?
    }

    private let state: Mutex<(facts: Facts, sequence: Int?)>

    init(trace: CallersTrace? = nil) {
        var facts = Facts()
        facts.trace = trace.flatMap {
            AuditTrace(traceId: $0.traceIdentifier, parentId: $0.parentIdentifier)
        }
        state = Mutex((facts: facts, sequence: nil))
    }

    var facts: Facts { state.withLock { $0.facts } }

    /// The sequence of the audit record, if one was already made in the transaction of the operation.
    var sequence: Int? { state.withLock { $0.sequence } }

    func setEvent(_ event: AuditEvent) {
        state.withLock { $0.facts.event = event }
    }

    func setSubject(_ paymentToken: PaymentToken) {
        state.withLock {
            $0.facts.publicKeyHash = AuditDigest(bytes: paymentToken.publicKeyHash.bytes)
            $0.facts.transactionId = AuditDigest(bytes: paymentToken.transactionIdentifier.bytes)
        }
    }

    func setSubject(key: PublicKeyHash) {
        state.withLock { $0.facts.publicKeyHash = AuditDigest(bytes: key.bytes) }
    }

    func setSubject(_ key: KeyEntry) {
        state.withLock {
            $0.facts.publicKeyHash = AuditDigest(bytes: key.publicKeyHash.bytes)
            $0.facts.merchant = key.merchantIdentifier.isEmpty ? nil : AuditText(key.merchantIdentifier)
        }
    }

    func setSubject(merchant: String) {
        state.withLock { $0.facts.merchant = AuditText(merchant) }
    }

    func used(hsmToken: String, protection: ProtectionTier) {
        state.withLock {
            $0.facts.hsmToken = AuditText(hsmToken)
            $0.facts.protection = AuditProtection(protection)
        }
    }

    func used(hsmToken: String) {
        state.withLock { $0.facts.hsmToken = AuditText(hsmToken) }
    }

    func mayHaveReachedHSM(_ mayHave: Bool) {
        state.withLock { $0.facts.mayHaveReachedHSM = mayHave }
    }

    func recorded(at sequence: Int?) {
        state.withLock { $0.sequence = sequence }
    }
}

extension AuditProtection {
    init(_ tier: ProtectionTier) {
        self =
            switch tier {
            case .a: .a
            case .b: .b
            case .c: .c
            }
    }
}

extension AuditCaller {
    /// The audit caller for a peer that a rule matched.
    init(_ caller: Caller) {
        self.init(caller.peer, name: AuditText(caller.name))
    }

    /// - Parameter name: nil for a peer that no rule matched.
    init(_ peer: PeerCredentials, name: AuditText?) {
        self.init(
            name: name, uid: peer.uid, gid: peer.gid, loginUID: peer.loginUID.number,
            pid: peer.pid > 0 ? peer.pid : nil,
            comm: peer.comm.map { AuditText($0) })
    }
}
