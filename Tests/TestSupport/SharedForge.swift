public import TokenForge

/// One authority and its usual merchants for all tests of a run: RSA keys take a while to make.
public enum SharedForge {
    private static let made = Result { try Made() }

    private struct Made {
        let authority: ForgeAuthority
        let ecMerchant: ForgedMerchant
        let rsaMerchant: ForgedMerchant

        init() throws {
            authority = try ForgeAuthority()
            ecMerchant = try ForgedMerchant(
                authority: authority, type: .p256,
                profile: MerchantCertificateProfile(merchantIdentifier: "merchant.com.example.shop"))
            rsaMerchant = try ForgedMerchant(
                authority: authority, type: .rsa2048,
                profile: MerchantCertificateProfile(merchantIdentifier: "merchant.com.example.rsa"))
        }
    }

    public static var authority: ForgeAuthority { get throws { try made.get().authority } }
    /// `merchant.com.example.shop`, P-256.
    public static var ecMerchant: ForgedMerchant { get throws { try made.get().ecMerchant } }
    /// `merchant.com.example.rsa`, RSA-2048.
    public static var rsaMerchant: ForgedMerchant { get throws { try made.get().rsaMerchant } }
    /// Mints under ``authority``.
    public static var mint: TokenMint { get throws { TokenMint(authority: try authority) } }
}
