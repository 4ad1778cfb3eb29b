import AuditChain
import Crypto
import CryptoExtras
import Foundation
import KeyTypes
import Ledger
import Locks
import MerchantKeys
import PaymentToken
import Refusals
import TLSHandshake
import TestSupport
import Testing
import TokenForge
import WorkerProtocol
import WorkerSupervision

@testable import Daemon
@testable import UsageRecording

/// The proofs of keys with stand-ins for the HSM tokens, which open and sign in software.
@Suite struct KeyProvingTests {
    private static let names = ["primary", "second", "third"]

    private struct Setup {
        let record: RecordFixture
        let index = KeyIndex()
        let hsm = ProvingHSMTokens()
        let proving: KeyProving
        let key: PublicKeyHash
        private let directory: FreshDirectory

        /// One key, which the first two of three HSM tokens show, in a ledger with this state.
        ///
        /// - Parameters:
        ///   - recorded: the merchant in the ledger; nil for the certificate's.
        ///   - replaced: an active key of the same merchant in the third HSM token; nil for none.
        ///   - isThirdRead: false if the third HSM token was away since the start.
        init(
            _ merchant: ForgedMerchant? = nil, state: KeyState = .active, use: KeyUse = .processing,
            isCertified: Bool = true, isAdopted: Bool = true, recorded: String? = nil, replaced: ForgedMerchant? = nil,
            isThirdRead: Bool = true
        ) async throws {
            let merchant = try merchant ?? SharedForge.ecMerchant
            directory = try FreshDirectory()
            record = try await RecordFixture(
                ledger: directory.path("ledger.sqlite"), hsmToken: SoftwareAuditToken(), at: Date())
            await record.gate.compare()
            let (information, name) = (merchant.key.subjectPublicKeyInfo, recorded ?? merchant.merchant.identifier)
            key = PublicKeyHash.of(subjectPublicKeyInfo: information)
            let algorithm = if case .rsa = merchant.key { KeyAlgorithm.rsa } else { KeyAlgorithm.ec }
            let keyRecord = KeyRecord(
                publicKeyHash: key, merchantIdentifier: name, algorithm: algorithm, use: use, state: state,
                createdAt: Date(), origin: .generated)
            if isAdopted {
                try await record.ledger.apply(AdministrativeChange(at: Date(), key: keyRecord, records: []))
            }
            let description = KeyDescription(
                identifier: key.bytes, label: name, algorithm: algorithm, use: use, subjectPublicKeyInfo: information,
                certificates: isCertified ? [merchant.certificate] : [], isProtected: true, inconsistency: nil)
            // The index has an active key, whatever the ledger says.
            var indexed = keyRecord
            indexed.state = .active
            var old: [(key: KeyDescription, record: KeyRecord)] = []
            if let replaced {
                let information = replaced.key.subjectPublicKeyInfo
                let hash = PublicKeyHash.of(subjectPublicKeyInfo: information)
                let record = KeyRecord(
                    publicKeyHash: hash, merchantIdentifier: name, algorithm: algorithm, use: use, state: .active,
                    createdAt: Date(), origin: .generated)
                let key = KeyDescription(
                    identifier: hash.bytes, label: name, algorithm: algorithm, use: use,
                    subjectPublicKeyInfo: information, certificates: [], isProtected: true, inconsistency: nil)
                old = [(key, record)]
            }
            index.rebuild(
                hsmTokens: [("primary", [description]), ("second", [description])]
                    + (isThirdRead ? [("third", old.map(\.key))] : []),
                keyRecords: (isAdopted ? [indexed] : []) + old.map(\.record))
            hsm.keys.change { keys in for name in KeyProvingTests.names { keys[name] = merchant.key } }
            proving = KeyProving(
                keys: index, hsm: hsm, gate: record.gate, recorder: record.recorder, hsmTokens: KeyProvingTests.names)
        }

        func prove(_ draft: AuditDraft = AuditDraft()) async throws(Refusal) -> KeyProving.Outcome {
            guard let entry = index.entry(key) else { throw .defect }
            return try await proving.prove(entry, by: nil, draft: draft)
        }

        /// Starts a renewal with the key as the new one.
        func startRenewal() async throws {
            var change = AdministrativeChange(at: Date(), records: [])
            change.renewal = .start(
                StoredRenewal(
                    identifier: .random(),
                    renewal: Renewal(
                        merchantIdentifier: try SharedForge.ecMerchant.merchant.identifier, use: .processing,
                        algorithm: .ec, newKey: key),
                    requesterUID: 0, requesterName: "root", startedAt: Date()))
            try await record.ledger.apply(change)
        }

        var proofs: [AuditEntry] {
            get async throws { try await record.entries.filter { $0.event == "key_proof" } }
        }
    }

    @Test(
        "encrypts as a wallet does, has each HSM token that shows the key open the message, and records each",
        arguments: [false, true])
    func opens(isRSA: Bool) async throws {
        let merchant = try isRSA ? SharedForge.rsaMerchant : SharedForge.ecMerchant
        let setup = try await Setup(merchant)
        let draft = AuditDraft()
        let outcome = try await setup.prove(draft)
        #expect(outcome.isProved)
        #expect(outcome.results.map(\.hsmToken) == ["primary", "second"] && outcome.withoutKey == ["third"])
        #expect(outcome.results.allSatisfy { $0.protection == .c && $0.failure == nil })
        #expect(Set(setup.hsm.asked.current) == [["primary"], ["second"]])

        let certificate = AuditDigest.of(merchant.certificate)
        #expect(outcome.certificate == certificate)
        let records = try await setup.proofs
        #expect(records.map(\.hsmToken) == ["primary", "second"])
        #expect(records.map(\.sequence) == outcome.results.map { $0.audit?.sequence })
        #expect(draft.sequence == records.last?.sequence)
        for record in records {
            #expect(record.outcome == "ok" && record.merchant == merchant.merchant.identifier)
            #expect(record.publicKeyHash == AuditDigest(bytes: setup.key.bytes) && record.protection == "C")
            #expect(record.details["certificateSha256"]?.stringValue == certificate.hex)
        }
        // No two HSM tokens get the same message, so that none can answer for the other.
        #expect(Set(setup.hsm.ciphertexts.current).count == 2)
    }

    @Test("records a refusal for an HSM token without the key of an open renewal that has the key to be replaced")
    func withoutKey() async throws {
        let setup = try await Setup(
            replaced: ForgedMerchant(
                authority: SharedForge.authority, type: .p256,
                profile: MerchantCertificateProfile(merchantIdentifier: "merchant.com.example")))
        // Without a renewal, two HSM tokens may well have different keys.
        let before = try await setup.prove()
        #expect(before.isProved && before.results.map(\.hsmToken) == ["primary", "second"])
        try await setup.startRenewal()
        let outcome = try await setup.prove()
        #expect(!outcome.isProved && outcome.withoutKey == ["third"])
        #expect(outcome.results.map(\.hsmToken) == ["primary", "second", "third"])
        #expect(outcome.results.map { $0.failure?.code } == [nil, nil, .hsmUnavailable])
        #expect(Set(setup.hsm.asked.current) == [["primary"], ["second"]])
        #expect(try await setup.proofs.map(\.outcome) == ["ok", "ok", "ok", "ok", "hsm_unavailable"])
        // The record is the newest proof of that HSM token, so the node does not count as proved.
        let proofs = try await setup.record.ledger.proofs(of: setup.key, since: .distantPast)
        #expect(proofs.filter { !$0.succeeded }.map(\.hsmToken) == ["third"])
    }

    @Test("takes an HSM token that was away since the start for one that may need the key of an open renewal")
    func unread() async throws {
        let setup = try await Setup(isThirdRead: false)
        #expect(try await setup.prove().isProved)
        try await setup.startRenewal()
        let outcome = try await setup.prove()
        #expect(!outcome.isProved && outcome.results.map { $0.failure?.code } == [nil, nil, .hsmUnavailable])
    }

    @Test("proves a key that has no certificate yet, and records no certificate")
    func preActivation() async throws {
        let setup = try await Setup(state: .preActivation, isCertified: false)
        #expect(try await setup.prove().isProved)
        for record in try await setup.proofs { #expect(record.details["certificateSha256"] == nil) }
    }

    @Test("uses no key whose merchant in the ledger is not the one that Apple certified")
    func otherMerchant() async throws {
        let certified = try ForgedMerchant(
            authority: SharedForge.authority, type: .p256,
            profile: MerchantCertificateProfile(merchantIdentifier: "merchant.com.example.certified"))
        let setup = try await Setup(certified, recorded: "merchant.com.example.recorded")
        await #expect(throws: Refusal.self) { try await setup.prove() }
        #expect(setup.hsm.asked.current.isEmpty)
    }

    @Test("takes no other plaintext and no other key's signature for a proof")
    func wrongResults() async throws {
        let opened = try await Setup()
        opened.hsm.alters.change { $0 = ["second"] }
        let outcome = try await opened.prove()
        #expect(!outcome.isProved && outcome.results.map { $0.failure?.code } == [nil, .decryptionFailed])
        #expect(try await opened.proofs.map(\.outcome) == ["ok", "decryption_failed"])

        let signed = try await Setup(Self.identity(), use: .identity)
        signed.hsm.keys.change { $0["second"] = try? SharedForge.rsaMerchant.key }
        let signatures = try await signed.prove()
        #expect(signatures.results.map { $0.failure?.code } == [nil, .hsmUnavailable])
        #expect(try await signed.proofs.map(\.outcome) == ["ok", "hsm_unavailable"])
    }

    @Test("has an identity key sign by each algorithm, and decrypt nothing", arguments: TLSSignatureAlgorithm.allCases)
    func signs(algorithm: TLSSignatureAlgorithm) async throws {
        let setup = try await Setup(Self.identity(), use: .identity)
        setup.hsm.algorithms.change { $0 = [algorithm] }
        let outcome = try await setup.prove()
        #expect(outcome.isProved && outcome.results.allSatisfy { $0.protection == nil })
        #expect(setup.hsm.ciphertexts.current.isEmpty)
        for input in setup.hsm.handshakes.current {
            #expect(try ClientCertificateVerifyInput(parsing: input).permits(algorithm))
        }
        #expect(Set(setup.hsm.handshakes.current).count == 2)
    }

    @Test("records an HSM token that is away, and proves the key in the others")
    func oneAway() async throws {
        let setup = try await Setup()
        setup.hsm.failures.change {
            $0 = ["primary": WorkerFailure(.hsmTokenUnavailable, "The HSM token is away.", isUnsent: true)]
        }
        let outcome = try await setup.prove()
        #expect(outcome.results.map { $0.failure?.code } == [.hsmUnavailable, nil])
        #expect(outcome.results.first?.failure?.message == "The HSM token is away.")
        let records = try await setup.proofs
        #expect(records.map(\.outcome) == ["hsm_unavailable", "ok"])
        #expect(records.map { $0.details["hsm"]?.stringValue } == ["not_reached", nil])
        #expect(records.map(\.protection) == [nil, "C"])
    }

    @Test(
        "uses no suspended, compromised or destroyed key, even if this node does not know of the change yet",
        arguments: [KeyState.suspended, .compromised, .destroyed])
    func refusedStates(state: KeyState) async throws {
        let setup = try await Setup(state: state)
        let refusal = await #expect(throws: Refusal.self) { try await setup.prove() }
        #expect(refusal?.code == .invalidState)
        #expect(setup.hsm.asked.current.isEmpty)
        #expect(try await setup.proofs.isEmpty)
    }

    @Test("uses no service key, and no key that was not adopted")
    func otherKeys() async throws {
        let service = try await Setup(use: .service, isCertified: false)
        await #expect(throws: Refusal.self) { try await service.prove() }
        let external = try await Setup(isAdopted: false)
        await #expect(throws: Refusal.self) { try await external.prove() }
        #expect(service.hsm.asked.current.isEmpty && external.hsm.asked.current.isEmpty)
    }

    private static func identity() throws -> ForgedMerchant {
        try ForgedMerchant(
            authority: SharedForge.authority, type: .rsa2048,
            profile: MerchantCertificateProfile(
                merchantIdentifier: "merchant.com.example.identity", kind: .merchantIdentity))
    }
}

/// HSM tokens whose keys are in software. They restore keys by Apple's description, with code of their own.
final class ProvingHSMTokens: ProvingHSM {
    /// The key of each HSM token.
    let keys = Shared<[String: ForgeKey]>([:])
    /// The HSM tokens that alter each plaintext.
    let alters = Shared<Set<String>>([])
    let failures = Shared<[String: WorkerFailure]>([:])
    let algorithms = Shared<[TLSSignatureAlgorithm]>([.pssSHA256, .pkcs1SHA256])
    /// The holders that each call named.
    let asked = Shared<[[String]]>([])
    let ciphertexts = Shared<[[UInt8]]>([])
    let handshakes = Shared<[[UInt8]]>([])

    private struct WrongInput: Error {}

    func missingTier(for key: KeyEntry) -> String? { nil }

    func tlsAlgorithms(of holders: [String]) -> [TLSSignatureAlgorithm] { algorithms.current }

    private func key(of holders: [String]) throws(WorkerFailure) -> (String, ForgeKey) {
        asked.change { $0.append(holders) }
        let name = holders.first ?? ""
        if let failure = failures.current[name] { throw failure }
        guard holders.count == 1, let key = keys.current[name] else { throw WorkerFailure(.keyNotFound, "no such key") }
        return (name, key)
    }

    func decrypt(
        _ decryption: Decryption, heldBy holders: [String], for requester: Requester
    ) async throws(WorkerFailure) -> OpenedTransaction {
        let (name, key) = try key(of: holders)
        ciphertexts.change { $0.append(decryption.ciphertext) }
        do {
            let symmetric: SymmetricKey
            switch decryption.scheme {
            case .ecV1:
                let peer = try P256.KeyAgreement.PublicKey(x963Representation: decryption.keyMaterial)
                let secret = try P256.KeyAgreement.PrivateKey(derRepresentation: key.pkcs8)
                    .sharedSecretFromKeyAgreement(with: peer)
                var hash = SHA256()
                hash.update(data: [0, 0, 0, 1] as [UInt8])
                unsafe secret.withUnsafeBytes { unsafe hash.update(bufferPointer: $0) }
                hash.update(data: decryption.otherInfo)
                symmetric = SymmetricKey(data: hash.finalize())
            case .rsaV1:
                let wrapped = try _RSA.Encryption.PrivateKey(derRepresentation: key.pkcs8)
                    .decrypt(decryption.keyMaterial, padding: .PKCS1_OAEP_SHA256)
                guard wrapped.count == 16 else { throw WrongInput() }
                symmetric = SymmetricKey(data: wrapped)
            case .ecV2: throw WrongInput()
            }
            let box = try AES.GCM.SealedBox(
                nonce: AES.GCM.Nonce(data: [UInt8](repeating: 0, count: 16)),
                ciphertext: decryption.ciphertext.dropLast(16), tag: decryption.ciphertext.suffix(16))
            var plaintext = Array(try AES.GCM.open(box, using: symmetric))
            if alters.current.contains(name) { plaintext[0] ^= 1 }
            return OpenedTransaction(plaintext: plaintext, tier: .c, hsmToken: name)
        } catch {
            throw WorkerFailure(.decryptionFailed, "not opened")
        }
    }

    func sign(
        _ signing: TLSSigning, heldBy holders: [String], for requester: Requester
    ) async throws(WorkerFailure) -> (signature: [UInt8], hsmToken: String) {
        let (name, key) = try key(of: holders)
        handshakes.change { $0.append(signing.input) }
        do {
            let signature = try _RSA.Signing.PrivateKey(derRepresentation: key.pkcs8).signature(
                for: Data(signing.input), padding: signing.algorithm == .pssSHA256 ? .PSS : .insecurePKCS1v1_5)
            return (Array(signature.rawRepresentation), name)
        } catch {
            throw WorkerFailure(.importRefused, "not signed")
        }
    }
}
