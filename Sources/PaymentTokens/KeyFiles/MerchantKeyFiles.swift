// The files in which merchants keep keys and certificates, read for paytokenctl's imports: PEM, DER, PKCS#7, PKCS#12.
//
// A file of bounded size is read once into locked memory (RecognisedFile.swift). Its kind is recognised from its
// bytes, never from its name (FileContent, DERShape, PEMText). Start with MerchantKeyFiles below for a key with its
// certificate, or with CertificateFile for a certificate alone. CertificateChoice chooses the merchant's certificate
// among several.
//
// A KeyFileError says what the file is, what is required and what to do. It never repeats any of the content. Private
// keys stay in memory that is wiped. The daemon, not this module, checks that a certificate is the right one. The
// module uses `unsafe` for libcrypto, which decodes the formats that swift-crypto cannot.

internal import SecretMemory

/// A merchant's private key and its certificate, from files.
public struct MerchantKeyFiles: ~Copyable, Sendable {
    public let privateKey: PrivateKeyFile
    /// The certificate, which was checked to match ``privateKey``.
    public let certificate: CertificateFile

    /// Reads the key and the certificate from two files.
    ///
    /// - Parameters:
    ///   - privateKey: PKCS#8, SEC 1 or PKCS#1; see ``PrivateKeyFile``.
    ///   - passwordFile: The file with the password of an encrypted PKCS#8 key.
    ///   - certificate: X.509 or PKCS#7; see ``CertificateFile``.
    public init(privateKey: String, passwordFile: String?, certificate: String) throws(KeyFileError) {
        let file = try CertificateFile(path: certificate)
        let key = try PrivateKeyFile(path: privateKey, passwordFile: passwordFile)
        try Self.checkPair(key, privateKey, file, certificate)
        self.privateKey = key
        self.certificate = file
    }

    /// Reads a PKCS#12 bundle; see ``PKCS12File``.
    ///
    /// - Parameter certificate: A file with a certificate to use instead of the bundle's, such as a renewed one for the
    ///   same key. It is required if the bundle has none.
    public init(pkcs12: String, passwordFile: String?, certificate: String?) throws(KeyFileError) {
        let bundle = try PKCS12File(path: pkcs12, passwordFile: passwordFile)
        let key: PrivateKeyFile
        if let certificate {
            let file = try CertificateFile(path: certificate)
            key = bundle.takePrivateKey()
            try Self.checkPair(key, pkcs12, file, certificate)
            self.certificate = file
        } else {
            self.certificate = try bundle.certificate(inBundle: pkcs12)
            key = bundle.takePrivateKey()
        }
        privateKey = key
    }

    private static func checkPair(
        _ key: borrowing PrivateKeyFile, _ keyPath: String, _ certificate: CertificateFile, _ certificatePath: String
    ) throws(KeyFileError) {
        guard key.fits(certificate) else {
            throw KeyFileError(
                .mismatched, path: certificatePath,
                "is not for the private key in \(keyPath). Name the two files that belong together.")
        }
    }
}
