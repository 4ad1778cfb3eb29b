import Encodings
import Foundation
import MerchantKeys
import Refusals

/// A rotation in the words of the API: what the person who carries it out reads, the commands included. Which step is due
/// is decided by ``MerchantKeys/Rotation``; nothing is decided here.
struct RotationGuidance: Sendable {
    let rotation: Rotation

    init(_ rotation: Rotation) {
        self.rotation = rotation
    }

    private var phase: Rotation.Phase { rotation.phase }
    /// Whether its keys sign for merchant sessions; otherwise they open payment tokens.
    private var isIdentity: Bool { rotation.use == .identity }
    private var type: String { rotation.algorithm.name.lowercased() }
    private var newKey: Rotation.Key? { rotation.newKey }
    private var endingKeys: [Rotation.Key] { rotation.endingKeys }

    /// What is to be done now, in one or two sentences.
    var next: String {
        let word = ShellWord.of(rotation.merchantIdentifier)
        let merchant = word + (isIdentity ? " --use identity" : " --type \(type)")
        if let fault = newKey?.fault, phase != .none {
            return isIdentity
                ? "Leave the old key in service until this is repaired. \(fault)"
                : "Do not activate the new key's certificate before this is repaired. \(fault)"
        }
        switch phase {
        case .none:
            guard newKey != nil else {
                return
                    "No key of this merchant \(isIdentity ? "signs for sessions" : "opens tokens"), and none waits for a "
                    + "certificate."
            }
            return "No rotation is under way; paytokenctl rotate start \(merchant) begins one."
        case .certificate:
            let early = newKey?.refusedLastHour ?? 0
            guard early == 0 else {
                return "\(uses(early)) named the new key within the last hour and could not be opened. "
                    + "That is no proof, but its certificate may be activated already: import it at once, paytokenctl rotate "
                    + "import FILE."
            }
            guard !isIdentity else {
                return "Upload the request in Apple's developer portal as a Merchant Identity Certificate of "
                    + "\(rotation.merchantIdentifier), and import what you download: paytokenctl rotate import FILE. It "
                    + "signs from then on. (paytokenctl rotate start \(merchant) writes the request again.)"
            }
            return "Upload the request in Apple's developer portal as a Payment Processing Certificate of "
                + "\(rotation.merchantIdentifier), do not activate it yet, and import what you download: paytokenctl "
                + "rotate import FILE. (paytokenctl rotate start \(merchant) writes the request again.)"
        case .activation where isIdentity:
            return
                "Ask for a session (paytokenctl session check \(word) --domain DOMAIN): the new key "
                + "has signed nothing yet"
                + (rotation.oldInLastHour == 0
                    ? "." : "; the old one made \(uses(rotation.oldInLastHour)) within the last hour.")
        case .activation:
            return "Activate the certificate in Apple's developer portal. The new key has opened no token yet"
                + (rotation.oldInLastHour == 0
                    ? "." : "; the old one opened \(uses(rotation.oldInLastHour)) within the last hour.")
        case .overlap:
            return "Wait: the old key \(made) \(uses(rotation.oldInLastHour)) within the last hour, the last one at "
                + "\(lastUnderOld)."
        case .finish:
            return "Deactivate the old key: paytokenctl rotate finish \(merchant)."
        case .cutOff:
            let end = endingKeys.last?.keyRecord.cutOff?.formatted(.iso8601) ?? "its cut-off"
            guard let newKey else {
                return "This merchant has no active \(rotation.algorithm.name) key: late tokens are opened until "
                    + "\(end), and none from then on. paytokenctl rotate start \(merchant) makes a new key."
            }
            guard newKey.isProven else {
                return "Activate the new key's certificate in Apple's developer portal before \(end): it has opened no "
                    + "token yet, and from then on the old one opens none."
            }
            return "Nothing: late tokens under the old key are opened until \(end). From then on it can be destroyed "
                + "(paytokenctl key destroy)."
        }
    }

    /// What a step is, and how it is or was done.
    func text(of step: RotationStep) -> String {
        let isDone = step.status == .done
        switch step.name {
        case .generate:
            return newKey.map { "New key \($0.short), since \($0.keyRecord.createdAt.formatted(.iso8601))" }
                ?? "New key"
        case .certificate:
            guard isDone, let end = newKey?.entry?.certificate?.notAfter else {
                return "Apple's certificate for it: upload the request, then rotate import"
            }
            return "Apple's certificate for it, until \(end.formatted(.iso8601))"
        case .activate where isIdentity:
            return isDone ? "In use: the new key signs" : "First session with the new key"
        case .activate:
            return isDone
                ? "Activated in Apple's developer portal: the new key opens tokens"
                : "Activate the certificate in Apple's developer portal"
        case .drain:
            guard isDone else {
                return "Wait until the old key has \(made) no \(isIdentity ? "signature" : "token") for an hour"
            }
            let late = endingKeys.reduce(0) { $0 + $1.lastHour.count }
            return late == 0
                ? "No \(isIdentity ? "signature made" : "token opened") with the old key for an hour"
                : "Not waited for: \(uses(late)) opened with the old key within the last hour"
        case .finish:
            return isDone ? "Old key deactivated" : "Deactivate the old key: rotate finish"
        case .cutOff:
            guard !isIdentity else { return "The old key signs nothing any more; then key destroy" }
            let end = endingKeys.last?.keyRecord.cutOff.map { " (\($0.formatted(.iso8601)))" } ?? ""
            return "The old key opens late tokens until its cut-off\(end); then key destroy"
        }
    }

    // MARK: Warnings

    /// What a person should know besides, a sentence each.
    var warnings: [String] {
        let faults = ([newKey].compactMap { $0 } + rotation.oldKeys).compactMap { key in
            key.fault.map { "Key \(key.short): \($0)" }
        }
        let leftOver =
            rotation.leftOver.isEmpty
            ? nil
            : "Generated and without a certificate too: "
                + "\(rotation.leftOver.map(\.short).joined(separator: ", "))."
        return faults + [missingInHSMTokens, unverified, leftOver].compactMap { $0 }
            + rotation.silentKeys.map(warning(ofSilent:))
    }

    private func warning(ofSilent key: Rotation.Key) -> String {
        if key.refusedLastHour > 0 {
            return
                "\(uses(key.refusedLastHour)) named the \(key.keyRecord.state.rawValue) key \(key.short) within "
                + "the last hour and could not be opened (unverified: Apple does not sign which key a token names)."
        }
        if key.keyRecord.state == .suspended {
            return "Key \(key.short) is suspended: paytokenctl key resume \(key.short), or key retire."
        }
        guard key.keyRecord.use == .processing else {
            return "Key \(key.short) is retired and can be destroyed: paytokenctl key destroy \(key.short)."
        }
        return "Key \(key.short) is past its cut-off and can be destroyed: paytokenctl key destroy \(key.short)."
    }

    /// A generated key is in one HSM token. Where the key that it replaces is in several, the merchant loses the
    /// redundancy that they gave.
    private var missingInHSMTokens: String? {
        guard let newKey, let held = newKey.entry?.hsmTokens, !held.isEmpty else { return nil }
        let replaced = Set((rotation.oldKeys + endingKeys).flatMap { $0.entry?.hsmTokens ?? [] })
        let missing = replaced.subtracting(held).sorted()
        guard !missing.isEmpty else { return nil }
        return "The new key \(newKey.short) is in \(held.joined(separator: ", ")) and not in "
            + "\(missing.joined(separator: ", ")), where the old one is: while \(held.joined(separator: ", ")) "
            + "\(held.count == 1 ? "is" : "are") away, the new key opens nothing. Before its certificate is activated, copy "
            + "it with the HSM vendor's cloning, or rotate to a key from a file instead: paytokenctl key import with "
            + "--token for each."
    }

    /// Refused payment tokens prove nothing, but may be worth a look.
    private var unverified: String? {
        let counts = [("new", [newKey].compactMap { $0 }), ("old", rotation.oldKeys)].compactMap { name, keys in
            let count = keys.reduce(0) { $0 + $1.refusedLastHour }
            return count == 0 ? nil : "\(uses(count)) that named the \(name) key"
        }
        guard rotation.isUnderWay, phase != .certificate, !counts.isEmpty else { return nil }
        return "Refused within the last hour and not counted: \(counts.joined(separator: ", ")) (unverified: Apple "
            + "does not sign which key a token names)."
    }

    // MARK: Refusals

    func refusal(_ error: RotationFinishError) -> Refusal {
        let anyway = "or finish with --force."
        switch error {
        case .noOldKey:
            return Refusal(
                .invalidState,
                "Merchant \(rotation.merchantIdentifier) has no old \(rotation.algorithm.name) key to deactivate.",
                details: next)
        case .newKeyNotActive:
            return Refusal(
                .invalidState,
                "The new key has no certificate yet, so the old one is still needed. Import it first (rotate import).")
        case .transition(let error):
            return error.refusal
        case .newKeyFault(let newKey, let fault):
            return Refusal(
                .invalidState,
                "The new key \(newKey.short) \(isIdentity ? "signs" : "opens") nothing now, so the old one is still needed. Repair that first.",
                details: fault)
        case .oldKeyHasYoungerCertificate(let old, let new):
            return Refusal(
                .invalidState,
                "Key \(old.short), which came earlier, has a younger certificate than \(new.short), so it is not "
                    + "certain which of them Apple uses. Retire the right one by its name: paytokenctl key retire KEY.")
        case .oldKeyInUse:
            return Refusal(
                .invalidState,
                "The old key \(made) \(uses(rotation.oldInLastHour)) within the last hour, the last one at "
                    + "\(lastUnderOld). Wait until it has \(made) none for an hour, \(anyway)",
                details: rotation.oldKeys.filter { $0.lastHour.count > 0 }.map(\.short).joined(separator: ", "))
        case .newKeyUnproven(let newKey):
            return Refusal(
                .invalidState,
                (isIdentity
                    ? "The new key has signed nothing yet. Ask for a session with it first (paytokenctl session check), "
                    : "The new key has opened no token yet. Activate its certificate in Apple's developer portal first, ")
                    + anyway, details: newKey.short)
        }
    }

    private var lastUnderOld: String { rotation.lastUnderOld?.formatted(.iso8601) ?? "an unknown time" }

    private func uses(_ count: Int) -> String {
        "\(count) \(isIdentity ? "signature" : "token")\(count == 1 ? "" : "s")"
    }

    /// What the key did with them.
    private var made: String { isIdentity ? "made" : "opened" }
}
