public import Foundation
public import PaymentToken

/// A difference between Apple's list of a merchant's certificates and the keys here, or a certificate that ends soon.
public struct PortalFinding: Sendable, Equatable {
    /// The raw values are part of the public contract.
    public enum Kind: String, Sendable, CaseIterable {
        /// The team has no such merchant identifier at Apple.
        case merchantNotListed = "merchant_not_listed"
        /// Wallets use a certificate whose key the ledger does not know. Payments fail.
        case activeUnknownHere = "active_unknown_here"
        /// Wallets use a certificate whose key is known here but not active for this merchant. Payments fail, at the latest
        /// at the key's cut-off.
        case activeNotActiveHere = "active_not_active_here"
        /// A processing key is active here, and Apple lists no activated certificate for it. So it is during a rotation.
        case activeHereOnly = "active_here_only"
        /// An identity key is active here, and Apple lists no certificate for it. Merchant sessions with it fail.
        case identityNotListed = "identity_not_listed"
        /// Apple does not say if wallets use the certificate, so payments may fail unnoticed.
        case activationUnknown = "activation_unknown"
        /// Apple lists a certificate that wallets do not use, and the ledger does not know its key.
        case unknownHere = "unknown_here"
        case endsIn60Days = "ends_in_60_days"
        case endsIn30Days = "ends_in_30_days"
        case endsIn15Days = "ends_in_15_days"
        case oneKeyTwoCertificates = "one_key_two_certificates"
        /// The certificate is not what its type at Apple says, or is another merchant's. If wallets may use it, payments
        /// fail.
        case wrongType = "wrong_type"

        /// The severity, unless a finding has a higher one.
        fileprivate var severity: Severity {
            switch self {
            case .activeUnknownHere, .activeNotActiveHere, .endsIn15Days: .critical
            case .merchantNotListed, .activeHereOnly, .identityNotListed, .activationUnknown, .unknownHere,
                .endsIn30Days, .oneKeyTwoCertificates, .wrongType:
                .warning
            case .endsIn60Days: .note
            }
        }
    }

    /// The number of days before a certificate's end from which it is a finding, and a renewal is due.
    public static let earliestWarning = 60.0

    public enum Severity: String, Sendable, CaseIterable {
        case critical
        case warning
        case note
    }

    public let kind: Kind
    /// The id of Apple's resource; nil for a finding about a key that Apple does not list.
    public let certificateId: String?
    public let publicKeyHash: PublicKeyHash?
    /// One sentence for a person.
    public let text: String
    public let severity: Severity

    /// - Parameter severity: nil for the severity of the kind.
    fileprivate init(
        _ kind: Kind, _ severity: Severity? = nil, of certificateId: String?, _ publicKeyHash: PublicKeyHash?,
        _ text: String
    ) {
        self.kind = kind
        self.severity = severity ?? kind.severity
        self.certificateId = certificateId
        self.publicKeyHash = publicKeyHash
        self.text = text
    }
}

extension PortalList {
    /// Compares the list with the keys here.
    ///
    /// - Parameters:
    ///   - merchant: the merchant identifier that the list is of.
    ///   - keys: the keys of the merchant, and those of the listed certificates, of any merchant and use.
    ///   - servesPayments: false for a host that serves no payments, whose HSM tokens need no merchants' keys. The list is
    ///     then compared with the ledger alone.
    /// - Returns: the findings, the most severe first.
    public func findings(
        for merchant: String, keys: [KeyEntry], servesPayments: Bool = true, now: Date
    ) -> [PortalFinding] {
        guard appleId != nil else {
            return [
                PortalFinding(
                    .merchantNotListed, of: nil, nil, "The team of the API key has no merchant identifier \(merchant).")
            ]
        }
        let known = Dictionary(keys.map { ($0.publicKeyHash, $0) }) { first, _ in first }
        let merchants = entries.filter { $0.use != nil }
        var findings: [PortalFinding] = []
        for entry in merchants {
            guard entry.isOfItsType, let hash = entry.publicKeyHash, let end = entry.notAfter else {
                findings.append(
                    PortalFinding(
                        .wrongType, entry.use == .processing && entry.isActivated != false ? .critical : nil,
                        of: entry.identifier, entry.publicKeyHash,
                        "Apple lists the certificate as \(entry.type), and it is not such a certificate of \(merchant)."
                            + (entry.isActivated == true ? " Wallets use it: these payments fail." : "")))
                continue
            }
            let key = known[hash]
            findings += entry.differences(merchant, end, key, servesPayments, now)
            // A replaced identity certificate stays in the list, and its end matters to nobody.
            if entry.use == .processing || key?.state == .active { findings += entry.ends(end, now) }
        }
        findings += repeatedKeys(merchants)
        findings += keysWithoutCertificate(
            merchants, keys.filter { MerchantIdentifier.areSame($0.merchantIdentifier, merchant) }, now)
        return findings.enumerated().sorted { one, other in
            (one.element.severity.rank, one.offset) < (other.element.severity.rank, other.offset)
        }.map(\.element)
    }

    private func repeatedKeys(_ entries: [Entry]) -> [PortalFinding] {
        let byKey = Dictionary(grouping: entries.filter { $0.publicKeyHash != nil }, by: \.publicKeyHash)
        return byKey.values.filter { $0.count > 1 }
            .sorted { $0[0].identifier < $1[0].identifier }
            .map { same in
                PortalFinding(
                    .oneKeyTwoCertificates, of: same[0].identifier, same[0].publicKeyHash,
                    "Apple lists \(same.count) certificates of one key: "
                        + same.map(\.identifier).joined(separator: ", ") + ".")
            }
    }

    private func keysWithoutCertificate(_ entries: [Entry], _ keys: [KeyEntry], _ now: Date) -> [PortalFinding] {
        let listed = Set(entries.filter(\.mayBeInUse).compactMap(\.publicKeyHash))
        let active = keys.filter { $0.use.hasCertificate && $0.state == .active }
        let isAnyIdentityListed = active.contains { $0.use == .identity && listed.contains($0.publicKeyHash) }
        return active.filter { !listed.contains($0.publicKeyHash) }
            .map { key in
                key.use == .processing
                    ? PortalFinding(
                        .activeHereOnly, of: nil, key.publicKeyHash,
                        "The key is active here, and Apple lists no activated certificate for it. "
                            + "During a rotation this is so for the key that wallets do not use yet, or no longer use.")
                    : PortalFinding(
                        .identityNotListed, isAnyIdentityListed ? nil : .critical, of: nil, key.publicKeyHash,
                        "The identity key is active here, and Apple lists no certificate for it: "
                            + "merchant sessions with it fail.")
            }
    }
}

extension PortalList.Entry {
    /// True unless Apple says that wallets do not use the certificate. Apple accepts every listed identity certificate.
    var mayBeInUse: Bool { isActivated != false || use == .identity }

    /// The findings about the certificate's key. Only the key of a certificate that wallets use must decrypt here.
    ///
    /// - Parameter end: the certificate's end.
    fileprivate func differences(
        _ merchant: String, _ end: Date, _ key: KeyEntry?, _ servesPayments: Bool, _ now: Date
    ) -> [PortalFinding] {
        if use == .processing, isActivated != false {
            let failure = failure(merchant, key, servesPayments, now)
            guard isActivated == true else {
                // Without Apple's word the worse case is assumed, unless the key decrypts here.
                let consequence =
                    failure.map { "If they do, payments fail\($0.when), since \($0.reason)." }
                    ?? "If they do, its key decrypts here."
                return [
                    PortalFinding(
                        .activationUnknown, failure == nil ? nil : .critical, of: identifier, publicKeyHash,
                        "Apple does not say if wallets use this certificate. \(consequence)")
                ]
            }
            return failure.map { failure in
                [
                    PortalFinding(
                        failure.kind, of: identifier, publicKeyHash,
                        "Wallets use this certificate, and \(failure.reason): these payments fail\(failure.when).")
                ]
            } ?? []
        }
        guard key == nil || key?.condition == .external, end >= now else { return [] }
        return [
            PortalFinding(
                .unknownHere, of: identifier, publicKeyHash,
                "The ledger does not know the key of this certificate, which was requested by other means.")
        ]
    }

    /// The reason why payments fail if wallets use the certificate; nil if its key decrypts here.
    private func failure(
        _ merchant: String, _ key: KeyEntry?, _ servesPayments: Bool, _ now: Date
    ) -> (kind: PortalFinding.Kind, reason: String, when: String)? {
        guard let key, key.condition != .external else {
            return (.activeUnknownHere, "the ledger does not know its key", "")
        }
        guard MerchantIdentifier.areSame(key.merchantIdentifier, merchant) else {
            return (.activeNotActiveHere, "its key is recorded for another merchant, \(key.merchantIdentifier)", "")
        }
        guard key.state == .active else {
            let end = key.cutOff.flatMap { key.decrypts(at: now) ? $0.formatted(.iso8601) : nil }
            return (
                .activeNotActiveHere, "its key is \(key.state.rawValue) here", end.map { " from \($0) on" } ?? ""
            )
        }
        guard key.condition == .served || !servesPayments else {
            return (
                .activeNotActiveHere, "its key is \(key.condition.name) in the HSM tokens of this host", " here"
            )
        }
        return nil
    }

    /// The finding about the end of a certificate that may be in use.
    fileprivate func ends(_ end: Date, _ now: Date) -> [PortalFinding] {
        guard mayBeInUse else { return [] }
        let days = end.timeIntervalSince(now) / 86_400
        let kind: PortalFinding.Kind
        switch days {
        case ..<15: kind = .endsIn15Days
        case ..<30: kind = .endsIn30Days
        case ..<PortalFinding.earliestWarning: kind = .endsIn60Days
        default: return []
        }
        let time = end.formatted(.iso8601)
        return [
            PortalFinding(
                kind, of: identifier, publicKeyHash,
                days < 0 ? "The certificate ended on \(time)." : "The certificate ends on \(time); renew it.")
        ]
    }
}

extension PortalFinding.Severity {
    fileprivate var rank: Int {
        switch self {
        case .critical: 0
        case .warning: 1
        case .note: 2
        }
    }
}
