internal import CPKCS11

/// A PKCS#11 call that did not succeed: the function and the cause. Every call into the library throws this error. It
/// contains none of the call's arguments.
public struct CallError: Error, Sendable, Hashable, CustomStringConvertible {
    public enum Cause: Sendable, Hashable {
        /// The library returned a value other than CKR_OK.
        case returned(ReturnValue)
        /// The library's function list has no such function.
        case missing
        /// The library returned CKR_OK and an impossible result, such as a wrong size or a length out of bounds. The
        /// text is fixed and names the fault.
        case implausible(String)
    }

    /// The function's name, such as `C_DeriveKey`.
    public let call: String
    public let cause: Cause

    public init(call: String, cause: Cause) {
        self.call = call
        self.cause = cause
    }

    /// The library's return value; nil for any other cause.
    ///
    /// Not inlined: a typed `catch` that reads this property of a borrowed error makes the optimiser of Swift 6.3.1
    /// fail with an ownership error (CopyPropagation). Without this attribute no optimised build is possible.
    @inline(never)
    public var returnValue: ReturnValue? {
        if case .returned(let value) = cause { value } else { nil }
    }

    /// The function and the cause, such as `C_Login: CKR_PIN_INCORRECT`.
    public var description: String {
        switch cause {
        case .returned(let value): "\(call): \(value)"
        case .missing: "\(call): the library does not have this function"
        case .implausible(let what): "\(call): the library returned an implausible result: \(what)"
        }
    }
}

/// A CK_RV: the return value of a PKCS#11 function (PKCS#11 v2.40 base §5.1).
public struct ReturnValue: RawRepresentable, Hashable, Sendable, CustomStringConvertible {
    public let rawValue: UInt

    public init(rawValue: UInt) {
        self.rawValue = rawValue
    }

    /// The standard's name, such as `CKR_PIN_INCORRECT`; hexadecimal for other values, including vendor-defined ones.
    public var description: String {
        Self.names[rawValue] ?? "CKR 0x" + String(rawValue, radix: 16)
    }
}

extension ReturnValue {
    public static let generalError = ReturnValue(rawValue: CKR_GENERAL_ERROR)
    public static let functionFailed = ReturnValue(rawValue: CKR_FUNCTION_FAILED)
    public static let argumentsBad = ReturnValue(rawValue: CKR_ARGUMENTS_BAD)
    public static let hostMemory = ReturnValue(rawValue: CKR_HOST_MEMORY)
    public static let slotIdentifierInvalid = ReturnValue(rawValue: CKR_SLOT_ID_INVALID)
    /// PKCS#11 v3.0 CKR_TOKEN_RESOURCE_EXCEEDED.
    public static let tokenResourceExceeded = ReturnValue(rawValue: 0x201)
    public static let attributeReadOnly = ReturnValue(rawValue: CKR_ATTRIBUTE_READ_ONLY)
    public static let attributeSensitive = ReturnValue(rawValue: CKR_ATTRIBUTE_SENSITIVE)
    public static let attributeTypeInvalid = ReturnValue(rawValue: CKR_ATTRIBUTE_TYPE_INVALID)
    public static let attributeValueInvalid = ReturnValue(rawValue: CKR_ATTRIBUTE_VALUE_INVALID)
    public static let deviceError = ReturnValue(rawValue: CKR_DEVICE_ERROR)
    public static let dataInvalid = ReturnValue(rawValue: CKR_DATA_INVALID)
    public static let deviceMemory = ReturnValue(rawValue: CKR_DEVICE_MEMORY)
    public static let deviceRemoved = ReturnValue(rawValue: CKR_DEVICE_REMOVED)
    public static let dataLengthRange = ReturnValue(rawValue: CKR_DATA_LEN_RANGE)
    public static let encryptedDataInvalid = ReturnValue(rawValue: CKR_ENCRYPTED_DATA_INVALID)
    public static let functionNotSupported = ReturnValue(rawValue: CKR_FUNCTION_NOT_SUPPORTED)
    public static let keyHandleInvalid = ReturnValue(rawValue: CKR_KEY_HANDLE_INVALID)
    public static let keyFunctionNotPermitted = ReturnValue(rawValue: CKR_KEY_FUNCTION_NOT_PERMITTED)
    public static let keyTypeInconsistent = ReturnValue(rawValue: CKR_KEY_TYPE_INCONSISTENT)
    public static let curveNotSupported = ReturnValue(rawValue: CKR_CURVE_NOT_SUPPORTED)
    public static let domainParametersInvalid = ReturnValue(rawValue: CKR_DOMAIN_PARAMS_INVALID)
    public static let mechanismInvalid = ReturnValue(rawValue: CKR_MECHANISM_INVALID)
    public static let mechanismParameterInvalid = ReturnValue(rawValue: CKR_MECHANISM_PARAM_INVALID)
    public static let objectHandleInvalid = ReturnValue(rawValue: CKR_OBJECT_HANDLE_INVALID)
    public static let operationActive = ReturnValue(rawValue: CKR_OPERATION_ACTIVE)
    public static let operationNotInitialized = ReturnValue(rawValue: CKR_OPERATION_NOT_INITIALIZED)
    public static let pinIncorrect = ReturnValue(rawValue: CKR_PIN_INCORRECT)
    public static let pinInvalid = ReturnValue(rawValue: CKR_PIN_INVALID)
    public static let pinLengthRange = ReturnValue(rawValue: CKR_PIN_LEN_RANGE)
    public static let pinExpired = ReturnValue(rawValue: CKR_PIN_EXPIRED)
    public static let pinLocked = ReturnValue(rawValue: CKR_PIN_LOCKED)
    public static let sessionClosed = ReturnValue(rawValue: CKR_SESSION_CLOSED)
    public static let sessionCount = ReturnValue(rawValue: CKR_SESSION_COUNT)
    public static let sessionHandleInvalid = ReturnValue(rawValue: CKR_SESSION_HANDLE_INVALID)
    public static let sessionReadOnly = ReturnValue(rawValue: CKR_SESSION_READ_ONLY)
    public static let signatureInvalid = ReturnValue(rawValue: CKR_SIGNATURE_INVALID)
    public static let templateIncomplete = ReturnValue(rawValue: CKR_TEMPLATE_INCOMPLETE)
    public static let templateInconsistent = ReturnValue(rawValue: CKR_TEMPLATE_INCONSISTENT)
    public static let tokenNotPresent = ReturnValue(rawValue: CKR_TOKEN_NOT_PRESENT)
    public static let tokenNotRecognized = ReturnValue(rawValue: CKR_TOKEN_NOT_RECOGNIZED)
    public static let tokenWriteProtected = ReturnValue(rawValue: CKR_TOKEN_WRITE_PROTECTED)
    public static let unwrappingKeyHandleInvalid = ReturnValue(rawValue: CKR_UNWRAPPING_KEY_HANDLE_INVALID)
    public static let userAlreadyLoggedIn = ReturnValue(rawValue: CKR_USER_ALREADY_LOGGED_IN)
    public static let userNotLoggedIn = ReturnValue(rawValue: CKR_USER_NOT_LOGGED_IN)
    public static let userPINNotInitialized = ReturnValue(rawValue: CKR_USER_PIN_NOT_INITIALIZED)
    public static let bufferTooSmall = ReturnValue(rawValue: CKR_BUFFER_TOO_SMALL)
    public static let cryptokiAlreadyInitialized = ReturnValue(rawValue: CKR_CRYPTOKI_ALREADY_INITIALIZED)
}
