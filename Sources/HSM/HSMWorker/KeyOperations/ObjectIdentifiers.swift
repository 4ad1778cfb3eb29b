import PKCS11
import WorkerProtocol

// Some HSM tokens keep only the first bytes of a CKA_ID, in objects and in searches: the YubiHSM 2's library kept two
// bytes before its version 2.4.0 of 2023 (https://github.com/gravitational/teleport/pull/25370,
// https://github.com/Yubico/yubihsm-shell/issues/335). Such an HSM token cannot show a merchant key again, and a search
// for one key finds the objects of another. So new objects are read back, and a search result is only used if the
// CKA_ID of the object is the one that was searched for.
extension Session {
    /// The stored objects whose CKA_ID is `identifier`, by class, from a single search: some HSM tokens read every
    /// object for each search.
    mutating func storedObjects(
        identifiedBy identifier: [UInt8]
    ) throws(CallError) -> [ObjectClass: [ObjectHandle]] {
        var found: [ObjectClass: [ObjectHandle]] = [:]
        for object in try findObjects(matching: [.token(true), .identifier(identifier)]) {
            let values = try attributes([.objectClass, .identifier], of: object)
            guard let objectClass = values.objectClass, values.bytes(.identifier) == identifier else { continue }
            found[objectClass, default: []].append(object)
        }
        return found
    }

    /// - Returns: The reason why the HSM token does not keep the CKA_ID of a new object in full; nil if it does.
    mutating func identifierFault(of objects: [ObjectHandle], _ identifier: [UInt8]) throws(CallError) -> String? {
        for object in objects {
            let kept = try attributes([.identifier], of: object).bytes(.identifier) ?? []
            guard kept != identifier else { continue }
            return kept.count < identifier.count
                ? "keeps \(kept.count) of the \(identifier.count) bytes of a CKA_ID"
                : "changes the CKA_ID of an object"
        }
        return nil
    }
}

extension OpenToken {
    /// Verifies that the HSM token keeps the CKA_ID of a new key's objects, and finds the whole key by it.
    ///
    /// - Parameters:
    ///   - objects: The objects that were made.
    ///   - classes: The classes of all objects that the key must now have.
    /// - Throws: `importRefused`: no later attempt would succeed. The caller destroys the objects.
    func requireIdentifier(
        _ publicKeyHash: [UInt8], of objects: [ObjectHandle], finding classes: [ObjectClass],
        in session: inout Session
    ) throws(WorkerFailure) {
        let fault = try session.refusingOnError { (session) throws(CallError) -> String? in
            if let fault = try session.identifierFault(of: objects, publicKeyHash) { return fault }
            let found = try session.storedObjects(identifiedBy: publicKeyHash)
            return classes.allSatisfy { found[$0] != nil } ? nil : "does not find a new object by its CKA_ID"
        }
        guard let fault else { return }
        throw WorkerFailure(
            .importRefused,
            "HSM token \"\(description.label)\" cannot hold this key: it \(fault), by which paytokend finds a key. Use "
                + "another HSM token, or a version of its library without this limit.")
    }
}
