import ArgumentParser
import DaemonAPI
import Encodings
import Foundation
import KeyFiles

/// The certificate that a command takes in.
struct CertificateArgument: ParsableArguments {
    @Argument(help: ArgumentHelp("Apple's Payment Processing certificate.", valueName: "file"), completion: .file())
    var file: String

    @Flag(help: "Takes a certificate that has expired.")
    var allowExpired = false

    /// Reads the file, and says what of it a person should know.
    func request() throws(CommandFailure) -> CertificateImportRequest {
        let certificate: CertificateFile
        do throws(KeyFileError) {
            certificate = try CertificateFile(path: file)
        } catch {
            throw CommandFailure(error)
        }
        if let note = certificate.note { Console.error(note) }
        return CertificateImportRequest(
            certificate: Base64.encode(certificate.der), allowExpired: allowExpired)
    }
}
