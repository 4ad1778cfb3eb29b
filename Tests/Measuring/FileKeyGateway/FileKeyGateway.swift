import Crypto
import CryptoExtras
import DaemonAPI
import Encodings
import Foundation
import Gateway
import TLSHandshake

/// Runs the unchanged paytoken-gateway with merchants' TLS keys from files instead of paytokend's HSM tokens.
/// `scripts/soak sessions` compares it with sessions whose keys are in HSM tokens. It is not for production.
///
///     paytoken-gateway-file-key CONFIGURATION DIRECTORY
///
/// DIRECTORY contains two files for each merchant identifier MERCHANT: the certificate MERCHANT.pem, and the RSA key
/// MERCHANT.key.pem in PKCS#8.
@main
struct FileKeyGateway {
    static func main() async {
        guard CommandLine.arguments.count == 3 else {
            FileHandle.standardError.write(Data("usage: paytoken-gateway-file-key CONFIGURATION DIRECTORY\n".utf8))
            exit(64)
        }
        do {
            let status = await GatewayProgram.run(
                configurationFile: CommandLine.arguments[1],
                identities: try FileIdentities(directory: CommandLine.arguments[2]))
            exit(status.rawValue)
        } catch {
            FileHandle.standardError.write(Data("paytoken-gateway-file-key: \(error)\n".utf8))
            exit(78)
        }
    }
}

/// The merchants' identities, which are all read at the start.
struct FileIdentities: MerchantIdentitySource {
    private let byMerchant: [String: MerchantIdentity]
    private let keys: [String: _RSA.Signing.PrivateKey]

    init(directory: String) throws {
        var (byMerchant, keys) = ([String: MerchantIdentity](), [String: _RSA.Signing.PrivateKey]())
        for file in try FileManager.default.contentsOfDirectory(atPath: directory) where file.hasSuffix(".key.pem") {
            let merchant = String(file.dropLast(".key.pem".count))
            let key = try _RSA.Signing.PrivateKey(
                pemRepresentation: String(contentsOfFile: "\(directory)/\(file)", encoding: .utf8))
            let hash = Base64.encode(Array(SHA256.hash(data: key.publicKey.derRepresentation)))
            let certificate = try String(contentsOfFile: "\(directory)/\(merchant).pem", encoding: .utf8)
                .split(separator: "\n").filter { !$0.hasPrefix("-----") }.joined()
            guard
                let identity = MerchantIdentity(
                    TLSIdentity(
                        publicKeyHash: hash, certificateChain: [certificate], notAfter: .distantFuture,
                        algorithms: ["rsa_pss_rsae_sha256", "rsa_pkcs1_sha256"]))
            else { throw IdentityFailure.unreadable }
            byMerchant[merchant] = identity
            keys[hash] = key
        }
        (self.byMerchant, self.keys) = (byMerchant, keys)
    }

    func identities(
        of merchantIdentifier: String, for origin: SessionOrigin
    ) async throws(IdentityFailure) -> [MerchantIdentity] {
        byMerchant[merchantIdentifier].map { [$0] } ?? []
    }

    func signature(
        by publicKeyHash: String, _ algorithm: TLSSignatureAlgorithm, over input: [UInt8], for origin: SessionOrigin
    ) async throws(IdentityFailure) -> [UInt8] {
        let padding: _RSA.Signing.Padding = algorithm == .pssSHA256 ? .PSS : .insecurePKCS1v1_5
        guard
            let signature = try? keys[publicKeyHash]?.signature(for: SHA256.hash(data: input), padding: padding)
        else { throw .unreadable }
        return Array(signature.rawRepresentation)
    }
}
