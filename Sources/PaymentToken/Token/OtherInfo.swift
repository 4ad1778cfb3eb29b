internal import Crypto

/// What the one-step KDF mixes in beside the shared secret (NIST SP 800-56A §5.8.2.1; "Restoring the symmetric key").
public enum OtherInfo {
    /// EC_v1: algorithm identifier 0x0D "id-aes256-GCM", PartyUInfo "Apple", PartyVInfo SHA-256 of the merchant
    /// identifier's UTF-8. 51 bytes, without the KDF's counter.
    public static func ecV1(merchantIdentifier: String) -> [UInt8] {
        [0x0D] + "id-aes256-GCM".utf8 + "Apple".utf8 + SHA256.hash(data: Array(merchantIdentifier.utf8))
    }
}
