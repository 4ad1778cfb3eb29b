import DaemonAPI
import Foundation
import KeyTypes
import MerchantKeys

// The sentences that describe a renewal to people, as the API returns them. Programs read the step and the nodes
// instead.

/// The steps of a renewal in their order, as a plan lists them.
enum RenewalPlanStep: String, CaseIterable {
    case generate
    case distribute
    case prove
    case create
    case importCertificate = "import"
    case proveWithCertificate = "prove_with_certificate"
    case activate
    case watch
    case finish

    var text: String {
        switch self {
        case .generate: "The new key is made"
        case .distribute: "Every HSM token of this node that has the old key has the new one"
        case .prove: "Every node has proved the new key"
        case .create: "Apple has issued its certificate"
        case .importCertificate: "The certificate is imported"
        case .proveWithCertificate: "Every node has proved the new key with the certificate"
        case .activate: "Wallets use the certificate"
        case .watch: "The new key has opened payment tokens"
        case .finish: "The old key is deactivated"
        }
    }

    /// The steps of a renewal of this use. Identity certificates are not activated, and open no payment tokens.
    static func all(of use: KeyUse) -> [RenewalPlanStep] {
        allCases.filter { use == .processing || $0 != .activate && $0 != .watch }
    }
}

extension RenewalStep {
    /// The step's name in the API.
    var name: String {
        switch self {
        case .generateKey: "generate"
        case .distribute: "distribute"
        case .prove(_, let withCertificate): withCertificate ? "prove_with_certificate" : "prove"
        case .makeRequest: "request"
        case .read: "read"
        case .awaitAnswer: "await_answer"
        case .find: "find"
        case .decideRepeat, .decideCreation: "decide_repeat"
        case .create: "create"
        case .importCertificate: "import"
        case .activate: "activate"
        case .watch: "watch"
        case .makeTestPayment: "make_test_payment"
        case .finish: "finish"
        case .revoke: "revoke"
        case .stop: "stop"
        case .done: "done"
        }
    }

    /// The place in the list of steps; nil if the step has none, since the renewal has not begun or must be repaired.
    ///
    /// - Parameter hasCertificate: true if the new key has its certificate here.
    func place(hasCertificate: Bool) -> RenewalPlanStep? {
        switch self {
        case .read: hasCertificate ? .activate : .create
        case .makeTestPayment: .finish
        case .makeRequest: .create
        case .generateKey, .stop, .done, .revoke, .awaitAnswer, .find, .decideRepeat, .decideCreation: nil
        default: RenewalPlanStep(rawValue: name)
        }
    }

    /// Returns the sentence that tells the operator what happens next.
    ///
    /// - Parameters:
    ///   - isStored: true if the renewal was begun here. Then daemons take its steps, and no sentence sends the
    ///     operator to the portal, where one person acts alone.
    ///   - use: the use of the renewed key.
    func next(isStored: Bool, of use: KeyUse = .processing) -> String {
        if use == .identity, self == .makeTestPayment {
            return "Request a merchant session with the new key on each node"
                + (isStored ? ", then state that you have (testPaymentMade)." : ".")
        }
        return isStored ? storedNext ?? plannedNext : plannedNext
    }

    /// The sentence for a renewal that was begun here; nil if it is that of a plan.
    private var storedNext: String? {
        switch self {
        case .prove(let nodes, let withCertificate):
            "Wait until \(nodes.joined(separator: ", ")) prove the new key"
                + (withCertificate ? " with Apple's certificate" : "") + "; each daemon does so by itself."
        case .read: "Wait until the outbound program has read Apple's list."
        case .create(_, let previous, false):
            "Apple certifies the new key's request. Wallets go on with "
                + (previous.map { "certificate \($0)" } ?? "the certificates that they use")
                + " until the new one is activated."
        case .create(_, _, true):
            "The new key becomes active here, and Apple certifies its request. Wallets may use the certificate at once, since "
                + "there is not exactly one in use with more than a week left."
        case .find: "Wait: Apple's list does not show the change yet, and the outbound program reads it again."
        case .importCertificate(let id): "Wait until the daemons with merchants' keys have imported certificate \(id)."
        case .activate(let id, _): "Wallets use certificate \(id) from its activation on. This cannot be undone."
        case .watch(let nodes, let isAlarming):
            "Wait for payments: the new key has opened no payment token on \(nodes.joined(separator: ", "))."
                + (isAlarming ? " Wallets have used its certificate for half an hour; find out where they fail." : "")
        case .makeTestPayment: "Make a test payment on each node, then state that you have (testPaymentMade)."
        case .finish: "Repeat this: it deactivates the old key."
        case .revoke(let id, _): "Certificate \(id) is revoked, which wallets no longer use. This cannot be undone."
        default: nil
        }
    }

    /// The sentence for a renewal whose steps a person takes.
    private var plannedNext: String {
        switch self {
        case .generateKey: "Make a new key: none waits."
        case .distribute(let hsmTokens):
            "Copy the new key with the HSM vendor's cloning to these HSM tokens of this node: "
                + "\(hsmTokens.joined(separator: ", "))."
        case .prove(let nodes, let withCertificate):
            (withCertificate ? "Import Apple's certificate and prove the new key on " : "Prove the new key on ")
                + nodes.joined(separator: ", ")
                + (withCertificate ? " before the certificate is activated." : " before Apple certifies it.")
        case .makeRequest: "Wait until a node with the new key has made its certificate request."
        case .read: "Read Apple's list."
        case .awaitAnswer(let change, let number): "Wait for Apple's answer to attempt \(number) to \(change.rawValue)."
        case .find: "Read Apple's list again: it does not show the change yet."
        case .decideCreation(let isRestored):
            (isRestored
                ? "The ledger was restored from a copy, and may lack a request for a certificate of this key. "
                : "An earlier renewal of this key may have requested a certificate that Apple's list lacks. ")
                + "If the portal lacks a certificate of the key too, decide if attempt 0 to create is repeated."
        case .decideRepeat(let change, let number, let outcome):
            "Decide if attempt \(number) to \(change.rawValue) is repeated; its outcome is \(outcome.rawValue)."
        case .create(_, let previous?, false):
            "Have Apple certify the new key's request. Wallets go on with certificate \(previous) until the new one is "
                + "activated."
        case .create(_, _, true):
            "Have Apple certify the new key's request, and import the certificate at once: wallets may use it "
                + "immediately, since there is not exactly one in use with more than a week left."
        case .create: "Have Apple certify the new key's request."
        case .importCertificate(let id): "Import certificate \(id)."
        case .activate(let id, _): "Activate certificate \(id) in Apple's developer portal. This cannot be undone."
        case .watch: "Wait for payments: wallets use the new certificate, and its key has opened no payment token yet."
        case .makeTestPayment: "Make a test payment on each node."
        case .finish: "Deactivate the old key."
        case .revoke(let id, _): "Revoke certificate \(id)."
        case .stop(let obstacle): obstacle.text
        case .done: "Nothing."
        }
    }
}

extension RenewalObstacle {
    /// The reason, and what to do.
    fileprivate var text: String {
        switch self {
        case .keyState(let state?): "The new key is \(state.rawValue), so it gets no certificate."
        case .keyState(nil): "The ledger does not know the new key."
        case .noRequiredNode:
            "No node is left that must prove the new key: each is excluded, or none serves payments. Exclude fewer nodes."
        case .merchantNotListed: "The team of the API's key has no such merchant identifier at Apple."
        case .notListed(let id):
            "Apple does not list \(id.map { "certificate \($0)" } ?? "the new key's certificate"). Read the list again "
                + "in half an hour; if it is still missing, it was revoked."
        case .notActivatable(let id, let refusal):
            "Certificate \(id) is not activated; see the portal, or begin with another key. \(refusal.text)"
        case .identityCertificatesExhausted:
            "Apple lists \(Renewal.largestIdentityCount) identity certificates, and permits no more; revoke one first."
        case .notRevocable(let id): "Certificate \(id ?? "of the old key") is unknown, or wallets may use it."
        }
    }
}
