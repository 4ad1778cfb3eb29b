import AccessControl
import AuditChain
import Dispatch
import Foundation
import Glibc
import HostSystem
import Ledger
import MerchantKeys
import PaymentToken
import Refusals

// Operations that take two people. The routes ask TwoPersonRule whether an operation needs a second person; if so, the
// request is stored in the ledger (UsageRecorder.ask) and waits. ApprovalDecisions is the second person's side: it
// checks who decides and when, and carries out the operation in the same transaction as the decision.

/// The configuration's section `approvals`.
struct TwoPersonRule: Sendable {
    /// `approvals.people`.
    let people: Int
    /// `approvals.expire`.
    let expire: Duration

    /// Returns true for staff if two people are required. Root and the daemon's user can reach HSM token and ledger
    /// directly, so the rule does not bind them.
    func binds(_ caller: Caller) -> Bool {
        people > 1 && caller.uid != 0 && caller.uid != geteuid()
    }

    /// The request for an operation, as stored in the ledger.
    ///
    /// - Throws: `forbidden` when the caller is an unknown person.
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
    /// Returns the caller's person, for requesting and approving on this host or another one.
    ///
    /// The account names are the system's present ones. Their look-up runs on a thread that may block.
    ///
    /// - Throws: `forbidden` when the person is unknown.
    func person() async throws(Refusal) -> PersonIdentities {
        let person = peer.person
        let (account, loginAccount) = await withCheckedContinuation { (found: CheckedContinuation<_, Never>) in
            DispatchQueue.global().async {
                let names = (Accounts.name(uid: uid), person?.loginUID.flatMap { Accounts.name(uid: $0) })
                found.resume(returning: names)
            }
        }
        // In a user namespace one account has 65,536 subordinate uids (subuid(5)), and each keeps the account's groups.
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

extension ApprovalRequest {
    init(_ approval: Approval) {
        self.init(
            approval: approval.identifier, operation: approval.operation, parameters: approval.parameters,
            reason: approval.reason, expires: AuditTime(approval.expires))
    }
}

/// An operation's parameters as one digest, so that exactly the approved operation is carried out.
struct OperationParameters: Sendable {
    private var bytes: [UInt8] = []

    init(_ operation: ApprovalOperation) {
        add(Array(operation.rawValue.utf8))
    }

    /// Each part is preceded by its length, so that no two lists of parts have the same bytes.
    mutating func add(_ part: [UInt8]) {
        bytes += (0..<8).map { UInt8(truncatingIfNeeded: part.count >> (56 - 8 * $0)) }
        bytes += part
    }

    mutating func add(_ part: String?) {
        add(part.map { [1] + Array($0.utf8) } ?? [0])
    }

    var digest: AuditDigest { AuditDigest.of(bytes) }
}
