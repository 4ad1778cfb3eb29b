import Glibc
import Refusals

/// What nobody does alone: `approvals.people`.
struct SecondPerson: Sendable {
    /// `approvals.people`.
    let people: Int

    /// The rule binds staff, not root or the daemon's own user, who can reach token and ledger without asking.
    ///
    /// - Parameter operation: begins the sentence: `Importing a private key`.
    func judge(_ caller: Caller, wanting operation: String) throws(Refusal) {
        guard people > 1, caller.uid != 0, caller.uid != geteuid() else { return }
        throw Refusal(
            .forbidden,
            "\(operation) needs a second person, and approvals are not yet supported: let root or the daemon's own "
                + "user do it, or set approvals.people to 1.")
    }
}
