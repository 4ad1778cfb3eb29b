import AuditChain
import Foundation
import Ledger
import Testing

@testable import Daemon
@testable import UsageRecording

/// The digests that bind approvals to the state found in a ledger.
@Suite struct RestoreParametersTests {
    private static let noon = Date(timeIntervalSince1970: 1_800_000_000)
    private static let key = AuditDigest(hex: String(repeating: "ab", count: 32))
    private static let rolledBack = LedgerHold.Finding(
        kind: .rolledBack, ledgerSequence: 17,
        remembered: .init(sequence: 40, hash: .zero, time: AuditTime(noon)))

    private func restore(_ disagreement: LedgerDisagreement?, holds: [LedgerHold] = []) -> DetectedRestore {
        DetectedRestore(node: "north", disagreement: disagreement, holds: holds)
    }

    private static func hold(_ finding: LedgerHold.Finding, at time: Date = noon) -> LedgerHold {
        LedgerHold(node: "north", finding: finding, foundAt: time)
    }

    /// Digests in the format of version 0.1.0, which hashed English descriptions of the findings. A separate program
    /// computed them with SHA-256 over length-prefixed parts.
    @Test(
        "accepts an approval that version 0.1.0 recorded",
        arguments: [
            (
                LedgerDisagreement.lost(remembered: nil, keyId: key), [],
                "753269e445995666de62dee9c771713d558f8a00283670dc4c7ee68d94a12873"
            ),
            (
                .changedUnderneath(rolledBack), [],
                "e7e554499e61d7a39bc99a2df73d3918eb4524ecdc3a527920200474e47f591f"
            ),
            (
                .changedUnderneath(LedgerHold.Finding(kind: .restored, ledgerSequence: 17, remembered: nil)), [],
                "75f2dd36ac32ee38eff030968dfcb05f0c5cbfbbb099df3e32c0c96632cd03b7"
            ),
            (
                .anotherHSMToken(keyId: key), [],
                "23451392cf3329010da6218b7eb666450d9cb7a3d47b9de231ce29dd453ab472"
            ),
            (
                .changedUnderneath(rolledBack), [hold(rolledBack)],
                "f304b56133ab4b92d889a092b20d42d4c96c84688213b689e59940a582562c17"
            ),
        ] as [(LedgerDisagreement, [LedgerHold], String)])
    func formerDigests(disagreement: LedgerDisagreement, holds: [LedgerHold], digest: String) throws {
        let approved = try #require(AuditDigest(hex: digest))
        #expect(restore(disagreement, holds: holds).isPermitted(by: approved))
        #expect(!restore(nil, holds: holds).isPermitted(by: approved))
    }

    @Test("permits exactly the state that was found, and none that differs in one value")
    func permitsFoundStateOnly() {
        let found = restore(.changedUnderneath(Self.rolledBack), holds: [Self.hold(Self.rolledBack)])
        #expect(found.isPermitted(by: found.parameters))
        let one = AuditDigest.of([1])
        let end = LedgerHold.RememberedEnd(sequence: 40, hash: .zero, time: AuditTime(Self.noon))
        let others: [LedgerHold.Finding] = [
            .init(kind: .forked, ledgerSequence: 17, remembered: end),
            .init(kind: .rolledBack, ledgerSequence: 16, remembered: end),
            .init(kind: .rolledBack, ledgerSequence: 17, remembered: nil),
            .init(kind: .rolledBack, ledgerSequence: 17, remembered: .init(sequence: 41, hash: .zero, time: end.time)),
            .init(kind: .rolledBack, ledgerSequence: 17, remembered: .init(sequence: 40, hash: one, time: end.time)),
            .init(kind: .rolledBack, ledgerSequence: 17, remembered: .init(sequence: 40, hash: .zero, time: nil)),
            .init(kind: .rolledBack, ledgerSequence: 17, remembered: end, keyId: Self.key),
        ]
        for other in others {
            #expect(
                !restore(.changedUnderneath(other), holds: found.holds).isPermitted(by: found.parameters), "\(other)")
            #expect(
                !restore(found.disagreement, holds: [Self.hold(other)]).isPermitted(by: found.parameters), "\(other)")
        }
        #expect(!restore(nil, holds: found.holds).isPermitted(by: found.parameters))
        #expect(!restore(found.disagreement).isPermitted(by: found.parameters))
        let later = Self.hold(Self.rolledBack, at: Self.noon + 1)
        #expect(!restore(found.disagreement, holds: [later]).isPermitted(by: found.parameters))
        let elsewhere = DetectedRestore(node: "south", disagreement: found.disagreement, holds: found.holds)
        #expect(!elsewhere.isPermitted(by: found.parameters))
    }
}
