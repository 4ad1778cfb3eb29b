import ArgumentParser
import ProductVersion

@main
struct TokenForgeCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "token-forge",
        abstract: "Mints Apple Pay payment tokens under a root of your own, for tests and demonstrations.",
        discussion: """
            It plays Apple and the Secure Element: certification authorities like Apple's, merchants' certificates, \
            and tokens of both versions, good ones and ones with one thing wrong. Nothing that it makes is accepted \
            by anybody who does not trust DIR/root.pem.

              token-forge authority forge
              token-forge merchant forge --merchant-identifier merchant.com.example --type ec
              token-forge mint forge --certificate forge/merchant.com.example.pem --amount 1099 --body decrypt \\
                | curl --unix-socket /run/paytokend/paytokend.sock -H 'Content-Type: application/json' \\
                    --data-binary @- http://localhost/v1/decrypt
            """,
        version: ProductVersion.current,
        subcommands: [
            AuthorityCommand.self, MerchantCommand.self, CertifyCommand.self, MintCommand.self, OpenCommand.self,
            DeviationsCommand.self,
        ])
}
