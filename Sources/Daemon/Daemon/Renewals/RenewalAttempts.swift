import AuditChain
import DaemonConfiguration
import Foundation
import KeyTypes
import Ledger
import Logging
import MerchantKeys
import PaymentToken
import PortalRequests
import Refusals
import UsageRecording

// The attempts to change something at Apple: their approvals, their place in the ledger, and their answers.
extension RenewalSteps {
    /// A change at Apple that the plan permits now.
    struct Change {
        let kind: Renewal.Change
        let number: Int
        let request: PortalRequest
        /// The key of the certificate that is created, activated or revoked.
        let key: PublicKeyHash
        /// The certificate that wallets use, for a new one; nil if not exactly one is in use.
        var previous: String?
        /// True if wallets may use a new certificate at once. The new key must be active here before.
        var isUsedAtOnce = false
        /// The attempt that a person wants repeated by this one, such as `create:1`.
        var repeated: String?
    }

    /// Begins the next change at Apple, or requests its approval.
    ///
    /// - Returns: the request for approval; nil if the change has begun.
    func begin(
        _ plan: RenewalPlans.Plan, _ request: Request, by caller: Caller, draft: AuditDraft
    ) async throws(Refusal) -> Approval? {
        guard let stored = plan.stored else { throw .defect }
        var change = try Self.change(of: plan, stored)
        if change.kind == .revoke { try await requireOwn(change.key, stored.renewal) }
        if let repeated = request.statements.repeated, repeated.change == change.kind {
            change.repeated = "\(repeated.change.rawValue):\(repeated.number)"
        }
        let renewal = stored.renewal
        let newKey = try stored.key
        let excludedNodes = renewal.excludedNodes(plan.circumstances)
        let needsApproval = rule.needsSecondPerson(caller)
        guard needsApproval || request.approval == nil else {
            throw Refusal(
                .approvalInvalid, "You act alone, so no approval is used; repeat the request without it.",
                details: "approval")
        }
        let approval = request.approval
        let attempt = RenewalAttempt(
            identifier: .random(),
            Renewal.Attempt(
                change: change.kind, number: change.number, intendedAt: now, outcome: .intended,
                excludedNodes: excludedNodes),
            target: change.request.name, approval: approval)
        let details = RenewalStepDetails(
            step: change.kind.step, renewal: AuditText(stored.identifier.hex),
            attempt: RenewalStepDetails.Attempt(identifier: attempt.identifier, number: change.number),
            appleId: AuditText(change.request.name), excludedNodes: excludedNodes.compactMap { AuditNode($0) },
            approval: approval)
        draft.setEvent(.renewalStep(details))
        draft.setSubject(key: change.key)
        guard
            let write = PortalWrite(
                attempt: attempt.identifier, approval: approval, merchant: renewal.merchantIdentifier,
                use: renewal.use, request: change.request, publicKeyHash: change.key)
        else { throw .defect }
        try write.check(in: administration.catalogue.index)
        guard let known = try await administration.keyRecord(of: newKey), known.state == plan.circumstances.keyState
        else { throw Refusal(.invalidState, KeyRecordConflict.changedMeanwhile.description) }
        var step: AdministrativeChange.ApprovalStep?
        if needsApproval {
            let operation = change.kind.operation
            let parameters = Self.parameters(operation, change, stored, newKey, excludedNodes)
            guard let approval else {
                if let open = try await openRequest(for: operation, parameters, by: caller) { return open }
                let reason = try Self.reason(change, stored, plan.circumstances)
                return try await recorder.ask(
                    await rule.request(
                        operation, parameters: parameters, key: newKey, keyState: known.state, reason: reason,
                        by: caller, at: now), by: caller, for: draft)
            }
            step = .use(approval, parameters: parameters, by: try await caller.person())
        }
        let keyBecomesActive = change.isUsedAtOnce && known.state != .active
        var administrative = AdministrativeChange(
            at: now, approval: step, records: [recorder.auditRecord(of: draft, by: caller)])
        administrative.renewal = .begin(
            attempt, of: stored.identifier, previous: change.previous, repeatsEarlier: change.repeated == "create:0")
        // A key that is suspended or compromised meanwhile gets no certificate, and its old certificate is kept.
        var key = known
        if keyBecomesActive {
            key.state = .active
            draft.setEvent(
                .keyStateChange(
                    KeyStateChange(from: nil, to: .active, reason: AuditReason("renewed"), approval: approval)))
            administrative.records.insert(recorder.auditRecord(of: draft, by: caller), at: 0)
            draft.setEvent(.renewalStep(details))
        }
        (administrative.key, administrative.precondition) = (key, .state(known.state))
        // If the ledger does not acknowledge the attempt, nothing is queued, and the attempt counts as unknown.
        try await recorder.apply(administrative, for: draft)
        if keyBecomesActive {
            // Wallets may use the certificate at once.
            do throws(Refusal) {
                try await refusing(ledger: await administration.catalogue.keyChanged(newKey))
            } catch {
                // The caller does not wait until the ledger works again.
                Task { await store(.notSent("This node did not read the key's new state."), of: attempt, stored) }
                throw error
            }
        }
        let isQueued = writes.enqueue(write) { [self] result in
            await store(result, of: attempt, stored)
        }
        if !isQueued {
            await store(.notSent("Another request of this merchant has no answer yet."), of: attempt, stored)
        }
        return nil
    }

    /// Returns the caller's open request for the same change; nil if there is none.
    ///
    /// - Throws: invalid_state if another person has requested it.
    private func openRequest(
        for operation: ApprovalOperation, _ parameters: AuditDigest, by caller: Caller
    ) async throws(Refusal) -> Approval? {
        let open = try await refusing(ledger: await ledger.approvals(limit: 1000)).first {
            $0.operation == operation && $0.parameters == parameters && $0.status == .pending && now < $0.expires
        }
        guard let open, !open.isRequester(try await caller.person(), on: ledger.node) else { return open }
        throw Refusal(
            .invalidState, "Another person has requested approval of this change already: \(open.identifier.hex).",
            details: "approval list")
    }

    /// Returns the change of the plan's step, after the checks that have no exception.
    private static func change(of plan: RenewalPlans.Plan, _ stored: StoredRenewal) throws(Refusal) -> Change {
        let key = try stored.key
        guard let list = plan.circumstances.list,
            let type = CertificateType(use: stored.renewal.use, algorithm: stored.renewal.algorithm)
        else { throw .defect }
        do throws(PortalWriteRefusal) {
            switch plan.step {
            case .create(let number, let previous, let isUsedAtOnce):
                if let csr = stored.request, let new = NewCertificate(type: type, csr: csr),
                    let merchant = list.appleId.flatMap(ResourceId.init)
                {
                    return Change(
                        kind: .create, number: number, request: .createCertificate(new, merchantResource: merchant),
                        key: key, previous: previous, isUsedAtOnce: isUsedAtOnce)
                }
            case .activate(let id, let number):
                if let certificate = CertificateId(id) {
                    try list.checkActivation(of: certificate, type, for: key, now: plan.circumstances.now)
                    return Change(kind: .activate, number: number, request: .activateCertificate(certificate), key: key)
                }
            case .revoke(let id, let number):
                if let certificate = CertificateId(id),
                    let old = list.entries.first(where: { $0.identifier == id })?.publicKeyHash
                {
                    try list.checkRevocation(of: certificate, type, for: old)
                    return Change(kind: .revoke, number: number, request: .revokeCertificate(certificate), key: old)
                }
            default: break
            }
        } catch {
            throw Refusal(.invalidState, "Nothing was requested from Apple. \(error.text)")
        }
        throw Refusal(.invalidState, "Nothing was requested from Apple: an id in its list does not have Apple's form.")
    }

    /// Throws unless the ledger has the key of a certificate to revoke, as one of this merchant and use. Another company may
    /// serve the merchant with the others.
    private func requireOwn(_ key: PublicKeyHash, _ renewal: Renewal) async throws(Refusal) {
        guard let known = try await administration.keyRecord(of: key), known.use == renewal.use,
            MerchantIdentifier.areSame(known.merchantIdentifier, renewal.merchantIdentifier)
        else {
            throw Refusal(
                .invalidState,
                "Nothing was requested from Apple: the ledger does not have the previous certificate's key as one of this "
                    + "merchant, so another party may use it.")
        }
    }

    /// The approved parameters. A request for the same attempt of another renewal, or with other consequences, has others.
    static func parameters(
        _ operation: ApprovalOperation, _ change: Change, _ stored: StoredRenewal, _ newKey: PublicKeyHash,
        _ excludedNodes: Set<String>
    ) -> AuditDigest {
        var parameters = OperationParameters(operation)
        parameters.add(stored.identifier.hex)
        parameters.add(stored.renewal.merchantIdentifier)
        parameters.add(change.request.kind.name)
        parameters.add(newKey.bytes)
        parameters.add(change.key.bytes)
        parameters.add(change.request.name)
        parameters.add(String(change.number))
        parameters.add(change.previous)
        parameters.add(change.isUsedAtOnce ? "used at once" : nil)
        parameters.add(change.repeated)
        for node in excludedNodes.sorted() { parameters.add(node) }
        return parameters.digest
    }

    /// Returns the sentence that the second person reads. The nodes that proved the key are counted if there is no room for
    /// their names. The merchant identifier is last, since a long one is cut. An identifier's first eight digits are not
    /// masked as an account number.
    ///
    /// - Throws: malformed_request if there is no room for the names of all excluded nodes.
    static func reason(
        _ change: Change, _ stored: StoredRenewal, _ here: RenewalCircumstances
    ) throws(Refusal) -> AuditReason {
        let (renewal, excluded) = (stored.renewal, stored.renewal.excludedNodes(here))
        let verb =
            switch change.kind {
            case .create: change.isUsedAtOnce ? "new certificate, in use at once," : "new certificate,"
            case .activate:
                "activation of \(change.request.name)"
                    + (renewal.previousCertificateId.map { " instead of \($0)," } ?? ",")
            case .revoke: "revocation of \(change.request.name) of key \(change.key.hex.prefix(8)),"
            }
        let repeating = change.repeated.map { ", repeating \($0)" } ?? ""
        let without = excluded.isEmpty ? "" : ", without \(excluded.sorted().joined(separator: ","))"
        let attempt = "attempt \(change.number) of renewal \(stored.identifier.hex.prefix(8))"
        let text = "\(verb) \(attempt)\(repeating)\(without)"
        guard text.utf8.count <= AuditReason.maximumLength - 20 else {
            throw Refusal(
                .malformedRequest,
                "The names of the excluded nodes are too long for a request for approval; exclude fewer.",
                details: "excludeNodes")
        }
        let proved = here.requiredNodes.filter { here.isProved($0, withCertificate: change.kind == .activate) }.sorted()
        let merchant = ", for \(renewal.merchantIdentifier)"
        let names = proved.joined(separator: ",")
        let isLong = "\(text), proved by \(names)\(merchant)".utf8.count > AuditReason.maximumLength
        let provers = change.kind == .revoke ? "" : ", proved by " + (isLong ? "\(proved.count) nodes" : names)
        return AuditReason("\(text)\(provers)\(merchant)")
    }

    // MARK: Answers

    /// Stores the outcome unknown of the attempts whose answer can no longer arrive: the process that had them has ended.
    func endUnanswered(of stored: StoredRenewal) async throws(Refusal) {
        for each in stored.attempts where each.attempt.outcome == .intended && !each.attempt.mayBeAnswered(at: now) {
            try await refusing(
                ledger: await storeOnce(.unknown("The daemon ended before the answer."), of: each, stored))
        }
    }

    /// Stores the answer to an attempt. Without it the attempt counts as unknown, so a failure is repeated for a while.
    private func store(_ result: PortalWriteResult, of attempt: RenewalAttempt, _ stored: StoredRenewal) async {
        let message: Logger.Message = "Apple's answer was not stored"
        for pause in [1, 2, 4, 8, 15, 30, 60, 60] {
            do throws(LedgerFailure) {
                return try await storeOnce(result, of: attempt, stored)
            } catch {
                logger.error(
                    message, metadata: ["attempt": "\(attempt.identifier.hex)", "reason": "\(error.description)"])
            }
            try? await Task.sleep(for: .seconds(pause))
        }
        logger.error(
            "Apple's answer is not stored any more, so the attempt counts as unknown",
            metadata: ["attempt": "\(attempt.identifier.hex)"])
    }

    /// Stores the answer to an attempt, with its record. Does nothing if it has that outcome, or a definite one, already: a
    /// transaction without an acknowledgement may have been committed.
    private func storeOnce(
        _ result: PortalWriteResult, of attempt: RenewalAttempt, _ stored: StoredRenewal
    ) async throws(LedgerFailure) {
        var (outcome, code): (Renewal.Attempt.Outcome, String?)
        var appleId: String?
        var certificate: (id: String, der: [UInt8])?
        switch result {
        case .accepted(let id, let content, _):
            (outcome, code, appleId) = (.accepted, nil, id.text)
            certificate = content.map { (id.text, $0) }
        case .refused(let status, let answered):
            (outcome, code) = (.refused, [String(status), answered].compactMap(\.self).joined(separator: " "))
        case .notSent(let reason): (outcome, code) = (.notSent, reason)
        case .unknown(let reason): (outcome, code) = (.unknown, reason)
        }
        let draft = AuditDraft()
        draft.setSubject(merchant: stored.renewal.merchantIdentifier)
        if let key = stored.renewal.newKey { draft.setSubject(key: key) }
        draft.setEvent(
            .renewalStep(
                RenewalStepDetails(
                    step: .answer, renewal: AuditText(stored.identifier.hex),
                    attempt: RenewalStepDetails.Attempt(
                        identifier: attempt.identifier, number: attempt.attempt.number,
                        outcome: AuditText(outcome.rawValue), code: code.map { AuditText($0) }),
                    appleId: appleId.map { AuditText($0) },
                    certificate: certificate.map { AuditDigest.of($0.der) })))
        var change = AdministrativeChange(at: now, records: [recorder.auditRecord(of: draft, by: nil)])
        change.renewal = .answer(
            attempt.identifier, of: stored.identifier, outcome, code: code, certificate: certificate)
        do throws(LedgerFailure) {
            try await ledger.apply(change)
        } catch {
            if case .renewal(.answered) = error { return }
            throw error
        }
    }
}

extension Renewal.Change {
    fileprivate var step: RenewalStepDetails.Step {
        switch self {
        case .create: .create
        case .activate: .activate
        case .revoke: .revoke
        }
    }

    fileprivate var operation: ApprovalOperation {
        switch self {
        case .create: .certificateCreate
        case .activate: .certificateActivate
        case .revoke: .certificateRevoke
        }
    }
}
