/// The numbers by which the kernel knows a peer's person: its uid, and the login uid where there is one. With them the names of
/// their accounts on the peer's host, which tell persons of several hosts apart.
///
/// They can make one person of two peers, never two persons of one. A uid is fixed at connect. A login uid stays when a person
/// becomes another account with su or sudo; but a process that has none can give itself any, so another login uid on the
/// same account proves nothing.
public struct PersonIdentities: Sendable, Hashable {
    /// The peer's at connect.
    public let uid: UInt32
    /// nil where the process comes from no login, or from one under `uid`.
    public let loginUID: UInt32?
    /// The names of the accounts of ``uid`` and ``loginUID``; nil where the host has no such account, and where the name is not
    /// known.
    public let account: String?
    public let loginAccount: String?

    public init(uid: UInt32, loginUID: UInt32? = nil, account: String? = nil, loginAccount: String? = nil) {
        self.uid = uid
        self.account = account
        self.loginUID = loginUID == uid ? nil : loginUID
        self.loginAccount = self.loginUID == nil ? nil : loginAccount
    }

    /// Returns true if these are two persons: no number is common to both, root's left out, which many reach.
    public func isAnother(than other: PersonIdentities) -> Bool {
        numbers.isDisjoint(with: other.numbers)
    }

    private var numbers: Set<UInt32> { Set([uid, loginUID ?? uid]).subtracting([0]) }

    /// The names of all accounts, root's left out like its uid; nil where one is not known.
    public var accountNames: Set<String>? {
        var names: Set<String> = []
        for (number, name) in [(uid, account), (loginUID ?? 0, loginAccount)] where number != 0 {
            guard let name else { return nil }
            names.insert(name)
        }
        return names
    }
}
