import DaemonAPI
import Encodings
import Foundation

/// The next step for the person who performs a rotation, including the commands. The daemon's values determine which
/// step is due.
struct RotationGuidance {
    private let rotation: RotationStatus
    /// True for keys that sign for merchant sessions; the others open payment tokens.
    private let isIdentity: Bool
    private let isGooglePay: Bool
    private let oldKeys: [RotationKey]
    private let endingKeys: [RotationKey]

    init(_ rotation: RotationStatus) {
        self.rotation = rotation
        isIdentity = rotation.use == "identity"
        isGooglePay = rotation.use == "google-pay"
        oldKeys = rotation.oldKeys.filter { $0.state == "active" }
        endingKeys = rotation.oldKeys.filter { $0.state != "active" }
    }

    /// One or two sentences; in a phase that this version does not know, the daemon's sentence.
    var next: String {
        if let fault = rotation.newKey?.fault, rotation.phase != "none" {
            return isIdentity || isGooglePay
                ? "Leave the old key in service until this is repaired. \(fault)"
                : "Do not activate the new key's certificate before this is repaired. \(fault)"
        }
        return switch rotation.phase {
        case "none": notUnderWay
        case "proof":
            "Prove the new key on \((rotation.newKey?.unprovedNodes ?? []).joined(separator: ", ")): paytokenctl key prove "
                + "\(newKey), on each of these hosts. Leave out a host that is gone: rotate added --exclude-node NODE."
        case "console":
            "Add the new key in Google's console (paytokenctl key public-key \(newKey)), then: paytokenctl rotate added "
                + "\(newKey)."
        case "overlap" where isGooglePay:
            "Wait: the old key counts as unused from \(unusedFrom), if no payment comes before."
        case "finish" where isGooglePay:
            "Remove the old key in Google's console, then: paytokenctl rotate removed \(oldKeys.first.map(Self.short) ?? "KEY")."
        case "certificate": certificate
        case "activation": activation
        case "overlap":
            "Wait: the old key \(made) \(uses(oldInLastHour)) within the last hour, the last one at "
                + "\(oldKeys.compactMap(\.lastUse).max().map(RFC3339.string) ?? "an unknown time")."
        case "finish": "Deactivate the old key: paytokenctl rotate finish \(merchant)."
        case "cut-off": cutOff
        default: rotation.next
        }
    }

    private var notUnderWay: String {
        if isGooglePay, rotation.newKey == nil {
            return "No Google Pay key of this merchant is in service; paytokenctl rotate start \(merchant) makes one."
        }
        guard rotation.newKey != nil else {
            return
                "No key of this merchant \(isIdentity ? "signs for sessions" : "opens tokens"), and none waits for a "
                + "certificate."
        }
        guard !isGooglePay else {
            return
                "No rotation is under way. Site and apps send the key that paytokenctl key public-key \(newKey) prints; "
                + "paytokenctl rotate start \(merchant) begins one."
        }
        return "No rotation is under way; paytokenctl rotate start \(merchant) begins one."
    }

    private var certificate: String {
        let early = rotation.newKey?.refusedLastHour ?? 0
        guard early == 0 else {
            return
                "\(uses(early)) named the new key within the last hour and could not be opened. That is no proof, but its "
                + "certificate may be activated already: import it at once, paytokenctl rotate import FILE."
        }
        return "Upload the request in Apple's developer portal as a "
            + "\(isIdentity ? "Merchant Identity" : "Payment Processing") Certificate of \(rotation.merchantIdentifier), "
            + (isIdentity ? "" : "do not activate it yet, ")
            + "and import what you download: paytokenctl rotate import FILE. "
            + (isIdentity ? "It signs from then on. " : "")
            + "(paytokenctl rotate start \(merchant) writes the request again.)"
    }

    private var activation: String {
        let todo =
            isGooglePay
            ? "Have site and apps send the new public key (GET /v1/google-pay/public-key, or paytokenctl key public-key "
                + "\(newKey)). It has opened no message yet"
            : isIdentity
                ? "Ask for a session (paytokenctl session check \(ShellWord.of(rotation.merchantIdentifier)) --domain DOMAIN): the "
                    + "new key has signed nothing yet"
                : "Activate the certificate in Apple's developer portal. The new key has opened no payment token yet"
        return todo + (oldInLastHour == 0 ? "." : "; the old one \(made) \(uses(oldInLastHour)) within the last hour.")
    }

    private var cutOff: String {
        let end = endingKeys.last?.cutOff.map(RFC3339.string) ?? "its cut-off"
        guard rotation.newKey != nil else {
            return
                "This merchant has no active \(rotation.algorithm) key: late payment tokens are opened until \(end), and none "
                + "from then on. paytokenctl rotate start \(merchant) makes a new key."
        }
        // The old key was deactivated before the new one had opened a payment token.
        guard !rotation.steps.contains(where: { $0.name == "activate" && $0.status == "next" }) else {
            return
                (isGooglePay
                ? "Have site and apps send the new public key"
                : "Activate the new key's certificate in Apple's developer portal")
                + " before \(end): it has opened no payment token "
                + "yet, and from then on the old one opens none."
        }
        return
            "Nothing: late payment tokens under the old key are opened until \(end). From then on it can be destroyed "
            + "(paytokenctl key destroy)."
    }

    /// A step, with its progress or result.
    func text(of step: RotationStatus.Step) -> String {
        let isDone = step.status == "done"
        switch step.name {
        case "generate":
            return rotation.newKey.map {
                "New key \(KeyReference.short(base64: $0.publicKeyHash)), since \(RFC3339.string($0.createdAt))"
            } ?? "New key"
        case "certificate":
            guard isDone, let end = rotation.newKey?.notAfter else {
                return "Apple's certificate for it: upload the request, then rotate import"
            }
            return "Apple's certificate for it, until \(RFC3339.string(end))"
        case "prove":
            return isDone ? "Every node proved the new key" : "Prove the new key on each host: key prove"
        case "console":
            return isDone ? "In Google's console, as a person stated" : "Add it in Google's console, then rotate added"
        case "activate" where isGooglePay:
            return isDone
                ? "Site and apps send it: the new key opens messages" : "Switch site and apps to the new public key"
        case "drain" where isGooglePay:
            guard isDone else { return "Wait until the old key is unused (google_pay.quiet), by \(unusedFrom)" }
            // The removal may have been forced, so it shows nothing about the old key's use.
            guard rotation.phase == "cut-off" else { return "The old key is unused" }
            let late = endingKeys.reduce(0) { $0 + $1.openedLastHour }
            return "Ended by the removal"
                + (late == 0 ? "" : "; \(uses(late)) opened with the old key within the last hour")
        case "finish" where isGooglePay:
            return isDone
                ? "Old key removed in Google's console" : "Remove the old key in Google's console, then rotate removed"
        case "activate" where isIdentity:
            return isDone ? "In use: the new key signs" : "First session with the new key"
        case "activate":
            return isDone
                ? "Activated in Apple's developer portal: the new key opens payment tokens"
                : "Activate the certificate in Apple's developer portal"
        case "drain":
            guard isDone else {
                return "Wait until the old key has \(made) no \(isIdentity ? "signature" : "token") for an hour"
            }
            let late = endingKeys.reduce(0) { $0 + $1.openedLastHour }
            return late == 0
                ? "No \(isIdentity ? "signature made" : "token opened") with the old key for an hour"
                : "Not waited for: \(uses(late)) \(made) with the old key within the last hour"
        case "finish": return isDone ? "Old key deactivated" : "Deactivate the old key: rotate finish"
        case "cut-off":
            guard !isIdentity else { return "The old key signs nothing any more; then key destroy" }
            let end = endingKeys.last?.cutOff.map { " (\(RFC3339.string($0)))" } ?? ""
            return "The old key opens late payment tokens until its cut-off\(end); then key destroy"
        default: return step.text
        }
    }

    /// The merchant as arguments of a command, with the options that distinguish this rotation from the merchant's
    /// others.
    private var merchant: String {
        ShellWord.of(rotation.merchantIdentifier)
            + (isIdentity
                ? " --use identity"
                : isGooglePay ? " --wallet google-pay" : " --type \(rotation.algorithm.lowercased())")
    }

    private var newKey: String { rotation.newKey.map(Self.short) ?? "KEY" }
    private static func short(_ key: RotationKey) -> String { KeyReference.short(base64: key.publicKeyHash) }

    /// The time from which all old Google Pay keys count as unused.
    private var unusedFrom: String { oldKeys.compactMap(\.unusedFrom).max().map(RFC3339.string) ?? "an unknown time" }

    private var oldInLastHour: Int { oldKeys.reduce(0) { $0 + $1.openedLastHour } }

    private func uses(_ count: Int) -> String {
        "\(count) \(isIdentity ? "signature" : "token")\(count == 1 ? "" : "s")"
    }

    /// The verb for the key's operation.
    private var made: String { isIdentity ? "made" : "opened" }
}
