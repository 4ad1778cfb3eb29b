/// A file that cannot be used: the file, the fault and the remedy. It never contains any part of the file's content.
public struct KeyFileError: Error, Sendable, Equatable {
    public enum Kind: Sendable, Equatable {
        /// The file cannot be opened or read, is empty or too large.
        case unreadable
        /// Accounts other than the file's owner may read the secret.
        case exposed
        /// The file does not have the required kind of content, or it is damaged.
        case unsuitable
        /// The private key is encrypted, and the password is missing or wrong.
        case locked
        /// The file is encrypted with a cipher that this machine lacks.
        case unavailable
        /// The certificate is for a different key.
        case mismatched
        /// A format that this version does not read.
        case notYetSupported
    }

    public let kind: Kind
    public let path: String
    /// One or two sentences for the user, beginning with the path.
    public let message: String

    public init(_ kind: Kind, path: String, _ sentence: String) {
        self.kind = kind
        self.path = path
        self.message = "\(path) \(sentence)"
    }
}
