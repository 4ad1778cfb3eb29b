import Foundation
import KeyTypes
import MerchantKeys
import PaymentToken
import TestSupport
import Testing

@testable import Ledger

/// Claims of Google Pay's messages, which have two names.
@Suite("Claims of Google Pay", .everyEngine)
struct GooglePayClaimTests {
    static let key = LedgerFixture.hash(44)

    static func fixture(isFaulty: Bool = false) async throws -> LedgerFixture {
        let fixture = try await LedgerFixture(repeatFor: .seconds(86_400), isFaulty: isFaulty)
        try await fixture.ledger.store(
            LedgerFixture.record(key, merchant: "BCR2DN4TEXAMPLE", use: .googlePay))
        return fixture
    }

    /// A message's release. Its name and that of its messageId are numbers here.
    static func message(
        _ number: Int, messageId: Int, caller: String = "checkout", reference: UInt8? = 7, key: PublicKeyHash = key,
        wallet: Wallet = .googlePay, at time: Date = LedgerFixture.noon
    ) throws -> Release {
        var release = Release(
            of: wallet, transactionId: try name(1, number), publicKeyHash: key, caller: caller,
            referenceDigest: reference.map { [UInt8](repeating: $0, count: 32) },
            contentDigest: [UInt8](repeating: 9, count: 32), at: time)
        release.messageClaim = try name(2, messageId)
        release.signedAt = time
        return release
    }

    private static func name(_ kind: UInt8, _ number: Int) throws -> TransactionIdentifier {
        let bytes = [kind] + [UInt8](repeating: 0, count: 29) + [UInt8(number >> 8), UInt8(number & 0xff)]
        return try #require(TransactionIdentifier(bytes: bytes))
    }

    @Test("refuses a second message with a known messageId as a replay, and leaves no claim of it")
    func knownMessageId() async throws {
        let fixture = try await Self.fixture()
        let ledger = fixture.ledger
        #expect(try await ledger.release(Self.message(1, messageId: 1)) == .released)
        #expect(try await ledger.release(Self.message(2, messageId: 1)) == .replayed)
        #expect(try await ledger.wouldRepeat(Self.message(2, messageId: 1)) == .unclaimed)
        // A claim of the refused message would block these genuine ones.
        #expect(try await ledger.release(Self.message(2, messageId: 2)) == .released)
        #expect(try await ledger.release(Self.message(3, messageId: 3)) == .released)
    }

    @Test("refuses a released message with another messageId as a replay of another caller, and leaves no claim of it")
    func knownMessage() async throws {
        let fixture = try await Self.fixture()
        let ledger = fixture.ledger
        #expect(try await ledger.release(Self.message(1, messageId: 1)) == .released)
        #expect(try await ledger.release(Self.message(1, messageId: 2, caller: "other")) == .replayed)
        #expect(try await ledger.release(Self.message(2, messageId: 2)) == .released)
    }

    @Test("repeats a message for the same caller and reference, and says before the decryption who may not have it")
    func repeats() async throws {
        let fixture = try await Self.fixture()
        let ledger = fixture.ledger
        #expect(try await ledger.wouldRepeat(Self.message(1, messageId: 1)) == .unclaimed)
        #expect(try await ledger.release(Self.message(1, messageId: 1)) == .released)
        #expect(try await ledger.release(Self.message(1, messageId: 1)) == .repeated)
        #expect(try await ledger.wouldRepeat(Self.message(1, messageId: 1)) == .yes)
        #expect(try await ledger.wouldRepeat(Self.message(1, messageId: 1, caller: "other")) == .no)
        #expect(try await ledger.wouldRepeat(Self.message(1, messageId: 1, reference: 8)) == .no)
    }

    @Test("decides messages with one messageId in one batch, without a change for the batch's other releases")
    func oneBatch() async throws {
        let fixture = try await Self.fixture()
        let releases = [
            try fixture.request(1), try Self.message(1, messageId: 1), try Self.message(2, messageId: 1),
            try fixture.request(2), try Self.message(3, messageId: 3), try Self.message(2, messageId: 4),
            try Self.message(1, messageId: 1),
        ]
        let answers = try await fixture.inOneBatch(
            releases.map { release in
                { try await $0.release(release, recording: LedgerFixture.record(of: release)) }
            })
        let verdicts = try answers.map { try $0.get().verdict }
        // Which of the two claims of message 2 comes first is the batch's choice; exactly one is released.
        #expect(verdicts[0] == .released && verdicts[3] == .released && verdicts[4] == .released)
        #expect(verdicts[1] == .released && verdicts[2] == .replayed && verdicts[5] == .released)
        #expect(verdicts[6] == .repeated)
        #expect(try await fixture.ledger.usage(since: LedgerFixture.noon)[Self.key]?.count == 3)
    }

    @Test("refuses a release without the name of its messageId, whose claim would confirm the clock")
    func lacksMessageName() async throws {
        let fixture = try await Self.fixture()
        var release = try Self.message(1, messageId: 1)
        release.messageClaim = nil
        await #expect(throws: LedgerFailure.self) { try await fixture.ledger.release(release) }
        #expect(try await fixture.ledger.release(Self.message(1, messageId: 1)) == .released)
    }

    @Test("releases nothing with a key of the other wallet")
    func otherWallet() async throws {
        let fixture = try await Self.fixture()
        let ledger = fixture.ledger
        #expect(try await ledger.release(Self.message(1, messageId: 1, key: fixture.key)) == .keyNotActive)
        #expect(try await ledger.release(fixture.request(1, key: Self.key)) == .keyNotActive)
        #expect(try await ledger.release(Self.message(1, messageId: 1)) == .released)
        #expect(try await ledger.release(fixture.request(1)) == .released)
    }

    @Test("stops releases when the key is suspended")
    func suspended() async throws {
        let fixture = try await Self.fixture()
        try await fixture.ledger.store(
            LedgerFixture.record(Self.key, state: .suspended, merchant: "BCR2DN4TEXAMPLE", use: .googlePay))
        #expect(try await fixture.ledger.release(Self.message(1, messageId: 1)) == .keyNotActive)
    }

    @Test("finds a release whose acknowledgement was lost")
    func lostAcknowledgement() async throws {
        let fixture = try await Self.fixture(isFaulty: true)
        fixture.loseAcknowledgement()
        #expect(try await fixture.ledger.release(Self.message(1, messageId: 1)) == .released)
        #expect(fixture.lostAcknowledgements == 1)
        #expect(try await fixture.ledger.release(Self.message(2, messageId: 1)) == .replayed)
    }

    @Test("never confirms the clock for pruning: a clock six days ahead forgets no claim")
    func clock() async throws {
        let fixture = try await Self.fixture()
        let (noon, day) = (LedgerFixture.noon, 86_400.0)
        let ledger = fixture.ledger
        let retention = try #require(
            ClaimRetention(retainClaims: .seconds(5 * 86_400), repeatFor: .seconds(1), windows: [.seconds(300)]))
        #expect(try await ledger.release(fixture.request(1)) == .released)
        // The clock is six days ahead. Apple's payment tokens are refused then, and Google's are not.
        #expect(try await ledger.release(Self.message(1, messageId: 1, at: noon + 6 * day)) == .released)
        #expect(try await ledger.prune(retention, now: noon + 6 * day) == .clockUnconfirmed)
        #expect(try await ledger.times().forgottenBefore == nil)
        // The archiving of records has the same evidence.
        #expect(try await ledger.newestConfirmedTime() == noon)
        #expect(try await ledger.newestRelease() == noon + 6 * day)
        // A release of Apple Pay confirms the clock.
        #expect(try await ledger.release(fixture.request(2, at: noon + 6 * day)) == .released)
        guard case .pruned(1, _) = try await ledger.prune(retention, now: noon + 6 * day) else {
            Issue.record("not pruned")
            return
        }
        #expect(try await ledger.newestConfirmedTime() == noon + 6 * day)
    }

    @Test("prunes nothing from a ledger without a claim of Apple Pay")
    func noWitness() async throws {
        let fixture = try await Self.fixture()
        let noon = LedgerFixture.noon
        #expect(try await fixture.ledger.release(Self.message(1, messageId: 1)) == .released)
        let retention = try #require(
            ClaimRetention(retainClaims: .seconds(100), repeatFor: .seconds(1), windows: [.seconds(1)]))
        #expect(try await fixture.ledger.prune(retention, now: noon + 1_000) == .clockUnconfirmed)
        #expect(try await fixture.ledger.newestConfirmedTime() == nil)
        #expect(try await fixture.ledger.release(Self.message(1, messageId: 1, reference: nil)) == .replayed)
    }

    @Test("refuses a message that counts as signed before forgotten claims")
    func forgotten() async throws {
        let fixture = try await Self.fixture()
        let noon = LedgerFixture.noon
        let retention = try #require(
            ClaimRetention(retainClaims: .seconds(100), repeatFor: .seconds(1), windows: [.seconds(20)]))
        #expect(try await fixture.ledger.release(Self.message(1, messageId: 1, reference: nil)) == .released)
        #expect(try await fixture.ledger.release(fixture.request(1, at: noon + 150)) == .released)
        #expect(try await fixture.ledger.prune(retention, now: noon + 150) == .pruned(count: 1, before: noon + 50))
        var again = try Self.message(1, messageId: 1, reference: nil, at: noon + 150)
        again.signedAt = noon
        #expect(try await fixture.ledger.release(again) == .forgotten(before: noon + 100))
    }

    @Test("keeps a claim that pruning may not forget, since its message counts as signed long after it")
    func signedAhead() async throws {
        let fixture = try await Self.fixture()
        let noon = LedgerFixture.noon
        let retention = try #require(
            ClaimRetention(retainClaims: .seconds(100), repeatFor: .seconds(1), windows: [.seconds(20)]))
        // The window was off, and the clock slow.
        var early = try Self.message(1, messageId: 1, reference: nil)
        early.signedAt = noon + 1_000
        #expect(try await fixture.ledger.release(early) == .released)
        #expect(try await fixture.ledger.release(fixture.request(1, at: noon + 150)) == .released)
        #expect(try await fixture.ledger.prune(retention, now: noon + 150) == .pruned(count: 0, before: noon - 900))
        var again = try Self.message(1, messageId: 1, reference: nil, at: noon + 150)
        again.signedAt = noon + 1_000
        #expect(try await fixture.ledger.release(again) == .replayed)
    }
}

/// Claims of Google Pay's messages by several nodes at once.
@Suite("Claims of Google Pay by several nodes")
struct GooglePayNodesTests {
    @Test(
        "releases a message, or one of three messages with one messageId, at one of three nodes",
        arguments: [true, false])
    func race(isOneMessage: Bool) async throws {
        let fixture = try await PostgreSQLFixture()
        try await fixture.ledger.store(
            LedgerFixture.record(GooglePayClaimTests.key, merchant: "BCR2DN4TEXAMPLE", use: .googlePay))
        let nodes = [fixture.ledger, try await fixture.node("node-2"), try await fixture.node("node-3")]
        for number in 1...30 {
            let releases = try nodes.indices.map { node in
                try GooglePayClaimTests.message(
                    isOneMessage ? number : 3 * number + node, messageId: number, caller: "caller-\(node)")
            }
            let verdicts = try await withThrowingTaskGroup(of: ReleaseVerdict.self) { group in
                for (node, release) in zip(nodes, releases) {
                    group.addTask {
                        try await node.release(release, recording: LedgerFixture.record(of: release)).verdict
                    }
                }
                return try await group.reduce(into: [ReleaseVerdict]()) { $0.append($1) }
            }
            #expect(verdicts.count { $0 == .released } == 1, "\(verdicts)")
            #expect(verdicts.count { $0 == .replayed } == 2, "\(verdicts)")
        }
        for node in nodes.dropFirst() { await node.close() }
    }
}
