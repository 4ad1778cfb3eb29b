internal import CLibcrypto
internal import Encodings
internal import SecretMemory

// Unsafe: The C function receives each buffer with its length, and keeps no pointer; `contents` is read only for
// counts afterwards.

/// A merchant's private key with its certificate from a PKCS#12 bundle (RFC 7292), `.p12` or `.pfx`. It reads bundles
/// from Apple's Keychain and older programs, with RC2-40 or 3DES, and newer ones with AES.
///
/// The bundle must have exactly one private key. Of its certificates, the one for the key is chosen. Its issuer's
/// signature is checked if the issuer's certificate is in the bundle.
public struct PKCS12File: ~Copyable, Sendable {
    public let privateKey: PrivateKeyFile
    /// The bundle's certificates in DER, in the bundle's order.
    private let certificates: [[UInt8]]

    /// - Parameters:
    ///   - path: A file of at most 64 KiB. It is refused if accounts other than its owner and group may read it.
    ///   - passwordFile: A file with the password on one line; an empty file is the empty password. Without this file,
    ///     only a bundle without a password, or with the empty password, can be opened.
    public init(path: String, passwordFile: String? = nil) throws(KeyFileError) {
        _ = WipedLibcrypto.isInstalled
        let bundle = try Self.bundle(path)
        let password =
            if let passwordFile {
                try KeyPassword.read(fromFile: passwordFile, emptyIsPassword: true)
            } else {
                SecretBytes(count: 0)
            }
        var contents = unsafe clibcrypto_pkcs12_contents()
        var certificates = [UInt8](repeating: 0, count: bundle.count)
        var result = CLIBCRYPTO_PKCS12_FAILED
        // Converting BER to DER can add a byte or two; otherwise the content is never longer than the bundle.
        let pkcs8 = unsafe SecretBytes(capacity: bundle.count + 16) { output in
            unsafe bundle.withUnsafeBytes { bundle in
                unsafe password.withUnsafeBytes { password in
                    unsafe certificates.withUnsafeMutableBufferPointer { certificates in
                        unsafe contents.pkcs8 = output.bindMemory(to: UInt8.self).baseAddress
                        unsafe contents.pkcs8_count = output.count
                        unsafe contents.certificates = certificates.baseAddress
                        unsafe contents.certificates_count = certificates.count
                        result = unsafe clibcrypto_pkcs12_open(
                            bundle.bindMemory(to: UInt8.self).baseAddress, bundle.count,
                            password.bindMemory(to: CChar.self).baseAddress, password.count,
                            KeyPassword.maximumIterations, &contents)
                    }
                }
            }
            return unsafe contents.pkcs8_count
        }
        guard result == CLIBCRYPTO_PKCS12_OPENED else {
            throw Self.refusal(result, path, unsafe Self.algorithm(contents), passwordFile: passwordFile)
        }
        guard unsafe contents.key_count == 1 else {
            throw Self.wrongNumberOfKeys(unsafe contents.key_count, path)
        }
        privateKey = try PrivateKeyFile(plain: pkcs8, path: path)
        self.certificates = unsafe DERShape.elements(of: Array(certificates.prefix(contents.certificates_count)))
    }

    private static func bundle(_ path: String) throws(KeyFileError) -> SecretBytes {
        let file = try RecognisedFile(path: path, secret: true)
        guard let (content, block) = file.contents.first, content == .pkcs12, file.contents.count == 1 else {
            throw file.refusal(insteadOf: .pkcs12)
        }
        return try file.der(of: block)
    }

    /// Returns the bundle's certificate for the private key.
    ///
    /// - Parameter path: The bundle's path, for messages.
    /// - Throws: ``KeyFileError`` if there is no certificate, none for the key, or more than one that Apple issued.
    public func certificate(inBundle path: String) throws(KeyFileError) -> CertificateFile {
        guard !certificates.isEmpty else {
            throw KeyFileError(
                .unsuitable, path: path,
                "holds a private key without a certificate. Give its certificate too: --certificate F.")
        }
        var fitting: [[UInt8]] = []
        for der in certificates where privateKey.fits(der) { fitting.append(der) }
        guard !fitting.isEmpty else {
            throw KeyFileError(
                .mismatched, path: path,
                "holds \(certificates.count == 1 ? "a certificate" : "\(certificates.count) certificates"), but none for "
                    + "its private key. Give the key's certificate too: --certificate F.")
        }
        let choice = try CertificateChoice(among: certificates, of: path) { fitting.contains($0) }
        return CertificateFile(choice, path: path)
    }

    consuming func takePrivateKey() -> PrivateKeyFile { privateKey }

    private static func algorithm(_ contents: clibcrypto_pkcs12_contents) -> String {
        unsafe withUnsafeBytes(of: contents.description) { bytes in
            unsafe String(decoding: bytes.prefix { $0 != 0 }, as: UTF8.self)
        }
    }
}

extension PKCS12File {
    static func wrongNumberOfKeys(_ count: Int, _ path: String) -> KeyFileError {
        KeyFileError(
            .unsuitable, path: path,
            count == 0
                ? "is a PKCS#12 bundle without a private key. Export it again together with the key."
                : "holds \(count) private keys. Export the payment processing key alone, with its certificate.")
    }

    static func refusal(
        _ result: clibcrypto_pkcs12_result, _ path: String, _ algorithm: String, passwordFile: String?
    ) -> KeyFileError {
        let file = ShellWord.of(path)
        let kind: KeyFileError.Kind =
            switch result {
            case CLIBCRYPTO_PKCS12_WRONG_PASSWORD: .locked
            case CLIBCRYPTO_PKCS12_LEGACY_MISSING: .unavailable
            case CLIBCRYPTO_PKCS12_UNSUPPORTED, CLIBCRYPTO_PKCS12_PUBLIC_KEY_MODE: .notYetSupported
            default: .unsuitable
            }
        let sentence =
            switch result {
            case CLIBCRYPTO_PKCS12_WRONG_PASSWORD:
                passwordFile.map {
                    "does not open with the password in \($0). The password is another one, or the file is damaged."
                } ?? "is a PKCS#12 bundle under a password. Name a file with its password: --password-file F."
            case CLIBCRYPTO_PKCS12_MAC_MISMATCH:
                "opens with this password, but its integrity check (MAC) fails: it was changed or damaged after it was "
                    + "made. Take it from its source again."
            case CLIBCRYPTO_PKCS12_LEGACY_MISSING:
                "is encrypted with an old cipher (\(algorithm)), for which OpenSSL's legacy provider is needed, and "
                    + "this machine has none. Install it (the module legacy.so; some systems package it by itself), or "
                    + "convert the bundle where it is installed: openssl pkcs12 -legacy -in \(file) -nodes "
                    + "-out temporary.pem; openssl pkcs12 -export -in temporary.pem -out new.p12; "
                    + "shred -u temporary.pem."
            case CLIBCRYPTO_PKCS12_UNSUPPORTED:
                "is protected with \(algorithm.isEmpty ? "an unknown algorithm" : algorithm), which this machine's "
                    + "OpenSSL does not have. Export it again with AES-256."
            case CLIBCRYPTO_PKCS12_EXCESSIVE:
                "asks for more work than any real bundle does: more than \(KeyPassword.maximumIterations) iterations of its "
                    + "password's derivation, or hundreds of parts. Export it again."
            case CLIBCRYPTO_PKCS12_PUBLIC_KEY_MODE:
                "is a PKCS#12 bundle signed or encrypted with public keys, which is not supported. Export it with a "
                    + "password."
            case CLIBCRYPTO_PKCS12_FAILED: "could not be read by libcrypto."
            default: "begins like a PKCS#12 bundle, but is not a whole and well-formed one. Copy the file again."
            }
        return KeyFileError(kind, path: path, sentence)
    }
}
