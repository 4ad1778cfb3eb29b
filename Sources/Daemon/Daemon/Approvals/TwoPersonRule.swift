import AccessControl
import AuditChain
import DaemonConfiguration
import Dispatch
import Foundation
import Glibc
import HostSystem
import Ledger
import MerchantKeys
import PaymentToken
import Refusals

// Operations that need a second person. A route asks TwoPersonRule whether an operation needs one. If so,
// UsageRecorder.ask stores the request in the ledger, where the request waits for a decision. ApprovalDecisions handles
// the second person's decision. It checks who decides and when, and carries out the operation in the same transaction
// as the decision.

/// The rule of the configuration's section `approvals`: which callers need a second person, and for how long a request
/// stays open.
struct TwoPersonRule: Sendable {
    /// The value of `approvals.people`: the number of persons that an operation needs, 1 or 2.
    let people: Int
    /// The value of `approvals.expire`: the time after which an undecided request for approval expires.
    let expire: Duration

    /// Returns true if the caller needs a second person. Root and the daemon's user never do: they can reach the HSM token
    /// and the ledger directly, so the rule would not stop them.
    func needsSecondPerson(_ caller: Caller) -> Bool {
        people > 1 && caller.uid != 0 && caller.uid != geteuid()
    }

    /// Returns the request for an operation, to be stored in the ledger.
    ///
    /// - Throws: `forbidden` if the caller's person is unknown.
    func request(
        _ operation: ApprovalOperation, parameters: AuditDigest, key: PublicKeyHash? = nil, keyState: KeyState? = nil,
        reason: AuditReason, by caller: Caller, at now: Date
    ) async throws(Refusal) -> Approval {
        Approval(
            identifier: .random(), operation: operation, parameters: parameters, key: key, keyState: keyState,
            requester: ApprovalRequester(
                person: try await caller.person(), name: caller.name, gid: caller.gid, groups: caller.peer.groups),
            reason: reason, requestedAt: now, expires: now.addingTimeInterval(Double(expire.components.seconds)))
    }
}

extension Caller {
    /// Returns the caller's person with its account names, by which another host recognises the person.
    ///
    /// The lookup of the names may block, so it runs on a thread of a global dispatch queue.
    ///
    /// - Throws: `forbidden` if the login uid cannot be read, or if a rule admits the caller only by a group and the
    ///   caller's uid has no account.
    func person() async throws(Refusal) -> PersonIdentities {
        let person = peer.person
        let (account, loginAccount) = await withCheckedContinuation { (found: CheckedContinuation<_, Never>) in
            DispatchQueue.global().async {
                let names = (Accounts.name(uid: uid), person?.loginUID.flatMap { Accounts.name(uid: $0) })
                found.resume(returning: names)
            }
        }
        // In a user namespace, one account can use 65,536 subordinate uids (subuid(5)), all with the account's groups.
        // Without this check the account could pass as several persons.
        guard unnamedAccounts == nil || account != nil else {
            throw Refusal(
                .forbidden,
                "The requester is unknown: uid \(uid) has no account on this system, and the access rule names only "
                    + "a group.",
                details: "a subordinate uid of a user namespace is not a person; if this uid is one, name the user in "
                    + "a rule")
        }
        guard let person else {
            throw Refusal(
                .forbidden,
                "The requester is unknown: the login uid of the connecting process cannot be read. Connect again and "
                    + "keep that process running.",
                details: "the process has ended, or /proc hides it from the daemon (hidepid, ProtectProc, a PID "
                    + "namespace)")
        }
        return PersonIdentities(
            uid: person.uid, loginUID: person.loginUID, account: account, loginAccount: loginAccount)
    }
}

/// The parameters of an operation, as one digest. An approval contains the digest, so that only the approved operation
/// can be carried out with the approval.
struct OperationParameters: Sendable {
    private var bytes: [UInt8] = []

    init(_ operation: ApprovalOperation) {
        add(Array(operation.rawValue.utf8))
    }

    /// Adds a part, preceded by its length. Without the lengths, two different lists of parts could have the same
    /// bytes.
    mutating func add(_ part: [UInt8]) {
        bytes += (0..<8).map { UInt8(truncatingIfNeeded: part.count >> (56 - 8 * $0)) }
        bytes += part
    }

    mutating func add(_ part: String?) {
        add(part.map { [1] + Array($0.utf8) } ?? [0])
    }

    var digest: AuditDigest { AuditDigest.of(bytes) }
}
