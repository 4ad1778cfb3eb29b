import DaemonAPI
import Encodings
import Foundation
import Testing

@testable import paytokenctl

/// The instructions that paytokenctl derives from the daemon's state of a rotation.
@Suite("Instructions for a rotation")
struct RotationGuidanceTests {
    private static let noon = RFC3339.date("2027-01-15T12:00:00Z") ?? .distantPast

    private static func key(
        _ state: String = "active", opened: Int = 0, refused: Int = 0, cutOff: Date? = nil, fault: String? = nil
    ) -> RotationKey {
        RotationKey(
            publicKeyHash: Sample.hash, state: state, condition: "served", createdAt: noon, notAfter: noon,
            cutOff: cutOff,
            tokens: ["primary"], openedLastHour: opened, lastUse: opened == 0 ? nil : noon, refusedLastHour: refused,
            fault: fault)
    }

    private static func guidance(
        _ phase: String, merchant: String = "m", use: String = "processing", new: RotationKey? = key(),
        old: [RotationKey] = [], steps: [(String, String)] = []
    ) -> RotationGuidance {
        RotationGuidance(
            RotationStatus(
                merchantIdentifier: merchant, algorithm: "EC", use: use, phase: phase, next: "the daemon's words",
                newKey: new, oldKeys: old,
                steps: steps.map { RotationStatus.Step(name: $0.0, status: $0.1, text: "a later step") }, remarks: []))
    }

    @Test("names the next command in each phase, with the option that selects the rotation among the merchant's")
    func commands() {
        let old = Self.key(opened: 5)
        #expect(Self.guidance("none").next.contains("paytokenctl rotate start m --type ec begins one"))
        let waiting = Self.guidance("certificate", new: Self.key("pre-activation"), old: [old]).next
        #expect(waiting.contains("Payment Processing Certificate of m, do not activate it yet"))
        #expect(waiting.contains("paytokenctl rotate import FILE. (paytokenctl rotate start m --type ec"))
        let activation = Self.guidance("activation", old: [old]).next
        #expect(activation.contains("Activate the certificate in Apple's developer portal"))
        #expect(activation.hasSuffix("; the old one opened 5 tokens within the last hour."))
        let overlap = Self.guidance("overlap", old: [old, Self.key(opened: 1)]).next
        #expect(overlap.hasPrefix("Wait: the old key opened 6 tokens") && overlap.hasSuffix("2027-01-15T12:00:00Z."))
        #expect(Self.guidance("finish", old: [old]).next.hasSuffix("paytokenctl rotate finish m --type ec."))
        #expect(Self.guidance("a phase of tomorrow").next == "the daemon's words")
    }

    @Test("describes the upload and the signatures of identity keys")
    func identity() {
        let old = Self.key(opened: 1)
        let waiting = Self.guidance("certificate", use: "identity", old: [old]).next
        #expect(waiting.contains("Merchant Identity Certificate") && waiting.contains("It signs from then on."))
        let activation = Self.guidance("activation", use: "identity", old: [old]).next
        #expect(activation.contains("paytokenctl session check m --domain DOMAIN"))
        #expect(activation.contains("the old one made 1 signature within"))
        #expect(Self.guidance("finish", use: "identity").next.contains("rotate finish m --use identity"))
    }

    @Test("names the next command of a Google Pay key's rotation in each phase")
    func googlePay() {
        func next(
            _ phase: String, new: RotationKey = Self.key(), old: [RotationKey] = [], steps: [(String, String)] = []
        )
            -> String
        {
            Self.guidance(phase, use: "google-pay", new: new, old: old, steps: steps).next
        }
        var waiting = Self.key("pre-activation")
        waiting.unprovedNodes = ["host-1", "host-2"]
        var old = Self.key(opened: 2)
        old.unusedFrom = Self.noon
        #expect(next("none").contains("paytokenctl rotate start m --wallet google-pay begins one"))
        #expect(
            next("proof", new: waiting)
                == "Prove the new key on host-1, host-2: paytokenctl key prove 00010203, on each of these hosts. "
                + "Leave out a host that is gone: rotate added --exclude-node NODE.")
        #expect(
            next("console").hasSuffix("(paytokenctl key public-key 00010203), then: paytokenctl rotate added 00010203.")
        )
        let activation = next("activation", old: [old])
        #expect(activation.hasPrefix("Have site and apps send the new public key"))
        #expect(activation.hasSuffix("; the old one opened 2 tokens within the last hour."))
        #expect(next("overlap", old: [old]).contains("counts as unused from 2027-01-15T12:00:00Z"))
        #expect(next("finish", old: [old]).hasSuffix("then: paytokenctl rotate removed 00010203."))
        let ending = Self.key("deactivated", cutOff: Self.noon)
        #expect(
            next("cut-off", old: [ending], steps: [("activate", "next")])
                .hasPrefix("Have site and apps send the new public key before 2027"))
        #expect(next("activation", new: Self.key(fault: "Away.")).hasPrefix("Leave the old key in service"))
    }

    @Test("does not call an old Google Pay key unused after its removal, which may have been forced")
    func forcedRemoval() {
        func drain(_ phase: String, _ old: RotationKey) -> String {
            Self.guidance(phase, use: "google-pay", old: [old])
                .text(of: RotationStatus.Step(name: "drain", status: "done", text: ""))
        }
        #expect(drain("finish", Self.key()) == "The old key is unused")
        #expect(drain("cut-off", Self.key("deactivated", cutOff: Self.noon)) == "Ended by the removal")
        #expect(
            drain("cut-off", Self.key("deactivated", opened: 2, cutOff: Self.noon))
                == "Ended by the removal; 2 tokens opened with the old key within the last hour")
    }

    @Test("quotes a merchant identifier in a command as one shell word")
    func quoted() {
        let next = Self.guidance("none", merchant: "m; id").next
        #expect(next.contains("paytokenctl rotate start 'm; id' --type ec"))
    }

    @Test("reports payment tokens for a key without its certificate as a sign, not proof, of a premature activation")
    func early() {
        let next = Self.guidance("certificate", new: Self.key("pre-activation", refused: 4)).next
        #expect(next.hasPrefix("4 tokens named the new key") && next.contains("activated already"))
        #expect(next.contains("no proof") && next.contains("paytokenctl rotate import FILE"))
    }

    @Test("warns against activating a faulty new key, and against retiring the old identity key before it works")
    func fault() {
        let away = Self.key(fault: "No token shows it.")
        let processing = Self.guidance("activation", new: away).next
        #expect(processing.hasPrefix("Do not activate") && processing.hasSuffix("No token shows it."))
        #expect(Self.guidance("activation", use: "identity", new: away).next.hasPrefix("Leave the old key in service"))
        #expect(Self.guidance("none", new: away).next.contains("No rotation is under way"))
    }

    @Test("names what remains to be done before a cut-off: nothing, an activation, or a new key")
    func cutOff() {
        let old = Self.key("deactivated", opened: 3, cutOff: Self.noon)
        let proven = Self.guidance("cut-off", old: [old], steps: [("activate", "done"), ("cut-off", "next")])
        #expect(
            proven.next.hasPrefix(
                "Nothing: late payment tokens under the old key are opened until 2027-01-15T12:00:00Z."))
        let missed = Self.guidance("cut-off", old: [old], steps: [("activate", "next"), ("cut-off", "open")])
        #expect(missed.next.hasPrefix("Activate the new key's certificate in Apple's developer portal before 2027"))
        let alone = Self.guidance("cut-off", new: nil, old: [old]).next
        #expect(alone.contains("no active EC key") && alone.contains("rotate start m --type ec makes a new key"))
        func text(_ name: String, _ status: String) -> String {
            proven.text(of: RotationStatus.Step(name: name, status: status, text: "a later step"))
        }
        #expect(text("generate", "done") == "New key 00010203, since 2027-01-15T12:00:00Z")
        #expect(text("certificate", "done") == "Apple's certificate for it, until 2027-01-15T12:00:00Z")
        #expect(text("drain", "done") == "Not waited for: 3 tokens opened with the old key within the last hour")
        #expect(text("cut-off", "next").contains("its cut-off (2027-01-15T12:00:00Z); then key destroy"))
        #expect(text("tomorrow", "open") == "a later step")
    }
}
