import AccessControl
package import AuditChain
package import DaemonConfiguration
package import KeyTypes
import Locks
package import MerchantKeys
package import PaymentToken
package import Telemetry

/// The facts for the audit record of a request in progress. A refused request is recorded with the facts that were known at
/// the refusal.
///
/// The draft can contain only identifiers, digests and words from closed sets. So no part of a request's body can get into
/// the record.
package final class AuditDraft: Sendable {
    /// The facts about the request that are known so far.
    package struct RequestFacts: Sendable, Equatable {
        /// The event, which is `request` until the endpoint sets another.
        var event = AuditEvent.request
        var merchant: AuditText?
        var publicKeyHash: AuditDigest?
        var transactionId: AuditDigest?
        var protection: AuditProtection?
        var hsmToken: AuditText?
        /// True once an HSM token may have used a key, even if it has not answered.
        package var mayHaveReachedHSM = false
        /// The value of the caller's `traceparent` header.
        var trace: AuditTrace?
    }

    private let state: Mutex<(facts: RequestFacts, sequence: Int?)>

    package init(trace: CallersTrace? = nil) {
        var facts = RequestFacts()
        facts.trace = trace.flatMap {
            AuditTrace(traceId: $0.traceIdentifier, parentId: $0.parentIdentifier)
        }
        state = Mutex((facts: facts, sequence: nil))
    }

    package var facts: RequestFacts { state.withLock { $0.facts } }

    /// The sequence of the audit record, if it has already been written, for example in the operation's transaction; else
    /// nil.
    var sequence: Int? { state.withLock { $0.sequence } }

    package func setEvent(_ event: AuditEvent) {
        state.withLock { $0.facts.event = event }
    }

    package func setSubject(_ paymentToken: PaymentToken) {
        state.withLock {
            $0.facts.publicKeyHash = AuditDigest(bytes: paymentToken.publicKeyHash.bytes)
            $0.facts.transactionId = AuditDigest(bytes: paymentToken.transactionIdentifier.bytes)
        }
    }

    package func setSubject(_ transaction: TransactionIdentifier) {
        state.withLock { $0.facts.transactionId = AuditDigest(bytes: transaction.bytes) }
    }

    package func setSubject(key: PublicKeyHash) {
        state.withLock { $0.facts.publicKeyHash = AuditDigest(bytes: key.bytes) }
    }

    package func setSubject(_ key: KeyEntry) {
        state.withLock {
            $0.facts.publicKeyHash = AuditDigest(bytes: key.publicKeyHash.bytes)
            $0.facts.merchant = key.auditMerchant
        }
    }

    package func setSubject(merchant: String, of wallet: Wallet = .applePay) {
        state.withLock { $0.facts.merchant = AuditText(merchant, of: wallet) }
    }

    /// Records that a key is about to be tried. An Apple Pay token names its only key, which is recorded already.
    package func tries(_ key: PublicKeyHash) {
        change { decryption in AuditDigest(bytes: key.bytes).map { decryption.triedKeys.append($0) } }
    }

    /// Changes the details of a Google Pay decryption; does nothing for any other event.
    package func change(_ body: (inout GooglePayDecryption) -> Void) {
        state.withLock { state in
            guard case .decryptGooglePay(var decryption) = state.facts.event else { return }
            body(&decryption)
            state.facts.event = .decryptGooglePay(decryption)
        }
    }

    package func used(hsmToken: String, protection: ProtectionTier?) {
        state.withLock {
            $0.facts.hsmToken = AuditText(hsmToken)
            $0.facts.protection = protection.map { AuditProtection($0) }
        }
    }

    package func used(hsmToken: String) {
        state.withLock { $0.facts.hsmToken = AuditText(hsmToken) }
    }

    package func mayHaveReachedHSM(_ mayHave: Bool) {
        state.withLock { $0.facts.mayHaveReachedHSM = mayHave }
    }

    package func recorded(at sequence: Int?) {
        state.withLock { $0.sequence = sequence }
    }
}

extension AuditProtection {
    package init(_ tier: ProtectionTier) {
        self =
            switch tier {
            case .a: .a
            case .b: .b
            case .c: .c
            }
    }
}

extension AuditCaller {
    /// Creates the audit record's caller from a peer that a rule matched.
    package init(_ caller: Caller) {
        self.init(caller.peer, name: AuditText(caller.name))
    }

    /// - Parameter name: the rule's name; nil for a peer that no rule matched.
    init(_ peer: PeerCredentials, name: AuditText?) {
        self.init(
            name: name, uid: peer.uid, gid: peer.gid, loginUID: peer.loginUID.number,
            pid: peer.pid > 0 ? peer.pid : nil,
            comm: peer.comm.map { AuditText($0) })
    }
}

extension AuditText {
    fileprivate init(_ merchant: String, of wallet: Wallet) {
        self = wallet == .googlePay ? AuditText(merchantAtGoogle: merchant) : AuditText(merchant)
    }
}

extension KeyEntry {
    /// The merchant as audit records state it; nil if it is unknown.
    package var auditMerchant: AuditText? {
        merchantIdentifier.isEmpty ? nil : AuditText(merchantIdentifier, of: use.wallet)
    }
}

extension KeyUse {
    /// The wallet whose company knows the merchant of a key with this use.
    package var wallet: Wallet { self == .googlePay ? .googlePay : .applePay }
}
