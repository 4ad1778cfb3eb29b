import PKCS11
import TestSupport
import Testing

@testable import HSMWorker

@Suite struct TierSelectionTests {
    @Test("the known-answer test leaves nothing in the session")
    func cleansUp() throws {
        var session = try SoftHSM.shared().freshToken().openSession()
        let before = try session.findObjects(matching: []).count
        let tiers = TierSelection(in: &session, allowExtractableSecret: true)
        #expect(tiers.ecV1 is ECDHSecretTier)
        // SoftHSM's OAEP knows SHA-1 only.
        #expect(tiers.rsaV1 is BareRSATier)
        #expect(try session.findObjects(matching: []).count == before)
    }

    @Test("a tier that the token cannot do fails its trial and says with which call")
    func failsTrial() throws {
        var session = try SoftHSM.shared().freshToken().openSession()
        let key = try ThrowawayKey(for: .rsaV1, in: &session)
        let entry = try #require(key.entry)
        #expect(OAEPInTokenTier().failsTrial(with: entry, in: &session)?.contains("C_Decrypt") == true)
        #expect(BareRSATier().failsTrial(with: entry, in: &session) == nil)
        key.destroy(in: &session)
        #expect(BareRSATier().failsTrial(with: entry, in: &session)?.contains("CKR_") == true)
    }

    @Test("the public half of the known-answer key is the private half's")
    func knownAnswerKey() throws {
        var session = try SoftHSM.shared().freshToken().openSession()
        let (publicKey, _) = try #require(try KnownAnswerKey.create(in: &session))
        let info = try #require(try session.publicKey(publicKey, .rsa))
        #expect(info.algorithm == .rsa)
        #expect(info.der.count == 294)
    }
}
