import Encodings
import PKCS11
import ProductVersion
import SecretMemory
import TestSupport
import TokenForge
import WorkerProtocol

@testable import HSMWorker

/// An open HSM token with the EC merchant's key, on SoftHSM loaded into this process.
final class OpenTokenHarness: Sendable {
    let softHSM: SoftHSMToken
    let hsmToken: OpenToken
    private let directory: FreshDirectory

    init(_ tier: (any RestorationTier)? = nil, callTimeout: UInt32 = 10_000) throws {
        softHSM = try SoftHSM.shared().freshToken()
        directory = try FreshDirectory()
        let pinFile = try directory.write(SoftHSMToken.userPIN, to: "pin")
        let module = try SoftHSM.shared().module
        let opening = HSMTokenOpening(
            programVersion: ProductVersion.current, modulePath: SoftHSM.libraryPath,
            tokenURI: "pkcs11:token=x", pinFile: pinFile, sessions: 2, initializationString: "",
            allowExtractableSecret: true, callTimeout: callTimeout, refusedLogins: directory.path("refused"))
        var anchor = try softHSM.openSession()
        try Self.store(SharedForge.ecMerchant, in: &anchor)
        var tiers = TierSelection(in: &anchor, allowExtractableSecret: true)
        let info = try softHSM.slot.tokenInfo()
        let serial = "pkcs11:serial=\(info.serialNumber)"
        if let tier { tiers.chosen[.ecV1] = tier }
        hsmToken = OpenToken(
            opening, try TokenURI(serial), softHSM.slot, anchor: anchor,
            description: HSMTokenDescription(
                label: info.label, serialNumber: info.serialNumber, manufacturer: "", model: "", library: "\(module)",
                sessions: 2, tierECv1: .c, tierRSAv1: .c, shortcomings: [], importKey: []),
            tiers: tiers)
        var session = try softHSM.openSession()
        _ = try hsmToken.listKeys(in: &session)
    }

    static func store(_ merchant: ForgedMerchant, in session: inout Session) throws {
        let key = try PrivateKeyInfo(pkcs8: SecretBytes(copying: merchant.key.pkcs8))
        let objects = KeyObjects(
            publicKey: try SubjectPublicKeyInfo(der: merchant.key.subjectPublicKeyInfo), label: "merchant.test")
        _ = try session.createObject(objects.templates().publicKey)
        _ = try session.createObject(objects.templates().privateKey, secrets: key.secrets)
    }

    func payment() throws -> EncryptedPayment {
        try EncryptedPayment.ec()
    }

    /// Decrypts a payment in a session, and blocks until the result is known.
    func decrypt(
        _ payment: EncryptedPayment, in session: inout Session, callTimeout: UInt32 = 10_000
    ) -> Result<[UInt8], WorkerFailure> {
        var deadline = CallDeadline(callTimeout: callTimeout)
        let input = Decryption(
            publicKeyHash: payment.publicKeyHash, scheme: .ecV1, keyMaterial: payment.keyMaterial,
            otherInfo: payment.otherInfo, ciphertext: payment.ciphertext)
        return Result { () throws(WorkerFailure) in try hsmToken.decrypt(input, in: &session, &deadline).plaintext }
    }
}
