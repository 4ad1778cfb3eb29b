/// Requests have the types 1 to 63.
extension WorkerRequest {
    private enum FrameType: UInt8 {
        case open = 1
        case listKeys = 2
        case decrypt = 3
        case importPrivateKey = 4
        case importCertificate = 5
        case probe = 6
        case listAuditKeys = 7
        case createAuditKey = 8
        case signCheckpoint = 9
        case listHeads = 10
        case rememberHead = 11
        case generateKey = 12
        case signRequest = 13
        case destroyKey = 15
        case listMoreKeys = 16
        case describeKey = 17
    }

    /// The request as one frame with its length prefix.
    /// - Throws: ``FrameError/fieldTooLong`` or ``FrameError/length(_:)`` when a field exceeds its bound.
    public func encoded(identifier: UInt64) throws(FrameError) -> [UInt8] {
        var writer: FieldWriter
        switch self {
        case .open(let opening):
            writer = FieldWriter(type: FrameType.open.rawValue, identifier: identifier)
            try opening.write(to: &writer)
        case .listKeys:
            writer = FieldWriter(type: FrameType.listKeys.rawValue, identifier: identifier)
        case .listMoreKeys(let listing):
            writer = FieldWriter(type: FrameType.listMoreKeys.rawValue, identifier: identifier)
            writer.integer(listing)
        case .describeKey(let publicKeyHash):
            writer = FieldWriter(type: FrameType.describeKey.rawValue, identifier: identifier)
            try writer.octets(publicKeyHash, atMost: FieldBound.identifier)
        case .decrypt(let decryption):
            writer = FieldWriter(
                type: FrameType.decrypt.rawValue, identifier: identifier,
                capacity: decryption.ciphertext.count + 512)
            try decryption.write(to: &writer)
        case .importPrivateKey(let keyImport):
            writer = FieldWriter(type: FrameType.importPrivateKey.rawValue, identifier: identifier)
            try keyImport.write(to: &writer)
        case .importCertificate(let certificateImport):
            writer = FieldWriter(type: FrameType.importCertificate.rawValue, identifier: identifier)
            try certificateImport.write(to: &writer)
        case .destroyKey(let publicKeyHash):
            writer = FieldWriter(type: FrameType.destroyKey.rawValue, identifier: identifier)
            try writer.octets(publicKeyHash, atMost: FieldBound.identifier)
        case .probe:
            writer = FieldWriter(type: FrameType.probe.rawValue, identifier: identifier)
        case .listAuditKeys:
            writer = FieldWriter(type: FrameType.listAuditKeys.rawValue, identifier: identifier)
        case .createAuditKey(let key):
            writer = FieldWriter(type: FrameType.createAuditKey.rawValue, identifier: identifier)
            try writer.octets(key, atMost: FieldBound.auditKeyIdentifier)
        case .signCheckpoint(let signing):
            writer = FieldWriter(type: FrameType.signCheckpoint.rawValue, identifier: identifier)
            try signing.write(to: &writer)
        case .listHeads:
            writer = FieldWriter(type: FrameType.listHeads.rawValue, identifier: identifier)
        case .rememberHead(let head):
            writer = FieldWriter(type: FrameType.rememberHead.rawValue, identifier: identifier)
            try head.write(to: &writer)
        case .generateKey(let generation):
            writer = FieldWriter(type: FrameType.generateKey.rawValue, identifier: identifier)
            try generation.write(to: &writer)
        case .signRequest(let signing):
            writer = FieldWriter(type: FrameType.signRequest.rawValue, identifier: identifier)
            try signing.write(to: &writer)
        }
        return try writer.frame(atMost: FieldBound.requestFrame)
    }

    /// Reads a frame that claims to be a request.
    public init(_ frame: Frame) throws(FrameError) {
        guard let type = FrameType(rawValue: frame.type) else { throw .unknownType(frame.type) }
        var reader = FieldReader(frame.fields)
        switch type {
        case .open: self = .open(try HSMTokenOpening(from: &reader))
        case .listKeys: self = .listKeys
        case .listMoreKeys: self = .listMoreKeys(listing: try reader.integer())
        case .describeKey: self = .describeKey(publicKeyHash: try reader.octets(atMost: FieldBound.identifier))
        case .decrypt: self = .decrypt(try Decryption(from: &reader))
        case .importPrivateKey: self = .importPrivateKey(try PrivateKeyImport(from: &reader))
        case .importCertificate: self = .importCertificate(try CertificateToStore(from: &reader))
        case .destroyKey: self = .destroyKey(publicKeyHash: try reader.octets(atMost: FieldBound.identifier))
        case .probe: self = .probe
        case .listAuditKeys: self = .listAuditKeys
        case .createAuditKey:
            self = .createAuditKey(identifier: try reader.octets(atMost: FieldBound.auditKeyIdentifier))
        case .signCheckpoint: self = .signCheckpoint(try CheckpointSigning(from: &reader))
        case .listHeads: self = .listHeads
        case .rememberHead: self = .rememberHead(try HeadToRemember(from: &reader))
        case .generateKey: self = .generateKey(try KeyGeneration(from: &reader))
        case .signRequest: self = .signRequest(try RequestSigning(from: &reader))
        }
        try reader.end()
    }
}

extension HSMTokenOpening {
    fileprivate func write(to writer: inout FieldWriter) throws(FrameError) {
        writer.integer(protocolVersion)
        try writer.text(programVersion, atMost: FieldBound.name)
        try writer.text(modulePath, atMost: FieldBound.path)
        try writer.text(tokenURI, atMost: FieldBound.path)
        try writer.text(pinFile, atMost: FieldBound.path)
        writer.integer(sessions)
        try writer.text(initializationString, atMost: FieldBound.path)
        writer.boolean(allowExtractableSecret)
        writer.integer(callTimeout)
        try writer.text(refusedLogins, atMost: FieldBound.path)
        try writer.list(deniedSystemCalls, atMost: FieldBound.deniedSystemCalls) { writer, name throws(FrameError) in
            try writer.text(name, atMost: FieldBound.name)
        }
    }

    fileprivate init(from reader: inout FieldReader) throws(FrameError) {
        self.init(
            protocolVersion: try reader.integer(),
            programVersion: try reader.text(atMost: FieldBound.name),
            modulePath: try reader.text(atMost: FieldBound.path),
            tokenURI: try reader.text(atMost: FieldBound.path),
            pinFile: try reader.text(atMost: FieldBound.path),
            sessions: try reader.integer(),
            initializationString: try reader.text(atMost: FieldBound.path),
            allowExtractableSecret: try reader.boolean(),
            callTimeout: try reader.integer(),
            refusedLogins: try reader.text(atMost: FieldBound.path),
            deniedSystemCalls: try reader.list(atMost: FieldBound.deniedSystemCalls) { reader throws(FrameError) in
                try reader.text(atMost: FieldBound.name)
            })
    }
}

extension Decryption {
    fileprivate func write(to writer: inout FieldWriter) throws(FrameError) {
        try writer.octets(publicKeyHash, atMost: FieldBound.identifier)
        writer.integer(scheme.rawValue)
        try writer.octets(keyMaterial, atMost: FieldBound.keyMaterial)
        try writer.octets(otherInfo, atMost: FieldBound.otherInfo)
        try writer.octets(ciphertext, atMost: FieldBound.paymentData)
    }

    fileprivate init(from reader: inout FieldReader) throws(FrameError) {
        let publicKeyHash = try reader.octets(atMost: FieldBound.identifier)
        guard let scheme = RestorationScheme(rawValue: try reader.integer()) else { throw .invalidValue }
        self.init(
            publicKeyHash: publicKeyHash, scheme: scheme,
            keyMaterial: try reader.octets(atMost: FieldBound.keyMaterial),
            otherInfo: try reader.octets(atMost: FieldBound.otherInfo),
            ciphertext: try reader.octets(atMost: FieldBound.paymentData))
    }
}

extension PrivateKeyImport {
    fileprivate func write(to writer: inout FieldWriter) throws(FrameError) {
        try writer.text(merchantIdentifier, atMost: FieldBound.name)
        try writer.octets(certificate, atMost: FieldBound.certificate)
        try writer.octets(encapsulatedKey, atMost: FieldBound.keyMaterial)
        try writer.octets(sealedPrivateKey, atMost: FieldBound.sealedPrivateKey)
    }

    fileprivate init(from reader: inout FieldReader) throws(FrameError) {
        self.init(
            merchantIdentifier: try reader.text(atMost: FieldBound.name),
            certificate: try reader.octets(atMost: FieldBound.certificate),
            encapsulatedKey: try reader.octets(atMost: FieldBound.keyMaterial),
            sealedPrivateKey: try reader.octets(atMost: FieldBound.sealedPrivateKey))
    }
}

extension CertificateToStore {
    fileprivate func write(to writer: inout FieldWriter) throws(FrameError) {
        try writer.octets(publicKeyHash, atMost: FieldBound.identifier)
        try writer.text(merchantIdentifier, atMost: FieldBound.name)
        try writer.octets(certificate, atMost: FieldBound.certificate)
    }

    fileprivate init(from reader: inout FieldReader) throws(FrameError) {
        self.init(
            publicKeyHash: try reader.octets(atMost: FieldBound.identifier),
            merchantIdentifier: try reader.text(atMost: FieldBound.name),
            certificate: try reader.octets(atMost: FieldBound.certificate))
    }
}
