import AuditChain
import Refusals

// The requests of payment callers.
extension Year {
    /// The first hour of the year with requests. The first keys are made before it.
    private static let opening = 6

    /// The hours, counted from the start of the year, in which a caller replays payment tokens.
    static let burst = 240 * 24 + 13..<240 * 24 + 15

    /// Returns the weight of all requests in an hour of the year, relative to other hours.
    func weight(hour: Int) -> Double {
        guard hour >= Self.opening else { return 0 }
        let weight = callerWeights(at: start + Int64(hour) * Self.hour).reduce(0, +)
        return Self.burst.contains(hour) ? weight * 2.5 : weight
    }

    private func callerWeights(at now: Int64) -> [Double] {
        let hours = now / Self.hour
        // 1970-01-01 was a Thursday.
        let weekday = Int((hours / 24 + 4) % 7)
        return PaymentCaller.all.map { $0.weight(weekday: weekday, hour: Int(hours % 24)) }
    }

    /// Writes one record for a payment caller.
    func arrival(at now: Int64) async throws {
        let serving = nodes.indices.filter { !nodes[$0].isDown }
        let node = serving[random.below(serving.count)]
        let callerNumber = random.choice(callerWeights(at: now))
        let caller = PaymentCaller.all[callerNumber]
        if Self.burst.contains(Int((now - start) / Self.hour)), random.unit() < 0.6, !recent.isEmpty {
            return try await replay(node, now)
        }
        switch random.unit() {
        case ..<0.0025: try await summary(node, now)
        case ..<0.004:
            let code: RefusalCode = [.malformedRequest, .overloaded, .deadlineExceeded][random.below(3)]
            try await record(node, now, .request, .refused(code), caller: caller.caller)
        case ..<0.06 where caller.opensSessions: try await session(node, now, caller)
        default: try await payment(node, now, callerNumber)
        }
    }

    /// Records a summary of requests that were refused, within one minute, before they were read completely.
    private func summary(_ node: Int, _ now: Int64) async throws {
        let codes: [RefusalCode] = [.forbidden, .notFound, .methodNotAllowed, .requestTooLarge, .requestTimeout]
        var counts = [codes[random.below(codes.count)]: 1 + random.below(40)]
        counts[.forbidden, default: 0] += random.below(3)
        // The caller is a peer that no rule matches, or one with another role.
        let caller =
            random.unit() < 0.5
            ? AuditCaller(name: nil, uid: 4000 + UInt32(random.below(3)), gid: 4000)
            : AuditCaller(name: AuditText("pos-gateway"), uid: 1003, gid: 1000)
        try await record(node, now, refused: counts, by: caller)
    }

    /// Records the refused requests of the minute before as sums. Writes 1 record.
    func record(_ node: Int, _ now: Int64, refused counts: [RefusalCode: Int], by caller: AuditCaller) async throws {
        let since = nodes[node].clock((now / 60_000 - 1) * 60_000)
        guard let summary = RefusalSummary(since: since, counts: counts) else { return }
        guard try await record(node, now, .refusals(summary), summary.outcome, caller: caller) != nil else { return }
        truth.refusalSummaries.records += 1
        for (code, count) in summary.counts { truth.refusalSummaries.refusals[code.rawValue, default: 0] += count }
    }

    private func session(_ node: Int, _ now: Int64, _ caller: PaymentCaller) async throws {
        guard let identity else { return try await payment(node, now, 0) }
        let details = TLSSignatureDetails(
            algorithm: AuditText("rsa_pss_rsae_sha256"), input: random.digest(), reference: random.digest())
        let isRefused = now < nodes[node].workerAwayUntil || random.unit() < 0.004
        _ = try await use(
            node, now, .tlsSignature(details), isRefused ? .refused(.hsmUnavailable) : .ok, caller,
            merchant: identity.merchant, key: identity.hash, usesToken: !isRefused)
    }

    private func payment(_ node: Int, _ now: Int64, _ caller: Int) async throws {
        let merchant = random.choice(merchants.map(\.share))
        let former = merchants[merchant].formerShare(at: now)
        let isLate = former > 0 && random.unit() < former
        guard let key = isLate ? merchants[merchant].former : merchants[merchant].current else {
            throw YearFailure("\(merchants[merchant].identifier) has no key yet")
        }
        switch random.unit() {
        case ..<0.011: try await again(node, now, caller)
        case ..<0.0117: try await replay(node, now)
        default: try await payment(node, now, caller, key, refused: chance())
        }
    }

    /// Returns a random reason to refuse a payment token; nil most of the time.
    private func chance() -> RefusalCode? {
        let chances: [(RefusalCode, Double)] = [
            (.signingTimeOutsideWindow, 0.0015), (.unknownPublicKeyHash, 0.0012), (.signatureInvalid, 0.001),
            (.malformedToken, 0.0008), (.amountMismatch, 0.0005), (.merchantMismatch, 0.0004),
            (.overloaded, 0.0003), (.certificateUntrusted, 0.0002), (.hsmUnavailable, 0.0002),
            (.deadlineExceeded, 0.0002), (.currencyMismatch, 0.0001), (.applicationDataMismatch, 0.0001),
            (.decryptionFailed, 0.0001),
        ]
        var left = random.unit()
        for (code, chance) in chances {
            left -= chance
            if left < 0 { return code }
        }
        return nil
    }

    /// Records the release or the refusal of a payment token that is encrypted to `key`.
    func payment(
        _ node: Int, _ now: Int64, _ callerNumber: Int, _ key: MerchantKey, refused: RefusalCode? = nil
    ) async throws {
        let caller = PaymentCaller.all[callerNumber]
        let (reference, transaction) = (random.digest(), random.digest())
        let event = AuditEvent.decrypt(reference: reference)
        let standing = nodes[node]
        // The daemon checks these conditions in the same order.
        let code: RefusalCode? =
            if refused == .malformedToken || refused == .signatureInvalid || refused == .certificateUntrusted {
                refused
            } else if standing.refusesBySigningTime {
                .signingTimeOutsideWindow
            } else if refused == .signingTimeOutsideWindow || refused == .unknownPublicKeyHash {
                refused
            } else if !key.opens(at: now) {
                .keyNotActive
            } else if now < standing.servedFrom {
                .transactionReplayed
            } else if now < standing.workerAwayUntil {
                .hsmUnavailable
            } else {
                refused
            }
        switch code {
        case .malformedToken:
            _ = try await use(node, now, event, .refused(.malformedToken), caller)
        case .unknownPublicKeyHash:
            // The unknown keys are those of two other merchants.
            let unknown = AuditDigest.of("\(seed) unknown \(random.below(2))".utf8)
            _ = try await use(
                node, now, event, .refused(.unknownPublicKeyHash), caller, key: unknown, transaction: transaction)
        case .signatureInvalid?, .certificateUntrusted?, .signingTimeOutsideWindow?:
            _ = try await use(
                node, now, event, .refused(code ?? .internalError), caller, key: key.hash, transaction: transaction)
        case .amountMismatch?, .currencyMismatch?:
            // The daemon finds these mismatches only after it has decrypted the payment token.
            _ = try await use(
                node, now, event, .refused(code ?? .internalError), caller, merchant: key.merchant, key: key.hash,
                transaction: transaction, protection: key.protection, usesToken: true)
        case .some(let code):
            _ = try await use(
                node, now, event, .refused(code), caller, merchant: key.merchant, key: key.hash,
                transaction: transaction)
        case nil:
            let isKept = try await use(
                node, now, event, .ok, caller, merchant: key.merchant, key: key.hash, transaction: transaction,
                protection: key.protection, usesToken: true)
            guard isKept else { return }
            if key.succeededAt != nil { key.life.usesAfterSuccession += 1 }
            if key.state == .deactivated {
                key.life.releasesAfterSupersession += 1
                totals.countSuperseded(key: key.hash, caller: caller.name)
            }
            remember(Release(transaction: transaction, reference: reference, caller: callerNumber, key: key, time: now))
        }
    }

    /// The milliseconds in which the daemon answers a repeated request (`ledger.repeat_for`).
    private static let repeatFor: Int64 = 600_000

    /// Records a caller's repeated request. If no release can be repeated, records a new release instead.
    private func again(_ node: Int, _ now: Int64, _ caller: Int) async throws {
        let standing = nodes[node]
        guard !standing.refusesBySigningTime, now >= standing.servedFrom, now >= standing.workerAwayUntil,
            let release = recent.last(where: {
                $0.caller == caller && $0.key.opens(at: now) && now - $0.time <= Self.repeatFor
            })
        else {
            guard let key = merchants[0].current else { return }
            return try await payment(node, now, caller, key)
        }
        let isKept = try await use(
            node, now, .decrypt(reference: release.reference), .repeated, PaymentCaller.all[caller],
            merchant: release.key.merchant, key: release.key.hash, transaction: release.transaction,
            protection: release.key.protection, usesToken: true)
        guard isKept else { return }
        if release.key.succeededAt != nil { release.key.life.usesAfterSuccession += 1 }
        guard release.key.state == .deactivated else { return }
        release.key.life.repeatsAfterSupersession += 1
        totals.countSuperseded(key: release.key.hash, caller: PaymentCaller.all[caller].name)
    }

    /// Records the refusal of a payment token that was already released, which a caller sends for another order.
    func replay(_ node: Int, _ now: Int64) async throws {
        let caller = PaymentCaller.all[1]
        let reference = random.digest()
        let standing = nodes[node]
        let known = recent.isEmpty ? nil : recent[random.below(recent.count)]
        guard let release = known, release.key.opens(at: now), !standing.refusesBySigningTime,
            now >= standing.workerAwayUntil
        else {
            guard let key = merchants[0].current else { return }
            return try await payment(node, now, 1, key)
        }
        let isKept = try await use(
            node, now, .decrypt(reference: reference), .refused(.transactionReplayed), caller,
            merchant: release.key.merchant, key: release.key.hash, transaction: release.transaction,
            protection: release.key.protection, usesToken: true)
        if isKept, Self.burst.contains(Int((now - start) / Self.hour)) { truth.burstReplays += 1 }
    }
}
