/// Answers have the types 65 to 127.
extension WorkerAnswer {
    private enum FrameType: UInt8 {
        case opened = 65
        case keys = 66
        case plaintext = 67
        case done = 68
        case failed = 69
        case auditKeys = 70
        case auditKey = 71
        case signature = 72
        case heads = 73
        case generatedKey = 74
        case requestSignature = 75
        case keyPage = 76
    }

    /// The answer as one frame with its length prefix.
    /// - Throws: ``FrameError/fieldTooLong`` or ``FrameError/length(_:)`` when a field exceeds its bound.
    public func encoded(identifier: UInt64) throws(FrameError) -> [UInt8] {
        var writer: FieldWriter
        switch self {
        case .opened(let description):
            writer = FieldWriter(type: FrameType.opened.rawValue, identifier: identifier)
            try description.write(to: &writer)
        case .keys(let keys):
            writer = FieldWriter(type: FrameType.keys.rawValue, identifier: identifier)
            try writer.list(keys, atMost: FieldBound.keys) { (writer, key) throws(FrameError) in
                try key.write(to: &writer)
            }
        case .keyPage(let keys, let listing):
            writer = FieldWriter(type: FrameType.keyPage.rawValue, identifier: identifier)
            writer.integer(listing)
            try writer.list(keys, atMost: FieldBound.keys) { (writer, key) throws(FrameError) in
                try key.write(to: &writer)
            }
        case .plaintext(let plaintext, let tier, let unlockedSecrets):
            writer = FieldWriter(
                type: FrameType.plaintext.rawValue, identifier: identifier, capacity: plaintext.count + 12)
            try writer.octets(plaintext, atMost: FieldBound.paymentData)
            writer.integer(tier.octet)
            try writer.unlockedSecrets(unlockedSecrets)
        case .done:
            writer = FieldWriter(type: FrameType.done.rawValue, identifier: identifier)
        case .failed(let failure):
            writer = FieldWriter(type: FrameType.failed.rawValue, identifier: identifier)
            writer.integer(failure.kind.rawValue)
            try writer.sentence(failure.message)
        case .auditKeys(let keys):
            writer = FieldWriter(type: FrameType.auditKeys.rawValue, identifier: identifier)
            try writer.list(keys, atMost: FieldBound.auditKeys) { (writer, key) throws(FrameError) in
                try key.write(to: &writer)
            }
        case .auditKey(let key):
            writer = FieldWriter(type: FrameType.auditKey.rawValue, identifier: identifier)
            try key.write(to: &writer)
        case .signature(let der):
            writer = FieldWriter(type: FrameType.signature.rawValue, identifier: identifier)
            try writer.octets(der, atMost: FieldBound.signature)
        case .heads(let lines):
            writer = FieldWriter(type: FrameType.heads.rawValue, identifier: identifier)
            try writer.list(lines, atMost: FieldBound.rememberedHeads) { (writer, line) throws(FrameError) in
                try writer.octets(line, atMost: FieldBound.checkpoint)
            }
        case .generatedKey(let key):
            writer = FieldWriter(type: FrameType.generatedKey.rawValue, identifier: identifier)
            try key.write(to: &writer)
        case .requestSignature(let signature):
            writer = FieldWriter(type: FrameType.requestSignature.rawValue, identifier: identifier)
            try writer.octets(signature, atMost: FieldBound.requestSignature)
        }
        return try writer.frame(atMost: FieldBound.answerFrame)
    }

    /// Reads a frame that claims to be an answer.
    public init(_ frame: Frame) throws(FrameError) {
        guard let type = FrameType(rawValue: frame.type) else { throw .unknownType(frame.type) }
        var reader = FieldReader(frame.fields)
        switch type {
        case .opened:
            self = .opened(try HSMTokenDescription(from: &reader))
        case .keys:
            self = .keys(
                try reader.list(atMost: FieldBound.keys) { (reader) throws(FrameError) in
                    try KeyDescription(from: &reader)
                })
        case .keyPage:
            let listing: UInt64 = try reader.integer()
            self = .keyPage(
                try reader.list(atMost: FieldBound.keys) { (reader) throws(FrameError) in
                    try KeyDescription(from: &reader)
                }, listing: listing)
        case .plaintext:
            let plaintext = try reader.octets(atMost: FieldBound.paymentData)
            let tier = try ProtectionTier(from: &reader)
            self = .plaintext(plaintext, tier: tier, unlockedSecrets: try reader.unlockedSecrets())
        case .done:
            self = .done
        case .failed:
            guard let kind = WorkerFailure.Kind(rawValue: try reader.integer()) else { throw .invalidValue }
            self = .failed(WorkerFailure(kind, try reader.text(atMost: FieldBound.sentence)))
        case .auditKeys:
            self = .auditKeys(
                try reader.list(atMost: FieldBound.auditKeys) { (reader) throws(FrameError) in
                    try AuditKeyDescription(from: &reader)
                })
        case .auditKey:
            self = .auditKey(try AuditKeyDescription(from: &reader))
        case .generatedKey:
            self = .generatedKey(try KeyDescription(from: &reader))
        case .requestSignature:
            self = .requestSignature(try reader.octets(atMost: FieldBound.requestSignature))
        case .signature:
            self = .signature(try reader.octets(atMost: FieldBound.signature))
        case .heads:
            self = .heads(
                try reader.list(atMost: FieldBound.rememberedHeads) { (reader) throws(FrameError) in
                    try reader.octets(atMost: FieldBound.checkpoint)
                })
        }
        try reader.end()
    }
}

extension ProtectionTier {
    fileprivate var octet: UInt8 {
        switch self {
        case .a: 1
        case .b: 2
        case .c: 3
        }
    }

    fileprivate init(from reader: inout FieldReader) throws(FrameError) {
        let octet: UInt8 = try reader.integer()
        guard let tier = Self.allCases.first(where: { $0.octet == octet }) else { throw .invalidValue }
        self = tier
    }
}

extension HSMTokenDescription {
    fileprivate func write(to writer: inout FieldWriter) throws(FrameError) {
        try writer.text(label, atMost: FieldBound.name)
        try writer.text(serialNumber, atMost: FieldBound.name)
        try writer.text(manufacturer, atMost: FieldBound.name)
        try writer.text(model, atMost: FieldBound.name)
        try writer.text(library, atMost: FieldBound.name)
        writer.integer(sessions)
        for tier in [tierECv1, tierRSAv1] {
            try writer.optional(tier) { (writer, tier) throws(FrameError) in writer.integer(tier.octet) }
        }
        try writer.list(shortcomings, atMost: FieldBound.shortcomings) { (writer, text) throws(FrameError) in
            try writer.sentence(text)
        }
        try writer.octets(importKey, atMost: FieldBound.keyMaterial)
        try writer.unlockedSecrets(unlockedSecrets)
    }

    fileprivate init(from reader: inout FieldReader) throws(FrameError) {
        self.init(
            label: try reader.text(atMost: FieldBound.name),
            serialNumber: try reader.text(atMost: FieldBound.name),
            manufacturer: try reader.text(atMost: FieldBound.name),
            model: try reader.text(atMost: FieldBound.name),
            library: try reader.text(atMost: FieldBound.name),
            sessions: try reader.integer(),
            tierECv1: try reader.optional { (reader) throws(FrameError) in try ProtectionTier(from: &reader) },
            tierRSAv1: try reader.optional { (reader) throws(FrameError) in try ProtectionTier(from: &reader) },
            shortcomings: try reader.list(atMost: FieldBound.shortcomings) { (reader) throws(FrameError) in
                try reader.text(atMost: FieldBound.sentence)
            },
            importKey: try reader.octets(atMost: FieldBound.keyMaterial),
            unlockedSecrets: try reader.unlockedSecrets())
    }
}

extension FieldWriter {
    fileprivate mutating func unlockedSecrets(_ count: UInt32) throws(FrameError) {
        guard count <= FieldBound.unlockedSecrets else { throw .invalidValue }
        integer(count)
    }
}

extension FieldReader {
    fileprivate mutating func unlockedSecrets() throws(FrameError) -> UInt32 {
        let count: UInt32 = try integer()
        guard count <= FieldBound.unlockedSecrets else { throw .invalidValue }
        return count
    }
}

extension KeyDescription {
    fileprivate func write(to writer: inout FieldWriter) throws(FrameError) {
        try writer.octets(identifier, atMost: FieldBound.identifier)
        try writer.text(label, atMost: FieldBound.name)
        writer.integer(algorithm.rawValue)
        try writer.octets(subjectPublicKeyInfo, atMost: FieldBound.subjectPublicKeyInfo)
        try writer.list(certificates, atMost: FieldBound.certificatesPerKey) { (writer, der) throws(FrameError) in
            try writer.octets(der, atMost: FieldBound.certificate)
        }
        writer.boolean(isProtected)
        try writer.optional(inconsistency) { (writer, text) throws(FrameError) in try writer.sentence(text) }
    }

    fileprivate init(from reader: inout FieldReader) throws(FrameError) {
        let identifier = try reader.octets(atMost: FieldBound.identifier)
        let label = try reader.text(atMost: FieldBound.name)
        guard let algorithm = KeyAlgorithm(rawValue: try reader.integer()) else { throw .invalidValue }
        self.init(
            identifier: identifier, label: label, algorithm: algorithm,
            subjectPublicKeyInfo: try reader.octets(atMost: FieldBound.subjectPublicKeyInfo),
            certificates: try reader.list(atMost: FieldBound.certificatesPerKey) { (reader) throws(FrameError) in
                try reader.octets(atMost: FieldBound.certificate)
            },
            isProtected: try reader.boolean(),
            inconsistency: try reader.optional { (reader) throws(FrameError) in
                try reader.text(atMost: FieldBound.sentence)
            })
    }
}
