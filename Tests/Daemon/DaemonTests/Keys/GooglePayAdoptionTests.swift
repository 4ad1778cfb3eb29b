import AccessControl
import AuditChain
import Crypto
import Foundation
import KeyTypes
import Ledger
import MerchantKeys
import PaymentToken
import Refusals
import TestSupport
import Testing
import TokenForge
import WorkerProtocol

@testable import Daemon
@testable import DaemonConfiguration
@testable import UsageRecording

/// The adoption of a Google Pay key that another program made in an HSM token.
@Suite struct GooglePayAdoptionTests {
    private static let merchant = "BCR2DN4TEXAMPLE"

    private let directory: FreshDirectory
    private let record: RecordFixture
    private let hsmToken = SoftwareKeyToken()
    private let index = KeyIndex()
    private let key = P256.Signing.PrivateKey()
    private let administration: KeyAdministration
    private var hash: PublicKeyHash { .of(subjectPublicKeyInfo: Array(key.publicKey.derRepresentation)) }

    init() async throws {
        directory = try FreshDirectory()
        record = try await RecordFixture(ledger: directory.path("ledger.sqlite"), hsmToken: SoftwareAuditToken())
        await record.gate.compare()
        let clock = WallClock { RecordFixture.noon }
        administration = KeyAdministration(
            catalogue: KeyCatalogue(
                index: index, ledger: record.ledger, hsmTokens: ["primary"], clock: clock, logger: RecordFixture.quiet),
            hsmTokens: [hsmToken], ledger: record.ledger, gate: record.gate, recorder: record.recorder,
            rule: TwoPersonRule(people: 2, expire: .seconds(3600)), renewal: nil, clock: clock)
        hsmToken.add(key, of: "made by another program")
        await list()
    }

    /// Lists the HSM token's keys, as a worker does when it opens the HSM token.
    private func list() async {
        await administration.catalogue.hsmTokenHasOpened("primary", showing: hsmToken.descriptions, asOf: .now)
    }

    /// Adopts the key as an account of the staff. Root and the daemon's user need no second person.
    private func adopt(
        _ merchant: String = merchant, _ hash: PublicKeyHash? = nil, by uid: UInt32 = 0,
        approval: ApprovalIdentifier? = nil, dryRun: Bool = false
    ) async -> Result<KeyAdministration.Outcome, Refusal> {
        let caller = Caller(
            rule: AccessRule(name: "staff", user: .init(name: "staff", id: uid), roles: [.admin]),
            peer: PeerCredentials(uid: uid, gid: 500, loginUID: .unset))
        do throws(Refusal) {
            return .success(
                try await administration.adopt(
                    (hash ?? self.hash).hex,
                    .init(merchantIdentifier: merchant, reason: AuditReason("made by its tool"), approval: approval),
                    by: caller, dryRun: dryRun, draft: AuditDraft()))
        } catch {
            return .failure(error)
        }
    }

    private func refusal(_ result: Result<KeyAdministration.Outcome, Refusal>) -> Refusal? {
        if case .failure(let refusal) = result { refusal } else { nil }
    }

    private func expectRefused(
        _ code: RefusalCode, _ words: String, sourceLocation: SourceLocation = #_sourceLocation
    ) async throws {
        for dryRun in [true, false] {
            let refused = refusal(await adopt(dryRun: dryRun))
            #expect(
                refused?.code == code && refused?.message.contains(words) == true, "\(String(describing: refused))",
                sourceLocation: sourceLocation)
        }
        #expect(try await record.ledger.keyRecord(hash) == nil, sourceLocation: sourceLocation)
    }

    /// The description of a key with a certificate of Apple's, or with other facts.
    private func description(
        of information: [UInt8]? = nil, algorithm: KeyAlgorithm = .ec, use: KeyUse = .processing,
        certificates: [[UInt8]] = [], isProtected: Bool = true
    ) -> KeyDescription {
        let information = information ?? Array(key.publicKey.derRepresentation)
        return KeyDescription(
            identifier: PublicKeyHash.of(subjectPublicKeyInfo: information).bytes, label: "key", algorithm: algorithm,
            use: use, subjectPublicKeyInfo: information, certificates: certificates, isProtected: isProtected,
            inconsistency: nil)
    }

    // MARK: One person

    @Test("adopts no key while an HSM token cannot show Apple's certificate for it")
    func unavailable() async throws {
        let away = SoftwareKeyToken("backup", isServing: false)
        let administration = KeyAdministration(
            catalogue: administration.catalogue, hsmTokens: [hsmToken, away], ledger: record.ledger,
            gate: record.gate, recorder: record.recorder, rule: administration.rule, renewal: nil,
            clock: WallClock { RecordFixture.noon })
        let root = Caller(
            rule: AccessRule(name: "staff", user: .init(name: "staff", id: 0), roles: [.admin]),
            peer: PeerCredentials(uid: 0, gid: 500, loginUID: .unset))
        let refused = await #expect(throws: Refusal.self) {
            try await administration.adopt(
                hash.hex, .init(merchantIdentifier: Self.merchant, reason: AuditReason("test"), approval: nil),
                by: root,
                dryRun: false, draft: AuditDraft())
        }
        #expect(refused?.code == .hsmUnavailable)
        #expect(try await record.ledger.keyRecord(hash) == nil)
    }

    @Test(
        "takes an external key into the ledger as a merchant's Google Pay key that waits, and records wallet and merchant",
        arguments: [merchant, "12345678901234567890"])
    func adopted(merchant: String) async throws {
        guard
            case .success(.wouldServe(let planned, let hsmTokens, needsApproval: false)) = await adopt(
                merchant, dryRun: true)
        else {
            Issue.record("the dry run was refused")
            return
        }
        #expect(planned.publicKeyHash == hash && planned.firstState == .preActivation && hsmTokens == ["primary"])
        #expect(try await record.ledger.keyRecord(hash) == nil)
        guard case .success(.changed(let entry, _)) = await adopt(merchant) else {
            Issue.record("it was refused")
            return
        }
        #expect(entry.condition == .served && entry.use == .googlePay && entry.state == .preActivation)
        let stored = try #require(try await record.ledger.keyRecord(hash))
        #expect(stored.merchantIdentifier == merchant && stored.origin == .adopted && stored.use == .googlePay)
        let entries = try await record.entries.filter { $0.event == "key_adopt" }
        #expect(entries.count == 1 && entries[0].outcome == "ok" && entries[0].merchant == merchant)
        #expect(entries[0].namesGooglePay && entries[0].details["origin"]?.stringValue == "adopted")
        #expect(entries[0].details["approval"] == nil)
        let again = refusal(await adopt(merchant))
        #expect(again?.code == .invalidState && again?.message.contains("this one is served") == true)
    }

    @Test("records no approval with the adoption of a person who needs none")
    func unneededApproval() async throws {
        guard case .success(.changed) = await adopt(approval: .random()) else {
            Issue.record("it was refused")
            return
        }
        #expect(try await record.entries.last?.details["approval"] == nil)
    }

    @Test(
        "refuses what is not an identifier at Google",
        arguments: ["", "merchant.com.example", "BCR2 EXAMPLE", String(repeating: "B", count: 65)])
    func identifier(merchant: String) async throws {
        #expect(refusal(await adopt(merchant))?.code == .malformedRequest)
        #expect(try await record.ledger.keyRecord(hash) == nil)
    }

    @Test("refuses a key with a certificate of Apple's, also in another HSM token whose copy of the key has a fault")
    func certified() async throws {
        let certificate = try ForgedMerchant(
            authority: SharedForge.authority, type: .p256,
            profile: MerchantCertificateProfile(merchantIdentifier: "merchant.shop", now: RecordFixture.noon),
            key: .p256(key)
        ).certificate
        await administration.catalogue.hsmTokenHasOpened(
            "other", showing: [description(certificates: [certificate], isProtected: false)], asOf: .now)
        #expect(index.entry(hash)?.condition == .external && index.entry(hash)?.certificate == nil)
        try await expectRefused(.invalidState, "has Apple's certificate")
        await administration.catalogue.hsmTokenHasOpened("other", showing: [], asOf: .now)
        // The certificate came after the last listing.
        hsmToken.show([description(certificates: [certificate])])
        #expect(index.entry(hash)?.certificate == nil)
        try await expectRefused(.invalidState, "has Apple's certificate")
    }

    @Test("refuses RSA keys, keys that only sign, and keys that an HSM token no longer shows")
    func otherKeys() async throws {
        hsmToken.show([description(use: .service)])
        try await expectRefused(.invalidState, "not EC on P-256 with CKA_DERIVE")
        hsmToken.show([])
        try await expectRefused(.invalidState, "this one is missing")
        let rsa = try SharedForge.rsaMerchant.key.subjectPublicKeyInfo
        hsmToken.show([description(of: rsa, algorithm: .rsa)])
        await list()
        let refused = refusal(await adopt(Self.merchant, .of(subjectPublicKeyInfo: rsa)))
        #expect(refused?.code == .invalidState)
        #expect(refused?.details == "RSA, with the attributes of a key for processing")
    }

    @Test("refuses a fifth key of a merchant, and counts retired ones until their cut-off", arguments: [true, false])
    func fifth(isRetired: Bool) async throws {
        for number in UInt8(1)...4 {
            let other = KeyRecord(
                publicKeyHash: .of(subjectPublicKeyInfo: [number]), merchantIdentifier: Self.merchant, algorithm: .ec,
                use: .googlePay, state: number == 4 && isRetired ? .deactivated : .active,
                cutOff: number == 4 && isRetired ? RecordFixture.noon.addingTimeInterval(60) : nil,
                createdAt: RecordFixture.noon, origin: .generated)
            try await record.ledger.apply(
                AdministrativeChange(at: RecordFixture.noon, key: other, precondition: .absent, records: []))
        }
        try await administration.catalogue.refresh()
        try await expectRefused(.invalidState, "The merchant has 4 Google Pay keys")
        guard case .success(.changed) = await adopt("BCR2OTHER") else {
            Issue.record("another merchant's key was refused")
            return
        }
    }

    @Test("names the statement that ends a merchant's Google Pay key if its rotation is to be finished")
    func finish() async throws {
        guard case .success(.changed) = await adopt() else {
            Issue.record("it was refused")
            return
        }
        let rotations = KeyRotations(administration: administration, arrivals: RefusedPaymentTokenCounts())
        let caller = Caller(
            rule: AccessRule(name: "staff", user: .init(name: "staff", id: 0), roles: [.admin]),
            peer: PeerCredentials(uid: 0, gid: 500, loginUID: .unset))
        let refused = await #expect(throws: Refusal.self) {
            try await rotations.finish(
                Self.merchant,
                KeyRotations.Finish(algorithm: nil, cutOff: nil, force: false, reason: AuditReason("rotated")),
                by: caller, dryRun: true, draft: AuditDraft())
        }
        #expect(refused?.code == .invalidState && refused?.details == "POST /v1/rotations/removed")
    }

    // MARK: Two people

    private static let (alice, bob): (UInt32, UInt32) = (1001, 1002)

    private func request(
        _ merchant: String = merchant, _ hash: PublicKeyHash? = nil
    ) async throws -> Approval {
        guard case .success(.pending(let approval)) = await adopt(merchant, hash, by: Self.alice) else {
            throw HarnessFailure(description: "it does not wait")
        }
        return approval
    }

    /// Approves a request as another person.
    private func approve(_ approval: Approval) async throws {
        try await record.ledger.apply(
            AdministrativeChange(
                at: RecordFixture.noon,
                approval: .approve(
                    approval.identifier, by: PersonIdentities(uid: Self.bob, account: "bob"), executes: false),
                records: []))
    }

    @Test(
        "names wallet, merchant and reason to the second person, a merchant of twenty digits too",
        arguments: [
            (merchant, merchant), ("12345678901234567890", "1234567890/1234567890"),
            ("123456789012345", "1234567890/12345"), ("BCR2DN4T12345678901234", "BCR2DN4T12/3456789012/34"),
        ])
    func asked(merchant: String, shown: String) async throws {
        let approval = try await request(merchant)
        #expect(approval.reason.text == "Google Pay key adoption for \(shown): made by its tool")
        #expect(approval.operation == .keyAdoptGooglePay && approval.key == hash && approval.keyState == nil)
        guard
            case .success(.wouldServe(_, _, needsApproval: true)) = await adopt(merchant, by: Self.alice, dryRun: true)
        else {
            Issue.record("the dry run does not name the second person")
            return
        }
        #expect(try await record.ledger.keyRecord(hash) == nil)
    }

    @Test("adopts a key when its requester repeats the approved command, for the approved key and merchant only")
    func approved() async throws {
        let another = P256.Signing.PrivateKey()
        hsmToken.add(another, of: "another")
        await list()
        let other = PublicKeyHash.of(subjectPublicKeyInfo: Array(another.publicKey.derRepresentation))
        let approval = try await request()
        let early = refusal(await adopt(by: Self.alice, approval: approval.identifier))
        #expect(early?.message == ApprovalConflict.notApproved.description)
        try await approve(approval)
        let changed = ApprovalConflict.otherParameters.description
        for (merchant, key) in [("BCR2OTHER", hash), (Self.merchant, other)] {
            let refused = refusal(await adopt(merchant, key, by: Self.alice, approval: approval.identifier))
            #expect(refused?.code == .approvalInvalid && refused?.message == changed)
        }
        let stranger = refusal(await adopt(by: Self.bob, approval: approval.identifier))
        #expect(stranger?.message == ApprovalConflict.anotherPerson.description)
        #expect(try await record.ledger.keyRecords().isEmpty)

        guard case .success(.changed(let entry, _)) = await adopt(by: Self.alice, approval: approval.identifier) else {
            Issue.record("it was refused")
            return
        }
        #expect(entry.state == .preActivation && entry.merchantIdentifier == Self.merchant)
        let entries = try await record.entries.filter { $0.event == "key_adopt" && $0.outcome == "ok" }
        #expect(entries.map { $0.details["approval"]?.stringValue } == [approval.identifier.hex])
        #expect(try await record.ledger.approval(approval.identifier)?.status == .done)
    }

    @Test("adopts no key with an approval for Apple Pay, and none that Apple certified after the approval")
    func otherApprovals() async throws {
        var parameters = OperationParameters(.keyAdopt)
        parameters.add(Array(key.publicKey.derRepresentation))
        parameters.add(Self.merchant)
        var approval = try await request()
        let apple = Approval(
            identifier: .random(), operation: .keyAdopt, parameters: parameters.digest, key: hash, keyState: nil,
            requester: approval.requester, reason: approval.reason, requestedAt: approval.requestedAt,
            expires: approval.expires)
        try await record.ledger.apply(
            AdministrativeChange(at: RecordFixture.noon, approval: .request(apple), records: []))
        try await approve(apple)
        let refused = refusal(await adopt(by: Self.alice, approval: apple.identifier))
        #expect(refused?.message == ApprovalConflict.otherParameters.description)

        approval = try await request()
        try await approve(approval)
        let certificate = try ForgedMerchant(
            authority: SharedForge.authority, type: .p256,
            profile: MerchantCertificateProfile(merchantIdentifier: "merchant.shop", now: RecordFixture.noon),
            key: .p256(key)
        ).certificate
        hsmToken.show([description(certificates: [certificate])])
        let late = refusal(await adopt(by: Self.alice, approval: approval.identifier))
        #expect(late?.code == .invalidState && late?.message.contains("has Apple's certificate") == true)
        #expect(try await record.ledger.keyRecord(hash) == nil)
    }
}
