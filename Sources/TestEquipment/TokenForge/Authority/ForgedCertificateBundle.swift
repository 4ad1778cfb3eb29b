/// Certificates as Apple's portal and other programs hand them out several at once.
public enum ForgedCertificateBundle {
    /// PKCS#7 SignedData without a signer (RFC 5652 §5.1), DER or with indefinite lengths at the levels that streaming
    /// writers leave open.
    ///
    /// - Parameter certificates: DER, in the order in which they are to stand there.
    public static func pkcs7(_ certificates: [[UInt8]], indefiniteLengths: Bool = false) -> [UInt8] {
        SignedDataDraft(digestAlgorithms: [], certificates: certificates, signerInfos: [])
            .encoded(indefiniteLengths: indefiniteLengths)
    }
}
