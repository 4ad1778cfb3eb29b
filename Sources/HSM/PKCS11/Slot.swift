internal import CPKCS11
public import Encodings

// Unsafe: Cryptoki keeps no pointer after a call returns. Lists are passed with their capacity, and shortened to
// what was written.

/// A place for an HSM token (PKCS#11 v2.40 base §5.5). Slot numbers can differ between processes, so an HSM token is
/// selected by its label and serial number.
public struct Slot: Sendable {
    public let module: Module
    public let identifier: UInt

    /// Returns the description of the slot's HSM token (C_GetTokenInfo).
    public func tokenInfo() throws(CallError) -> TokenInfo {
        var info = CK_TOKEN_INFO()
        try unsafe module.call("C_GetTokenInfo", module.functions.C_GetTokenInfo) { unsafe $0(identifier, &info) }
        return TokenInfo(info)
    }
}

extension Module {
    /// The maximum number of slots that is accepted from a library.
    private static let maximumSlots: UInt = 4096

    /// C_GetSlotList: the slots that contain an HSM token, in the library's order.
    public func slots() throws(CallError) -> [Slot] {
        // Two calls (§5.2): the first for the list's length, the second for its content.
        var count: CK_ULONG = 0
        try unsafe call("C_GetSlotList", functions.C_GetSlotList) { unsafe $0(CK_BBOOL(CK_TRUE), nil, &count) }
        guard count <= Self.maximumSlots else {
            throw CallError(call: "C_GetSlotList", cause: .implausible("a list of more than \(Self.maximumSlots)"))
        }
        guard count > 0 else { return [] }
        var slots = [CK_ULONG](repeating: 0, count: Int(count))
        try unsafe call("C_GetSlotList", functions.C_GetSlotList) { unsafe $0(CK_BBOOL(CK_TRUE), &slots, &count) }
        guard count <= slots.count else {
            throw CallError(call: "C_GetSlotList", cause: .implausible("a list that grew"))
        }
        return slots.prefix(Int(count)).map { Slot(module: self, identifier: $0) }
    }
}

extension Slot {
    /// The maximum number of mechanisms that is accepted from a library.
    private static let maximumMechanisms: UInt = 4096

    /// C_GetMechanismList: the numbers (CKM_…) of the mechanisms that the HSM token claims to have.
    public func mechanisms() throws(CallError) -> [UInt] {
        var count: CK_ULONG = 0
        try unsafe module.call("C_GetMechanismList", module.functions.C_GetMechanismList) {
            unsafe $0(identifier, nil, &count)
        }
        guard count <= Self.maximumMechanisms else {
            throw CallError(
                call: "C_GetMechanismList", cause: .implausible("a list of more than \(Self.maximumMechanisms)"))
        }
        var mechanisms = [CK_MECHANISM_TYPE](repeating: 0, count: Int(count))
        guard !mechanisms.isEmpty else { return [] }
        try unsafe module.call("C_GetMechanismList", module.functions.C_GetMechanismList) {
            unsafe $0(identifier, &mechanisms, &count)
        }
        return Array(mechanisms.prefix(Int(min(count, UInt(mechanisms.count)))))
    }
}

/// The description of an HSM token (CK_TOKEN_INFO, PKCS#11 v2.40 base §3.2). Texts have no padding.
public struct TokenInfo: Sendable, Hashable {
    /// The flags of an HSM token: CKF_… in CK_TOKEN_INFO.
    public struct Flags: OptionSet, Sendable, Hashable {
        public let rawValue: UInt

        public init(rawValue: UInt) {
            self.rawValue = rawValue
        }

        public static let loginRequired = Flags(rawValue: CKF_LOGIN_REQUIRED)
        public static let userPINInitialized = Flags(rawValue: CKF_USER_PIN_INITIALIZED)
        public static let tokenInitialized = Flags(rawValue: CKF_TOKEN_INITIALIZED)
        public static let userPINCountLow = Flags(rawValue: CKF_USER_PIN_COUNT_LOW)
        public static let userPINFinalTry = Flags(rawValue: CKF_USER_PIN_FINAL_TRY)
        public static let userPINLocked = Flags(rawValue: CKF_USER_PIN_LOCKED)
        public static let userPINToBeChanged = Flags(rawValue: CKF_USER_PIN_TO_BE_CHANGED)
        public static let securityOfficerPINToBeChanged = Flags(rawValue: CKF_SO_PIN_TO_BE_CHANGED)
    }

    public let label: String
    public let manufacturer: String
    public let model: String
    public let serialNumber: String
    /// The device's hardware version, as `major.minor`.
    public let hardwareVersion: String
    /// The device's firmware version, as `major.minor`.
    public let firmwareVersion: String
    public let flags: Flags
    /// The shortest PIN in bytes.
    public let minimumPINLength: UInt
    /// The longest PIN in bytes.
    public let maximumPINLength: UInt

    init(_ info: CK_TOKEN_INFO) {
        label = String(paddedField: info.label)
        manufacturer = String(paddedField: info.manufacturerID)
        model = String(paddedField: info.model)
        serialNumber = String(paddedField: info.serialNumber)
        hardwareVersion = "\(info.hardwareVersion.major).\(info.hardwareVersion.minor)"
        firmwareVersion = "\(info.firmwareVersion.major).\(info.firmwareVersion.minor)"
        flags = Flags(rawValue: info.flags)
        minimumPINLength = info.ulMinPinLen
        maximumPINLength = info.ulMaxPinLen
    }
}

extension TokenInfo {
    /// Returns true if this HSM token matches every attribute in the URI.
    func isNamed(by uri: TokenURI) -> Bool {
        (uri.label ?? label) == label && (uri.serialNumber ?? serialNumber) == serialNumber
            && (uri.manufacturer ?? manufacturer) == manufacturer && (uri.model ?? model) == model
    }
}

/// The reasons why no slot was chosen.
public enum TokenSelectionError: Error, Sendable, Equatable, CustomStringConvertible {
    /// The number of HSM tokens that a message names.
    private static let maximumNames = 8

    /// No HSM token matches the URI. HSM tokens that were created after the library was initialised may be invisible.
    /// - Parameter shown: the initialised HSM tokens, each with label and serial number.
    case notFound(shown: [String])
    /// Several HSM tokens match the URI: the serial number distinguishes them.
    case ambiguous(serialNumbers: [String])
    case call(CallError)

    public var description: String {
        switch self {
        case .notFound(let shown):
            "the library shows no initialised HSM token with that label and serial number"
                + (shown.isEmpty
                    ? ", and no other" : "; it shows " + shown.prefix(Self.maximumNames).joined(separator: ", "))
                + (shown.count > Self.maximumNames ? " and \(shown.count - Self.maximumNames) more" : "")
        case .ambiguous(let serialNumbers):
            "several HSM tokens match: add the serial number (serial=) to the HSM token's URI, one of "
                + serialNumbers.joined(separator: ", ")
        case .call(let error):
            "\(error)"
        }
    }
}

extension Module {
    /// The slot whose initialised HSM token matches the URI. A slot that fails is skipped, unless no other matches.
    public func slot(holding uri: TokenURI) throws(TokenSelectionError) -> (slot: Slot, token: TokenInfo) {
        var fitting: [(slot: Slot, token: TokenInfo)] = []
        var others: [String] = []
        var failure: CallError?
        do throws(CallError) {
            for slot in try slots() {
                do throws(CallError) {
                    let token = try slot.tokenInfo()
                    guard token.flags.contains(.tokenInitialized) else { continue }
                    if token.isNamed(by: uri) {
                        fitting.append((slot, token))
                    } else {
                        others.append("\"\(token.label)\" (serial number \(token.serialNumber))")
                    }
                } catch {
                    failure = error
                }
            }
        } catch {
            throw .call(error)
        }
        guard fitting.count < 2 else { throw .ambiguous(serialNumbers: fitting.map(\.token.serialNumber)) }
        guard let found = fitting.first else {
            throw failure.map(TokenSelectionError.call) ?? .notFound(shown: others)
        }
        return found
    }
}
