import ArgumentParser
import Foundation
import TokenForge

struct OpenCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "open",
        abstract: "Decrypts tokens with the merchant's private key, in software.",
        discussion: """
            A token on each line of standard input, and what it holds on each line of standard output, byte for byte; \
            an empty line for one that does not open. Signature and time are not checked: paytokend does that.
            """)

    @Option(help: ArgumentHelp("The merchant's certificate, PEM or DER.", valueName: "FILE"))
    var certificate: String

    @Option(help: ArgumentHelp("Its private key, PEM.", valueName: "FILE"))
    var privateKey: String

    func run() throws {
        guard let der = ForgePEM.bytes(of: try Data(contentsOf: URL(filePath: certificate)), label: "CERTIFICATE")
        else { throw ForgeFailure.file(path: certificate, reason: "holds no certificate in PEM or DER") }
        let opener = try TokenOpener(
            merchant: Merchant(certificate: der),
            key: ForgeKey(pem: String(contentsOfFile: privateKey, encoding: .utf8)))
        while let line = readLine() {
            let plaintext = try opener.open(Data(line.utf8)) ?? []
            FileHandle.standardOutput.write(Data(plaintext) + Data("\n".utf8))
        }
    }
}
