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
