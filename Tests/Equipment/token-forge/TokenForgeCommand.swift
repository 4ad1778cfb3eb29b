// Test equipment, packaged apart from the service: the command line of TokenForge, for tests, demonstrations and soak
// tests.

import ArgumentParser
import Foundation
import ProductVersion
import TokenForge

@main
struct TokenForgeCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "token-forge",
        abstract: "Test equipment: mints payment tokens of Apple Pay and Google Pay under roots of your own.",
        discussion: """
            For tests and demonstrations only; it is not installed with paytokend. It plays Apple and the Secure \
            Element: certification authorities like Apple's, merchants' certificates, and payment tokens of both \
            versions, good ones and ones with one thing wrong. Only a daemon that trusts DIR/root.pem accepts what it \
            makes; never trust that root where payments are real.

              token-forge authority forge
              token-forge merchant forge --merchant-identifier merchant.com.example --type ec
              token-forge mint forge --certificate forge/merchant.com.example.pem --amount 1099 --body decrypt \\
                | curl --unix-socket /run/paytokend/paytokend.sock -H 'Content-Type: application/json' \\
                    --data-binary @- http://localhost/v1/decrypt
            """,
        version: ProductVersion.current,
        subcommands: [
            AuthorityCommand.self, MerchantCommand.self, CertifyCommand.self, MintCommand.self, OpenCommand.self,
            DeviationsCommand.self, GoogleAuthorityCommand.self, GoogleMintCommand.self,
        ])
}

struct AuthorityCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "authority",
        abstract: "Makes the root, the intermediate, the two signers and the merchants' authority.",
        discussion: """
            DIR/NAME.pem is a certificate, DIR/NAME.key.pem its private key (mode 0600), for NAME root, \
            intermediate, leaf-ec, leaf-rsa and developer-relations. Name DIR/root.pem under trust.roots of \
            paytokend's configuration. An authority that is there already is kept.
            """)

    @Argument(help: ArgumentHelp("The directory; made when it is missing.", valueName: "DIR"))
    var directory: String

    @Flag(help: "Replace an authority that is there already.")
    var force = false

    func run() throws {
        let url = URL(filePath: directory)
        if !force, FileManager.default.fileExists(atPath: url.appending(path: "root.pem").path) {
            // Throws if the existing directory is incomplete.
            _ = try ForgeAuthority(directory: url)
            print("kept \(directory)/root.pem")
            return
        }
        try ForgeAuthority().write(to: url)
        print("made \(directory)/root.pem")
    }
}
