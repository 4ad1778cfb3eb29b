internal import CPKCS11

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

/// What a library says about itself (CK_INFO, PKCS#11 v2.40 base §3.1).
public struct ModuleInfo: Sendable, Hashable {
    /// The version of PKCS#11 that it follows.
    public let cryptokiVersion: Version
    public let manufacturer: String
    public let libraryDescription: String
    public let libraryVersion: Version
}

extension Module {
    /// C_GetInfo.
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
    /// A fixed-size field of the standard: UTF-8, padded with spaces (or, by libraries that err, with NULs). What is
    /// not UTF-8 becomes U+FFFD.
    init<Field>(paddedField field: Field) {
        var bytes = unsafe withUnsafeBytes(of: field) { unsafe Array($0) }
        if let end = bytes.firstIndex(of: 0) { bytes.removeSubrange(end...) }
        while bytes.last == UInt8(ascii: " ") { bytes.removeLast() }
        self = String(decoding: bytes, as: UTF8.self)
    }
}
