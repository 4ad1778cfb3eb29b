import PKCS11
import WorkerProtocol

extension OpenToken {
    /// Removes a key's objects: the private key first, so that whatever interrupts it leaves nothing that decrypts. A key
    /// that is not there is gone already.
    func destroyKey(_ publicKeyHash: [UInt8], in session: inout Session) throws(WorkerFailure) {
        let isGone: Bool
        do throws(CallError) {
            if let entry = keys.remove(publicKeyHash), entry.working != entry.object {
                // The copy that works in memory would go on without its original. Where the token has lost the session
                // that it belonged to, it is gone already.
                do throws(CallError) {
                    try session.destroyObject(entry.working)
                } catch {
                    guard error.isStaleHandle else { throw error }
                }
            }
            for objectClass: ObjectClass in [.privateKey, .publicKey, .certificate] {
                for object in try session.findObjects(matching: Self.objects(objectClass, publicKeyHash)) {
                    try session.destroyObject(object)
                }
            }
            isGone = try session.findObjects(matching: Self.objects(.privateKey, publicKeyHash)).isEmpty
        } catch {
            throw WorkerFailure(.tokenUnavailable, "The key's objects cannot be destroyed: \(error).")
        }
        guard isGone else {
            throw WorkerFailure(.tokenUnavailable, "The token says that the key is destroyed, and still shows it.")
        }
    }

    private static func objects(_ objectClass: ObjectClass, _ publicKeyHash: [UInt8]) -> Template {
        [.objectClass(objectClass), .token(true), .identifier(publicKeyHash)]
    }
}
