public import Foundation

/// One thing that a rotation consists of.
public struct RotationStep: Sendable, Equatable {
    public enum Name: String, Sendable, CaseIterable {
        case generate
        case certificate
        case activate
        case drain
        case finish
        case cutOff = "cut-off"
    }

    public enum Status: String, Sendable, CaseIterable {
        case done
        /// It is this one's turn.
        case next
        /// Later.
        case open
    }

    public let name: Name
    public let status: Status
    /// What it is, and how it is or was done, for people.
    public let text: String
}

extension Rotation {
    /// All steps in their order; none where no rotation is under way, or a key was retired without a successor.
    public var steps: [RotationStep] {
        guard isUnderWay, newKey != nil else { return [] }
        let current: RotationStep.Name =
            switch phase {
            case .none, .certificate: .certificate
            case .activation: .activate
            case .overlap: .drain
            case .finish: .finish
            case .cutOff: .cutOff
            }
        var status = RotationStep.Status.done
        return RotationStep.Name.allCases.map { name in
            if name == current { status = .next }
            defer { if status == .next { status = .open } }
            // The old key may have been deactivated before anybody saw a token under the new one.
            let shown =
                isActivationMissed && name == .activate ? .next : isActivationMissed && name == .cutOff ? .open : status
            return RotationStep(name: name, status: shown, text: text(of: name, shown))
        }
    }

    private var isActivationMissed: Bool { phase == .cutOff && newKey?.isProven == false }

    private func text(of name: RotationStep.Name, _ status: RotationStep.Status) -> String {
        switch name {
        case .generate:
            return newKey.map { "New key \($0.short), since \($0.keyRecord.createdAt.formatted(.iso8601))" }
                ?? "New key"
        case .certificate:
            guard status == .done, let end = newKey?.entry?.certificate?.notAfter else {
                return "Apple's certificate for it: upload the request, then rotate import"
            }
            return "Apple's certificate for it, until \(end.formatted(.iso8601))"
        case .activate:
            return status == .done
                ? "Activated in Apple's developer portal: the new key opens tokens"
                : "Activate the certificate in Apple's developer portal"
        case .drain:
            guard status == .done else { return "Wait until the old key has opened no token for an hour" }
            let late = endingKeys.reduce(0) { $0 + $1.lastHour.count }
            return late == 0
                ? "No token opened with the old key for an hour"
                : "Not waited for: \(Self.paymentTokens(late)) opened with the old key within the last hour"
        case .finish:
            return status == .done ? "Old key deactivated" : "Deactivate the old key: rotate finish"
        case .cutOff:
            let end = endingKeys.last?.keyRecord.cutOff.map { " (\($0.formatted(.iso8601)))" } ?? ""
            return "The old key opens late tokens until its cut-off\(end); then key destroy"
        }
    }

    /// What is to be done now, in one or two sentences.
    public var next: String {
        let merchant = "\(merchantIdentifier) --type \(algorithm.name.lowercased())"
        if let fault = newKey?.fault, phase != .none {
            return "Do not activate the new key's certificate before this is repaired. \(fault)"
        }
        switch phase {
        case .none:
            guard newKey != nil else {
                return "No key of this merchant opens tokens, and none waits for a certificate."
            }
            return "No rotation is under way; paytokenctl rotate start \(merchant) begins one."
        case .certificate:
            let early = newKey.map(\.refusedLastHour) ?? 0
            guard early == 0 else {
                return
                    "\(Self.paymentTokens(early)) named the new key within the last hour and could not be opened. That is "
                    + "no proof, but its certificate may be activated already: import it at once, paytokenctl rotate "
                    + "import FILE."
            }
            return "Upload the request in Apple's developer portal as a Payment Processing Certificate of "
                + "\(merchantIdentifier), do not activate it yet, and import what you download: paytokenctl rotate import FILE. "
                + "(paytokenctl rotate start \(merchant) writes the request again.)"
        case .activation:
            return "Activate the certificate in Apple's developer portal. The new key has opened no token yet"
                + (oldInLastHour == 0
                    ? "." : "; the old one opened \(Self.paymentTokens(oldInLastHour)) within the last hour.")
        case .overlap:
            return
                "Wait: the old key opened \(Self.paymentTokens(oldInLastHour)) within the last hour, the last one at "
                + "\(lastUnderOld?.formatted(.iso8601) ?? "an unknown time")."
        case .finish:
            return "Deactivate the old key: paytokenctl rotate finish \(merchant)."
        case .cutOff:
            let end = endingKeys.last?.keyRecord.cutOff?.formatted(.iso8601) ?? "its cut-off"
            guard let newKey else {
                return
                    "This merchant has no active \(algorithm.name) key: late tokens are opened until \(end), and none "
                    + "from then on. paytokenctl rotate start \(merchant) makes a new key."
            }
            guard newKey.isProven else {
                return "Activate the new key's certificate in Apple's developer portal before \(end): it has opened no "
                    + "token yet, and from then on the old one opens none."
            }
            return "Nothing: late tokens under the old key are opened until \(end). From then on it can be destroyed "
                + "(paytokenctl key destroy)."
        }
    }

    /// What a person should know besides.
    public var warnings: [String] {
        var warnings: [String] = []
        for key in [newKey].compactMap({ $0 }) + oldKeys {
            guard let why = key.fault else { continue }
            warnings.append("Key \(key.short): \(why)")
        }
        warnings += [missingInTokens, unverified].compactMap { $0 }
        if !leftOver.isEmpty {
            warnings.append(
                "Generated and without a certificate too: \(leftOver.map(\.short).joined(separator: ", ")).")
        }
        for key in silentKeys {
            let refused = key.refusedLastHour
            if refused > 0 {
                warnings.append(
                    "\(Self.paymentTokens(refused)) named the \(key.keyRecord.state.rawValue) key \(key.short) within the "
                        + "last hour and could not be opened (unverified: Apple does not sign which key a token names)."
                )
            } else if key.keyRecord.state == .suspended {
                warnings.append("Key \(key.short) is suspended: paytokenctl key resume \(key.short), or key retire.")
            } else {
                warnings.append(
                    "Key \(key.short) is past its cut-off and can be destroyed: paytokenctl key destroy \(key.short).")
            }
        }
        return warnings
    }

    /// A generated key is in one token. Where the key that it replaces is in several, what those are for ends with it.
    private var missingInTokens: String? {
        guard let newKey, let held = newKey.entry?.hsmTokens, !held.isEmpty else { return nil }
        let replaced = Set((oldKeys + endingKeys).flatMap { $0.entry?.hsmTokens ?? [] })
        let missing = replaced.subtracting(held).sorted()
        guard !missing.isEmpty else { return nil }
        return "The new key \(newKey.short) is in \(held.joined(separator: ", ")) and not in "
            + "\(missing.joined(separator: ", ")), where the old one is: while \(held.joined(separator: ", ")) "
            + "\(held.count == 1 ? "is" : "are") away, the new key opens nothing. Before its certificate is activated, copy "
            + "it with the HSM vendor's cloning, or rotate to a key from a file instead: paytokenctl key import with "
            + "--token for each."
    }

    /// What is refused proves nothing, but may be worth a look.
    private var unverified: String? {
        let counts = [("new", newKey.map { [$0] } ?? []), ("old", oldKeys)].compactMap { name, keys in
            let count = keys.reduce(0) { $0 + $1.refusedLastHour }
            return count == 0 ? nil : "\(Self.paymentTokens(count)) that named the \(name) key"
        }
        guard isUnderWay, phase != .certificate, !counts.isEmpty else { return nil }
        return "Refused within the last hour and not counted: \(counts.joined(separator: ", ")) (unverified: Apple "
            + "does not sign which key a token names)."
    }

    /// How many tokens the old keys opened within the last hour.
    public var oldInLastHour: Int { oldKeys.reduce(0) { $0 + $1.lastHour.count } }

    public var lastUnderOld: Date? { oldKeys.compactMap(\.lastHour.last).max() }

    static func paymentTokens(_ count: Int) -> String { count == 1 ? "1 token" : "\(count) tokens" }
}

extension Rotation.Key {
    /// Enough of the hash to name the key on a command line.
    public var short: String { String(publicKeyHash.hex.prefix(16)) }
}
