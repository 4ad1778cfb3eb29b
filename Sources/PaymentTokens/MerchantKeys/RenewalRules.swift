public import Foundation
import KeyTypes
import PortalRequests

extension Renewal {
    /// Returns the next step: the first one in the order of a renewal that is not done.
    ///
    /// 1. The key is proved on every required node before a certificate exists, and again with the certificate before the
    ///    activation.
    /// 2. Before a certificate is requested, exactly one is in use at Apple that ends in more than
    ///    ``shortestValidity``, or the key is active here. For a certificate that is created while none is in use is
    ///    used at once.
    /// 3. After an unknown answer only reads follow, until ``Attempt/certainAt(at:)``. Then a person decides, by the attempt's number.
    /// 4. Nothing happens to the old key before the new one has opened payment tokens on every required node (no identity
    ///    key does), a person has made a test, and Apple's list shows the new certificate in use.
    /// 5. A node is left out only with the approval of a change, and while it is down. After the last change before the end,
    ///    that approval counts.
    public func next(_ circumstances: RenewalCircumstances) -> RenewalStep {
        switch state {
        case .abandoned: return .done
        case .finished: return circumstances.isRevocationWanted ? revocation(circumstances) : .done
        case .open: break
        }
        guard newKey != nil else { return .generateKey }
        guard let keyState = circumstances.keyState, [.preActivation, .active].contains(keyState) else {
            return .stop(.keyState(circumstances.keyState))
        }
        if let attempt = unanswered(at: circumstances.now) {
            return .awaitAnswer(attempt.change, number: attempt.number)
        }
        // Once wallets use the certificate, waiting for a proof would only delay its import.
        let isActivated = isActivated(circumstances)
        let known = knownCertificate(circumstances)
        let excluded = excludedNodes(circumstances)
        guard !circumstances.requiredNodes.isSubset(of: excluded) else { return .stop(.noRequiredNode) }
        if !isActivated {
            guard circumstances.hsmTokensWithoutKey.isEmpty else {
                return .distribute(hsmTokens: circumstances.hsmTokensWithoutKey)
            }
            let nodes = circumstances.unprovedNodes(withCertificate: false, without: excluded)
            guard nodes.isEmpty else { return .prove(nodes: nodes, withCertificate: false) }
        }
        guard let certificate = known else { return creation(circumstances) }
        guard circumstances.hasCertificate, keyState == .active else { return .importCertificate(id: certificate) }
        if isActivated { return watching(circumstances, without: excluded) }
        let nodes = circumstances.unprovedNodes(withCertificate: true, without: excluded)
        guard nodes.isEmpty else { return .prove(nodes: nodes, withCertificate: true) }
        guard use == .identity else { return activation(of: certificate, circumstances) }
        return ending(circumstances)
    }

    // MARK: Steps

    private func creation(_ circumstances: RenewalCircumstances) -> RenewalStep {
        guard circumstances.hasRequest else { return .makeRequest }
        guard let list = circumstances.freshList(after: attempts.last) else { return .read }
        guard list.appleId != nil else { return .stop(.merchantNotListed) }
        guard !circumstances.hasCertificate else { return .stop(.notListed(id: nil)) }
        let last = attempts.last { $0.change == .create }
        let step = stepAfterLastAttempt(at: .create, circumstances)
        // A forgotten attempt may have led to a certificate that the list lacks: one of an abandoned renewal of this key, or
        // one that followed the copy from which the ledger was restored.
        let isRestored = circumstances.restoreFence.map { fence in last.map { $0.intendedAt < fence } ?? true } ?? false
        // One whose outcome is unknown is named itself.
        let isInDoubt = last.map { [.intended, .unknown].contains($0.outcome) } ?? false
        if !isInDoubt, isRestored || circumstances.hasEarlierCreation && last == nil {
            if case .find? = step { return .find(.create) }
            let isDecided = circumstances.repeatedAttempt.map { $0 == (.create, 0) } ?? false
            guard isDecided else { return .decideCreation(isRestored: isRestored) }
        } else if let step {
            return step
        }
        // A certificate for which Apple does not say that it is unused counts as used, and makes the case uncertain.
        let inUse = list.entries.filter { isOfThisType($0) && $0.mayBeInUse }
        if use == .identity, inUse.count >= Self.largestIdentityCount {
            return .stop(.identityCertificatesExhausted)
        }
        let previous = inUse.count == 1 && inUse[0].isActivated == true ? inUse[0] : nil
        let lasts = circumstances.now.addingTimeInterval(Self.shortestValidity)
        let isReplacement = previous.map { $0.isOfItsType && ($0.notAfter ?? .distantPast) > lasts } ?? false
        return .create(
            number: nextNumber(.create), previous: previous?.identifier,
            isUsedAtOnce: use == .processing && !isReplacement)
    }

    private func activation(of certificate: String, _ circumstances: RenewalCircumstances) -> RenewalStep {
        guard let list = circumstances.freshList(after: attempts.last) else { return .read }
        guard list.entries.contains(where: { $0.identifier == certificate }) else {
            return missing(certificate, circumstances)
        }
        guard let id = CertificateId(certificate), let type, let newKey else {
            return .stop(.notListed(id: certificate))
        }
        do throws(PortalWriteRefusal) {
            try list.checkActivation(of: id, type, for: newKey, now: circumstances.now)
        } catch {
            return .stop(.notActivatable(id: certificate, error))
        }
        return stepAfterLastAttempt(at: .activate, circumstances)
            ?? .activate(id: certificate, number: nextNumber(.activate))
    }

    private func watching(_ circumstances: RenewalCircumstances, without excluded: Set<String>) -> RenewalStep {
        let nodes = circumstances.requiredNodes.subtracting(excluded).subtracting(circumstances.nodesWithPayments)
            .sorted()
        guard nodes.isEmpty else {
            let alarm = circumstances.activatedAt?.addingTimeInterval(Self.alarmTime) ?? .distantFuture
            return .watch(
                nodes: nodes, isAlarming: circumstances.nodesWithPayments.isEmpty && alarm <= circumstances.now)
        }
        return ending(circumstances)
    }

    private func ending(_ circumstances: RenewalCircumstances) -> RenewalStep {
        guard circumstances.isTestPaymentMade else { return .makeTestPayment }
        // In the portal, another certificate may have been activated since, or this one revoked.
        guard let list = circumstances.freshList(after: nil) else { return .read }
        guard use == .identity else {
            return listed(in: list).contains { $0.isActivated == true } ? .finish : .find(.activate)
        }
        guard certificate(in: list) == nil else { return .finish }
        return missing(knownCertificate(circumstances), circumstances)
    }

    /// Returns the step while Apple's list has no certificate with this id: it may lack a new one for a while.
    private func missing(_ certificate: String?, _ circumstances: RenewalCircumstances) -> RenewalStep {
        let certainAt = attempts.last { $0.change == .create }?.certainAt(at: circumstances.now)
        return circumstances.now < certainAt ?? .distantPast ? .find(.create) : .stop(.notListed(id: certificate))
    }

    private func revocation(_ circumstances: RenewalCircumstances) -> RenewalStep {
        if let attempt = unanswered(at: circumstances.now) {
            return .awaitAnswer(attempt.change, number: attempt.number)
        }
        guard let previous = previousCertificateId, previous != certificateId else {
            return .stop(.notRevocable(id: previousCertificateId))
        }
        guard attempts.last(where: { $0.change == .revoke })?.outcome != .accepted else { return .done }
        // The old certificate is the way back if the new key was compromised since.
        guard circumstances.keyState == .active else { return .stop(.keyState(circumstances.keyState)) }
        guard let list = circumstances.freshList(after: attempts.last) else { return .read }
        let same = list.entries.filter { $0.identifier == previous }
        if same.isEmpty, attempts.contains(where: { $0.change == .revoke }) { return .done }
        guard let id = CertificateId(previous), let type, let old = same.first?.publicKeyHash, old != newKey,
            (try? list.checkRevocation(of: id, type, for: old)) != nil
        else { return .stop(.notRevocable(id: previous)) }
        return stepAfterLastAttempt(at: .revoke, circumstances)
            ?? .revoke(id: previous, number: nextNumber(.revoke))
    }

    /// Returns the step to take after the last attempt at a change; nil if the next attempt may begin. The list is fresh
    /// and does not show the change.
    private func stepAfterLastAttempt(at change: Change, _ circumstances: RenewalCircumstances) -> RenewalStep? {
        guard let last = attempts.last(where: { $0.change == change }) else { return nil }
        switch last.outcome {
        case .notSent:
            let unsent = attempts.filter { $0.change == change }.reversed().prefix { $0.outcome == .notSent }.count
            guard unsent >= Self.largestUnsentCount else { return nil }
        case .accepted: return .find(change)
        case .intended, .unknown:
            let certainAt = last.certainAt(at: circumstances.now) ?? .distantPast
            guard circumstances.now >= certainAt else { return .find(change) }
        case .refused: break
        }
        let outcome = last.outcome == .intended ? .unknown : last.outcome
        if let repeated = circumstances.repeatedAttempt, repeated == (change, last.number) { return nil }
        return .decideRepeat(change, number: last.number, outcome)
    }

    // MARK: Facts

    /// Returns true if wallets use the new certificate, by an answer of Apple or by its list.
    public func isActivated(_ circumstances: RenewalCircumstances) -> Bool {
        guard use == .processing else { return false }
        return attempts.contains { $0.change == .activate && $0.outcome == .accepted }
            || listed(in: circumstances.list).contains { $0.isActivated == true }
    }

    /// The id of the new certificate, from Apple's answer or its list; nil if there is none yet.
    private func knownCertificate(_ circumstances: RenewalCircumstances) -> String? {
        certificateId ?? listed(in: circumstances.list).first?.identifier
    }

    /// Returns the nodes that the renewal goes on without. A node that is up may meet the new key's payments at any time, so
    /// it is not among them, although people may have approved a change without it while it was down.
    public func excludedNodes(_ circumstances: RenewalCircumstances) -> Set<String> {
        guard circumstances.isBegun else { return circumstances.excludedNodes }
        // Apple uses every identity certificate that it lists, so no activation is approved.
        let isLastChangeMade =
            isActivated(circumstances) || use == .identity && knownCertificate(circumstances) != nil
        let approved = isLastChangeMade ? nodesExcludedFromLastChange : circumstances.excludedNodes
        return approved.subtracting(circumstances.upNodes)
    }

    /// The nodes without which the last change before the end was approved: the activation, or the creation of a certificate
    /// that was not activated here. None if neither was made here.
    private var nodesExcludedFromLastChange: Set<String> {
        func last(_ change: Change) -> Attempt? {
            attempts.last { $0.change == change && $0.outcome != .refused && $0.outcome != .notSent }
        }
        return (last(.activate) ?? last(.create))?.excludedNodes ?? []
    }

    /// The new key's certificates of this renewal's type in a list of Apple.
    public func listed(in list: PortalList?) -> [PortalList.Entry] {
        (list?.entries ?? []).filter { $0.publicKeyHash == newKey && $0.isOfItsType && isOfThisType($0) }
    }

    /// The new key's certificate in a list of Apple; nil if the list has none, or not the one that is known.
    public func certificate(in list: PortalList?) -> PortalList.Entry? {
        listed(in: list).first { certificateId == nil || $0.identifier == certificateId }
    }

    /// Returns the one certificate of this renewal's type that wallets use; of several identity certificates, the one that
    /// ends last. Nil if none is in use, or a processing certificate leaves the case uncertain.
    public func certificateInUse(in list: PortalList?) -> PortalList.Entry? {
        let inUse = (list?.entries ?? []).filter { isOfThisType($0) && $0.mayBeInUse }
        guard use == .identity || inUse.count == 1 && inUse[0].isActivated == true else { return nil }
        return inUse.max { ($0.notAfter ?? .distantFuture) < ($1.notAfter ?? .distantFuture) }
    }

    /// True if Apple may have created a certificate by one of the attempts.
    public var hasPossibleCreation: Bool {
        attempts.contains {
            $0.change == .create && [Attempt.Outcome.intended, .accepted, .unknown].contains($0.outcome)
        }
    }

    private var type: CertificateType? { CertificateType(use: use, algorithm: algorithm) }

    private func isOfThisType(_ entry: PortalList.Entry) -> Bool { entry.type == type?.rawValue }

    private func nextNumber(_ change: Change) -> Int { attempts.count { $0.change == change } + 1 }

    /// The attempt whose answer may still arrive; nil if there is none.
    private func unanswered(at now: Date) -> Attempt? {
        attempts.last { $0.mayBeAnswered(at: now) }
    }

    // MARK: Attempts

    /// Begins an attempt. The ledger calls this in the transaction that stores the attempt, so of two operators with the
    /// same step, one begins it.
    ///
    /// - Parameters:
    ///   - number: the number from the step.
    ///   - certificate: the id of the certificate that is activated or revoked.
    ///   - previous: the certificate in use, from the step ``RenewalStep/create(number:previous:isUsedAtOnce:)``.
    public mutating func begin(
        _ change: Change, number: Int, certificate: String? = nil, previous: String? = nil,
        excludedNodes: Set<String> = [], at now: Date
    ) throws(RenewalConflict) {
        guard state == (change == .revoke ? .finished : .open) else { throw .notOpen(state) }
        if let attempt = unanswered(at: now) { throw .unanswered(attempt.change, number: attempt.number) }
        guard number == nextNumber(change) else { throw .otherNumber(nextNumber(change)) }
        if let last = attempts.last(where: { $0.change == change }) {
            switch last.outcome {
            case .accepted: throw .alreadyAccepted
            case .intended, .unknown: if let end = last.certainAt(at: now), now < end { throw .inDoubt(until: end) }
            case .refused, .notSent: break
            }
        }
        // The step was decided on a list. Another call may have stored a certificate since.
        let isSame =
            switch change {
            case .create: certificateId == nil
            case .activate: certificate != nil && certificate == certificateId
            case .revoke: certificate != nil && certificate == previousCertificateId && certificate != certificateId
            }
        guard isSame else { throw .otherCertificate }
        attempts.append(
            Attempt(
                change: change, number: number, intendedAt: now, outcome: .intended, excludedNodes: excludedNodes))
        if change == .create, let previous { previousCertificateId = previous }
    }

    /// Stores the answer to an attempt. An answer that arrives after the attempt counted as unknown is stored too.
    ///
    /// - Parameter certificateId: the id of the certificate that Apple created; nil for every other answer.
    public mutating func answer(
        _ change: Change, number: Int, _ outcome: Attempt.Outcome, certificateId: String? = nil, at now: Date
    ) throws(RenewalConflict) {
        guard let index = attempts.firstIndex(where: { $0.change == change && $0.number == number }) else {
            throw .unknown
        }
        let before = attempts[index].outcome
        guard before == .intended || before == .unknown, before != outcome else { throw .answered(before) }
        (attempts[index].outcome, attempts[index].answeredAt) = (outcome, now)
        if change == .create, outcome == .accepted, let certificateId { found(certificateId: certificateId) }
    }

    /// Stores the id of the new certificate, which Apple's list shows.
    public mutating func found(certificateId: String) { self.certificateId = self.certificateId ?? certificateId }

    /// Ends the renewal after its last step.
    public mutating func finish() throws(RenewalConflict) {
        guard state == .open else { throw .notOpen(state) }
        state = .finished
    }

    /// Gives the renewal up. Refused while a request may be under way, or its effect may still appear in Apple's list: a new
    /// renewal of the key would request a second certificate.
    public mutating func abandon(at now: Date) throws(RenewalConflict) {
        guard state == .open else { throw .notOpen(state) }
        for attempt in attempts {
            let mayAppear =
                switch attempt.outcome {
                case .intended, .unknown: true
                case .accepted: attempt.change == .create
                case .refused, .notSent: false
                }
            if mayAppear, let end = attempt.certainAt(at: now), now < end { throw .inDoubt(until: end) }
        }
        state = .abandoned
    }
}
