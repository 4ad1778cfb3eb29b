public import SecretMemory

// Unsafe: The pointer is used only within the closure, which copies a document without secrets.

/// Writes an XML document in UTF-8 into secret memory, so that a secret in it never exists elsewhere.
///
///     var writer = XMLWriter()
///     writer.begin("PaymentContext")
///     writer.element("OrderId", "1 < 2")
///     writer.element("PaymentAccountUniqueId", secret: accountNumber, ["isToken": "false"])
///     writer.end()
///     let document = writer.finish()
///
/// Names are literals of the program; values are escaped. A character that XML 1.0 §2.2 does not permit in a document
/// at all, such as most control characters, is written as U+FFFD. A caller that must not lose a character checks the
/// text first (``isAllowed(_:)``).
public struct XMLWriter: ~Copyable {
    private var memory: SecretBytes
    private var count = 0
    private var open: [StaticString] = []

    /// Begins the document with the XML declaration.
    public init() {
        memory = SecretBytes(count: 2048)
        append(#"<?xml version="1.0" encoding="UTF-8"?>"#)
    }

    public mutating func begin(_ name: StaticString, _ attributes: KeyValuePairs<StaticString, String> = [:]) {
        append("<")
        append(name)
        for (attribute, value) in attributes {
            append(" ")
            append(attribute)
            append("=\"")
            appendEscaped(value)
            append("\"")
        }
        append(">")
        open.append(name)
    }

    /// Ends the most recently begun element.
    public mutating func end() {
        guard let name = open.popLast() else { return }
        append("</")
        append(name)
        append(">")
    }

    public mutating func element(
        _ name: StaticString, _ text: String, _ attributes: KeyValuePairs<StaticString, String> = [:]
    ) {
        begin(name, attributes)
        appendEscaped(text)
        end()
    }

    /// Writes an element with this text; writes nothing if `text` is nil.
    public mutating func element(_ name: StaticString, ifPresent text: String?) {
        if let text { element(name, text) }
    }

    /// Writes an element with a secret as its text.
    ///
    /// - Parameter secret: ASCII, such as account numbers and base64.
    public mutating func element(
        _ name: StaticString, secret: borrowing SecretBytes, _ attributes: KeyValuePairs<StaticString, String> = [:]
    ) {
        begin(name, attributes)
        for index in 0..<secret.count { appendEscaped(secret[index]) }
        end()
    }

    /// Returns the whole document; open elements are closed.
    public consuming func finish() -> SecretBytes {
        while !open.isEmpty { end() }
        memory.shrink(to: count)
        return memory
    }

    /// Returns the whole document in ordinary memory. Only for a document that contains no secret.
    public consuming func finishWithoutSecrets() -> [UInt8] {
        finish().withBytes { document in unsafe document.withUnsafeBytes { unsafe Array($0) } }
    }

    /// Returns true if XML permits all of `text` in a document (XML 1.0 §2.2: Char).
    public static func isAllowed(_ text: String) -> Bool { text.unicodeScalars.allSatisfy(isAllowed) }

    private static func isAllowed(_ scalar: Unicode.Scalar) -> Bool {
        switch scalar.value {
        case 0x09, 0x0A, 0x0D, 0x20...0xD7FF, 0xE000...0xFFFD, 0x10000...0x10FFFF: true
        default: false
        }
    }

    private mutating func appendEscaped(_ text: String) {
        for scalar in text.unicodeScalars {
            if scalar.isASCII {
                appendEscaped(UInt8(ascii: scalar))
            } else {
                for byte in String(Self.isAllowed(scalar) ? scalar : "\u{FFFD}").utf8 { append(byte) }
            }
        }
    }

    /// - Parameter byte: an ASCII character.
    private mutating func appendEscaped(_ byte: UInt8) {
        switch byte {
        case UInt8(ascii: "&"): append("&amp;")
        case UInt8(ascii: "<"): append("&lt;")
        // This character must be escaped only in `]]>` (§2.4), but may be escaped everywhere.
        case UInt8(ascii: ">"): append("&gt;")
        case UInt8(ascii: "\""): append("&quot;")
        // Unless these characters are references, a parser turns them into a line feed in text, and into spaces in an
        // attribute (§2.11, §3.3.3).
        case 0x09: append("&#9;")
        case 0x0A: append("&#10;")
        case 0x0D: append("&#13;")
        case 0x20...0x7F: append(byte)
        default: append("\u{FFFD}")
        }
    }

    private mutating func append(_ text: StaticString) {
        for byte in text.description.utf8 { append(byte) }
    }

    private mutating func append(_ byte: UInt8) {
        if count == memory.count { grow() }
        memory[count] = byte
        count += 1
    }

    private mutating func grow() {
        var larger = SecretBytes(count: memory.count * 4)
        for index in 0..<count { larger[index] = memory[index] }
        memory = larger
    }
}
