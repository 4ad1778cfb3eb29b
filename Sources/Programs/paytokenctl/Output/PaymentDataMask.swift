import StrictJSON

/// Hides the parts of a decrypted payment dictionary with which a payment could be made: the account number except its
/// last four digits, the cryptogram, and anything else that looks like an account number.
///
/// It works on parsed JSON, so that no alternative spelling of a name or a string can evade it.
enum PaymentDataMask {
    /// The replacement for completely hidden values; it does not reveal their length.
    static let hidden = "********"
    /// The shortest run of digits that can be an account number (ISO/IEC 7812-1 allows up to 19; no shorter ones are in
    /// use).
    static let accountNumberDigits = 12

    /// - Parameter paymentData: the whole decrypted dictionary.
    static func masked(_ paymentData: JSONValue) -> JSONValue {
        switch paymentData {
        case .object(let object): .object(masked(object, rule: masked(member:_:)))
        case .array(let elements): .array(elements.map(masked))
        case .string(let text): .string(withoutAccountNumbers(text))
        case .number(let number) where withoutAccountNumbers(number.text) != number.text: .string(hidden)
        default: paymentData
        }
    }

    private static func masked(member name: String, _ value: JSONValue) -> JSONValue {
        switch name {
        // Apple's name and Google's.
        case "applicationPrimaryAccountNumber", "pan": return lastFour(value)
        case "onlinePaymentCryptogram", "cryptogram", "emvData", "encryptedPINData", "authenticationData":
            return concealed(value)
        // It has twelve digits but is not secret: it identifies the manufacturer of the device.
        case "deviceManufacturerIdentifier":
            if case .string(let text) = value, text.utf8.count <= accountNumberDigits { return value }
            return masked(value)
        // The time in milliseconds at which a Google Pay message expires. No card has thirteen digits that begin with 1.
        case "messageExpiration":
            if case .string(let text) = value, text.utf8.count == 13, text.hasPrefix("1") { return value }
            return masked(value)
        default: return masked(value)
        }
    }

    /// The last four digits of an account number; completely hidden if the value is not a text, or is too short to be
    /// one.
    private static func lastFour(_ value: JSONValue) -> JSONValue {
        let text: String
        switch value {
        case .string(let string): text = string
        case .number(let number): text = number.text
        case .null: return .null
        default: return .string(hidden)
        }
        guard text.utf8.count >= accountNumberDigits else { return .string(hidden) }
        return .string(String(repeating: "*", count: text.count - 4) + text.suffix(4))
    }

    /// Keeps the structure, so that the received members are visible. Also keeps the ECI, which a person needs and
    /// which cannot be used to pay.
    private static func concealed(_ value: JSONValue) -> JSONValue {
        switch value {
        case .null: .null
        case .object(let object):
            .object(masked(object) { name, value in name == "eciIndicator" ? masked(value) : concealed(value) })
        case .array(let elements): .array(elements.map(concealed))
        default: .string(hidden)
        }
    }

    private static func masked(_ object: JSONObject, rule: (String, JSONValue) -> JSONValue) -> JSONObject {
        let members = object.members.map { (name: withoutAccountNumbers($0.name), value: rule($0.name, $0.value)) }
        // Two names that differ only in masked digits are now equal. An object cannot have equal names, so all its
        // members are then dropped.
        return JSONObject(members) ?? JSONObject()
    }

    /// The text with every run of twelve or more digits masked except its last four. Single blanks and hyphens between
    /// digits do not end a run, because people write account numbers in groups.
    static func withoutAccountNumbers(_ text: String) -> String {
        var scalars = Array(text.unicodeScalars)
        var run: [Int] = []
        var changed = false
        func conceal() {
            guard run.count >= accountNumberDigits else { return }
            for index in run.dropLast(4) { scalars[index] = "*" }
            changed = true
        }
        var separators = 0
        for index in scalars.indices {
            switch scalars[index] {
            case let scalar where scalar.properties.numericType == .decimal:
                run.append(index)
                separators = 0
            case " ", "-":
                separators += 1
                if separators > 1 {
                    conceal()
                    run = []
                }
            default:
                conceal()
                run = []
                separators = 0
            }
        }
        conceal()
        guard changed else { return text }
        var result = String.UnicodeScalarView()
        result.append(contentsOf: scalars)
        return String(result)
    }
}
