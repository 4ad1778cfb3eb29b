import AuditChain
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

@testable import Daemon
@testable import UsageRecording

/// The generation of keys when one of its later steps fails.
@Suite struct KeyGenerationTests {
    private let directory: FreshDirectory
    private let fixture: RecordFixture
    private let hsmToken = SoftwareKeyToken()
    private let index = KeyIndex()
    private let administration: KeyAdministration
    private let caller = RecordRoutesFixture.auditor
    private let order = KeyAdministration.KeyOrder(merchantIdentifier: "m", algorithm: .ec, hsmToken: nil)

    init() async throws {
        directory = try FreshDirectory()
        fixture = try await RecordFixture(ledger: directory.path("ledger.sqlite"), hsmToken: SoftwareAuditToken())
        await fixture.gate.compare()
        let clock = WallClock { RecordFixture.noon }
        administration = KeyAdministration(
            catalogue: KeyCatalogue(
                index: index, ledger: fixture.ledger, hsmTokens: [], clock: clock, logger: RecordFixture.quiet),
            hsmTokens: [hsmToken], ledger: fixture.ledger, gate: fixture.gate, recorder: fixture.recorder,
            rule: TwoPersonRule(people: 1, expire: .seconds(60)), renewal: nil, clock: clock)
    }

    private func generate() async -> Result<KeyAdministration.Generated, Refusal> {
        do throws(Refusal) {
            return .success(
                try await administration.generate(order, by: caller, dryRun: false, draft: AuditDraft()))
        } catch {
            return .failure(error)
        }
    }

    private func refusal<T>(_ result: Result<T, Refusal>) -> Refusal? {
        if case .failure(let refusal) = result { refusal } else { nil }
    }

    /// Makes the ledger refuse every new key.
    private func refuseKeys() async throws {
        let file = try DatabaseQueue(path: directory.path("ledger.sqlite"))
        try await file.write {
            try $0.execute(
                sql: "CREATE TRIGGER refuse BEFORE INSERT ON merchant_key BEGIN SELECT RAISE(ABORT, 'refused'); END")
        }
        try file.close()
    }

    @Test("removes a key from the HSM token if the ledger does not record it")
    func unrecordedKeyRemoved() async throws {
        try await refuseKeys()
        #expect(refusal(await generate())?.code == .ledgerUnavailable)
        #expect(hsmToken.keyCount == 0)
    }

    @Test("keeps a key that the ledger may have recorded, and names it in the refusal")
    func doubtfulKeyKept() async throws {
        hsmToken.runBeforeKeyUse { [ledger = fixture.ledger] in await ledger.close() }
        let refused = refusal(await generate())
        #expect(refused?.code == .ledgerUnavailable && hsmToken.keyCount == 1)
        #expect(refused?.details?.contains("HSM token primary still has the key") == true)
    }

    @Test("names the unused key in the refusal if it cannot be removed")
    func unremovableKeyNamed() async throws {
        try await refuseKeys()
        hsmToken.fail(at: .destroying)
        let refused = refusal(await generate())
        #expect(refused?.code == .ledgerUnavailable && hsmToken.keyCount == 1)
        #expect(
            refused?.details?.contains("still has the key") == true, "\(String(describing: refused))")
    }

    @Test("answers with a key that is made and recorded even if the HSM token cannot be listed afterwards")
    func unlistedAfterGeneration() async throws {
        hsmToken.fail(at: .listing)
        guard case .success(.made(let entry, _)) = await generate() else {
            Issue.record("it was refused")
            return
        }
        #expect(entry.condition == .missing && entry.state == .preActivation)
        let records = try await fixture.ledger.keyRecords()
        #expect(records.map(\.origin) == [.generated] && records.map(\.publicKeyHash) == [entry.publicKeyHash])
        await fixture.ledger.close()
    }

    @Test("withholds a certificate request that cannot be recorded")
    func unrecordedRequestWithheld() async throws {
        guard case .success(.made(let entry, _)) = await generate() else {
            Issue.record("it was refused")
            return
        }
        hsmToken.runBeforeKeyUse { [ledger = fixture.ledger] in await ledger.close() }
        let refused: Refusal?
        do throws(Refusal) {
            _ = try await administration.certificateRequest(
                for: entry, by: caller, dryRun: false, draft: AuditDraft())
            refused = nil
        } catch {
            refused = error
        }
        #expect(refused?.code == .ledgerUnavailable)
    }

    @Test("refuses a certificate whose private key has left the HSM token, without asking for its activation")
    func privateKeyGone() async throws {
        guard case .success(.made(let entry, _)) = await generate() else {
            Issue.record("it was refused")
            return
        }
        let request = try #require(
            try await administration.certificateRequest(
                for: entry, by: caller, dryRun: false, draft: AuditDraft()))
        let certificate = try SharedForge.authority.merchantCertificate(
            certificateSigningRequest: request.der, profile: MerchantCertificateProfile(merchantIdentifier: "m"))
        // The key is destroyed without the daemon's knowledge.
        try await hsmToken.destroyKey(entry.publicKeyHash)
        for dryRun in [true, false] {
            let refused: Refusal?
            do throws(Refusal) {
                _ = try await administration.importCertificate(
                    certificate, allowExpired: false, by: caller, dryRun: dryRun, draft: AuditDraft())
                refused = nil
            } catch {
                refused = error
            }
            #expect(refused?.code == .invalidState)
            #expect(refused?.message.contains("must not be activated") == true, "\(String(describing: refused))")
        }
        #expect(try await fixture.ledger.keyRecord(entry.publicKeyHash)?.state == .preActivation)
        await fixture.ledger.close()
    }

    @Test("makes one key for ten simultaneous starts, and answers each with a request for it")
    func simultaneousStarts() async throws {
        let old = PublicKeyHash.of(subjectPublicKeyInfo: [1])
        let key = KeyRecord(
            publicKeyHash: old, merchantIdentifier: "m", algorithm: .ec, state: .active,
            createdAt: RecordFixture.noon, origin: .imported)
        try await fixture.ledger.apply(AdministrativeChange(at: Date(), key: key, records: []))
        try await administration.catalogue.refresh()
        let rotations = KeyRotations(administration: administration, arrivals: RefusedPaymentTokenCounts())
        let caller = caller
        let created = try await withThrowingTaskGroup(of: Bool.self) { group in
            for _ in 0..<10 {
                group.addTask {
                    let started = try await rotations.start(
                        KeyRotations.Start(merchantIdentifier: "m", algorithm: nil, hsmToken: nil), by: caller,
                        dryRun: false, draft: AuditDraft())
                    #expect(started.request != nil && started.rotation.phase == .certificate)
                    return started.created
                }
            }
            return try await group.reduce(into: []) { $0.append($1) }
        }
        #expect(created.filter { $0 }.count == 1 && created.count == 10)
        #expect(hsmToken.keyCount == 1)
        let events = try await fixture.ledger.records(AuditFilter(), order: .oldestFirst, after: nil, limit: 100)
            .records
            .map { String(decoding: $0.line, as: UTF8.self) }
        #expect(events.filter { $0.contains(#""event":"csr_create","outcome":"ok""#) }.count == 10)
        await fixture.ledger.close()
    }
}
