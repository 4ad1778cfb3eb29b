import AuditChain
import Crypto
import PKCS11
import SecretMemory
import Synchronization

/// The daemon's audit key, used in its token as the worker uses it.
final class SealingKey: Sendable {
    let checkpointKey: CheckpointKey
    private let key: ObjectHandle
    private let session: Mutex<Session>

    init(module path: String, label: String, pin: borrowing SecretBytes) throws {
        let slots = try Module(path: path).slots()
        guard let slot = try slots.first(where: { try $0.tokenInfo().label == label }) else {
            throw FillerFailure("there is no token labelled \(label)")
        }
        var session = try slot.openSession(readWrite: true)
        try session.logIn(.user, pin: pin)
        key = try Self.find(.privateKey, in: &session)
        let publicKey = try Self.find(.publicKey, in: &session)
        let value = try session.attributes([.ecPoint], of: publicKey).bytes(.ecPoint)
        guard let point = value.flatMap(EllipticCurve.p256Point(inAttributeValue:)),
            let checkpointKey = CheckpointKey(point: point)
        else { throw FillerFailure("the audit key is not on P-256") }
        self.checkpointKey = checkpointKey
        self.session = Mutex(session)
    }

    private static func find(_ objectClass: ObjectClass, in session: inout Session) throws -> ObjectHandle {
        let found = try session.findObjects(matching: [.objectClass(objectClass), .label("paytokend audit")])
        guard found.count == 1 else {
            throw FillerFailure("the token has \(found.count) audit keys; let the daemon make one")
        }
        return found[0]
    }

    @Sendable func sign(_ message: [UInt8]) async throws -> CheckpointSignature {
        let signature = try session.withLock {
            try $0.sign(Array(SHA256.hash(data: message)), .ecdsa, key: key)
        }
        guard let signature = CheckpointSignature(rawRepresentation: signature) else {
            throw FillerFailure("the token's signature has not 64 bytes")
        }
        return signature
    }
}
