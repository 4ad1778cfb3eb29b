internal import CPKCS11

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
