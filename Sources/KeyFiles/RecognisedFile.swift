internal import SecretMemory

/// A file's bytes with what they turned out to be.
struct RecognisedFile: ~Copyable {
    let path: String
    private let bytes: SecretBytes
    /// Empty when the file is not PEM.
    let blocks: [PEMBlock]
    /// What a file in DER holds; nil when it is PEM.
    private let binary: FileContent?

    var isPEM: Bool { binary == nil }

    init(path: String, secret: Bool) throws(KeyFileError) {
        let bytes = try KeyFileInput.read(path, secret: secret)
        let blocks: [PEMBlock]
        do throws(PEMText.Fault) {
            blocks = try bytes.withSpan { span throws(PEMText.Fault) in try PEMText.blocks(in: span) }
        } catch {
            throw Self.damaged(path, error)
        }
        self.path = path
        self.blocks = blocks
        binary = blocks.isEmpty ? bytes.withSpan { span in Self.binaryContent(of: span) } : nil
        self.bytes = bytes
    }

    /// What the file holds, in order, each with the block that it stands in.
    var contents: [(content: FileContent, block: PEMBlock?)] {
        if let binary { return [(binary, nil)] }
        return blocks.map { ($0.content ?? .unknown, $0) }
    }

    /// The DER of one block, or the whole file when it is DER.
    func der(of block: PEMBlock?) throws(KeyFileError) -> SecretBytes {
        guard let block else { return bytes.duplicate() }
        do throws(PEMText.Fault) {
            return try bytes.withSpan { span throws(PEMText.Fault) in
                try PEMText.decode(span.extracting(block.text))
            }
        } catch {
            throw Self.damaged(path, error)
        }
    }

    private static func damaged(_ path: String, _ fault: PEMText.Fault) -> KeyFileError {
        switch fault {
        case .unterminated(let label):
            KeyFileError(
                .unsuitable, path: path,
                "is cut off: its block \(label) has no line -----END \(label)-----. Copy the whole file again.")
        case .notBase64:
            KeyFileError(.unsuitable, path: path, "is damaged: its PEM block is not base64. Copy the file again.")
        }
    }

    /// Forms that are not DER but are known by how they begin.
    private static func binaryContent(of bytes: Span<UInt8>) -> FileContent {
        func begins(_ prefix: [UInt8]) -> Bool {
            guard bytes.count >= prefix.count else { return false }
            for (index, byte) in prefix.enumerated() where bytes[index] != byte { return false }
            return true
        }
        if begins([0xFE, 0xED, 0xFE, 0xED]) { return .javaKeyStore }
        if begins(Array("ssh-".utf8)) || begins(Array("ecdsa-sha2-".utf8)) { return .opensshPublicKey }
        if begins([UInt8(ascii: "{")]) { return .json }
        return DERShape.content(of: bytes)
    }
}

extension SecretBytes {
    /// Lends the bytes as ``Span``, which checks its bounds.
    func withSpan<Result: ~Copyable, Failure: Error>(
        _ body: (Span<UInt8>) throws(Failure) -> Result
    ) throws(Failure) -> Result {
        try unsafe withUnsafeBytes { bytes throws(Failure) in
            try unsafe body(Span(_unsafeBytes: bytes))
        }
    }
}
