// What people have keys and certificates in, read for paytokenctl's imports: PEM, DER, PKCS#7, PKCS#12.
//
// A file is read once, bounded, into locked memory (RecognisedFile.swift), and told from its own bytes, never from its name
// (FileContent, DERShape, PEMText). MerchantKeyFiles below is the way in for a key with its certificate, CertificateFile for a
// certificate alone; of several certificates CertificateChoice picks the merchant's.
//
// Guaranteed: a KeyFileError says what the file is instead of what was needed, and what to do, and repeats nothing of its
// content; private keys stay in memory that is wiped. Whether a certificate is the right one is checked by the daemon.
// `unsafe` is here because of libcrypto, which decodes what swift-crypto cannot.

internal import SecretMemory

/// A merchant's private key and the certificate for it, from the files that people have them in.
public struct MerchantKeyFiles: ~Copyable, Sendable {
    public let privateKey: PrivateKeyFile
    /// For the public half of ``privateKey``: checked.
    public let certificate: CertificateFile

    /// Two files.
    ///
    /// - Parameters:
    ///   - privateKey: PKCS#8, SEC 1 or PKCS#1; see ``PrivateKeyFile``.
    ///   - passwordFile: For an encrypted PKCS#8 key.
    ///   - certificate: X.509 or PKCS#7; see ``CertificateFile``.
    public init(privateKey: String, passwordFile: String?, certificate: String) throws(KeyFileError) {
        let file = try CertificateFile(path: certificate)
        let key = try PrivateKeyFile(path: privateKey, passwordFile: passwordFile)
        try Self.checkPair(key, privateKey, file, certificate)
        self.privateKey = key
        self.certificate = file
    }

    /// A PKCS#12 bundle; see ``PKCS12File``.
    ///
    /// - Parameter certificate: A file with the certificate instead of the bundle's, such as a renewed one for the same
    ///   key. Needed when the bundle holds none.
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
