/// The numbers by which the kernel knows who is behind a peer: its uid, and the uid under which somebody logged in
/// where there is one.
///
/// They only ever make one person of two peers, never two of one. A uid is fixed at connect. A login uid stays when
/// somebody becomes another account with su or sudo; but a process that has none can give itself any, so another login
/// uid on the same account proves nothing.
public struct PersonIdentities: Sendable, Hashable {
    /// The peer's at connect.
    public let uid: UInt32
    /// nil where nobody logged in, or did so under `uid`.
    public let loginUID: UInt32?

    public init(uid: UInt32, loginUID: UInt32? = nil) {
        self.uid = uid
        self.loginUID = loginUID == uid ? nil : loginUID
    }

    /// Whether these are two persons: no number is common to both, root's left out, which many reach.
    public func isAnother(than other: PersonIdentities) -> Bool {
        numbers.isDisjoint(with: other.numbers)
    }

    private var numbers: Set<UInt32> { Set([uid, loginUID ?? uid]).subtracting([0]) }
}
