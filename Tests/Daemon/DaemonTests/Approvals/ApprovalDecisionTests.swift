import AccessControl
import AuditChain
import Crypto
import Foundation
import GRDB
import Ledger
import MerchantKeys
import PaymentToken
import Refusals
import TestSupport
import Testing
import TokenForge
import WorkerProtocol
import WorkerSupervision

@testable import Daemon
@testable import DaemonConfiguration
@testable import UsageRecording

/// The checks of decisions on approvals. The daemon makes these checks before it changes an HSM token, and the ledger
/// repeats them.
@Suite("Decisions on approvals")
struct ApprovalDecisionTests {
    private let directory: FreshDirectory
    private let fixture: RecordFixture
    private let hsmToken = SoftwareAuditToken()
    private let index = KeyIndex()
    private let hsmTokens: HSMTokenPool

    private static let rule = TwoPersonRule(people: 2, expire: .seconds(3600))

    init() async throws {
        directory = try FreshDirectory()
        hsmTokens = try .notStarted()
        fixture = try await RecordFixture(ledger: directory.path("ledger.sqlite"), hsmToken: hsmToken)
        await fixture.gate.compare()
        try #require(hsmToken.keyCount == 1)
    }

    private func staff(_ uid: UInt32, login: LoginUID = .unset) -> Caller {
        Caller(
            rule: AccessRule(
                name: "staff", user: .init(name: "staff", id: uid), group: .init(name: "staff", id: 500),
                roles: [.admin]),
            peer: PeerCredentials(uid: uid, gid: 500, loginUID: login))
    }

    private func keyChange(after seconds: Double = 0) -> AuditKeyChange {
        AuditKeyChange(
            ledger: fixture.ledger, sealing: SealingHSMToken(among: [hsmToken], keys: []),
            checkpoints: fixture.checkpoints,
            gate: fixture.gate, rule: Self.rule, recorder: fixture.recorder, clock: clock(after: seconds),
            logger: RecordFixture.quiet)
    }

    private func clock(after seconds: Double) -> WallClock {
        WallClock { RecordFixture.noon.addingTimeInterval(seconds) }
    }

    private func decisions(after seconds: Double) -> ApprovalDecisions {
        let clock = clock(after: seconds)
        let catalogue = KeyCatalogue(
            index: index, ledger: fixture.ledger, hsmTokens: ["primary"], clock: clock, logger: RecordFixture.quiet)
        let policies = Policies(
            access: AccessPolicy(rules: [
                AccessRule(name: "staff", group: .init(name: "staff", id: 500), roles: [.admin])
            ]), trust: TrustPolicy(roots: [], distrusted: []), roots: [], distrusted: 0, signingTimeWindow: .off)
        return ApprovalDecisions(
            ledger: fixture.ledger, policies: CurrentPolicies(policies),
            lifecycle: KeyLifecycle(
                catalogue: catalogue, hsmTokens: hsmTokens, ledger: fixture.ledger, rule: Self.rule,
                recorder: fixture.recorder, clock: clock),
            gate: fixture.gate, auditKey: keyChange(after: seconds),
            clockAcceptance: ClockAcceptance(
                ledgerClock: LedgerClock(ledger: fixture.ledger, clock: clock) { .seconds(300) }, gate: fixture.gate,
                rule: Self.rule, recorder: fixture.recorder, logger: RecordFixture.quiet),
            recorder: fixture.recorder, clock: clock)
    }

    private func ask(by caller: Caller) async throws(Refusal) -> AuditKeyChange.Outcome {
        try await keyChange().change(reason: AuditReason("yearly"), by: caller, dryRun: false, draft: AuditDraft())
    }

    /// Requests a change of the audit key as uid 1001.
    private func requestChange() async throws -> Approval {
        guard case .pending(let approval) = try await ask(by: staff(1001)) else {
            throw HarnessFailure(description: "it does not wait")
        }
        return approval
    }

    private func refusal(
        _ decision: ApprovalDecisions.Decision, _ approval: Approval, by caller: Caller, after seconds: Double = 0
    ) async -> Refusal? {
        do throws(Refusal) {
            _ = try await decisions(after: seconds).decide(
                approval.identifier, decision, reason: nil, by: caller, draft: AuditDraft())
            return nil
        } catch {
            return error
        }
    }

    @Test("makes no audit key in the HSM token when the approval has expired")
    func expiredApproval() async throws {
        let approval = try await requestChange()
        let refusal = await refusal(.approve, approval, by: staff(1002), after: 3600)
        #expect(refusal?.code == .approvalInvalid)
        #expect(refusal?.message == ApprovalConflict.expired.description)
        #expect(hsmToken.keyCount == 1)
        // The ledger contains no planned audit key either.
        #expect(try await fixture.ledger.auditKeys().count == 1)
    }

    @Test("accepts no other restore than the approved one")
    func otherRestore() async throws {
        func hold(at sequence: Int) {
            let finding = LedgerHold.Finding(kind: .restored, ledgerSequence: sequence, remembered: nil)
            fixture.gate.setPosition(.held(.changedUnderneath(finding)))
        }
        hold(at: 17)
        let outcome = try await RestoreAcceptance(
            gate: fixture.gate, rule: Self.rule, recorder: fixture.recorder, clock: clock(after: 0)
        ).accept(
            reason: AuditReason("disk failed"), withoutFinding: false, by: staff(1001), dryRun: false,
            draft: AuditDraft())
        guard case .pending(let approval) = outcome else {
            Issue.record("\(outcome)")
            return
        }
        hold(at: 16)
        let refusal = await refusal(.approve, approval, by: staff(1002))
        #expect(refusal?.message == ApprovalConflict.otherParameters.description)
        #expect(fixture.gate.position.disagreement != nil)
        #expect(try await fixture.ledger.times().restoreFence == nil)
    }

    @Test("makes the audit key when the approval is in time")
    func approvedInTime() async throws {
        let approval = try await requestChange()
        #expect(await refusal(.approve, approval, by: staff(1002), after: 3599) == nil)
        #expect(hsmToken.keyCount == 2)
        #expect(try await fixture.ledger.approval(approval.identifier)?.decidedBy == 1002)
    }

    @Test("binds an approval to adopt a key to its certificate and the merchant that the certificate names")
    func adoptionBoundToCertificate() async throws {
        let key = try ForgeKey(generating: .p256)
        func shown(_ merchant: String) throws -> KeyDescription {
            let forged = try ForgedMerchant(
                authority: SharedForge.authority, type: .p256,
                profile: MerchantCertificateProfile(merchantIdentifier: merchant, now: RecordFixture.noon), key: key)
            return KeyDescription(
                identifier: forged.merchant.publicKeyHash, label: merchant, algorithm: .ec,
                subjectPublicKeyInfo: key.subjectPublicKeyInfo, certificates: [forged.certificate], isProtected: true,
                inconsistency: nil)
        }
        let catalogue = decisions(after: 0).lifecycle.catalogue
        let genuine = try shown("merchant.shop")
        await catalogue.hsmTokenHasOpened("primary", showing: [genuine], asOf: .now)
        let hash = try #require(index.entries.first?.publicKeyHash)
        guard
            case .pending(let approval) = try await decisions(after: 0).lifecycle.adopt(
                hash.hex, reason: AuditReason("moved here"), by: staff(1001), dryRun: false, draft: AuditDraft())
        else {
            Issue.record("it does not wait")
            return
        }
        for another in [try shown("merchant.other"), try shown("merchant.shop")] {
            await catalogue.hsmTokenHasOpened("primary", showing: [another], asOf: .now)
            let refusal = await refusal(.approve, approval, by: staff(1002))
            #expect(refusal?.message == ApprovalConflict.otherParameters.description)
            #expect(try await fixture.ledger.keyRecord(hash) == nil)
        }
        await catalogue.hsmTokenHasOpened("primary", showing: [genuine], asOf: .now)
        #expect(await refusal(.approve, approval, by: staff(1002)) == nil)
        #expect(try await fixture.ledger.keyRecord(hash)?.merchantIdentifier == "merchant.shop")
    }

    @Test("leaves an approved adoption of a Google Pay key to its requester, who alone names the merchant")
    func adoptionOfGooglePayKey() async throws {
        let holder = SoftwareKeyToken()
        holder.add(P256.Signing.PrivateKey(), of: "google")
        let catalogue = decisions(after: 0).lifecycle.catalogue
        await catalogue.hsmTokenHasOpened("primary", showing: holder.descriptions, asOf: .now)
        let hash = try #require(index.entries.first?.publicKeyHash)
        let administration = KeyAdministration(
            catalogue: catalogue, hsmTokens: [holder], ledger: fixture.ledger, gate: fixture.gate,
            recorder: fixture.recorder, rule: Self.rule, renewal: nil, clock: clock(after: 0))
        func adopt(_ approval: ApprovalIdentifier? = nil) async throws -> KeyAdministration.Outcome {
            try await administration.adopt(
                hash.hex, .init(merchantIdentifier: "BCR2", reason: AuditReason("r"), approval: approval),
                by: staff(1001), dryRun: false, draft: AuditDraft())
        }
        guard case .pending(let approval) = try await adopt() else {
            Issue.record("it does not wait")
            return
        }
        #expect(await refusal(.approve, approval, by: staff(1001))?.code == .approvalInvalid)
        #expect(await refusal(.approve, approval, by: staff(1002)) == nil)
        #expect(try await fixture.ledger.approval(approval.identifier)?.status == .approved)
        #expect(try await fixture.ledger.keyRecord(hash) == nil)
        guard case .changed(let entry, _) = try await adopt(approval.identifier) else {
            Issue.record("it does not adopt")
            return
        }
        #expect(entry.merchantIdentifier == "BCR2" && entry.state == .preActivation)
    }

    @Test("makes no audit key when the requester approves it, with any login uid")
    func samePerson() async throws {
        let approval = try await requestChange()
        for approver in [staff(1001), staff(1001, login: .set(6666)), staff(1002, login: .set(1001))] {
            let refusal = await refusal(.approve, approval, by: approver)
            #expect(refusal?.code == .approvalInvalid && refusal?.message.contains("a second person must") == true)
        }
        #expect(hsmToken.keyCount == 1)
        #expect(try await fixture.ledger.auditKeys().count == 1)
    }

    @Test("approves another node's request only if a rule of the requester's name gives the role admin here too")
    func requesterUnknownHere() async throws {
        let approval = try await requestChange()
        func moveRequest(ruleName: String) throws {
            try DatabaseQueue(path: directory.path("ledger.sqlite")).write { db in
                try db.execute(
                    sql: "UPDATE approval SET node = 'south', requester_account = 'carol', requester_name = ?",
                    arguments: [ruleName])
            }
        }
        // Root's account counts as nobody's, so the approver is another person than the requester.
        let root = staff(0)
        for ruleName in ["backend", "1001"] {
            try moveRequest(ruleName: ruleName)
            let refusal = await refusal(.approve, approval, by: root)
            #expect(refusal?.code == .approvalInvalid && refusal?.details == "node south")
            #expect(refusal?.message.contains("No access rule on this host gives the role admin to") == true)
            #expect(try await fixture.ledger.approval(approval.identifier)?.status == .pending)
        }
        try moveRequest(ruleName: "staff")
        #expect(await refusal(.approve, approval, by: root) == nil)
        #expect(try await fixture.ledger.approval(approval.identifier)?.status == .approved)
        // The other node changes its audit key itself.
        #expect(hsmToken.keyCount == 1)
    }

    @Test("rejects a decision by an unknown person, root included, and says what to do")
    func unknownDecides() async throws {
        let approval = try await requestChange()
        for decision in ApprovalDecisions.Decision.allCases {
            for uid: UInt32 in [1002, 1001, 0] {
                let refusal = await refusal(decision, approval, by: staff(uid, login: .unreadable))
                #expect(refusal?.code == .forbidden)
                #expect(refusal?.message.contains("keep that process running") == true)
            }
        }
        #expect(hsmToken.keyCount == 1)
        #expect(try await fixture.ledger.approval(approval.identifier)?.status == .pending)
    }

    @Test("rejects a request by an unknown person whom the two-person rule binds, but not one by root")
    func unknownPersonRequests() async throws {
        let refusal = await #expect(throws: Refusal.self) { _ = try await ask(by: staff(1001, login: .unreadable)) }
        #expect(refusal?.code == .forbidden)
        #expect(try await fixture.ledger.approvals(limit: 10).isEmpty)
        guard case .changed = try await ask(by: staff(0, login: .unreadable)) else {
            Issue.record("it waits")
            return
        }
        #expect(hsmToken.keyCount == 2)
    }
}
