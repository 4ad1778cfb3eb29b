import PortalRequests
import WorkerProtocol

/// A value for each kind of frame. Every field differs from its default.
enum Samples {
    static let requests: [WorkerRequest] = [
        .open(
            HSMTokenOpening(
                protocolVersion: 0x0102, programVersion: "1.2.3", modulePath: "/usr/lib/module.so",
                tokenURI: "pkcs11:token=prüfung", pinFile: "/etc/pin", sessions: 258,
                initializationString: "configdir='sql:/x'", allowExtractableSecret: true, callTimeout: 0x0102_0304,
                refusedLogins: "/var/lib/refused", deniedSystemCalls: ["execve", "connect"], portalIssuer: "57246542",
                portalKeyId: "2X9R4HXF34")),
        .listKeys,
        .listMoreKeys(listing: 0x0102_0304_0506_0708),
        .describeKey(publicKeyHash: octets(32, from: 40)),
        .readAttributes(publicKeyHash: octets(32, from: 41)),
        .decrypt(
            Decryption(
                publicKeyHash: octets(32, from: 1), scheme: .ecV1, keyMaterial: octets(65, from: 4),
                otherInfo: octets(51, from: 9), ciphertext: octets(300, from: 77))),
        .decrypt(
            Decryption(
                publicKeyHash: octets(32, from: 200), scheme: .rsaV1, keyMaterial: octets(256, from: 3),
                otherInfo: [], ciphertext: octets(16, from: 0))),
        .decrypt(
            Decryption(
                publicKeyHash: octets(32, from: 60), scheme: .ecV2, keyMaterial: octets(65, from: 4), otherInfo: [],
                ciphertext: octets(33, from: 1))),
        .importPrivateKey(
            PrivateKeyImport(
                merchantIdentifier: "merchant.com.example", use: .identity, certificate: octets(900, from: 5),
                encapsulatedKey: octets(65, from: 6), sealedPrivateKey: octets(154, from: 7))),
        .importPrivateKey(
            PrivateKeyImport(
                merchantIdentifier: "2X9R4HXF34", use: .service, publicKey: octets(91, from: 5),
                encapsulatedKey: octets(65, from: 6), sealedPrivateKey: octets(154, from: 7))),
        .importCertificate(
            CertificateToStore(
                publicKeyHash: octets(32, from: 8), merchantIdentifier: "merchant.com.example",
                certificate: octets(1200, from: 9))),
        .removeTestKeys,
        .probe,
        .listAuditKeys,
        .createAuditKey(identifier: octets(16, from: 21)),
        .signCheckpoint(
            CheckpointSigning(identifier: octets(16, from: 22), message: octets(300, from: 23), algorithm: .ecdsaP256)),
        .listHeads,
        .rememberHead(HeadToRemember(node: "backend-1", line: octets(420, from: 24))),
        .generateKey(KeyGeneration(merchantIdentifier: "merchant.com.example", algorithm: .rsa, use: .identity)),
        .generateKey(KeyGeneration(merchantIdentifier: "", algorithm: .ec, onlyFinishes: true)),
        .signRequest(RequestSigning(publicKeyHash: octets(32, from: 25), information: octets(600, from: 26))),
        .signTLS(
            TLSSigning(publicKeyHash: octets(32, from: 40), algorithm: .pkcs1SHA256, input: octets(1700, from: 41))),
        .signJWT(
            JWTSigning(
                publicKeyHash: octets(32, from: 42),
                request: PortalRequest(.listCertificates, of: "A1B2C3D4E5")!,
                scope: .unversioned)),
        .signJWT(
            JWTSigning(
                publicKeyHash: octets(32, from: 42), request: PortalRequest(.revokeCertificate, of: "C1")!, scope: nil)),
        .destroyKey(publicKeyHash: octets(32, from: 51)),
    ]

    static let answers: [WorkerAnswer] = [
        .opened(
            HSMTokenDescription(
                label: "paytokend", serialNumber: "0123456789abcdef", manufacturer: "M", model: "v2",
                hardwareVersion: "3.0", firmwareVersion: "7.12", library: "library 2.6", sessions: 2, tierECv1: .c,
                tierRSAv1: .a, tierECv2: .b, shortcomingECv2: "no",
                tlsSignatures: TLSSignatures(pss: .byWorker, pkcs1: true), shortcomings: ["one", "two"],
                needsExtractableSecret: true, testKeys: ["TLS"], testKeysMade: 1, importKey: octets(65, from: 11),
                unlockedSecrets: 0x0102_0304)),
        .opened(
            HSMTokenDescription(
                label: "", serialNumber: "", manufacturer: "", model: "", library: "", sessions: 0, tierECv1: nil,
                tierRSAv1: .b, shortcomings: [], importKey: [])),
        .keys([]),
        .keyPage([], listing: .max),
        .keyPage(
            [
                KeyDescription(
                    identifier: octets(32, from: 41), label: "merchant.com.example", algorithm: .rsa, use: .identity,
                    subjectPublicKeyInfo: octets(294, from: 42), certificates: [octets(1400, from: 43)],
                    isProtected: true, inconsistency: nil)
            ], listing: 0x0908_0706_0504_0302),
        .keys([
            KeyDescription(
                identifier: octets(32, from: 12), label: "merchant.com.example", algorithm: .ec,
                subjectPublicKeyInfo: octets(91, from: 13), certificates: [octets(700, from: 1), octets(1, from: 2)],
                isProtected: true, inconsistency: nil),
            KeyDescription(
                identifier: [1], label: "", algorithm: .rsa, subjectPublicKeyInfo: [], certificates: [],
                isProtected: false, inconsistency: "the pair failed its test"),
        ]),
        .keyAttributes([]),
        .keyAttributes([
            PrivateKeyAttributes(
                sensitive: true, extractable: false, alwaysSensitive: true, neverExtractable: false, local: true,
                token: true, private: false, modifiable: true, derive: true, decrypt: false, unwrap: true, sign: false,
                algorithm: .rsa, bits: 2048),
            PrivateKeyAttributes(),
        ]),
        .plaintext(octets(400, from: 14), tier: .c),
        .plaintext([], tier: .a),
        .plaintext([1], tier: .b, unlockedSecrets: FieldBound.unlockedSecrets),
        .done,
        .auditKeys([]),
        .auditKeys([
            AuditKeyDescription(
                identifier: octets(16, from: 31), publicKey: octets(65, from: 4), algorithm: .ecdsaP256),
            AuditKeyDescription(identifier: [], publicKey: [], algorithm: .rsaPSS),
        ]),
        .auditKey(
            AuditKeyDescription(identifier: octets(16, from: 33), publicKey: octets(65, from: 4), algorithm: .ecdsaP256)
        ),
        .signature(octets(72, from: 34)),
        .generatedKey(
            KeyDescription(
                identifier: octets(32, from: 37), label: "merchant.com.example", algorithm: .ec,
                subjectPublicKeyInfo: octets(91, from: 38), certificates: [], isProtected: true, inconsistency: nil)),
        .requestSignature(octets(256, from: 39)),
        .tlsSignature(octets(256, from: 42)),
        .jsonWebToken(octets(600, from: 43)),
        .removedTestKeys(0x0102_0304),
        .heads([]),
        .heads([octets(400, from: 35), octets(1, from: 36)]),
        .failed(WorkerFailure(.hsmTokenUnavailable, "C_Login: CKR_DEVICE_REMOVED")),
    ]

    static func octets(_ count: Int, from first: UInt8) -> [UInt8] {
        (0..<count).map { first &+ UInt8(truncatingIfNeeded: $0) }
    }

    static func frame(_ encoded: [UInt8], limit: Int = FieldBound.answerFrame) throws -> Frame? {
        var decoder = FrameDecoder(maximumLength: limit)
        decoder.append(encoded)
        return try decoder.next()
    }
}
