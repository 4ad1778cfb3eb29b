/// The numbers by which the kernel identifies the person who uses a peer: its uid, and the login uid if there is one. A
/// person can have different uids on different hosts. Persons on different hosts are therefore also compared by the
/// names of their accounts.
///
/// Equal numbers can show that two peers are the same person. Different numbers never prove different persons. A uid is
/// fixed at connect. A login uid stays when a person changes to another account with su or sudo. But a process without
/// a login uid can set any, so another login uid on the same account proves nothing.
public struct PersonIdentities: Sendable, Hashable {
    /// The peer's uid at connect.
    public let uid: UInt32
    /// The login uid; nil if no person logged in, or if it equals ``uid``.
    public let loginUID: UInt32?
    /// The names of the accounts of ``uid`` and ``loginUID``; nil if the host has no such account, or if the name is unknown.
    public let account: String?
    public let loginAccount: String?

    public init(uid: UInt32, loginUID: UInt32? = nil, account: String? = nil, loginAccount: String? = nil) {
        self.uid = uid
        self.account = account
        self.loginUID = loginUID == uid ? nil : loginUID
        self.loginAccount = self.loginUID == nil ? nil : loginAccount
    }

    /// Returns true if the two count as different persons: they share neither a uid nor a login uid. Root's number is
    /// ignored, since many persons can use that account.
    public func isAnother(than other: PersonIdentities) -> Bool {
        numbers.isDisjoint(with: other.numbers)
    }

    private var numbers: Set<UInt32> { Set([uid, loginUID ?? uid]).subtracting([0]) }

    /// The names of the accounts except root's, which many persons can use; nil if a name is unknown.
    public var accountNames: Set<String>? {
        var names: Set<String> = []
        for (number, name) in [(uid, account), (loginUID ?? 0, loginAccount)] where number != 0 {
            guard let name else { return nil }
            names.insert(name)
        }
        return names
    }
}
