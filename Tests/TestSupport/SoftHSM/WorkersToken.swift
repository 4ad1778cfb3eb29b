/// A token of a test's own that a worker process opens: which library, and how it finds the token.
public protocol WorkersToken: Sendable {
    /// What a program needs to see this token and no other.
    var environment: [String: String] { get }
    var libraryPath: String { get }
    /// RFC 7512.
    var uri: String { get }
    var pinFile: String { get }
    /// Library-specific; empty for none.
    var initializationString: String { get }
}
