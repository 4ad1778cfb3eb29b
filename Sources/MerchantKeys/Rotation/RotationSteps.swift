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
    /// All steps in their order; none where no rotation is under way.
    public var steps: [RotationStep] {
        guard isUnderWay else { return [] }
        let turn: RotationStep.Name =
            switch phase {
            case .none, .certificate: .certificate
            case .activation: .activate
            case .overlap: .drain
            case .finish: .finish
            case .cutOff: .cutOff
            }
        var status = RotationStep.Status.done
        return RotationStep.Name.allCases.map { name in
            if name == turn { status = .next }
            defer { if status == .next { status = .open } }
            return RotationStep(name: name, status: status, text: text(of: name, status))
        }
    }

    private func text(of name: RotationStep.Name, _ status: RotationStep.Status) -> String {
        switch name {
        case .generate:
            return newKey.map { "New key \($0.short), since \($0.record.createdAt.formatted(.iso8601))" } ?? "New key"
        case .certificate:
            guard status == .done, let end = newKey?.entry?.certificate?.notAfter else {
                return "Apple's certificate for it: upload the request, then rotate import"
            }
            return "Apple's certificate for it, until \(end.formatted(.iso8601))"
        case .activate:
            return status == .done
                ? "Activated in Apple's developer portal: tokens arrive under the new key"
                : "Activate the certificate in Apple's developer portal"
        case .drain:
            guard status == .done else { return "Wait until no token arrives under the old key for an hour" }
            let late = endingKeys.reduce(0) { $0 + $1.lastHour.count }
            return late == 0
                ? "No token under the old key for an hour"
                : "Not waited for: \(Self.tokens(late)) under the old key within the last hour"
        case .finish:
            return status == .done ? "Old key deactivated" : "Deactivate the old key: rotate finish"
        case .cutOff:
            let end = endingKeys.last?.record.cutOff.map { " (\($0.formatted(.iso8601)))" } ?? ""
            return "The old key opens late tokens until its cut-off\(end); then key destroy"
        }
    }

    /// What is to be done now, in one or two sentences.
    public var next: String {
        let merchant = merchantIdentifier
        switch phase {
        case .none:
            guard newKey != nil else {
                return "No key of this merchant opens tokens, and none waits for a certificate."
            }
            return "No rotation is under way; paytokenctl rotate start \(merchant) begins one."
        case .certificate:
            let early = newKey.map(\.refusedLastHour) ?? 0
            guard early == 0 else {
                return "\(Self.tokens(early)) arrived under the new key within the last hour and could not be opened: "
                    + "its certificate is activated already. Import it at once: paytokenctl rotate import FILE."
            }
            return "Upload the request in Apple's developer portal as a Payment Processing Certificate of "
                + "\(merchant), do not activate it yet, and import what you download: paytokenctl rotate import FILE. "
                + "(paytokenctl rotate start \(merchant) writes the request again.)"
        case .activation:
            return "Activate the certificate in Apple's developer portal. No token has arrived under the new key yet"
                + (oldInLastHour == 0
                    ? "." : "; \(Self.tokens(oldInLastHour)) did under the old one within the last hour.")
        case .overlap:
            return
                "Wait: \(Self.tokens(oldInLastHour)) arrived under the old key within the last hour, the last one at "
                + "\(lastUnderOld?.formatted(.iso8601) ?? "an unknown time")."
        case .finish:
            return "Deactivate the old key: paytokenctl rotate finish \(merchant)."
        case .cutOff:
            let end = endingKeys.last?.record.cutOff?.formatted(.iso8601) ?? "its cut-off"
            return "Nothing: late tokens under the old key are opened until \(end). From then on it can be destroyed "
                + "(paytokenctl key destroy)."
        }
    }

    /// What a person should know besides.
    public var remarks: [String] {
        var remarks: [String] = []
        for key in [newKey].compactMap({ $0 }) + oldKeys {
            guard let entry = key.entry, let why = entry.condition.explanation else { continue }
            remarks.append("Key \(key.short): \(why)")
        }
        if !leftOver.isEmpty {
            remarks.append(
                "Generated earlier and without a certificate too: \(leftOver.map(\.short).joined(separator: ", ")).")
        }
        return remarks
    }

    /// How many tokens the old keys opened within the last hour.
    public var oldInLastHour: Int { oldKeys.reduce(0) { $0 + $1.lastHour.count } }

    public var lastUnderOld: Date? { oldKeys.compactMap(\.lastHour.last).max() }

    static func tokens(_ count: Int) -> String { count == 1 ? "1 token" : "\(count) tokens" }
}

extension Rotation.Key {
    /// Enough of the hash to name the key on a command line.
    public var short: String { String(publicKeyHash.hex.prefix(16)) }
}
