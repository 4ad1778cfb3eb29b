internal import Encodings
internal import Glibc
internal import SecretMemory

// Unsafe: The span cannot leave `body`. read(2) receives the rest of the buffer, and fstat(2) writes only its
// structure.

/// A file's bytes, and the kinds of content that were recognised in them.
struct RecognisedFile: ~Copyable {
    let path: String
    private let bytes: SecretBytes
    /// The PEM blocks; empty if the file is not PEM.
    let blocks: [PEMBlock]
    /// The content of a DER file; nil for PEM.
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

    /// The parts of the file in order, each with its kind of content and its PEM block. A DER file is one part without
    /// a block.
    var contents: [(content: FileContent, block: PEMBlock?)] {
        if let binary { return [(binary, nil)] }
        return blocks.map { ($0.content ?? .unknown, $0) }
    }

    /// The error for a file that lacks the required content. The message names the content that was found. It names
    /// parameters only if the file has no other content.
    func refusal(insteadOf wanted: FileContent.Wanted) -> KeyFileError {
        let contents = contents.map(\.content)
        let found = contents.first { $0 != .parameters } ?? .parameters
        return found.refusal(insteadOf: wanted, path: path, inPEM: isPEM)
    }

    /// The DER of one block, or of the whole file if the file is DER.
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

    /// Formats that are not DER, recognised from their first bytes.
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
    /// Lends the bytes as a ``Span``, which is bounds-checked.
    func withSpan<Result: ~Copyable, Failure: Error>(
        _ body: (Span<UInt8>) throws(Failure) -> Result
    ) throws(Failure) -> Result {
        try unsafe withUnsafeBytes { bytes throws(Failure) in
            try unsafe body(Span(_unsafeBytes: bytes))
        }
    }
}

/// Reads a small file whole into memory that is locked and wiped, so that a private key in a file of any kind leaves
/// no copy.
enum KeyFileInput {
    /// The largest file that is read: 64 KiB. An RSA-2048 key with its chain in PEM has about 10 KiB.
    static let maximumByteCount = 65536

    /// - Parameters:
    ///   - path: A regular file, or a pipe, such as the shell's `<(…)`.
    ///   - secret: True to refuse a file that other users may read, or that its group may write.
    static func read(_ path: String, secret: Bool) throws(KeyFileError) -> SecretBytes {
        let descriptor = unsafe open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY)
        guard descriptor >= 0 else { throw unreadable(path, errno) }
        defer { close(descriptor) }

        // This is the status of the open file. By now its name may refer to a different file.
        var status = stat()
        guard unsafe fstat(descriptor, &status) == 0 else { throw unreadable(path, errno) }
        guard status.st_mode & S_IFMT != S_IFDIR else {
            throw KeyFileError(.unreadable, path: path, "is a directory, not a file.")
        }
        // The same rule as for all files with secrets, `SecretBytes(contentsOfFile:)`. A pipe from the shell is
        // accessible to its creator only.
        if secret, status.st_mode & (S_IRWXO | S_IWGRP) != 0 {
            throw exposed(path, status.st_mode & 0o7777)
        }

        // One byte more than allowed, to detect a file that is too large.
        var bytes = SecretBytes(count: maximumByteCount + 1)
        var count = 0
        while count < maximumByteCount + 1 {
            let start = count
            let got = unsafe bytes.withUnsafeMutableBytes { buffer in
                unsafe Glibc.read(descriptor, buffer.baseAddress! + start, buffer.count - start)
            }
            if got < 0, errno == EINTR { continue }
            guard got >= 0 else { throw unreadable(path, errno) }
            guard got > 0 else { break }
            count += got
        }
        guard count > 0 else { throw KeyFileError(.unreadable, path: path, "is empty.") }
        guard count <= maximumByteCount else {
            throw KeyFileError(
                .unreadable, path: path,
                "is larger than \(maximumByteCount) bytes, so it is neither a key nor a certificate.")
        }
        bytes.shrink(to: count)
        return bytes
    }

    static func exposed(_ path: String, _ mode: UInt32) -> KeyFileError {
        KeyFileError(
            .exposed, path: path,
            "holds a secret, but others may read or change it (mode 0\(String(mode, radix: 8))). "
                + "Run: chmod 600 \(ShellWord.of(path))")
    }

    static func unreadable(_ path: String, _ number: Int32) -> KeyFileError {
        switch number {
        case ENOENT: KeyFileError(.unreadable, path: path, "does not exist.")
        case EACCES: KeyFileError(.unreadable, path: path, "may not be read by this user.")
        default: KeyFileError(.unreadable, path: path, "cannot be read: \(unsafe String(cString: strerror(number))).")
        }
    }
}

extension KeyFileError {
    init(passwordFile error: SecretFileError) {
        switch error.reason {
        case .unreadable(let number): self = KeyFileInput.unreadable(error.path, number)
        case .accessibleToOthers(let mode): self = KeyFileInput.exposed(error.path, mode)
        case .notARegularFile: self.init(.unreadable, path: error.path, "is not a regular file.")
        case .empty: self.init(.unreadable, path: error.path, "is empty: it should hold the key's password.")
        case .tooLong(let limit):
            self.init(
                .unsuitable, path: error.path, "has more than \(limit) bytes: it should hold one password only.")
        case .moreThanOneLine:
            self.init(.unsuitable, path: error.path, "has more than one line: it should hold one password only.")
        }
    }
}
