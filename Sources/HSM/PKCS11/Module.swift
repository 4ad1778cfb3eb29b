internal import CPKCS11
internal import Glibc

// Unsafe: The library is never unloaded, so its functions stay valid. Its other answers are copied. Loading a
// library trusts its code.

/// The reasons why a library cannot be used at all.
public enum ModuleError: Error, Sendable, Equatable, CustomStringConvertible {
    /// The path is not absolute. A bare name would be searched for in directories that other users may write to.
    case pathNotAbsolute(String)
    /// The dynamic loader refused the library; `reason` is the loader's message.
    case notLoadable(path: String, reason: String)
    /// The file is not a PKCS#11 library: it has no C_GetFunctionList.
    case noFunctionList(path: String)
    /// The library was loaded, but its C_GetFunctionList or C_Initialize failed.
    case call(CallError)

    public var description: String {
        switch self {
        case .pathNotAbsolute(let path): "the PKCS#11 library must be named by an absolute path, not \(path)"
        case .notLoadable(let path, let reason): "cannot load the PKCS#11 library \(path): \(reason)"
        case .noFunctionList(let path): "\(path) is not a PKCS#11 library: it has no C_GetFunctionList"
        case .call(let error): "\(error)"
        }
    }
}

/// A loaded and initialised PKCS#11 library (PKCS#11 v2.40 base §5.4).
///
/// This target is the binding to PKCS#11 and knows nothing about payments; HSMWorker and tests call it. A ``Module``
/// lists ``Slot``s, a slot's HSM token opens ``Session``s, and a session offers the standard's calls as methods:
/// `Object.swift`, `KeyManagement.swift`, `Decryption.swift`, `Signing.swift`. C types and pointers stay inside; every
/// failure is a ``CallError`` with the function's name and its return value.
///
/// A process has one `Module` for each library, for as long as it runs: PKCS#11 libraries hold process-wide state, and
/// a second C_Initialize is an error (CKR_CRYPTOKI_ALREADY_INITIALIZED). The library is never unloaded, since some
/// libraries crash in their destructors. The process must not fork once a module is loaded.
///
/// Sendable because any thread may use it: C_Initialize asks the library to lock (CKF_OS_LOCKING_OK). Every method of this target that
/// reaches the library blocks for as long as the library takes: never call one on the cooperative thread pool.
public final class Module: @unchecked Sendable {
    /// The arguments of C_Initialize.
    public enum Initialization: Sendable, Equatable {
        /// The arguments of the standard, with CKF_OS_LOCKING_OK only.
        case standard
        /// The arguments of the standard, with an additional parameter string, which NSS softokn needs.
        case libraryParameters(String)
    }

    /// The library's list of functions. This is a copy, since the list does not change after the library has returned
    /// it.
    let functions: CK_FUNCTION_LIST

    /// Loads the library and initialises it.
    /// - Parameter path: absolute.
    public init(path: String, initialization: Initialization = .standard) throws(ModuleError) {
        guard path.hasPrefix("/") else { throw .pathNotAbsolute(path) }
        // RTLD_LOCAL, because the library's symbols must not be mixed up with this program's, above all those of
        // libcrypto.
        guard let library = unsafe dlopen(path, RTLD_NOW | RTLD_LOCAL) else {
            let reason = unsafe dlerror().map { unsafe String(cString: $0) } ?? "no reason given"
            throw .notLoadable(path: path, reason: reason)
        }
        guard let symbol = unsafe dlsym(library, "C_GetFunctionList") else { throw .noFunctionList(path: path) }
        // The standard fixes this symbol's type.
        let getFunctionList = unsafe unsafeBitCast(symbol, to: CK_C_GetFunctionList.self)
        let list: CK_FUNCTION_LIST
        do throws(CallError) {
            var pointer: UnsafeMutablePointer<CK_FUNCTION_LIST>?
            try Self.check("C_GetFunctionList", unsafe getFunctionList(&pointer))
            guard let pointer = unsafe pointer else {
                throw CallError(call: "C_GetFunctionList", cause: .implausible("no list"))
            }
            unsafe list = pointer.pointee
        } catch {
            throw .call(error)
        }
        functions = list
        do {
            try initialize(initialization)
        } catch {
            throw .call(error)
        }
    }

    private func initialize(_ initialization: Initialization) throws(CallError) {
        switch initialization {
        case .standard:
            var arguments = unsafe CK_C_INITIALIZE_ARGS()
            unsafe arguments.flags = CKF_OS_LOCKING_OK
            try unsafe call("C_Initialize", functions.C_Initialize) { unsafe $0(&arguments) }
        case .libraryParameters(let text):
            var parameters = Array(text.utf8CString)
            try unsafe call("C_Initialize", functions.C_Initialize) { initialize in
                unsafe parameters.withUnsafeMutableBufferPointer { text in
                    var arguments = unsafe cpkcs11_initialize_args_with_parameters()
                    unsafe arguments.flags = CKF_OS_LOCKING_OK
                    unsafe arguments.LibraryParameters = text.baseAddress
                    return unsafe initialize(&arguments)
                }
            }
        }
    }

    /// Calls one of the library's functions and turns its return value into an error.
    func call<Function>(
        _ name: String, _ function: Function?, _ body: (Function) -> CK_RV
    ) throws(CallError) {
        try Self.check(name, body(require(name, function)))
    }

    func require<Function>(_ name: String, _ function: Function?) throws(CallError) -> Function {
        guard let function else { throw CallError(call: name, cause: .missing) }
        return function
    }

    static func check(_ name: String, _ value: CK_RV) throws(CallError) {
        guard value == CKR_OK else {
            throw CallError(call: name, cause: .returned(ReturnValue(rawValue: value)))
        }
    }
}

/// A version number of the standard, a library or a device.
public struct Version: Sendable, Hashable, CustomStringConvertible {
    public let major: UInt8
    public let minor: UInt8

    init(_ version: CK_VERSION) {
        major = version.major
        minor = version.minor
    }

    public var description: String { "\(major).\(minor)" }
}

/// The library's description (CK_INFO, PKCS#11 v2.40 base §3.1).
public struct ModuleInfo: Sendable, Hashable {
    /// The PKCS#11 version that the library implements.
    public let cryptokiVersion: Version
    public let manufacturer: String
    public let libraryDescription: String
    public let libraryVersion: Version
}

extension Module {
    /// Returns the library's description (C_GetInfo).
    public func info() throws(CallError) -> ModuleInfo {
        var info = CK_INFO()
        try unsafe call("C_GetInfo", functions.C_GetInfo) { unsafe $0(&info) }
        return ModuleInfo(
            cryptokiVersion: Version(info.cryptokiVersion),
            manufacturer: String(paddedField: info.manufacturerID),
            libraryDescription: String(paddedField: info.libraryDescription),
            libraryVersion: Version(info.libraryVersion))
    }
}

extension String {
    /// A fixed-size field of the standard: UTF-8, padded with spaces, or incorrectly with NULs by some libraries. Bytes
    /// that are not UTF-8 become U+FFFD.
    init<Field>(paddedField field: Field) {
        var bytes = unsafe withUnsafeBytes(of: field) { unsafe Array($0) }
        if let end = bytes.firstIndex(of: 0) { bytes.removeSubrange(end...) }
        while bytes.last == UInt8(ascii: " ") { bytes.removeLast() }
        self = String(decoding: bytes, as: UTF8.self)
    }
}
