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

// What nobody does alone. The routes ask TwoPersonRule whether an operation needs a second person; if so, the request for
// it goes to the ledger (UsageRecorder.ask) and waits. ApprovalDecisions is the second person's side: it checks who decides
// and when, and has the operation carried out in the same transaction with the decision.

/// The configuration's section `approvals`.
struct TwoPersonRule: Sendable {
    /// `approvals.people`.
    let people: Int
    /// `approvals.expire`.
    let expire: Duration

    /// The rule binds staff, not root or the daemon's own user, who can reach token and ledger without asking.
    func binds(_ caller: Caller) -> Bool {
        people > 1 && caller.uid != 0 && caller.uid != geteuid()
    }

    /// The request for an operation, as the ledger keeps it.
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
    /// The caller's person, for what one person asks and another approves, on this host or another one.
    ///
    /// The accounts' names are those that the system has now. Looking them up can block: it runs on a thread that may.
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
                "Who asks is not known: the uid \(uid) is no account of this system, and the access rule names a group "
                    + "only.",
                details: "a subordinate uid of a user namespace is no person; name the user in a rule if it is one")
        }
        guard let person else {
            throw Refusal(
                .forbidden,
                "Who asks is not known, since the login uid of the process that connected cannot be read; connect again "
                    + "and keep the process that connected running.",
                details: "it has ended, or /proc hides it from the daemon (hidepid, ProtectProc, a PID namespace)")
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

/// What an operation is done with, as one digest: what is carried out is what was approved.
struct OperationParameters: Sendable {
    private var bytes: [UInt8] = []

    init(_ operation: ApprovalOperation) {
        add(Array(operation.rawValue.utf8))
    }

    /// Each part with its length before it, so that no two lists of parts have the same bytes.
    mutating func add(_ part: [UInt8]) {
        bytes += (0..<8).map { UInt8(truncatingIfNeeded: part.count >> (56 - 8 * $0)) }
        bytes += part
    }

    mutating func add(_ part: String?) {
        add(part.map { [1] + Array($0.utf8) } ?? [0])
    }

    var digest: AuditDigest { AuditDigest.of(bytes) }
}
