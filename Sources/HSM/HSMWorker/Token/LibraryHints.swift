import FoundationEssentials
import PKCS11

/// The likely cause when a library's C_Initialize fails or when it shows no HSM token, as a question to the operator. Most
/// libraries return CKR_GENERAL_ERROR for every cause, which tells the operator nothing. p11-kit's client shows no HSM
/// token without its server.
struct LibraryHint: Sendable {
    /// A part of the library's file name, in lower case.
    private let name: String
    /// An environment variable that only this library reads; nil if none is known. If it is set and the configured
    /// module has another name, that module probably forwards its calls to this library.
    private let variable: String?
    private let question: String
}

extension LibraryHint {
    /// The hints for libraries whose usual causes are known from trials or the vendor's documents (Tokens.md,
    /// OtherHSMs.md).
    private static let all = [
        LibraryHint(
            name: "softhsm", variable: "SOFTHSM2_CONF",
            question: "Does SOFTHSM2_CONF name a file whose tokendir exists and is writable?"),
        LibraryHint(
            name: "opencryptoki", variable: nil,
            question: "Does pkcsslotd run, and is the daemon's user in the group pkcs11?"),
        LibraryHint(
            name: "tpm2_pkcs11", variable: "TPM2_PKCS11_STORE",
            question:
                "Does TPM2_PKCS11_STORE name a directory that tpm2_ptool made, and may the daemon's user open the TPM?"),
        LibraryHint(
            name: "yubihsm", variable: "YUBIHSM_PKCS11_CONF",
            question: "Does YUBIHSM_PKCS11_CONF name a file with a connector, and does that connector run?"),
        LibraryHint(
            name: "p11-kit-client", variable: "P11_KIT_SERVER_ADDRESS",
            question: "Does P11_KIT_SERVER_ADDRESS name the socket of a p11-kit server that runs?"),
        LibraryHint(
            name: "pkcs11-proxy", variable: "PKCS11_PROXY_SOCKET",
            question: "Does PKCS11_PROXY_SOCKET name the address of a pkcs11-daemon that runs?"),
        LibraryHint(
            name: "softokn", variable: nil,
            question: "Does init_args name a database that certutil made (configdir='sql:/path')?"),
        LibraryHint(
            name: "cryptoki2", variable: "ChrystokiConfigurationPath",
            question: "Does ChrystokiConfigurationPath name the directory of Chrystoki.conf?"),
        LibraryHint(
            name: "kmsp11", variable: "KMS_PKCS11_CONFIG",
            question: "Does KMS_PKCS11_CONFIG name a file that only its owner may write?"),
    ]
}

extension LibraryHint {
    /// Returns a question for an operator, or nil if nothing is known about the library.
    static func question(
        module path: String, environment: [String: String] = ProcessInfo.processInfo.environment
    ) -> String? {
        let file = (path.split(separator: "/").last ?? "").lowercased()
        let hint =
            all.first { file.contains($0.name) }
            ?? all.first { hint in hint.variable.map { environment[$0] != nil } ?? false }
        return hint?.question
    }
}

extension ModuleError {
    /// A sentence for an operator: the failure, and the likely cause as a question if the library is known.
    func sentence(
        module path: String, environment: [String: String] = ProcessInfo.processInfo.environment
    ) -> String {
        guard case .call(let error) = self, error.call == "C_Initialize",
            let question = LibraryHint.question(module: path, environment: environment)
        else { return "\(self)." }
        return "\(self). \(question)"
    }
}
