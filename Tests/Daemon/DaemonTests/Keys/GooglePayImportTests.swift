import AccessControl
import Crypto
import Foundation
import KeyTypes
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

/// The import of a Google Pay key, before any HSM token is asked.
@Suite struct GooglePayImportTests {
    @Test(
        "names the wallet, the merchant and the HSM tokens to the person who approves an import",
        arguments: [
            ("BCR2DN4TEXAMPLE", "BCR2DN4TEXAMPLE"), ("12345678901234567890", "1234567890/1234567890"),
            ("123456789012345", "1234567890/12345"), ("BCR2DN4T12345678901234", "BCR2DN4T12/3456789012/34"),
        ])
    func reason(merchant: String, shown: String) throws {
        let key = Array(P256.Signing.PrivateKey().publicKey.derRepresentation)
        let imported = try ImportedKey(publicKey: key, use: .googlePay, merchant: merchant)
        #expect(imported.approvalReason(into: ["a", "b"]).text == "Google Pay key import for \(shown) into a, b")
    }

    @Test("refuses a key that an HSM token has with a certificate of Apple's, since it is a key of Apple Pay")
    func keyOfApplePay() async throws {
        let directory = try FreshDirectory()
        let record = try await RecordFixture(ledger: directory.path("ledger.sqlite"), hsmToken: SoftwareAuditToken())
        await record.gate.compare()
        let (merchant, primary, index) = (try SharedForge.ecMerchant, SoftwareKeyToken(), KeyIndex())
        let publicKey = merchant.key.subjectPublicKeyInfo
        let hash = PublicKeyHash.of(subjectPublicKeyInfo: publicKey)
        let administration = KeyAdministration(
            catalogue: KeyCatalogue(
                index: index, ledger: record.ledger, hsmTokens: ["primary"], clock: .system,
                logger: RecordFixture.quiet),
            hsmTokens: [primary], ledger: record.ledger, gate: record.gate, recorder: record.recorder,
            rule: TwoPersonRule(people: 1, expire: .seconds(60)), renewal: nil, clock: .system)
        let caller = Caller(
            rule: AccessRule(name: "staff", user: .init(name: "staff", id: 1), roles: [.admin]),
            peer: PeerCredentials(uid: 1, gid: 1))
        func check() async throws {
            _ = try await administration.importKey(
                KeyAdministration.KeyImport(
                    publicPart: .googlePayPublicKey(publicKey, merchantIdentifier: "BCR2DN4TEXAMPLE"),
                    sealedKeys: [.init(hsmToken: "primary", encapsulatedKey: [], sealedPrivateKey: [])],
                    allowExpired: false, approval: nil),
                by: caller, dryRun: true, draft: AuditDraft())
        }
        try await check()
        index.rebuild(
            hsmTokens: [
                (
                    "primary",
                    [
                        KeyDescription(
                            identifier: hash.bytes, label: "key", algorithm: .ec, subjectPublicKeyInfo: publicKey,
                            certificates: [merchant.certificate], isProtected: true, inconsistency: nil)
                    ]
                )
            ], keyRecords: [])
        await #expect { try await check() } throws: { ($0 as? Refusal)?.code == .invalidState }
    }
}
