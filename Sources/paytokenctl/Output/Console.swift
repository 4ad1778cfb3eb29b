import Foundation

/// Standard output for results, standard error for all else. No colours: what is shown in a terminal is what a file
/// gets.
enum Console {
    static func output(_ text: String) {
        write(Array(text.utf8), to: .standardOutput)
    }

    /// A document that another program reads, with a newline at its end.
    static func output(json bytes: [UInt8]) {
        write(bytes.last == UInt8(ascii: "\n") ? bytes : bytes + [UInt8(ascii: "\n")], to: .standardOutput)
    }

    static func error(_ text: String) {
        write(Array((Printable.text(text) + "\n").utf8), to: .standardError)
    }

    private static func write(_ bytes: [UInt8], to handle: FileHandle) {
        // Nobody reads any more (`| head`): there is nothing to tell and nobody to tell it to.
        try? handle.write(contentsOf: bytes)
    }
}

/// Text from elsewhere, made safe for a terminal: what would move the cursor, change colours, hide or reorder text is
/// written as its code point.
enum Printable {
    static func text(_ text: String) -> String {
        guard text.unicodeScalars.contains(where: isUnprintable) else { return text }
        var result = String.UnicodeScalarView()
        for scalar in text.unicodeScalars {
            if isUnprintable(scalar) {
                result.append(contentsOf: "\\u{\(String(scalar.value, radix: 16))}".unicodeScalars)
            } else {
                result.append(scalar)
            }
        }
        return String(result)
    }

    private static func isUnprintable(_ scalar: Unicode.Scalar) -> Bool {
        switch scalar.properties.generalCategory {
        // Format covers the marks that turn the direction of writing round.
        case .control, .format, .lineSeparator, .paragraphSeparator, .surrogate, .privateUse, .unassigned: true
        default: false
        }
    }
}
