internal import CLibcrypto
public import SecretMemory

// Unsafe: The C functions receive each buffer with its length, and keep no pointer.

/// A merchant's private key from a file: P-256 or RSA-2048, in PEM or DER, as PKCS#8, SEC 1 or PKCS#1.
///
/// The kind of file is determined from its bytes, not from its name. The bytes go from the file into locked, wiped
/// memory. libcrypto decodes the key in memory that is not locked, but is wiped when freed. A program that uses this
/// type must therefore end soon and write no core dump.
public struct PrivateKeyFile: ~Copyable, Sendable {
    public enum Algorithm: String, Sendable, Equatable {
        /// EC on P-256.
        case ec = "EC"
        /// RSA with 2048 bits.
        case rsa = "RSA"
    }

    public let algorithm: Algorithm
    /// PrivateKeyInfo in DER (RFC 5958): the same bytes whatever the format of the file. An EC key includes its named
    /// curve and its public key.
    public let pkcs8: SecretBytes

    /// - Parameters:
    ///   - path: A file of at most 64 KiB. It is refused if accounts other than its owner and group may read it.
    ///   - passwordFile: A file with the password of an encrypted PKCS#8 key, on one line.
    public init(path: String, passwordFile: String? = nil) throws(KeyFileError) {
        _ = WipedLibcrypto.isInstalled
        let file = try RecognisedFile(path: path, secret: true)
        let found = try Self.privateKey(in: file)
        let isEncrypted = found.form == .encryptedPKCS8
        let der = try file.der(of: found.block)
        let password = try Self.password(passwordFile, for: path, isEncrypted: isEncrypted)
        let form = isEncrypted ? CLIBCRYPTO_PRIVATE_KEY_ENCRYPTED : CLIBCRYPTO_PRIVATE_KEY_PLAIN
        try self.init(der, form, password: password, path: path, passwordFile: passwordFile)
    }

    /// Parses an unencrypted key in DER that a PKCS#12 bundle contained.
    ///
    /// - Parameter path: The bundle's path, for error messages.
    init(plain der: borrowing SecretBytes, path: String) throws(KeyFileError) {
        try self.init(
            der, CLIBCRYPTO_PRIVATE_KEY_PLAIN, password: SecretBytes(count: 0), path: path, passwordFile: nil)
    }

    private init(
        _ der: borrowing SecretBytes, _ form: clibcrypto_private_key_form, password: borrowing SecretBytes,
        path: String, passwordFile: String?
    ) throws(KeyFileError) {
        var description = [CChar](repeating: 0, count: 80)
        var result = CLIBCRYPTO_PRIVATE_KEY_FAILED
        // PKCS#8 adds an algorithm identifier and a public key, so it can be longer than the key's original format.
        let pkcs8 = unsafe SecretBytes(capacity: der.count + 512) { output in
            var count = output.count
            unsafe der.withUnsafeBytes { der in
                unsafe password.withUnsafeBytes { password in
                    result = unsafe clibcrypto_private_key_to_pkcs8(
                        form, der.bindMemory(to: UInt8.self).baseAddress, der.count,
                        password.bindMemory(to: CChar.self).baseAddress, password.count, KeyPassword.maximumIterations,
                        output.bindMemory(to: UInt8.self).baseAddress, &count, &description, description.count)
                }
            }
            let isKey = result == CLIBCRYPTO_PRIVATE_KEY_EC_P256 || result == CLIBCRYPTO_PRIVATE_KEY_RSA_2048
            return isKey ? count : 0
        }
        switch result {
        case CLIBCRYPTO_PRIVATE_KEY_EC_P256: algorithm = .ec
        case CLIBCRYPTO_PRIVATE_KEY_RSA_2048: algorithm = .rsa
        default:
            let kind = String(decoding: description.prefix { $0 != 0 }.map(UInt8.init(bitPattern:)), as: UTF8.self)
            throw Self.refusal(result, path: path, kind: kind, passwordFile: passwordFile)
        }
        self.pkcs8 = pkcs8
    }

    /// Returns true if the certificate matches this key.
    public func fits(_ certificate: CertificateFile) -> Bool { fits(certificate.der) }

    func fits(_ certificate: [UInt8]) -> Bool {
        unsafe pkcs8.withUnsafeBytes { key in
            unsafe certificate.withUnsafeBytes { certificate in
                unsafe clibcrypto_private_key_fits_certificate(
                    key.bindMemory(to: UInt8.self).baseAddress, key.count,
                    certificate.bindMemory(to: UInt8.self).baseAddress, certificate.count) == 1
            }
        }
    }

    /// Returns the public half as a SubjectPublicKeyInfo in DER; nil if libcrypto cannot encode it.
    public func subjectPublicKeyInfo() -> [UInt8]? {
        // The encoding of an RSA key with 2048 bits, the longest, has 294 bytes.
        var (bytes, count) = ([UInt8](repeating: 0, count: 512), 512)
        let isWritten = unsafe pkcs8.withUnsafeBytes { key in
            unsafe clibcrypto_private_key_public_key(
                key.bindMemory(to: UInt8.self).baseAddress, key.count, &bytes, &count) == 1
        }
        return isWritten ? Array(bytes.prefix(count)) : nil
    }

    /// The only private key in a file, which may also contain certificates and parameters.
    private static func privateKey(
        in file: borrowing RecognisedFile
    ) throws(KeyFileError) -> (form: FileContent.PrivateKeyForm, block: PEMBlock?) {
        var found: [(form: FileContent.PrivateKeyForm, block: PEMBlock?)] = []
        for (content, block) in file.contents {
            switch content {
            case .privateKey(.encryptedTraditional), .privateKey(.other): continue
            case .privateKey(let form): found.append((form, block))
            // `openssl ecparam -genkey` writes parameters before the key.
            default: continue
            }
        }
        guard found.count <= 1 else {
            throw KeyFileError(
                .unsuitable, path: file.path,
                "holds \(found.count) private keys. Leave the one in it that belongs to the certificate.")
        }
        guard let key = found.first else { throw file.refusal(insteadOf: .privateKey) }
        return key
    }

    private static func password(
        _ passwordFile: String?, for path: String, isEncrypted: Bool
    ) throws(KeyFileError) -> SecretBytes {
        guard isEncrypted else { return SecretBytes(count: 0) }
        guard let passwordFile else {
            throw KeyFileError(
                .locked, path: path, "is an encrypted private key. Name a file with its password: --password-file F.")
        }
        return try KeyPassword.read(fromFile: passwordFile, emptyIsPassword: false)
    }

    private static func refusal(
        _ result: clibcrypto_private_key_result, path: String, kind: String, passwordFile: String?
    ) -> KeyFileError {
        let sentence =
            switch result {
            case CLIBCRYPTO_PRIVATE_KEY_NOT_OPENED:
                "does not open with the password in \(passwordFile ?? "the password file"). If the password is right, "
                    + "an old cipher protects the key: encrypt it again with openssl pkcs8 -topk8 -v2 aes-256-cbc."
            case CLIBCRYPTO_PRIVATE_KEY_EXCESSIVE:
                "asks for more than \(KeyPassword.maximumIterations) iterations of its password's derivation. Encrypt it again "
                    + "where it is from: openssl pkcs8 -topk8 -v2 aes-256-cbc."
            case CLIBCRYPTO_PRIVATE_KEY_OTHER_KIND:
                "is a private key of another kind (\(kind)). Merchants' keys are EC on P-256 (prime256v1) or, for "
                    + "Apple Pay only, RSA with 2048 bits."
            case CLIBCRYPTO_PRIVATE_KEY_INCONSISTENT:
                "is a damaged private key: its numbers do not belong together. Take it from the backup again."
            case CLIBCRYPTO_PRIVATE_KEY_FAILED: "could not be converted by libcrypto."
            default: "begins like a private key, but is not a whole and well-formed one. Copy the file again."
            }
        return KeyFileError(
            result == CLIBCRYPTO_PRIVATE_KEY_NOT_OPENED ? .locked : .unsuitable, path: path, sentence)
    }
}

/// The password of a private key's file.
enum KeyPassword {
    /// The total number of password derivation iterations that is allowed for all parts of one file. Programs use 2,048
    /// to about 600,000. Five million take seconds.
    static let maximumIterations: UInt = 5_000_000

    /// Reads the password from a file under the rules for all files with secrets.
    ///
    /// - Parameters:
    ///   - emptyIsPassword: True if an empty file, or one with only a newline, is the empty password, which PKCS#12
    ///     bundles may have.
    static func read(fromFile path: String, emptyIsPassword: Bool) throws(KeyFileError) -> SecretBytes {
        do {
            return try SecretBytes(contentsOfFile: path)
        } catch {
            if emptyIsPassword, error.reason == .empty { return SecretBytes(count: 0) }
            throw KeyFileError(passwordFile: error)
        }
    }
}

/// Makes libcrypto wipe memory when it is freed. Otherwise its decoders would leave parts of private keys and passwords
/// in memory.
enum WipedLibcrypto {
    /// True if libcrypto wipes freed memory; false if libcrypto was already in use and therefore keeps its default
    /// memory functions. The first access installs the wiping functions, so a program must read this property before it
    /// reads any secret.
    static let isInstalled = clibcrypto_wipe_freed_memory() == 1
}
