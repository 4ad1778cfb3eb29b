import AccessControl
import AuditChain
import Crypto
import Foundation
import GRDB
import KeyTypes
import Ledger
import MerchantKeys
import PaymentToken
import PortalRequests
import Refusals
import TestSupport
import Testing
import WorkerProtocol

@testable import Daemon
@testable import DaemonConfiguration
@testable import UsageRecording

/// Imports that the ledger refuses after the HSM token has accepted the key.
@Suite struct KeyWithdrawalTests {
    private let directory: FreshDirectory
    private let fixture: RecordFixture
    private let hsmToken = SoftwareKeyToken()
    private let index = KeyIndex()
    private let key = P256.Signing.PrivateKey()

    private var publicKey: [UInt8] { Array(key.publicKey.derRepresentation) }
    private var hash: PublicKeyHash { .of(subjectPublicKeyInfo: publicKey) }
    private var ledger: any Ledger { fixture.ledger }

    init() async throws {
        directory = try FreshDirectory()
        fixture = try await RecordFixture(ledger: directory.path("ledger.sqlite"), hsmToken: SoftwareAuditToken())
        await fixture.gate.compare()
    }

    private func administration(
        people: Int = 1, also others: [SoftwareKeyToken] = []
    ) throws -> KeyAdministration {
        let clock = WallClock { RecordFixture.noon }
        return KeyAdministration(
            catalogue: KeyCatalogue(
                index: index, ledger: fixture.ledger, hsmTokens: ["primary"], clock: clock,
                logger: RecordFixture.quiet),
            hsmTokens: [hsmToken] + others, ledger: fixture.ledger, gate: fixture.gate, recorder: fixture.recorder,
            rule: TwoPersonRule(people: people, expire: .seconds(60)),
            renewal: RenewalSettings(key: try #require(PortalKeyName(issuer: "issuer", keyId: "KEY1"))), clock: clock)
    }

    private static let staff = Caller(
        rule: AccessRule(name: "staff", user: .init(name: "staff", id: 4001), roles: [.admin]),
        peer: PeerCredentials(uid: 4001, gid: 4001, loginUID: .unset))

    private enum Imported: Sendable {
        case done(KeyAdministration.Outcome)
        case refused(Refusal)

        var refusal: Refusal? { if case .refused(let refusal) = self { refusal } else { nil } }
        var approval: Approval? { if case .done(.pending(let approval)) = self { approval } else { nil } }
        var entry: KeyEntry? { if case .done(.changed(let entry, _)) = self { entry } else { nil } }
    }

    private func importKey(
        _ administration: KeyAdministration, isService: Bool = false, approval: ApprovalIdentifier? = nil,
        also others: [KeyAdministration.SealedKey] = []
    ) async -> Imported {
        do throws(Refusal) {
            return .done(
                try await administration.importKey(
                    KeyAdministration.KeyImport(
                        publicPart: isService
                            ? .servicePublicKey(publicKey)
                            : .googlePayPublicKey(publicKey, merchantIdentifier: "BCR2DN4TEXAMPLE"),
                        sealedKeys: [
                            .init(
                                hsmToken: "primary", encapsulatedKey: [],
                                sealedPrivateKey: Array(key.rawRepresentation))
                        ] + others, allowExpired: false, approval: approval),
                    by: Self.staff, dryRun: false, draft: AuditDraft()))
        } catch {
            return .refused(error)
        }
    }

    /// Requests an import, and has it approved by another person.
    private func approved(_ administration: KeyAdministration) async throws -> Approval {
        let approval = try #require(await importKey(administration).approval)
        try await ledger.apply(
            AdministrativeChange(
                at: RecordFixture.noon,
                approval: .approve(approval.identifier, by: PersonIdentities(uid: 4002), executes: false), records: []))
        return approval
    }

    private func keyRecord(_ hash: PublicKeyHash, use: KeyUse, state: KeyState, merchant: String) -> KeyRecord {
        KeyRecord(
            publicKeyHash: hash, merchantIdentifier: merchant, algorithm: .ec, use: use, state: state,
            createdAt: RecordFixture.noon, origin: .imported)
    }

    @Test("removes the key if another one reaches the limit of active keys meanwhile")
    func limit() async throws {
        let other = keyRecord(.of(subjectPublicKeyInfo: [1]), use: .service, state: .active, merchant: "KEY1")
        hsmToken.runBeforeKeyUse { [ledger] in
            _ = try? await ledger.apply(AdministrativeChange(at: RecordFixture.noon, key: other, records: []))
        }
        let refused = await importKey(try administration(), isService: true).refusal
        #expect(refused?.code == .invalidState && refused?.message.contains("Another service key is active") == true)
        #expect(refused?.details == nil)
        #expect(hsmToken.keyCount == 0 && index.entry(hash) == nil)
        #expect(try await ledger.keyRecord(hash) == nil)
    }

    @Test(
        "removes the key if another HSM token does not accept it, unless another host has recorded it meanwhile",
        arguments: [false, true])
    func otherHSMToken(isRecorded: Bool) async throws {
        let recorded = keyRecord(hash, use: .googlePay, state: .preActivation, merchant: "BCR2DN4TEXAMPLE")
        if isRecorded {
            hsmToken.runBeforeKeyUse { [ledger] in
                _ = try? await ledger.apply(AdministrativeChange(at: RecordFixture.noon, key: recorded, records: []))
            }
        }
        let administration = try administration(also: [SoftwareKeyToken("backup")])
        // The backup cannot open the sealed key.
        let refused = await importKey(
            administration, also: [.init(hsmToken: "backup", encapsulatedKey: [], sealedPrivateKey: [])])
        #expect(refused.refusal?.code == .hsmUnavailable)
        #expect(hsmToken.keyCount == (isRecorded ? 1 : 0))
    }

    @Test("removes the key if another request uses the approval meanwhile")
    func usedApproval() async throws {
        let administration = try administration(people: 2)
        let approval = try await approved(administration)
        hsmToken.runBeforeKeyUse { [ledger] in
            _ = try? await ledger.apply(
                AdministrativeChange(
                    at: RecordFixture.noon,
                    approval: .use(
                        approval.identifier, parameters: approval.parameters, by: PersonIdentities(uid: 4001)),
                    records: []))
        }
        let refused = await importKey(administration, approval: approval.identifier).refusal
        #expect(refused?.code == .approvalInvalid && hsmToken.keyCount == 0)
    }

    @Test(
        "removes the key if the ledger cannot store it, and says how to remove it if the HSM token does not",
        arguments: [true, false])
    func failedLedger(isDestroyed: Bool) async throws {
        let file = try DatabaseQueue(path: directory.path("ledger.sqlite"))
        try await file.write {
            try $0.execute(
                sql: "CREATE TRIGGER refuse BEFORE INSERT ON merchant_key BEGIN SELECT RAISE(ABORT, 'refused'); END")
        }
        if !isDestroyed { hsmToken.fail(at: .destroying) }
        let administration = try administration()
        let refused = await importKey(administration).refusal
        #expect(refused?.code == .ledgerUnavailable && hsmToken.keyCount == (isDestroyed ? 0 : 1))
        let command = "--token-label LABEL --login --delete-object --type privkey --id \(hash.hex)"
        #expect(refused?.details?.contains(command) == (isDestroyed ? nil : true))
        #expect(index.entry(hash)?.condition == (isDestroyed ? nil : .external))
        // Repeating the command completes the import.
        try await file.write { try $0.execute(sql: "DROP TRIGGER refuse") }
        #expect(await importKey(administration).entry?.condition == .served)
        try file.close()
    }

    @Test("keeps the key if it is unknown whether the ledger has stored it")
    func unknownOutcome() async throws {
        hsmToken.runBeforeKeyUse { [ledger] in await ledger.close() }
        let refused = await importKey(try administration()).refusal
        #expect(refused?.code == .ledgerUnavailable && hsmToken.keyCount == 1)
        #expect(refused?.details?.contains("HSM token primary still has the key \(hash.hex)") == true)
    }

    @Test("keeps the key if the ledger has it, since another host has imported it meanwhile")
    func importedElsewhere() async throws {
        let known = keyRecord(hash, use: .googlePay, state: .preActivation, merchant: "BCR2DN4TEXAMPLE")
        hsmToken.runBeforeKeyUse { [ledger] in
            _ = try? await ledger.apply(AdministrativeChange(at: RecordFixture.noon, key: known, records: []))
        }
        let refused = await importKey(try administration()).refusal
        #expect(refused?.code == .invalidState && hsmToken.keyCount == 1)
        #expect(index.entry(hash)?.condition == .served)
    }

    @Test("keeps a key that the HSM token had before the import, although no list has shown it")
    func oldKey() async throws {
        hsmToken.add(key, of: "BCR2DN4TEXAMPLE")
        let administration = try administration(people: 2)
        let approval = try await approved(administration)
        hsmToken.runBeforeKeyUse { [ledger] in
            _ = try? await ledger.apply(
                AdministrativeChange(
                    at: RecordFixture.noon, approval: .withdraw(approval.identifier, by: PersonIdentities(uid: 4001)),
                    records: []))
        }
        #expect(await importKey(administration, approval: approval.identifier).refusal?.code == .approvalInvalid)
        #expect(hsmToken.keyCount == 1)
    }

    @Test("imports a key again after a refused import of the same key, and not in the middle of it")
    func simultaneous() async throws {
        let administration = try administration(people: 2)
        let (first, second) = (try await approved(administration), try await approved(administration))
        hsmToken.runBeforeKeyUse { [ledger] in
            // From its second call on, this changes nothing.
            _ = try? await ledger.apply(
                AdministrativeChange(
                    at: RecordFixture.noon, approval: .withdraw(first.identifier, by: PersonIdentities(uid: 4001)),
                    records: []))
        }
        let others = Shared<[Task<Imported, Never>]>([])
        hsmToken.runBeforeDestruction {
            let other = Task { await importKey(administration, approval: second.identifier) }
            others.change { $0.append(other) }
            // Without a lock, the other import would now complete.
            for _ in 0..<100 {
                await Task.yield()
                try? await Task.sleep(for: .milliseconds(2))
            }
        }
        #expect(await importKey(administration, approval: first.identifier).refusal?.code == .approvalInvalid)
        let other = try #require(others.current.first)
        #expect(await other.value.entry?.condition == .served)
        #expect(hsmToken.keyCount == 1)
        #expect(try await ledger.keyRecord(hash)?.state == .preActivation)
    }

    @Test("imports a key once for ten simultaneous imports, and refuses none")
    func tenAtOnce() async throws {
        let administration = try administration()
        let entries = await withTaskGroup(of: KeyEntry?.self) { group in
            for _ in 0..<10 { group.addTask { await importKey(administration).entry } }
            return await group.reduce(into: []) { $0.append($1) }
        }
        #expect(entries.count == 10 && entries.allSatisfy { $0?.condition == .served })
        #expect(hsmToken.keyCount == 1)
    }
}
