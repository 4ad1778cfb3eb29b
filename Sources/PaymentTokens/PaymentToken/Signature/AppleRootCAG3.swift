internal import Crypto
internal import Encodings
public import Refusals
public import X509

/// Apple Root CA - G3: the root that Apple's format reference names, P-384, valid from 2014-04-30 to 2039-04-30.
///
/// Published at https://www.apple.com/certificateauthority. The Swift toolchain includes the same bytes, since SwiftPM
/// trusts this root for signed packages; a test compares the two.
public enum AppleRootCAG3 {
    /// SHA-256 of `der`, as Apple publishes it.
    public static let fingerprint = "63343abfb89a6a03ebb57e9b3f5fa7be7c4f5c756f3017b3a8c488c3653e9179"

    /// The certificate, 583 bytes.
    public static let der: [UInt8] = Base64.decode(base64) ?? []

    /// - Throws: `internal_error` if this file's bytes do not match the fingerprint, which means that the build is
    ///   corrupt.
    public static func certificate() throws(Refusal) -> Certificate {
        guard Hexadecimal.encode(Array(SHA256.hash(data: der))) == fingerprint,
            let certificate = try? Certificate(derEncoded: der)
        else {
            throw Refusal(
                .internalError, "The built-in Apple Root CA - G3 is not the one that Apple published; build again.")
        }
        return certificate
    }

    private static let base64 =
        "MIICQzCCAcmgAwIBAgIILcX8iNLFS5UwCgYIKoZIzj0EAwMwZzEbMBkGA1UEAwwSQXBwbGUgUm9vdCBDQSAtIEczMSYwJAYDVQQL"
        + "DB1BcHBsZSBDZXJ0aWZpY2F0aW9uIEF1dGhvcml0eTETMBEGA1UECgwKQXBwbGUgSW5jLjELMAkGA1UEBhMCVVMwHhcNMTQwNDMw"
        + "MTgxOTA2WhcNMzkwNDMwMTgxOTA2WjBnMRswGQYDVQQDDBJBcHBsZSBSb290IENBIC0gRzMxJjAkBgNVBAsMHUFwcGxlIENlcnRp"
        + "ZmljYXRpb24gQXV0aG9yaXR5MRMwEQYDVQQKDApBcHBsZSBJbmMuMQswCQYDVQQGEwJVUzB2MBAGByqGSM49AgEGBSuBBAAiA2IA"
        + "BJjpLz1AcqTtkyJygRMc3RCV8cWjTnHcFBbZDuWmBSp3ZHtfTjjTuxxEtX/1H7YyYl3J6YRbTzBPEVoA/VhYDKX1DyxNB0cTddqX"
        + "l5dvMVztK517IDvYuVTZXpmkOlEKMaNCMEAwHQYDVR0OBBYEFLuw3qFYM4iapIqZ3r6966/ayySrMA8GA1UdEwEB/wQFMAMBAf8w"
        + "DgYDVR0PAQH/BAQDAgEGMAoGCCqGSM49BAMDA2gAMGUCMQCD6cHEFl4aXTQY2e3v9GwOAEZLuN+yRhHFD/3meoyhpmvOwgPUnPWT"
        + "xnS4at+qIxUCMG1mihDK1A3UT82NQz60imOlM27jbdoXt2QfyFMm+YhidDkLF1vLUagM6BgD56KyKA=="
}
