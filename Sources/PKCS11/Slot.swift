internal import CPKCS11

/// A place for a token (PKCS#11 v2.40 base §5.5). Slot numbers change between processes and are for this process only:
/// a token is chosen by its label and serial number.
public struct Slot: Sendable {
    public let module: Module
    public let identifier: UInt

    /// The longest list taken from a library, of slots or mechanisms.
    static let longestList: UInt = 4096

    /// C_GetTokenInfo.
    public func tokenInfo() throws(CallError) -> TokenInfo {
        var info = CK_TOKEN_INFO()
        try unsafe module.call("C_GetTokenInfo", module.functions.C_GetTokenInfo) { unsafe $0(identifier, &info) }
        return TokenInfo(info)
    }

    /// C_GetMechanismList: what the token claims to know. Some tokens know more, and some less.
    public func mechanisms() throws(CallError) -> [MechanismType] {
        try unsafe Module.list("C_GetMechanismList") { (list, count) throws(CallError) in
            try unsafe module.call("C_GetMechanismList", module.functions.C_GetMechanismList) {
                unsafe $0(identifier, list, count)
            }
        }.map(MechanismType.init(rawValue:))
    }
}

extension Module {
    /// C_GetSlotList: the slots with a token in them, in the library's order.
    public func slots() throws(CallError) -> [Slot] {
        try unsafe Self.list("C_GetSlotList") { (list, count) throws(CallError) in
            try unsafe call("C_GetSlotList", functions.C_GetSlotList) { unsafe $0(CK_BBOOL(CK_TRUE), list, count) }
        }.map { Slot(module: self, identifier: $0) }
    }

    /// The standard's two calls for a list (§5.2): the first for its length, the second for its content.
    static func list(
        _ name: String,
        _ get: (UnsafeMutablePointer<CK_ULONG>?, UnsafeMutablePointer<CK_ULONG>) throws(CallError) -> Void
    ) throws(CallError) -> [UInt] {
        var count: CK_ULONG = 0
        try unsafe get(nil, &count)
        guard count <= Slot.longestList else {
            throw CallError(call: name, cause: .implausible("a list of more than \(Slot.longestList)"))
        }
        guard count > 0 else { return [] }
        var items = [CK_ULONG](repeating: 0, count: Int(count))
        try unsafe get(&items, &count)
        guard count <= items.count else { throw CallError(call: name, cause: .implausible("a list that grew")) }
        return Array(items.prefix(Int(count)))
    }
}

/// What a token says about itself (CK_TOKEN_INFO, PKCS#11 v2.40 base §3.2). Texts are without their padding.
public struct TokenInfo: Sendable, Hashable {
    /// CKF_… of CK_TOKEN_INFO.
    public struct Flags: OptionSet, Sendable, Hashable {
        public let rawValue: UInt

        public init(rawValue: UInt) {
            self.rawValue = rawValue
        }

        public static let randomNumberGenerator = Flags(rawValue: CKF_RNG)
        public static let writeProtected = Flags(rawValue: CKF_WRITE_PROTECTED)
        public static let loginRequired = Flags(rawValue: CKF_LOGIN_REQUIRED)
        public static let userPINInitialized = Flags(rawValue: CKF_USER_PIN_INITIALIZED)
        public static let tokenInitialized = Flags(rawValue: CKF_TOKEN_INITIALIZED)
        public static let userPINCountLow = Flags(rawValue: CKF_USER_PIN_COUNT_LOW)
        public static let userPINFinalTry = Flags(rawValue: CKF_USER_PIN_FINAL_TRY)
        public static let userPINLocked = Flags(rawValue: CKF_USER_PIN_LOCKED)
        public static let userPINToBeChanged = Flags(rawValue: CKF_USER_PIN_TO_BE_CHANGED)
    }

    public let label: String
    public let manufacturer: String
    public let model: String
    public let serialNumber: String
    public let flags: Flags
    /// How many sessions the token allows one process; nil when it sets no limit or does not say.
    public let maximumSessionCount: UInt?
    /// In bytes.
    public let minimumPINLength: UInt
    /// In bytes.
    public let maximumPINLength: UInt
    public let hardwareVersion: Version
    public let firmwareVersion: Version

    init(_ info: CK_TOKEN_INFO) {
        label = String(paddedField: info.label)
        manufacturer = String(paddedField: info.manufacturerID)
        model = String(paddedField: info.model)
        serialNumber = String(paddedField: info.serialNumber)
        flags = Flags(rawValue: info.flags)
        // CK_EFFECTIVELY_INFINITE and CK_UNAVAILABLE_INFORMATION (§3.2).
        maximumSessionCount =
            info.ulMaxSessionCount == 0 || info.ulMaxSessionCount == .max ? nil : info.ulMaxSessionCount
        minimumPINLength = info.ulMinPinLen
        maximumPINLength = info.ulMaxPinLen
        hardwareVersion = Version(info.hardwareVersion)
        firmwareVersion = Version(info.firmwareVersion)
    }
}

/// Why no slot was chosen.
public enum TokenSelectionError: Error, Sendable, Equatable, CustomStringConvertible {
    /// No token has what the URI names. Tokens made after the library was initialised may not be seen.
    case notFound
    /// More than one has: the serial number tells them apart.
    case ambiguous(serialNumbers: [String])
    case call(CallError)

    public var description: String {
        switch self {
        case .notFound:
            "the library shows no initialised token with that label and serial number"
        case .ambiguous(let serialNumbers):
            "several tokens fit: add the serial number (serial=) to the token's URI, one of "
                + serialNumbers.joined(separator: ", ")
        case .call(let error):
            "\(error)"
        }
    }
}

extension Module {
    /// The slot whose initialised token the URI names. A slot that does not answer is passed over, unless none fits.
    public func slot(holding uri: TokenURI) throws(TokenSelectionError) -> (slot: Slot, token: TokenInfo) {
        var fitting: [(slot: Slot, token: TokenInfo)] = []
        var failure: CallError?
        do throws(CallError) {
            for slot in try slots() {
                do throws(CallError) {
                    let token = try slot.tokenInfo()
                    if token.flags.contains(.tokenInitialized), uri.matches(token) { fitting.append((slot, token)) }
                } catch {
                    failure = error
                }
            }
        } catch {
            throw .call(error)
        }
        guard fitting.count < 2 else { throw .ambiguous(serialNumbers: fitting.map(\.token.serialNumber)) }
        guard let found = fitting.first else { throw failure.map(TokenSelectionError.call) ?? .notFound }
        return found
    }
}
