internal import Encodings
internal import SecretMemory

// Unsafe: The output's capacity is that of the decoded text with three bytes to spare, so that `count` stays within
// it.

/// One block of a PEM file (RFC 7468), by its position in the file.
struct PEMBlock: Sendable, Equatable {
    /// The text between `-----BEGIN ` and `-----`.
    var label: String
    /// The range of the base64 text, including line ends but not headers.
    var text: Range<Int>
    /// True if RFC 1421's `Proc-Type: 4,ENCRYPTED` precedes the text.
    var isEncrypted: Bool

    /// The content that the label names; nil for an unknown label.
    var content: FileContent? {
        switch label {
        case "CERTIFICATE", "X509 CERTIFICATE", "TRUSTED CERTIFICATE": .certificate
        case "CERTIFICATE REQUEST", "NEW CERTIFICATE REQUEST": .certificateRequest
        case "X509 CRL": .revocationList
        case "PRIVATE KEY": .privateKey(isEncrypted ? .encryptedTraditional : .pkcs8)
        case "ENCRYPTED PRIVATE KEY": .privateKey(.encryptedPKCS8)
        case "EC PRIVATE KEY": .privateKey(isEncrypted ? .encryptedTraditional : .sec1)
        case "RSA PRIVATE KEY": .privateKey(isEncrypted ? .encryptedTraditional : .pkcs1)
        case "OPENSSH PRIVATE KEY": .opensshPrivateKey
        case "PUBLIC KEY", "RSA PUBLIC KEY": .publicKey
        case "PKCS7", "CMS", "PKCS #7 SIGNED DATA": .pkcs7
        case "EC PARAMETERS", "DH PARAMETERS", "X9.42 DH PARAMETERS": .parameters
        default: label.hasSuffix("PRIVATE KEY") ? .privateKey(.other(label)) : nil
        }
    }
}

enum PEMText {
    enum Fault: Error, Equatable {
        /// A block has no end line.
        case unterminated(label: String)
        /// The lines between the begin and end lines are not base64.
        case notBase64
    }

    /// The blocks of a file in their order; none if it is not PEM. Other text around the blocks is allowed (RFC 7468
    /// §5.2), as are Windows line ends.
    static func blocks(in bytes: Span<UInt8>) throws(Fault) -> [PEMBlock] {
        var blocks: [PEMBlock] = []
        var open: PEMBlock?
        var position = 0
        while position < bytes.count {
            let line = trimmedLine(bytes, from: position)
            position = line.next
            if var block = open {
                if isBoundary(bytes, line.range, "-----END ") {
                    guard boundaryLabel(bytes, line.range, "-----END ") == block.label else {
                        throw .unterminated(label: block.label)
                    }
                    block.text = block.text.lowerBound..<line.range.lowerBound
                    blocks.append(block)
                    open = nil
                } else if contains(bytes, line.range, UInt8(ascii: ":")) {
                    // This line is a header. The text begins after the last header.
                    if starts(bytes, line.range, with: "Proc-Type: 4,ENCRYPTED") { block.isEncrypted = true }
                    block.text = position..<position
                    open = block
                }
            } else if isBoundary(bytes, line.range, "-----BEGIN ") {
                let label = boundaryLabel(bytes, line.range, "-----BEGIN ")
                open = PEMBlock(label: label, text: position..<position, isEncrypted: false)
            }
        }
        if let open { throw .unterminated(label: open.label) }
        return blocks
    }

    /// Decodes base64 (RFC 4648 §4) from wiped memory into wiped memory, without a `String` or `Data` in between.
    static func decode(_ text: Span<UInt8>) throws(Fault) -> SecretBytes {
        try unsafe SecretBytes(capacity: text.count / 4 * 3 + 3) { output throws(Fault) in
            var count = 0
            var bits: UInt32 = 0
            var held: UInt32 = 0
            var padding = 0
            for index in text.indices {
                let byte = text[index]
                switch byte {
                case UInt8(ascii: "\n"), UInt8(ascii: "\r"), UInt8(ascii: " "), UInt8(ascii: "\t"): continue
                case UInt8(ascii: "="): padding += 1
                default:
                    guard padding == 0, let value = Base64.value(of: byte) else { throw .notBase64 }
                    bits = bits << 6 | UInt32(value)
                    held += 6
                    if held >= 8 {
                        held -= 8
                        unsafe output[count] = UInt8(truncatingIfNeeded: bits >> held)
                        count += 1
                    }
                }
            }
            // The number of unused bits must fit the padding: two bits with one `=`, four with two, none without
            // padding.
            switch (held, padding) {
            case (0, 0) where count > 0, (2, 1), (4, 2): return count
            default: throw .notBase64
            }
        }
    }

    /// The line that begins at `start`, without surrounding blanks, and the start of the next line.
    private static func trimmedLine(_ bytes: Span<UInt8>, from start: Int) -> (range: Range<Int>, next: Int) {
        var end = start
        while end < bytes.count, bytes[end] != UInt8(ascii: "\n") { end += 1 }
        let next = min(end + 1, bytes.count)
        var first = start
        // The byte order mark that some editors write before UTF-8 text.
        if start == 0, end - first >= 3, bytes[0] == 0xEF, bytes[1] == 0xBB, bytes[2] == 0xBF { first += 3 }
        while end > first, bytes[end - 1] == UInt8(ascii: "\r") || bytes[end - 1] == UInt8(ascii: " ") { end -= 1 }
        return (first..<end, next == start ? start + 1 : next)
    }

    private static func isBoundary(_ bytes: Span<UInt8>, _ line: Range<Int>, _ prefix: StaticString) -> Bool {
        guard starts(bytes, line, with: prefix), line.count > prefix.utf8CodeUnitCount + 5 else { return false }
        return (line.upperBound - 5..<line.upperBound).allSatisfy { bytes[$0] == UInt8(ascii: "-") }
    }

    private static func boundaryLabel(_ bytes: Span<UInt8>, _ line: Range<Int>, _ prefix: StaticString) -> String {
        var label: [UInt8] = []
        for index in line.lowerBound + prefix.utf8CodeUnitCount..<line.upperBound - 5 {
            // Labels appear in messages, so only printable ASCII is allowed, and only up to a length that no real label
            // exceeds.
            guard label.count < 40 else { break }
            label.append((0x20...0x7E).contains(bytes[index]) ? bytes[index] : UInt8(ascii: "?"))
        }
        return String(decoding: label, as: UTF8.self)
    }

    private static func starts(_ bytes: Span<UInt8>, _ line: Range<Int>, with prefix: StaticString) -> Bool {
        let text = prefix.description.utf8
        guard line.count >= text.count else { return false }
        var index = line.lowerBound
        for byte in text {
            guard bytes[index] == byte else { return false }
            index += 1
        }
        return true
    }

    private static func contains(_ bytes: Span<UInt8>, _ line: Range<Int>, _ byte: UInt8) -> Bool {
        line.contains { bytes[$0] == byte }
    }
}
