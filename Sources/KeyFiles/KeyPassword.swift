internal import SecretMemory

/// The password of a private key's file.
enum KeyPassword {
    /// Reads it from a file under the rules for every secret's file.
    ///
    /// - Parameters:
    ///   - emptyIsPassword: A file with nothing or one newline in it is the empty password, which PKCS#12 bundles may
    ///     have.
    static func read(fromFile path: String, emptyIsPassword: Bool) throws(KeyFileError) -> SecretBytes {
        do {
            return try SecretBytes(contentsOfFile: path)
        } catch {
            if emptyIsPassword, error.reason == .empty { return SecretBytes(count: 0) }
            throw KeyFileError(passwordFile: error)
        }
    }
}
