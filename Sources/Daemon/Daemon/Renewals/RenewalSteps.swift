import AuditChain
import DaemonAPI
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

/// Starts and continues renewals at a person's request. Each request does what the next step permits.
///
/// A change at Apple begins here only: its attempt is stored in the transaction that uses its approval, and then its request
/// is queued for the outbound program. If the daemon ends in between, the attempt's outcome counts as unknown.
struct RenewalSteps: Sendable {
    let plans: RenewalPlans
    let writes: PortalWrites
    let rule: TwoPersonRule
    let logger: Logger

    struct Request: Sendable {
        let merchantIdentifier: String
        let use: KeyUse
        /// nil for the algorithm of the open renewal, or of the merchant's current key.
        let algorithm: KeyAlgorithm?
        /// The renewal to go on with; nil for the open one, or to start one.
        var renewal: RenewalIdentifier?
        var statements = RenewalPlans.Statements()
        var isAbandoned = false
        /// The change at Apple that the person wants; nil if there is none.
        var approved: RenewalChange?
        var approval: ApprovalIdentifier?

        /// True if the person goes on with a renewal that an earlier answer has shown.
        fileprivate var continues: Bool {
            renewal != nil || approved != nil || approval != nil || statements.isTestPaymentMade
                || statements.repeated != nil
        }
    }

    enum Outcome: Sendable {
        case state(RenewalPlans.Plan, isNew: Bool)
        case pending(Approval)
    }

    /// The shortest time between two reads of Apple's list while it is read again and again.
    private static let readInterval = Duration.seconds(10)

    var rotations: KeyRotations { plans.rotations }
    var administration: KeyAdministration { rotations.administration }
    var ledger: any Ledger { administration.ledger }
    var recorder: UsageRecorder { administration.recorder }
    var now: Date { administration.clock.now() }

    func advance(_ request: Request, by caller: Caller, draft: AuditDraft) async throws(Refusal) -> Outcome {
        draft.setSubject(merchant: request.merchantIdentifier)
        draft.setEvent(.renewalStep(RenewalStepDetails(step: .start)))
        guard administration.renewal != nil else {
            throw Refusal(
                .invalidState,
                "The configuration of this host has no section renewal; renew on the host that has one, with the key of Apple's "
                    + "API.",
                details: "renewal")
        }
        try administration.gate.admit()
        guard let merchant = PortalName(request.merchantIdentifier) else {
            throw Refusal(
                .malformedRequest,
                "merchantIdentifier must have 1 to 255 letters, digits, full stops and hyphens, as Apple's have.",
                details: "merchantIdentifier")
        }
        let (stored, isNew) = try await stored(for: request, by: caller, draft: draft)
        let key = try stored.key
        draft.setSubject(key: key)
        plans.reads.keepContent(of: key)
        if let approved = request.approved, approved.renewal != stored.identifier.hex {
            throw Refusal(
                .invalidState, "The approved change is that of another renewal of this merchant.", details: "approve")
        }
        try await endUnanswered(of: stored)
        if request.isAbandoned {
            try await end(stored, .abandon, .abandon(stored.identifier), by: caller, draft: draft)
            return .state(try await plan(stored, request), isNew: isNew)
        }
        var plan = try await plan(stored, request)
        if try await storeListed(plan) { plan = try await self.plan(stored, request) }
        switch plan.step {
        case .read: plans.reads.request(merchant, atMostEvery: .seconds(1))
        case .find: plans.reads.request(merchant, atMostEvery: Self.readInterval)
        case .importCertificate where plan.stored?.certificate == nil,
            .activate where plan.stored?.renewal.certificateId == nil:
            // The list was read before it kept the certificate of this key.
            plans.reads.request(merchant, atMostEvery: Self.readInterval)
        case .create, .activate, .revoke:
            guard let approved = request.approved else { break }
            guard approved == plan.nextChange else {
                throw Refusal(
                    .invalidState,
                    "The change that you approved is not the next one at Apple; read the renewal's state again.",
                    details: "approve")
            }
            if let approval = try await begin(plan, request, by: caller, draft: draft) { return .pending(approval) }
            plan = try await self.plan(stored, request)
        case .finish:
            try await finish(plan, by: caller, draft: draft)
            plan = try await self.plan(stored, request)
        default: break
        }
        return .state(plan, isNew: isNew)
    }

    /// Plans the renewal as the ledger has it now.
    private func plan(_ stored: StoredRenewal, _ request: Request) async throws(Refusal) -> RenewalPlans.Plan {
        let all = try await refusing(ledger: await ledger.renewals(of: stored.renewal.merchantIdentifier))
        guard let current = all.first(where: { $0.identifier == stored.identifier }) else { throw .defect }
        return try await plans.plan(for: current, among: all, request.statements)
    }

    // MARK: Start and end

    /// Returns the renewal that a request is about: the one that it names, or the open one; otherwise one that has just
    /// ended, or whose previous certificate is to be revoked; otherwise a new one.
    private func stored(
        for request: Request, by caller: Caller, draft: AuditDraft
    ) async throws(Refusal) -> (StoredRenewal, isNew: Bool) {
        let all = try await refusing(ledger: await ledger.renewals(of: request.merchantIdentifier)).filter {
            $0.renewal.use == request.use && (request.algorithm == nil || $0.renewal.algorithm == request.algorithm)
        }
        if let wanted = request.renewal {
            guard let named = all.first(where: { $0.identifier == wanted }) else {
                throw Refusal(.invalidState, "This merchant has no such renewal.", details: "renewal")
            }
            return (named, false)
        }
        guard !request.statements.isRevocationWanted else {
            guard let finished = all.first(where: { $0.renewal.state == .finished }) else {
                throw Refusal(.invalidState, "No renewal of this merchant is finished, so no certificate is revoked.")
            }
            return (finished, false)
        }
        let open = all.filter { $0.renewal.state == .open }
        guard open.count < 2 else {
            throw Refusal(
                .malformedRequest,
                "An EC and an RSA key of this merchant are being renewed; name the one to go on with.",
                details: "algorithm: EC or RSA")
        }
        if let open = open.first { return (open, false) }
        guard !request.isAbandoned else {
            throw Refusal(.invalidState, "No renewal of this merchant is open, so none is abandoned.")
        }
        let rotations = try await wantedRotations(request)
        let starts = rotations.contains { plans.shown(of: $0, among: all) == nil && RenewalPlans.newKey(of: $0) != nil }
        if !starts, let last = rotations.compactMap({ plans.shown(of: $0, among: all) }).first { return (last, false) }
        guard !request.continues else {
            throw Refusal(
                .invalidState,
                "No renewal of this merchant is open, so there is nothing to go on with; start one without an approval, a "
                    + "repeated attempt or a test payment.")
        }
        do throws(Refusal) {
            return (try await start(request, by: caller, draft: draft), true)
        } catch {
            // Another person may have started one meanwhile.
            let current = try await refusing(ledger: await ledger.renewals(of: request.merchantIdentifier))
            guard
                let open = current.first(where: { other in
                    other.renewal.state == .open && other.renewal.use == request.use
                        && (request.algorithm == nil || other.renewal.algorithm == request.algorithm)
                        && !all.contains { $0.identifier == other.identifier }
                })
            else { throw error }
            return (open, false)
        }
    }

    private func start(
        _ request: Request, by caller: Caller, draft: AuditDraft
    ) async throws(Refusal) -> StoredRenewal {
        let rotation = try await rotationWithKey(for: request, by: caller)
        guard let key = RenewalPlans.newKey(of: rotation) else { throw .defect }
        let stored = StoredRenewal(
            identifier: .random(),
            renewal: Renewal(
                merchantIdentifier: request.merchantIdentifier, use: rotation.use, algorithm: rotation.algorithm,
                newKey: key.publicKeyHash),
            requesterUID: caller.uid, requesterName: caller.name, startedAt: now)
        draft.setSubject(key: key.publicKeyHash)
        draft.setEvent(
            .renewalStep(RenewalStepDetails(step: .start, renewal: AuditText(stored.identifier.hex))))
        try await apply(.start(stored), by: caller, draft: draft)
        return stored
    }

    /// Returns the rotation whose new key gets the certificate. If no new key waits, this host makes it, if it serves payments.
    private func rotationWithKey(for request: Request, by caller: Caller) async throws(Refusal) -> Rotation {
        let waiting = try await wantedRotations(request).filter { RenewalPlans.newKey(of: $0) != nil }
        guard waiting.count < 2 else {
            throw Refusal(
                .malformedRequest, "An EC and an RSA key of this merchant wait; name the one to renew.",
                details: "algorithm: EC or RSA")
        }
        if let rotation = waiting.first { return rotation }
        guard plans.access().permitsDecryption else {
            throw Refusal(
                .invalidState,
                "No new key of this merchant waits, and this host serves no payments; make the key with rotate start on a "
                    + "host that does.", details: "POST /v1/rotations")
        }
        // The key's generation and request have records of their own.
        return try await self.rotations.start(
            KeyRotations.Start(
                merchantIdentifier: request.merchantIdentifier, use: request.use, algorithm: request.algorithm,
                hsmToken: nil),
            by: caller, dryRun: false, draft: AuditDraft()
        ).rotation
    }

    private func wantedRotations(_ request: Request) async throws(Refusal) -> [Rotation] {
        try await rotations.rotations(of: request.merchantIdentifier).filter {
            $0.use == request.use && (request.algorithm == nil || $0.algorithm == request.algorithm)
        }
    }

    private func finish(
        _ plan: RenewalPlans.Plan, by caller: Caller, draft: AuditDraft
    ) async throws(Refusal) {
        guard let stored = plan.stored else { throw .defect }
        let renewal = stored.renewal
        let all = try await rotations.rotations(of: renewal.merchantIdentifier)
        let rotation = all.first { $0.use == renewal.use && $0.algorithm == renewal.algorithm }
        let step = AdministrativeChange.RenewalStep.finish(stored.identifier)
        let excludedNodes = renewal.excludedNodes(plan.circumstances)
        // The rotation's new key may be one that waits, and was never used.
        let keys = rotation.map { $0.oldKeys + [$0.newKey].compactMap(\.self) } ?? []
        let active = keys.filter { $0.keyRecord.state == .active }
        if active.count == 1, active[0].publicKeyHash == renewal.newKey {
            return try await end(stored, .finish, step, without: excludedNodes, by: caller, draft: draft)
        }
        draft.setEvent(.renewalStep(Self.details(.finish, of: stored, without: excludedNodes)))
        let record = recorder.auditRecord(of: draft, by: caller)
        // Late payment tokens for the old key are opened until its cut-off. Requests with an old
        // identity key would fail at once, so it must not be in use. The new one may have no use yet: the plan has
        // its proofs with Apple's certificate, and a person's statement.
        let cutOff =
            renewal.use == .processing
            ? Date(timeIntervalSince1970: (now.timeIntervalSince1970 + KeyRotations.standardCutOff).rounded(.down))
            : nil
        _ = try await rotations.finish(
            renewal.merchantIdentifier,
            KeyRotations.Finish(
                use: renewal.use, algorithm: renewal.algorithm, cutOff: cutOff, force: renewal.use == .processing,
                reason: AuditReason("renewed"), isServedElsewhere: !plans.access().permitsDecryption,
                isProven: true, newKey: renewal.newKey),
            with: (step, record), by: caller, dryRun: false, draft: draft)
    }

    private func end(
        _ stored: StoredRenewal, _ name: RenewalStepDetails.Step, _ step: AdministrativeChange.RenewalStep,
        without excludedNodes: Set<String> = [], by caller: Caller, draft: AuditDraft
    ) async throws(Refusal) {
        draft.setEvent(.renewalStep(Self.details(name, of: stored, without: excludedNodes)))
        try await apply(step, by: caller, draft: draft)
    }

    private static func details(
        _ step: RenewalStepDetails.Step, of stored: StoredRenewal, without excludedNodes: Set<String>
    ) -> RenewalStepDetails {
        RenewalStepDetails(
            step: step, renewal: AuditText(stored.identifier.hex),
            excludedNodes: excludedNodes.compactMap { AuditNode($0) })
    }

    /// Stores the certificate of the new key that Apple's list shows, if the ledger lacks it.
    ///
    /// - Returns: true if it was stored.
    private func storeListed(_ plan: RenewalPlans.Plan) async throws(Refusal) -> Bool {
        guard let stored = plan.stored, stored.renewal.state == .open, stored.certificate == nil,
            let listed = stored.renewal.certificate(in: plan.circumstances.list), let content = listed.content
        else { return false }
        let draft = AuditDraft()
        draft.setSubject(merchant: stored.renewal.merchantIdentifier)
        draft.setSubject(key: try stored.key)
        draft.setEvent(
            .renewalStep(
                RenewalStepDetails(
                    step: .find, renewal: AuditText(stored.identifier.hex), appleId: AuditText(listed.identifier),
                    certificate: AuditDigest.of(content))))
        try await apply(
            .found(id: listed.identifier, certificate: content, of: stored.identifier), by: nil, draft: draft)
        return true
    }

    func apply(
        _ step: AdministrativeChange.RenewalStep, by caller: Caller?, draft: AuditDraft
    ) async throws(Refusal) {
        var change = AdministrativeChange(at: now, records: [recorder.auditRecord(of: draft, by: caller)])
        change.renewal = step
        try await recorder.apply(change, for: draft)
    }
}

extension StoredRenewal {
    /// The new key. Every stored renewal has one.
    var key: PublicKeyHash {
        get throws(Refusal) {
            guard let key = renewal.newKey else { throw .defect }
            return key
        }
    }
}
