import ArgumentParser
import Foundation
import TokenForge

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
            // Throws when what is there is not whole.
            _ = try ForgeAuthority(directory: url)
            print("kept \(directory)/root.pem")
            return
        }
        try ForgeAuthority().write(to: url)
        print("made \(directory)/root.pem")
    }
}
