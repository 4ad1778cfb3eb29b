/// Why a file cannot be used: what was wrong, with which file, and what to do. It never contains a piece of the file.
public struct KeyFileError: Error, Sendable, Equatable {
    public enum Kind: Sendable, Equatable {
        /// The file cannot be opened or read, is empty or too large.
        case unreadable
        /// Others than the file's owner may read a secret.
        case exposed
        /// The file holds something else than what is needed, or it is damaged.
        case unsuitable
        /// The private key is encrypted and there is no password, or it is the wrong one.
        case locked
        /// Encrypted with a cipher that this machine lacks.
        case unavailable
        /// The certificate is for another key.
        case mismatched
        /// A form that this version does not read.
        case notYetSupported
    }

    public let kind: Kind
    public let path: String
    /// One or two sentences for a person, beginning with the path.
    public let message: String

    public init(_ kind: Kind, path: String, _ sentence: String) {
        self.kind = kind
        self.path = path
        self.message = "\(path) \(sentence)"
    }
}
