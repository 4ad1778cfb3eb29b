internal import Encodings

/// The kind of content in a file, recognised from its bytes and never from its name.
enum FileContent: Sendable, Equatable {
    case certificate
    case certificateRequest
    case revocationList
    case privateKey(PrivateKeyForm)
    case publicKey
    /// PKCS#12 (RFC 7292): a private key with its certificate, encrypted under a password.
    case pkcs12
    /// PKCS#7 or CMS: certificates without a key.
    case pkcs7
    case opensshPrivateKey
    case opensshPublicKey
    /// A PEM block `EC PARAMETERS` or `DH PARAMETERS`, which contains no key.
    case parameters
    case javaKeyStore
    case json
    case unknown

    enum PrivateKeyForm: Sendable, Equatable {
        /// PrivateKeyInfo, RFC 5958.
        case pkcs8
        /// EncryptedPrivateKeyInfo, RFC 5958 §3.
        case encryptedPKCS8
        /// ECPrivateKey, RFC 5915.
        case sec1
        /// RSAPrivateKey, RFC 8017 §A.1.2.
        case pkcs1
        /// A PEM block that is encrypted as its RFC 1421 headers specify, OpenSSL's older format.
        case encryptedTraditional
        /// A private key of another kind, such as DSA, which no payment token uses. The value is its name.
        case other(String)
    }

    /// The content's name with an article, such as "a certificate", for use after "is" in a message.
    var name: String {
        switch self {
        case .certificate: "a certificate"
        case .certificateRequest: "a certificate signing request"
        case .revocationList: "a certificate revocation list"
        case .privateKey(.encryptedPKCS8), .privateKey(.encryptedTraditional): "an encrypted private key"
        case .privateKey(.other(let label)): "a private key of another kind (\(label))"
        case .privateKey: "a private key"
        case .publicKey: "a public key"
        case .pkcs12: "a PKCS#12 bundle"
        case .pkcs7: "a PKCS#7 bundle of certificates"
        case .opensshPrivateKey: "an OpenSSH private key"
        case .opensshPublicKey: "an OpenSSH public key"
        case .parameters: "key parameters without a key"
        case .javaKeyStore: "a Java key store"
        case .json: "a JSON document"
        case .unknown: "neither PEM nor DER"
        }
    }

    /// The content that a file is required to have. The raw value is the wording for messages.
    enum Wanted: String {
        case privateKey = "a private key"
        case certificate = "a certificate"
        case pkcs12 = "a PKCS#12 bundle with a private key and its certificate"
    }

    /// The error for a file that has this content instead of the required one.
    func refusal(insteadOf wanted: Wanted, path: String, inPEM: Bool) -> KeyFileError {
        let file = ShellWord.of(path)
        var kind = KeyFileError.Kind.unsuitable
        let sentence: String
        switch (wanted, self) {
        case (_, .unknown) where inPEM: sentence = "is PEM, but of a kind that is not known here."
        case (_, .unknown):
            sentence =
                "is neither PEM nor DER. PEM begins with -----BEGIN …-----; DER is binary and begins with byte 30."
        case (.privateKey, .pkcs12):
            sentence =
                "is a PKCS#12 bundle, with key and certificate in one. Give it as --pkcs12 \(file), and its password's "
                + "file with --password-file."
        case (.privateKey, .opensshPrivateKey):
            kind = .notYetSupported
            sentence =
                "is an OpenSSH private key, which is not supported. Convert a copy of it: "
                + "ssh-keygen -p -m PKCS8 -f COPY."
        case (.privateKey, .privateKey(.encryptedTraditional)):
            kind = .notYetSupported
            sentence =
                "is a private key encrypted in OpenSSL's older way, which is not supported. Encrypt it as PKCS#8: "
                + "openssl pkcs8 -topk8 -in \(file) -out key.pem."
        case (.privateKey, .javaKeyStore):
            kind = .notYetSupported
            sentence =
                "is a Java key store, which is not supported. Convert it: keytool -importkeystore -srckeystore "
                + "\(file) -destkeystore key.p12 -deststoretype PKCS12, then openssl pkcs12 -in key.p12 "
                + "-nocerts -nodes -out key.pem."
        case (.privateKey, .certificate), (.privateKey, .pkcs7), (.privateKey, .certificateRequest):
            sentence = "is \(name), not a private key: give the file with the key that it was made for."
        case (.privateKey, .publicKey), (.privateKey, .opensshPublicKey):
            sentence = "is \(name), not a private key: give the other half of the pair."
        case (.certificate, .pkcs12):
            sentence =
                "is a PKCS#12 bundle, with a private key in it. Give it to key import: "
                + "--pkcs12 \(file) --password-file F."
        case (.certificate, .certificateRequest):
            sentence =
                "is a certificate signing request, not a certificate. Give it to Apple's developer portal: what "
                + "comes back is the certificate."
        case (.pkcs12, .privateKey):
            sentence =
                "is \(name), not a PKCS#12 bundle: give it as --private-key \(file), and its certificate with "
                + "--certificate."
        default: sentence = "is \(name), not \(wanted.rawValue)."
        }
        return KeyFileError(kind, path: path, sentence)
    }
}
