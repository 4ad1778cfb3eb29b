import KeyTesting
import PKCS11
import TestSupport
import Testing
import WorkerProtocol

@testable import HSMWorker

@Suite struct TierSelectionTests {
    @Test("leaves no objects in the session after the known-answer test")
    func cleansUp() throws {
        var session = try SoftHSM.shared().freshToken().openSession()
        let before = try session.findObjects(matching: []).count
        let tiers = TierSelection(in: &session, allowExtractableSecret: true)
        #expect(tiers.chosen[.ecV1] is ECDHSecretTier)
        // SoftHSM supports OAEP only with SHA-1.
        #expect(tiers.chosen[.rsaV1] is BareRSATier)
        #expect(try session.findObjects(matching: []).count == before)
    }

    @Test("fails the test of an unsupported tier, and names the failed call")
    func selfTestFailure() throws {
        var session = try SoftHSM.shared().freshToken().openSession()
        let key = try TestKeyPair(for: .rsaV1, in: &session)
        let entry = key.entry
        #expect(OAEPInTokenTier().selfTestFailure(with: entry, in: &session)?.call?.call == "C_DecryptInit")
        #expect(
            UnwrappedKeyTier(form: .withVectorBits).selfTestFailure(with: entry, in: &session)?.call?.call
                == "C_UnwrapKey")
        #expect(BareRSATier().selfTestFailure(with: entry, in: &session) == nil)
        key.destroy(in: &session)
        #expect(BareRSATier().selfTestFailure(with: entry, in: &session)?.description.contains("CKR_") == true)
    }

    @Test("names what the HSM token lacks for tiers without extractable secrets if those are required")
    func shortcomings() throws {
        var session = try SoftHSM.shared().freshToken().openSession()
        let tiers = TierSelection(in: &session, allowExtractableSecret: false)
        #expect(tiers.chosen[.ecV1] == nil && tiers.chosen[.rsaV1] == nil)
        #expect(tiers.needsExtractableSecret)
        try #require(tiers.shortcomings.count == 2)
        for name in [
            "EC_v1", "CKD_SHA256_KDF_SP800", "CKM_CONCATENATE", "C_DeriveKey: CKR_", "allow_extractable_secret",
        ] {
            #expect(tiers.shortcomings[0].contains(name), "\(tiers.shortcomings[0])")
        }
        for name in ["RSA_v1", "CKM_RSA_PKCS_OAEP with SHA-256", "C_UnwrapKey: CKR_", "allow_extractable_secret"] {
            #expect(tiers.shortcomings[1].contains(name), "\(tiers.shortcomings[1])")
        }
    }

    @Test("reads the public key of a known-answer pair", arguments: RestorationScheme.allCases)
    func knownAnswerKey(_ scheme: RestorationScheme) throws {
        var session = try SoftHSM.shared().freshToken().openSession()
        let (publicKey, _) = try #require(try KnownKeyPair.create(for: scheme, in: &session))
        let info = try #require(try session.publicKey(publicKey, scheme.algorithm))
        #expect(info.algorithm == scheme.algorithm)
        #expect(info.der.count == (scheme.algorithm == .ec ? 91 : 294))
    }
}

/// NSS's softoken, which supports the mechanisms of tiers A and B.
@Suite("Tiers on NSS's softoken", .enabled(if: NSSSoftoken.isInstalled, "needs Debian's libnss3"))
struct NSSTierTests {

    @Test("selects tier B for EC_v1 and ECv2 and tier A for RSA_v1 without extractable secrets, and leaves no objects")
    func selects() throws { try NSSSoftoken.alone(selects) }

    private func selects(_ session: inout Session) throws {
        let before = try session.findObjects(matching: []).count
        let tiers = TierSelection(in: &session, allowExtractableSecret: false)
        #expect(tiers.chosen[.ecV1] is ConcatenationTier)
        #expect(tiers.chosen[.rsaV1] is UnwrappedKeyTier)
        #expect(tiers.chosen[.ecV2] is HKDFTier)
        #expect(tiers.shortcomings.isEmpty && tiers.shortcomingECv2.isEmpty)
        #expect(try session.findObjects(matching: []).count == before)
    }

    @Test(
        "decrypts with both forms of AES-GCM parameters, which NSS distinguishes by their length",
        arguments: Mechanism.GCMParameterForm.allCases)
    func forms(_ form: Mechanism.GCMParameterForm) throws {
        try NSSSoftoken.alone { session in try forms(form, &session) }
    }

    private func forms(_ form: Mechanism.GCMParameterForm, _ session: inout Session) throws {
        let tiers: [any RestorationTier] = [ConcatenationTier(form: form), UnwrappedKeyTier(form: form)]
        for tier in tiers {
            let key = try TestKeyPair(for: tier.scheme, in: &session)
            defer { key.destroy(in: &session) }
            let before = try session.findObjects(matching: []).count
            let failure = tier.selfTestFailure(with: key, in: &session)
            #expect(failure == nil, "\(String(describing: failure))")
            session.dropKeptObject()
            #expect(try session.findObjects(matching: []).count == before)
        }
    }

    @Test("returns the same bytes and refusals at all tiers of one HSM token, and leaves no objects")
    func agree() throws { try NSSSoftoken.alone(agree) }

    private func agree(_ session: inout Session) throws {
        for scheme in RestorationScheme.allCases {
            let key = try TestKeyPair(for: scheme, in: &session)
            defer { key.destroy(in: &session) }
            // Only the known key pair covers a shared secret that begins with a zero byte.
            #expect(key.isKnown)
            let entry = key.entry
            let before = try session.findObjects(matching: []).count
            let tiers: [any RestorationTier] =
                switch scheme {
                case .ecV1: [ConcatenationTier(form: .withVectorBits), ECDHSecretTier()]
                case .rsaV1: [UnwrappedKeyTier(form: .withVectorBits), OAEPInTokenTier(), BareRSATier()]
                case .ecV2: [HKDFTier(), ECDHSecretTier(scheme: .ecV2)]
                }
            let transaction = try TestTransaction(for: entry.publicKey, scheme)
            var faults = [transaction.input, transaction.input, transaction.input]
            faults[0].ciphertext[0] ^= 1
            faults[1].ciphertext = Array(faults[1].ciphertext.prefix(15))
            faults[2].keyMaterial[40] ^= 1
            for tier in tiers {
                #expect(try tier.open(transaction.input, with: entry, in: &session) == transaction.plaintext)
                for fault in faults {
                    #expect(throws: RestorationError.self) { try tier.open(fault, with: entry, in: &session) }
                }
                session.dropKeptObject()
            }
            #expect(try session.findObjects(matching: []).count == before)
        }
    }

    @Test("reports wrong tags and wrong padding with the return values that PKCS#11 defines for them")
    func refusals() throws { try NSSSoftoken.alone(refusals) }

    private func refusals(_ session: inout Session) throws {
        let key = try TestKeyPair(for: .rsaV1, in: &session)
        defer { key.destroy(in: &session) }
        let entry = key.entry
        let transaction = try TestTransaction(for: entry.publicKey)
        var (tag, padding) = (transaction.input, transaction.input)
        tag.ciphertext[0] ^= 1
        padding.keyMaterial[40] ^= 1
        for fault in [tag, padding] {
            do {
                _ = try UnwrappedKeyTier(form: .withVectorBits).open(fault, with: entry, in: &session)
                Issue.record("opened")
            } catch {
                guard case .refused(.some) = error else {
                    Issue.record("\(error)")
                    continue
                }
            }
        }
    }
}
