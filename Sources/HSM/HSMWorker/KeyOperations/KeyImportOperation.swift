import Encodings
import KeySealing
import PKCS11
import SecretMemory
import WorkerProtocol

extension OpenToken {
    /// Stores a private key with its public key and certificate, and tests the pair. It stores all of them or none. A
    /// service key and a Google Pay key have no certificate.
    ///
    /// The private key is created last, unless the HSM token requires it to be created first (``KeyProfile``). So an
    /// interruption usually leaves no private key without its public key, and a repeated import stores the missing
    /// objects. A private key without a public key is replaced.
    func importPrivateKey(_ request: PrivateKeyImport, in session: inout Session) throws(WorkerFailure) {
        guard request.certificate.isEmpty != request.use.hasCertificate else {
            throw WorkerFailure(
                .importRefused,
                "A service key and a Google Pay key are imported without a certificate, and every other key with one.")
        }
        let certificate =
            request.use.hasCertificate ? try CertificateAttributes.refusingOnError(request.certificate) : nil
        let publicKey =
            if let certificate { certificate.publicKey } else {
                try SubjectPublicKeyInfo.refusingOnError(request.publicKey)
            }
        let privateKey = try unseal(request)
        guard privateKey.publicKey == publicKey.key else {
            throw WorkerFailure(
                .importRefused,
                "The private key does not belong to the \(certificate == nil ? "public key" : "certificate").")
        }
        try requireSupport(of: publicKey.algorithm, for: request.use)
        let hash = publicKey.publicKeyHash
        let present = try session.refusingOnError { (session) throws(CallError) in
            try session.privateKeys(withPublicKey: hash)
        }
        guard present.isEmpty else {
            let known = keys[hash]
            guard known == nil || known?.use == request.use.inHSMToken else {
                throw WorkerFailure(.importRefused, "The HSM token has this private key already, for another use.")
            }
            if known != nil {
                if certificate == nil { return }
                if try session.hasCertificate(request.certificate, hash) { return }
            }
            throw WorkerFailure(
                .importRefused,
                certificate == nil
                    ? "The HSM token has this private key already, and cannot use it; its listing says why."
                    : "The HSM token has this private key already: import the certificate alone.")
        }
        var created: [ObjectHandle] = []
        do throws(WorkerFailure) {
            let objects = KeyObjects(publicKey: publicKey, label: request.merchantIdentifier, use: request.use)
            if let certificate { try session.store(request.certificate, certificate, objects, &created) }
            let object = try session.refusingOnError { (session) throws(CallError) in
                try storePair(objects, privateKey, &created, in: &session)
            }
            created.append(object)
            try requireIdentifier(
                hash, of: created,
                finding: [.privateKey, .publicKey] + (certificate == nil ? [] : [.certificate]), in: &session)
            let entry = PrivateKeyEntry(
                publicKey: publicKey, use: request.use.inHSMToken, object: object, working: object)
            try session.requireProtection(of: object, publicKey.algorithm, for: request.use)
            if let failure = tiers.selfTestFailure(of: entry, for: request.use, in: &session) {
                throw WorkerFailure(.importRefused, "The imported pair failed its test: \(failure).")
            }
            add(entry)
        } catch {
            // The objects are destroyed in reverse order, so the private key is destroyed first.
            session.destroy(created.reversed())
            throw error
        }
    }

    /// Stores a certificate for a private key that the worker serves. Does nothing if the certificate is stored
    /// already.
    ///
    /// A processing key that may sign loses the right at this point, if the HSM token allows that: the key needed it
    /// only for the certificate's request (``Session/signRequest(_:_:with:)``).
    func importCertificate(_ request: CertificateToStore, in session: inout Session) throws(WorkerFailure) {
        let certificate = try CertificateAttributes.refusingOnError(request.certificate)
        guard certificate.publicKey.publicKeyHash == request.publicKeyHash else {
            throw WorkerFailure(.importRefused, "The certificate is for another key.")
        }
        guard let entry = keys[request.publicKeyHash] else {
            throw WorkerFailure(.keyNotFound, "The HSM token has no usable private key that the certificate is for.")
        }
        var created: [ObjectHandle] = []
        try session.store(
            request.certificate, certificate,
            KeyObjects(publicKey: certificate.publicKey, label: request.merchantIdentifier), &created)
        guard entry.use == .processing else { return }
        for object in Set([entry.object, entry.working]) where (try? session.keyRights(of: object))?.signs == true {
            session.revokeSigningRight(from: object)
        }
    }

    private func unseal(_ request: PrivateKeyImport) throws(WorkerFailure) -> PrivateKeyInfo {
        let pkcs8: SecretBytes
        do {
            pkcs8 = try importRecipient.open(
                encapsulatedKey: request.encapsulatedKey, sealed: request.sealedPrivateKey,
                authenticating: request.associatedData)
        } catch {
            throw WorkerFailure(
                .importRefused,
                "The sealed private key does not open: the worker was replaced since its import key was read, "
                    + "or the certificate or public key is not the one that was sealed with it. Try again.")
        }
        do {
            return try PrivateKeyInfo(pkcs8: pkcs8)
        } catch {
            throw WorkerFailure(.importRefused, "The import is refused: \(error.reason).")
        }
    }
}

extension SubjectPublicKeyInfo {
    fileprivate static func refusingOnError(_ der: [UInt8]) throws(WorkerFailure) -> SubjectPublicKeyInfo {
        do {
            return try SubjectPublicKeyInfo(der: der)
        } catch {
            throw WorkerFailure(.importRefused, "The import is refused: \(error.reason).")
        }
    }
}

extension CertificateAttributes {
    fileprivate static func refusingOnError(_ der: [UInt8]) throws(WorkerFailure) -> CertificateAttributes {
        do {
            return try CertificateAttributes(der: der)
        } catch {
            throw WorkerFailure(.importRefused, "The import is refused: \(error.reason).")
        }
    }
}

extension Session {
    fileprivate mutating func hasCertificate(_ der: [UInt8], _ hash: [UInt8]) throws(WorkerFailure) -> Bool {
        try refusingOnError { (session) throws(CallError) in
            for object in try session.findObjects(matching: [.objectClass(.certificate), .identifier(hash)]) {
                if try session.attributes([.value], of: object).bytes(.value) == der { return true }
            }
            return false
        }
    }

    /// Returns the private keys with this CKA_ID that have a public key. Private keys without one were left by an
    /// interrupted import and cannot be used, so this method destroys them.
    fileprivate mutating func privateKeys(withPublicKey hash: [UInt8]) throws(CallError) -> [ObjectHandle] {
        let found = try storedObjects(identifiedBy: hash)
        let privateKeys = found[.privateKey] ?? []
        guard found[.publicKey] == nil else { return privateKeys }
        for object in privateKeys { try destroyObject(object) }
        return []
    }

    fileprivate mutating func store(
        _ der: [UInt8], _ certificate: CertificateAttributes, _ objects: KeyObjects, _ created: inout [ObjectHandle]
    ) throws(WorkerFailure) {
        guard try !hasCertificate(der, objects.publicKey.publicKeyHash) else { return }
        created.append(
            try refusingOnError { (session) throws(CallError) in
                try session.createObject(objects.certificateTemplate(der, certificate))
            })
    }
}
