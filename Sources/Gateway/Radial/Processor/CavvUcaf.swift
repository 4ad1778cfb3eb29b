internal import Encodings
import SecretMemory

/// The cryptogram in the form of CavvUcaf (Payment-Datatypes-1.0.xsd, SecureVerificationDataType): hexadecimal digits
/// in upper case for Visa, base64 for Mastercard, at most 64 characters. The schema does not mention other cards; they
/// get base64.
enum CavvUcaf {
    static let most = 64

    /// Returns nil if `cryptogram` is not base64 of at least one byte, or is too long.
    static func text(_ cryptogram: borrowing SecretBytes, _ tender: TenderType) -> SecretBytes? {
        guard (1...most).contains(cryptogram.count), let bytes = decoded(cryptogram), bytes.count > 0 else {
            return nil
        }
        guard tender == .visa else { return cryptogram.duplicate() }
        return bytes.count * 2 <= most ? hexadecimal(bytes) : nil
    }

    /// Decodes base64 (RFC 4648 §4) with or without padding in secret memory.
    private static func decoded(_ text: borrowing SecretBytes) -> SecretBytes? {
        var characters = text.count
        while characters > 0, text[characters - 1] == UInt8(ascii: "=") { characters -= 1 }
        let padding = text.count - characters
        guard characters % 4 != 1, padding == 0 || padding <= 2 && text.count % 4 == 0 else { return nil }
        var bytes = SecretBytes(count: characters * 6 / 8)
        var (written, buffer, bits) = (0, 0 as UInt32, 0)
        for index in 0..<characters {
            guard let value = Base64.value(of: text[index]) else { return nil }
            buffer = buffer << 6 | UInt32(value)
            bits += 6
            if bits >= 8 {
                bits -= 8
                bytes[written] = UInt8(truncatingIfNeeded: buffer >> UInt32(bits))
                written += 1
            }
        }
        // Nonzero bits beyond the last byte would allow a second spelling of the same bytes (§3.5).
        guard buffer & ((1 << UInt32(bits)) - 1) == 0 else { return nil }
        return bytes
    }

    private static func hexadecimal(_ bytes: borrowing SecretBytes) -> SecretBytes {
        var digits = SecretBytes(count: bytes.count * 2)
        for index in 0..<bytes.count {
            digits[2 * index] = digit(bytes[index] >> 4)
            digits[2 * index + 1] = digit(bytes[index] & 0x0F)
        }
        return digits
    }

    private static func digit(_ value: UInt8) -> UInt8 {
        value < 10 ? UInt8(ascii: "0") + value : UInt8(ascii: "A") + value - 10
    }
}
