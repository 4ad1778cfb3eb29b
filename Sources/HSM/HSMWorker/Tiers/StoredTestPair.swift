import Encodings
import KeyTypes
import PKCS11
import WorkerProtocol

/// The stored key pairs for the known-answer tests of an HSM token that makes no session key pairs, such as a TPM.
///
/// One pair for each purpose is made once and used at each opening. Merchants' keys are never used instead: the record
/// could not explain such uses. The pairs have a label of their own and a CKA_ID that is no publicKeyHash, so they are
/// never listed as merchants' keys.
struct StoredTestPair: Sendable {
    /// The program that makes a pair, by the pair's CKA_LABEL. Workers keep their pairs; a trial of an HSM token
    /// (``TokenTrial``) uses and removes only its own.
    enum Keeper: String, Sendable {
        case worker = "paytokend test"
        case trial = "paytokend trial"
    }

    static let label = Keeper.worker.rawValue
    private static let prefix = label + " "

    /// The purpose, for operators: `EC_v1`, `RSA_v1` or `TLS`.
    let name: String
    private let keeper: Keeper

    init(_ scheme: RestorationScheme, _ use: KeyUse, _ keeper: Keeper = .worker) {
        name =
            switch use {
            // One pair serves all schemes of its type.
            case .processing, .googlePay: RestorationScheme(of: .processing, scheme.algorithm).name
            case .identity: "TLS"
            case .service: "JWT"
            }
        self.keeper = keeper
    }

    /// The beginning of the CKA_ID. Random bytes follow, since workers of several hosts may make pairs at the same time.
    private var identifierPrefix: [UInt8] { Array("\(keeper.rawValue) \(name) ".utf8) }

    /// The common attributes of both halves of a new pair. The CKA_ID has 27 to 31 bytes, so it never equals a
    /// publicKeyHash, which has 32.
    func newAttributes() -> [Attribute] {
        let random = (0..<8).map { _ in UInt8.random(in: .min ... .max) }
        return [.token(true), .identifier(identifierPrefix + random), .label(keeper.rawValue)]
    }

    /// Returns true if an object with this CKA_ID and CKA_LABEL belongs to a stored test pair.
    static func owns(identifier: [UInt8]?, label: String?) -> Bool {
        label == self.label && identifier?.starts(with: prefix.utf8) == true
    }

    /// The handles of the stored pair for this purpose; nil if the HSM token has no complete pair.
    func find(in session: inout Session) throws(CallError) -> (publicKey: ObjectHandle, privateKey: ObjectHandle)? {
        let privateKeys: Template = [.objectClass(.privateKey), .token(true), .label(keeper.rawValue)]
        for privateKey in try session.findObjects(matching: privateKeys) {
            guard let identifier = try session.attributes([.identifier], of: privateKey).bytes(.identifier),
                identifier.starts(with: identifierPrefix)
            else { continue }
            let publicKeys: Template = [.objectClass(.publicKey), .token(true), .identifier(identifier)]
            if let publicKey = try session.findObjects(matching: publicKeys).first { return (publicKey, privateKey) }
        }
        return nil
    }

    /// Removes all stored test pairs, complete or not. The next worker that opens the HSM token makes the pairs that it
    /// needs again.
    /// - Returns: the number of private keys removed.
    fileprivate static func removeAll(in session: inout Session) throws(CallError) -> UInt32 {
        var removed: UInt32 = 0
        for objectClass: ObjectClass in [.privateKey, .publicKey] {
            let search: Template = [.objectClass(objectClass), .token(true), .label(label)]
            for object in try session.findObjects(matching: search) {
                let values = try session.attributes([.identifier, .label], of: object)
                guard owns(identifier: values.bytes(.identifier), label: values.text(.label)) else { continue }
                if try session.destroyIfPresent(object), objectClass == .privateKey { removed += 1 }
            }
        }
        return removed
    }
}

extension OpenToken {
    /// Removes the stored test pairs. Workers need them only at the opening. After a lost login, this worker would find no
    /// pair for its tests, so that a new worker replaces it and makes the pairs again.
    /// - Returns: the number of key pairs removed.
    func removeTestKeys(in session: inout Session) throws(WorkerFailure) -> UInt32 {
        do {
            return try StoredTestPair.removeAll(in: &session)
        } catch {
            throw WorkerFailure(.hsmTokenUnavailable, "The test keys cannot be removed: \(error).")
        }
    }
}

extension CallError {
    /// True if the HSM token rejects the template, so that the call may succeed with another template.
    var isAboutTemplate: Bool {
        switch returnValue {
        case .attributeValueInvalid, .attributeTypeInvalid, .attributeReadOnly, .templateInconsistent,
            .templateIncomplete, .functionNotSupported:
            true
        default: false
        }
    }

    /// True also for errors by which some libraries report a refused attribute. A TPM's library returns a general
    /// error. The YubiHSM's returns CKR_DEVICE_ERROR or CKR_DATA_INVALID, since it takes any CKA_WRAP or CKA_UNWRAP of
    /// an RSA key for the request of a wrap key.
    var mayBeAboutTemplate: Bool {
        switch returnValue {
        case .generalError, .deviceError, .dataInvalid: true
        default: isAboutTemplate
        }
    }
}
