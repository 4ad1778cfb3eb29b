/// A PKCS#11 call that did not succeed: which function, and why. The one error of everything that goes into the
/// library. Carries nothing of what was passed in.
public struct CallError: Error, Sendable, Hashable, CustomStringConvertible {
    public enum Cause: Sendable, Hashable {
        /// The library returned something else than CKR_OK.
        case returned(ReturnValue)
        /// The library's function list has no such function.
        case missing
        /// The library returned CKR_OK and an answer that cannot be: a length without end, a wrong size. The text
        /// says which, and is fixed.
        case implausible(String)
    }

    /// The function's name, such as `C_DeriveKey`.
    public let call: String
    public let cause: Cause

    public init(call: String, cause: Cause) {
        self.call = call
        self.cause = cause
    }

    /// The library's return value; nil when it is not what is wrong.
    ///
    /// Not inlined: where a typed `catch` reads this of a borrowed error, the optimiser of Swift 6.3.1 ends with an
    /// ownership error (CopyPropagation), so that no release could be built.
    @inline(never)
    public var returnValue: ReturnValue? {
        if case .returned(let value) = cause { value } else { nil }
    }

    /// `C_Login: CKR_PIN_INCORRECT`.
    public var description: String {
        switch cause {
        case .returned(let value): "\(call): \(value)"
        case .missing: "\(call): the library does not have this function"
        case .implausible(let what): "\(call): the library answered implausibly: \(what)"
        }
    }
}
