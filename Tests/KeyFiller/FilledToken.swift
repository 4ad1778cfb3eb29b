import Crypto
import PKCS11
import SecretMemory
import Synchronization
import TokenForge

/// A token that takes keys as fast as it can.
final class FilledToken: Sendable {
    private let session: Mutex<Session>

    init(module path: String, label: String, pin: borrowing SecretBytes) throws {
        let slots = try Module(path: path).slots()
        guard let slot = try slots.first(where: { try $0.tokenInfo().label == label }) else {
            throw FillerFailure(description: "there is no token labelled \(label)")
        }
        var session = try slot.openSession(readWrite: true)
        try session.logIn(.user, pin: pin)
        self.session = Mutex(session)
    }

    /// Private key, public key and certificate with the attributes that an import gives them.
    func store(_ merchant: ForgedMerchant) throws {
        guard case .p256(let key) = merchant.key else { throw FillerFailure(description: "not a key on P-256") }
        let hash = merchant.merchant.publicKeyHash
        func common(_ objectClass: ObjectClass, isPrivate: Bool) -> [Attribute] {
            [
                .objectClass(objectClass), .token(true), .private(isPrivate), .identifier(hash),
                .label(merchant.merchant.identifier),
            ]
        }
        let curve: [Attribute] = [.keyType(.ec), .ecParameters(EllipticCurve.p256Parameters)]
        let point = Array(key.publicKey.x963Representation)
        let certificate: [Attribute] = [
            // An empty Name and a number: nobody looks for it by these.
            .x509Certificate, .subject([0x30, 0]), .issuer([0x30, 0]), .serialNumber([2, 1, 1]),
            .value(merchant.certificate),
        ]
        let publicKey: [Attribute] = [
            .verify(true), .encrypt(false), .wrap(false), .ecPoint(EllipticCurve.attributeValue(forPoint: point)),
        ]
        let privateKey: [Attribute] = [
            .sensitive(true), .extractable(false), .sign(true), .derive(true), .decrypt(false), .unwrap(false),
        ]
        var secrets = SecretAttributes(capacity: 32)
        SecretBytes(copying: Array(key.rawRepresentation)).withBytes { secrets.append(.value, $0) }
        try session.withLock { session in
            _ = try session.createObject(Template(common(.certificate, isPrivate: false) + certificate))
            _ = try session.createObject(Template(common(.publicKey, isPrivate: false) + curve + publicKey))
            _ = try session.createObject(
                Template(common(.privateKey, isPrivate: true) + curve + privateKey), secrets: secrets)
        }
    }
}

/// Why nothing was filled.
struct FillerFailure: Error, CustomStringConvertible {
    let description: String
}
