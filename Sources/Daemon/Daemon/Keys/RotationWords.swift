import DaemonAPI
import Encodings
import Foundation
import KeyTypes
import MerchantKeys
import Refusals

// The sentences that describe a rotation to people, as the API returns them. Programs read the phase, the steps and the
// keys instead.

extension Rotation {
    private var isIdentity: Bool { use == .identity }
    private var isGooglePay: Bool { use == .googlePay }

    /// The sentence that tells the operator what to do next in the rotation.
    var next: String {
        if let fault = newKey?.fault, phase != .none { return "Repair the new key first. \(fault)" }
        return switch phase {
        case .none where newKey == nil && isGooglePay:
            "No Google Pay key of this merchant is in service, and none waits."
        case .none where newKey == nil: "No key of this merchant is in service, and none waits for a certificate."
        case .none: "No rotation is under way; POST /v1/rotations begins one."
        case .proof:
            "Prove the new key on \((newKey?.unprovedNodes ?? []).joined(separator: ", ")): POST /v1/keys/{key}/proofs."
        case .console: "Add the new key's public half in Google's console, then POST /v1/rotations/added."
        case .certificate: "Have Apple certify the new key's request, then POST /v1/rotations/certificate."
        case .activation where isIdentity: "Use the new key for a merchant session."
        case .activation where isGooglePay: "Have site and apps send the new public key."
        case .activation: "Activate the new key's certificate in Apple's developer portal."
        case .overlap where isGooglePay:
            "Wait: the old key counts as unused from \(unusedFrom), if no payment comes before."
        case .finish where isGooglePay: "Remove the old key in Google's console, then POST /v1/rotations/removed."
        case .overlap: "Wait until the old key has \(madeNone) for an hour."
        case .finish: "POST /v1/rotations/{merchant}/finish deactivates the old key."
        case .cutOff where newKey == nil: "No active key is left; POST /v1/rotations makes one."
        case .cutOff where newKey?.isProven == false && isGooglePay:
            "Have site and apps send the new public key before the old key's cut-off."
        case .cutOff where newKey?.isProven == false:
            "Activate the new key's certificate in Apple's developer portal before the old key's cut-off."
        case .cutOff: "Nothing. After its cut-off the old key can be destroyed."
        }
    }

    func text(of step: RotationStep.Name) -> String {
        switch step {
        case .generate: "The new key is made"
        case .certificate: "Apple's certificate for it is imported"
        case .prove: "Every node proves the new key"
        case .console: "The public key is added in Google's console"
        case .activate where isGooglePay: "Site and apps send the new public key"
        case .activate: isIdentity ? "The new key signs" : "The certificate is activated in Apple's developer portal"
        case .drain where isGooglePay: "The old key is unused for the time of google_pay.quiet"
        case .drain: "The old key has \(madeNone) for an hour"
        case .finish where isGooglePay: "The old key is removed in Google's console and deactivated"
        case .finish: "The old key is deactivated"
        case .cutOff: "The old key's cut-off has passed"
        }
    }

    // MARK: Notes

    /// The sentences about faults, unused keys and refused payment tokens, which the API returns in addition to
    /// ``next``.
    var remarks: [String] {
        let faults = ([newKey].compactMap { $0 } + oldKeys).compactMap { key in
            key.fault.map { "Key \(key.short): \($0)" }
        }
        let others = leftOver.map(\.short).joined(separator: ", ")
        let remark =
            others.isEmpty
            ? nil : "Also \(isGooglePay ? "not in use yet" : "generated and without a certificate"): \(others)."
        return faults + [missingInHSMTokens, unverified, remark, reminder].compactMap { $0 }
            + silentKeys.map(remark(onSilent:))
    }

    /// The reminder to replace a Google Pay key that will soon be a year old; nil if none is due.
    private var reminder: String? {
        let entries = [newKey?.entry].compactMap { $0 } + oldKeys.compactMap(\.entry)
        return GooglePayRotation.reminders(entries).first.flatMap { reminder in
            reminder.days(at: now).map { _ in
                "Google asks for a new key each year: key \(reminder.publicKeyHash.hex.prefix(16)) is a year old at "
                    + "\(RFC3339.string(reminder.due))."
            }
        }
    }

    private func remark(onSilent key: Key) -> String {
        if key.refusedLastHour > 0 {
            let name = "the \(key.keyRecord.state.rawValue) key \(key.short)"
            return isGooglePay
                ? "\(uses(key.refusedLastHour)) that \(name) opened were refused within the last hour."
                : "\(uses(key.refusedLastHour)) named \(name) within the last hour and could not be opened\(Self.unsigned)."
        }
        if key.keyRecord.state == .suspended { return "Key \(key.short) is suspended: resume or retire it." }
        return
            "Key \(key.short) is \(key.keyRecord.use.restores ? "past its cut-off" : "retired") and can be destroyed."
    }

    /// A warning if an HSM token has the old key but not the new key; nil otherwise. A generated key is in one HSM
    /// token only, so it opens nothing while that HSM token is unavailable.
    private var missingInHSMTokens: String? {
        guard let newKey, let held = newKey.entry?.hsmTokens, !held.isEmpty else { return nil }
        let replaced = Set((oldKeys + endingKeys).flatMap { $0.entry?.hsmTokens ?? [] })
        let missing = replaced.subtracting(held).sorted()
        guard !missing.isEmpty else { return nil }
        return "The new key \(newKey.short) is in \(held.joined(separator: ", ")) but not in "
            + "\(missing.joined(separator: ", ")), which has the old key: while \(held.joined(separator: ", ")) "
            + "\(held.count == 1 ? "is" : "are") unavailable, the new key opens nothing. Copy it with the HSM vendor's "
            + "cloning before \(isGooglePay ? "site and apps send it" : "activating its certificate"), or rotate to a key from a "
            + "file, imported into each of them."
    }

    /// A sentence with the counts of refused payment tokens; nil if there were none. The counts prove nothing, but may
    /// point to a problem. Only for Google Pay is it certain which key a refused payment token was for.
    private var unverified: String? {
        let counts = [("new", [newKey].compactMap { $0 }), ("old", oldKeys)].compactMap { name, keys in
            let count = keys.reduce(0) { $0 + $1.refusedLastHour }
            let named = isGooglePay ? "that the \(name) key opened" : "that named the \(name) key"
            return count == 0 ? nil : "\(uses(count)) \(named)"
        }
        guard isUnderWay, phase != .certificate, !counts.isEmpty else { return nil }
        return "Refused within the last hour and not counted: \(counts.joined(separator: ", "))"
            + "\(isGooglePay ? "" : Self.unsigned)."
    }

    private static let unsigned = " (unverified: Apple does not sign which key a payment token names)"

    // MARK: Refusals

    func refusal(_ error: RotationFinishError) -> Refusal {
        let anyway = isGooglePay ? "or record the removal with force." : "or finish with force."
        switch error {
        case .noOldKey:
            return Refusal(
                .invalidState, "Merchant \(merchantIdentifier) has no old \(algorithm.name) key to deactivate.",
                details: next)
        case .notOld(let hash):
            return Refusal(
                .invalidState,
                "Key \(hash.hex.prefix(16)) is not an active key that a newer active key replaces. To stop a key without a "
                    + "successor, retire it.", details: next)
        case .newKeyNotActive where isGooglePay:
            return Refusal(
                .invalidState, "The new key is not in use yet, so the old one is still needed.", details: next)
        case .newKeyNotActive:
            return Refusal(
                .invalidState,
                "The new key has no certificate yet, so the old one is still needed. Import the certificate first.")
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
                "Key \(old.short) is older than \(new.short) but has a newer certificate, so it is not certain which of "
                    + "them Apple uses. Retire the right one by its publicKeyHash.")
        case .oldKeyInUse(let keys) where isGooglePay:
            return Refusal(
                .invalidState,
                "Site or apps still send the old key, or it was not watched for long enough: it counts as unused from "
                    + "\(unusedFrom). If it was removed in Google's console all the same, add it there again, \(anyway)",
                details: keys.map(\.short).joined(separator: ", "))
        case .oldKeyInUse(let keys):
            return Refusal(
                .invalidState,
                "The old key \(useVerb) \(uses(oldInLastHour)) within the last hour, the last one at "
                    + "\(lastUnderOld?.formatted(.iso8601) ?? "an unknown time"). Wait until it has \(useVerb) none for an "
                    + "hour, \(anyway)",
                details: keys.map(\.short).joined(separator: ", "))
        case .newKeyUnproven(let newKey) where isGooglePay:
            return Refusal(
                .invalidState,
                "The new key has opened no message yet. Have site and apps send its public key first, \(anyway)",
                details: newKey.short)
        case .newKeyUnproven(let newKey):
            return Refusal(
                .invalidState,
                (isIdentity
                    ? "The new key has signed nothing yet. Request a merchant session with it first, "
                    : "The new key has opened no payment token yet. Activate its certificate in Apple's developer portal first, ")
                    + anyway, details: newKey.short)
        }
    }

    /// The time from which all old keys count as unused.
    private var unusedFrom: String { oldKeys.compactMap(\.unusedFrom).max().map(RFC3339.string) ?? "an unknown time" }

    private func uses(_ count: Int) -> String {
        "\(count) \(isIdentity ? "signature" : "payment token")\(count == 1 ? "" : "s")"
    }

    /// The verb for the uses of the keys in sentences: an identity key "made" signatures, and a merchant key "opened"
    /// payment tokens.
    private var useVerb: String { isIdentity ? "made" : "opened" }
    private var madeNone: String { isIdentity ? "made no signature" : "opened no payment token" }
}
