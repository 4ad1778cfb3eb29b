import Encodings
import PKCS11
import SecretMemory
import TestSupport
import Testing
import TokenForge

@testable import HSMWorker

/// The objects that an import makes in SoftHSM, and the operations that a holder of the PIN can perform on them.
@Suite struct KeyObjectsTests {
    private func stored(_ merchant: ForgedMerchant, in session: inout Session) throws -> ObjectHandle {
        let key = try PrivateKeyInfo(pkcs8: SecretBytes(copying: merchant.key.pkcs8))
        let publicKey = try SubjectPublicKeyInfo(der: merchant.key.subjectPublicKeyInfo)
        #expect(key.publicKey == publicKey.key)
        let objects = KeyObjects(publicKey: publicKey, label: "merchant.test")
        return try session.createObject(objects.templates().privateKey, secrets: key.secrets)
    }

    @Test("refuses to reveal any private number of a key")
    func unreadable() throws {
        var session = try SoftHSM.shared().freshToken().openSession()
        let ec = try stored(SharedForge.ecMerchant, in: &session)
        #expect(try session.attributes([.value], of: ec).bytes(.value) == nil)
        let rsa = try stored(SharedForge.rsaMerchant, in: &session)
        for type: AttributeType in [.privateExponent, .prime1, .prime2, .exponent1, .exponent2, .coefficient] {
            #expect(try session.attributes([type], of: rsa).bytes(type) == nil)
        }
    }

    @Test("refuses to make a key or its copy extractable or not sensitive")
    func staysProtected() throws {
        var session = try SoftHSM.shared().freshToken().openSession()
        let object = try stored(SharedForge.ecMerchant, in: &session)
        for change: Attribute in [.extractable(true), .sensitive(false)] {
            let template = Template([change])
            #expect(throws: CallError.self) { try session.setAttributes(template, of: object) }
            #expect(throws: CallError.self) { try session.copyObject(object, template) }
        }
        let copy = try session.copyObject(object, [.token(false)])
        let values = try session.attributes([.sensitive, .extractable], of: copy)
        #expect(values.flag(.sensitive) == true)
        #expect(values.flag(.extractable) == false)
    }

    @Test("refuses to sign with a processing key, even after a copy with the right to sign has signed the same data")
    func signsRequestOnly() throws {
        var session = try SoftHSM.shared().freshToken().openSession()
        for merchant in [try SharedForge.ecMerchant, try SharedForge.rsaMerchant] {
            let key = try stored(merchant, in: &session)
            let (data, mechanism): ([UInt8], Mechanism) =
                merchant.merchant.isEllipticCurve
                ? ([UInt8](repeating: 7, count: 32), .ecdsa) : ([1, 2, 3], .rsaPKCS1SHA256)
            #expect(throws: CallError.self) { try session.sign(data, mechanism, key: key) }
            let before = try session.findObjects(matching: []).count
            #expect(try session.signRequest(data, mechanism, with: key).count >= 64)
            #expect(try session.findObjects(matching: []).count == before)
            #expect(throws: CallError.self) { try session.sign(data, mechanism, key: key) }
        }
    }
}
