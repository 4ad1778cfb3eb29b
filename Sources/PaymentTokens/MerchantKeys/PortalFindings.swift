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
        /// A key is active here, and Apple lists no certificate in use for it. So it is during a rotation.
        case activeHereOnly = "active_here_only"
        /// Apple lists a certificate that wallets do not use, and the ledger does not know its key.
        case unknownHere = "unknown_here"
        case endsIn60Days = "ends_in_60_days"
        case endsIn30Days = "ends_in_30_days"
        case endsIn15Days = "ends_in_15_days"
        case oneKeyTwoCertificates = "one_key_two_certificates"
        /// The certificate is not what its type at Apple says, or is another merchant's.
        case wrongType = "wrong_type"

        public var severity: Severity {
            switch self {
            case .activeUnknownHere, .activeNotActiveHere, .endsIn15Days: .critical
            case .merchantNotListed, .activeHereOnly, .unknownHere, .endsIn30Days, .oneKeyTwoCertificates, .wrongType:
                .warning
            case .endsIn60Days: .note
            }
        }
    }

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
}

extension PortalList {
    /// Compares the list with the keys here.
    ///
    /// - Parameters:
    ///   - merchant: the merchant identifier that the list is of.
    ///   - keys: all keys, of any merchant and use.
    ///   - servesPayments: false for a host that serves no payments, whose HSM tokens need no merchants' keys. The list is
    ///     then compared with the ledger alone.
    /// - Returns: the findings, the most severe first.
    public func findings(
        for merchant: String, keys: [KeyEntry], servesPayments: Bool = true, now: Date
    ) -> [PortalFinding] {
        guard appleId != nil else {
            return [
                PortalFinding(
                    kind: .merchantNotListed, certificateId: nil, publicKeyHash: nil,
                    text: "The team of the API key has no merchant identifier \(merchant).")
            ]
        }
        let known = Dictionary(keys.map { ($0.publicKeyHash, $0) }) { first, _ in first }
        let merchants = entries.filter { $0.use != nil }
        var findings: [PortalFinding] = []
        for entry in merchants {
            guard entry.fits(merchant), let certificate = entry.certificate else {
                findings.append(
                    PortalFinding(
                        kind: .wrongType, certificateId: entry.identifier,
                        publicKeyHash: entry.certificate?.publicKeyHash,
                        text:
                            "Apple lists the certificate as \(entry.type), and it is not such a certificate of \(merchant)."
                    ))
                continue
            }
            let key = known[certificate.publicKeyHash]
            findings += entry.differences(merchant, certificate, key, servesPayments, now)
            // A replaced identity certificate stays in the list, and its end matters to nobody.
            if entry.use == .processing || key?.state == .active { findings += entry.end(certificate, now) }
        }
        findings += repeatedKeys(merchants)
        findings += keysWithoutCertificate(merchants, keys.filter { $0.merchantIdentifier == merchant }, now)
        return findings.enumerated().sorted { one, other in
            (one.element.kind.severity.rank, one.offset) < (other.element.kind.severity.rank, other.offset)
        }.map(\.element)
    }

    private func repeatedKeys(_ entries: [Entry]) -> [PortalFinding] {
        let byKey = Dictionary(grouping: entries.filter { $0.certificate != nil }) { $0.certificate?.publicKeyHash }
        return byKey.values.filter { $0.count > 1 }
            .sorted { $0[0].identifier < $1[0].identifier }
            .map { same in
                PortalFinding(
                    kind: .oneKeyTwoCertificates, certificateId: same[0].identifier,
                    publicKeyHash: same[0].certificate?.publicKeyHash,
                    text: "Apple lists \(same.count) certificates of one key: "
                        + same.map(\.identifier).joined(separator: ", ") + ".")
            }
    }

    private func keysWithoutCertificate(_ entries: [Entry], _ keys: [KeyEntry], _ now: Date) -> [PortalFinding] {
        let inUse = Set(entries.filter(\.isInUse).compactMap { $0.certificate?.publicKeyHash })
        return keys.filter { $0.use != .service && $0.state == .active && !inUse.contains($0.publicKeyHash) }
            .map { key in
                PortalFinding(
                    kind: .activeHereOnly, certificateId: nil, publicKeyHash: key.publicKeyHash,
                    text: key.use == .processing
                        ? "The key is active here, and Apple lists no activated certificate for it. "
                            + "During a rotation this is so for the key that wallets do not use yet, or no longer use."
                        : "The identity key is active here, and Apple lists no certificate for it: "
                            + "merchant sessions with it fail.")
            }
    }
}

extension PortalList.Entry {
    /// True if the certificate is in use. Wallets use an activated one, and Apple accepts every listed identity
    /// certificate.
    fileprivate var isInUse: Bool { isActivated || use == .identity }

    /// The findings about the certificate's key. Only the key of a certificate that wallets use must decrypt here.
    fileprivate func differences(
        _ merchant: String, _ certificate: MerchantCertificate, _ key: KeyEntry?, _ servesPayments: Bool, _ now: Date
    ) -> [PortalFinding] {
        func finding(_ kind: PortalFinding.Kind, _ text: String) -> [PortalFinding] {
            [
                PortalFinding(
                    kind: kind, certificateId: identifier, publicKeyHash: certificate.publicKeyHash, text: text)
            ]
        }
        let isUsedByWallets = use == .processing && isActivated
        guard let key, key.condition != .external else {
            guard !isUsedByWallets else {
                return finding(
                    .activeUnknownHere,
                    "Wallets use this certificate, and the ledger does not know its key: these payments fail.")
            }
            return certificate.notAfter < now
                ? []
                : finding(
                    .unknownHere,
                    "The ledger does not know the key of this certificate, which was requested by other means.")
        }
        guard isUsedByWallets else { return [] }
        guard key.merchantIdentifier == merchant else {
            return finding(
                .activeNotActiveHere,
                "Wallets use this certificate, and its key is recorded for another merchant, "
                    + "\(key.merchantIdentifier): these payments fail.")
        }
        guard key.state == .active else {
            let end = key.cutOff.flatMap { key.decrypts(at: now) ? $0.formatted(.iso8601) : nil }
            return finding(
                .activeNotActiveHere,
                "Wallets use this certificate, and its key is \(key.state.rawValue) here: these payments fail"
                    + (end.map { " from \($0) on." } ?? "."))
        }
        guard key.condition == .served || !servesPayments else {
            return finding(
                .activeNotActiveHere,
                "Wallets use this certificate, and its key is \(key.condition.name) in the HSM tokens of this host: "
                    + "these payments fail here.")
        }
        return []
    }

    /// The finding about the end of a certificate that is in use.
    fileprivate func end(_ certificate: MerchantCertificate, _ now: Date) -> [PortalFinding] {
        guard isInUse else { return [] }
        let days = certificate.notAfter.timeIntervalSince(now) / 86_400
        let kind: PortalFinding.Kind
        switch days {
        case ..<15: kind = .endsIn15Days
        case ..<30: kind = .endsIn30Days
        case ..<60: kind = .endsIn60Days
        default: return []
        }
        let end = certificate.notAfter.formatted(.iso8601)
        return [
            PortalFinding(
                kind: kind, certificateId: identifier, publicKeyHash: certificate.publicKeyHash,
                text: days < 0 ? "The certificate ended on \(end)." : "The certificate ends on \(end); renew it.")
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
