import DaemonAPI

/// The next step for a person. The daemon's types contain the facts; the sentences with `paytokenctl …` are here.
enum NextStep {
    /// The step for the requester of an import or adoption that waits for approval.
    ///
    /// - Parameter done: `imported` or `adopted`.
    static func repeatCommand(_ done: String) -> (PendingAnswer) -> String {
        { "Nothing is \(done) yet: once it is approved, repeat the same command with --approval \($0.approval)" }
    }

    /// The step after the approval of an operation that the approval itself did not carry out.
    static func afterApproval(of approval: ApprovalSummary) -> String {
        switch approval.operation {
        case "key_import": requesterRepeats("key import", approval)
        case "key_adopt_google_pay": requesterRepeats("key adopt", approval)
        case "certificate_create", "certificate_activate", "certificate_revoke":
            requesterRepeats("rotate renew", approval)
        default:
            "the node \(approval.node ?? "that received the request") carries it out within seconds; paytokenctl approval list shows when it is done"
        }
    }

    private static func requesterRepeats(_ command: String, _ approval: ApprovalSummary) -> String {
        "\(approval.requestedBy) repeats the same \(command) with --approval \(approval.approval), on the host where they asked"
    }

    /// The step for the person who moved a ledger into a database.
    static func startOnDatabase(node: String, server: String) -> String {
        "The file never serves again. In paytokend.yaml name \(server) in ledger.url, with the daemon's own role, and set "
            + "ledger.node: \(node); then paytokend --check, and start it."
    }

    /// The step for the person who replaced a ledger with a copy.
    static let acceptRestore =
        "Nothing is released from it before it is accepted. Start paytokend with --await-restore, then: paytokenctl ledger "
        + "accept-restore --reason TEXT. Then repeat each suspension and compromise of a key that was made after the copy."

    static let giveAuditorsTheKey =
        "Give auditors the new public key in addition to the old one: paytokenctl audit public-key > keys.pem"
    static let giveAuditorsTheKeyInPerson =
        "The old key does not vouch for the new one. Give auditors the new public key in person: paytokenctl audit "
        + "public-key > keys.pem"

    /// The step for a key in use whose certificate has expired, or that is due as a Google Pay key. Neither affects the key's
    /// state or readiness.
    static func replaceKey(of use: String) -> String {
        switch use {
        case "identity":
            "With an expired certificate Apple gives no merchant sessions. Renew it: paytokenctl help rotate."
        case "google-pay":
            "A Google Pay key that is a year old stops nothing, but Google asks for a new one: paytokenctl help rotate."
        default:
            "An expired certificate stops nothing here: its key still opens payment tokens that arrive, but Apple encrypts "
                + "no new ones to it. Renew it: paytokenctl help rotate."
        }
    }
}
