internal import CLibcrypto

extension PKCS12File {
    static func wrongNumberOfKeys(_ count: Int, _ path: String) -> KeyFileError {
        count == 0
            ? KeyFileError(
                .unsuitable, path: path,
                "is a PKCS#12 bundle without a private key. Export it again together with the key.")
            : KeyFileError(
                .unsuitable, path: path,
                "holds \(count) private keys. Export the payment processing key alone, with its certificate.")
    }

    static func refusal(
        _ result: clibcrypto_pkcs12_result, _ path: String, _ algorithm: String, passwordFile: String?
    ) -> KeyFileError {
        let file = shellWord(path)
        return switch result {
        case CLIBCRYPTO_PKCS12_WRONG_PASSWORD:
            if let passwordFile {
                KeyFileError(
                    .locked, path: path,
                    "does not open with the password in \(passwordFile). The password is another one, or the file is "
                        + "damaged.")
            } else {
                KeyFileError(
                    .locked, path: path,
                    "is a PKCS#12 bundle under a password. Name a file with its password: --password-file F.")
            }
        case CLIBCRYPTO_PKCS12_MAC_MISMATCH:
            KeyFileError(
                .unsuitable, path: path,
                "opens with this password, but its integrity check (MAC) fails: it was changed or damaged after it was "
                    + "made. Take it from its source again.")
        case CLIBCRYPTO_PKCS12_LEGACY_MISSING:
            KeyFileError(
                .unavailable, path: path,
                "is encrypted with an old cipher (\(algorithm)), for which OpenSSL's legacy provider is needed, and "
                    + "this machine has none. Install it (the module legacy.so; some systems package it by itself), or "
                    + "convert the bundle where it is installed: openssl pkcs12 -legacy -in \(file) -nodes "
                    + "-out temporary.pem; openssl pkcs12 -export -in temporary.pem -out new.p12; "
                    + "shred -u temporary.pem.")
        case CLIBCRYPTO_PKCS12_UNSUPPORTED:
            KeyFileError(
                .notYetSupported, path: path,
                "is protected with \(algorithm.isEmpty ? "an unknown algorithm" : algorithm), which this machine's "
                    + "OpenSSL does not have. Export it anew with AES-256.")
        case CLIBCRYPTO_PKCS12_EXCESSIVE:
            KeyFileError(
                .unsuitable, path: path,
                "asks for more work than any real bundle does: more than \(Self.maximumIterations) iterations of its "
                    + "password's derivation, or hundreds of parts. Export it anew.")
        case CLIBCRYPTO_PKCS12_PUBLIC_KEY_MODE:
            KeyFileError(
                .notYetSupported, path: path,
                "is a PKCS#12 bundle signed or encrypted with public keys, which is not supported. Export it with a "
                    + "password.")
        case CLIBCRYPTO_PKCS12_FAILED:
            KeyFileError(.unsuitable, path: path, "could not be read by libcrypto.")
        default:
            KeyFileError(
                .unsuitable, path: path,
                "begins like a PKCS#12 bundle, but is not a whole and well-formed one. Copy the file again.")
        }
    }
}
