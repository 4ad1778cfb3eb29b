public import Foundation

/// Textual encodings of DER (RFC 7468), also called PEM.
public enum ForgePEM {
    /// Returns `der` as PEM text with `label`, such as `CERTIFICATE`, in lines of 64 characters.
    public static func text(_ der: [UInt8], label: String) -> String {
        var lines = ["-----BEGIN \(label)-----"]
        let characters = Array(Data(der).base64EncodedString())
        for start in stride(from: 0, to: characters.count, by: 64) {
            lines.append(String(characters[start..<min(start + 64, characters.count)]))
        }
        lines.append("-----END \(label)-----")
        return lines.joined(separator: "\n") + "\n"
    }

    /// Returns the DER bytes of the first block with `label`; nil if there is none.
    public static func bytes(_ text: String, label: String) -> [UInt8]? {
        guard let begin = text.range(of: "-----BEGIN \(label)-----"),
            let end = text.range(of: "-----END \(label)-----", range: begin.upperBound..<text.endIndex)
        else { return nil }
        let body = text[begin.upperBound..<end.lowerBound].filter { !$0.isWhitespace }
        return Data(base64Encoded: String(body)).map(Array.init)
    }

    /// Reads a file in DER, or in PEM with `label`, and returns the DER bytes.
    ///
    /// - Parameter what: the kind of content, such as `certificate`, for the error's text.
    public static func file(_ path: String, label: String, _ what: String) throws -> [UInt8] {
        guard let der = bytes(of: try Data(contentsOf: URL(filePath: path)), label: label)
        else { throw ForgeFailure.file(path: path, reason: "holds no \(what) in PEM or DER") }
        return der
    }

    /// Returns the DER bytes of a file's content, which is DER or PEM with `label`; nil if it is neither.
    public static func bytes(of content: Data, label: String) -> [UInt8]? {
        if content.first == 0x30 { return Array(content) }
        return String(data: content, encoding: .utf8).flatMap { bytes($0, label: label) }
    }
}

/// The case of hexadecimal digits.
enum HexCase {
    static func upper(_ byte: UInt8) -> String { (byte < 16 ? "0" : "") + String(byte, radix: 16, uppercase: true) }
    static func lower(_ byte: UInt8) -> String { (byte < 16 ? "0" : "") + String(byte, radix: 16) }
}

/// Writes JSON text (RFC 8259) for payment tokens.
public enum JSONText {
    /// Returns `text` as a JSON string, with quotation marks and escapes.
    public static func string(_ text: String) -> String {
        var result = "\""
        for scalar in text.unicodeScalars {
            switch scalar {
            case "\"": result += "\\\""
            case "\\": result += "\\\\"
            case _ where scalar.value < 0x20:
                let hex = String(scalar.value, radix: 16)
                result += "\\u" + String(repeating: "0", count: 4 - hex.count) + hex
            default: result.unicodeScalars.append(scalar)
            }
        }
        return result + "\""
    }
}
