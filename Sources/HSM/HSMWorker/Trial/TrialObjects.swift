import Encodings
import PKCS11
import WorkerProtocol

/// The objects that a trial stores in the HSM token. All have the same CKA_LABEL, and a CKA_ID of a trial's key, so that
/// a later trial finds and removes what a killed one left. No other object is read, used or changed.
enum TrialObjects {
    static let label = StoredTestPair.Keeper.trial.rawValue

    private static let classes: [(objectClass: ObjectClass, name: String)] = [
        (.privateKey, "private key"), (.publicKey, "public key"), (.certificate, "certificate"), (.data, "data object"),
    ]

    /// Destroys all of a trial's objects.
    /// - Parameter announce: Receives each object's description before it is destroyed.
    /// - Throws: The first error, after an attempt to destroy the other objects.
    static func removeAll(in session: inout Session, announcing announce: (String) -> Void) throws(CallError) {
        var failure: CallError?
        for (objectClass, name) in classes {
            let search: Template = [.objectClass(objectClass), .token(true), .label(label)]
            for object in try session.findObjects(matching: search) {
                do throws(CallError) {
                    let values = try session.attributes([.label, .identifier, .application], of: object)
                    guard isOwn(values, objectClass) else { continue }
                    let identifier = Hexadecimal.encode(values.bytes(.identifier) ?? [])
                    announce("\(name) \"\(label)\"" + (identifier.isEmpty ? "" : ", CKA_ID \(identifier)"))
                    try session.destroyObject(object)
                } catch {
                    failure = failure ?? error
                }
            }
        }
        if let failure { throw failure }
    }

    /// Returns true for an object that a trial has made. A search's result is checked again, because some HSM tokens
    /// ignore a part of the template.
    private static func isOwn(_ values: AttributeValues, _ objectClass: ObjectClass) -> Bool {
        guard values.text(.label) == label else { return false }
        if objectClass == .data { return values.text(.application) == label }
        let identifier = values.bytes(.identifier) ?? []
        // A publicKeyHash, an audit key's identifier, an unfinished key, or a stored test pair.
        return identifier.count == 32 || identifier.count == AuditKeyDescription.identifierByteCount
            || identifier.starts(with: KeyGeneration.unfinishedIdentifier) || identifier.starts(with: label.utf8)
    }
}
