import ArgumentParser
import Crypto
import KeyRestoration
import SecretMemory

/// Measures the functions of this project's processes that compare secrets, called directly: sharper than any answer over a
/// socket. `planted` is a comparison that ends at the first difference, which must be found.
struct FunctionTimes: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "functions", abstract: "Measures functions that compare secrets.")

    @OptionGroup var sampling: SamplingOptions

    /// A function with its input.
    private enum Call {
        /// AES-GCM's tag, tier C.
        case gcm([UInt8])
        /// The decoding of RSA-OAEP's padding, tier C of HSM tokens without OAEP.
        case oaep([UInt8])
        /// The digest in a payment token's signature.
        case digest(SHA256.Digest, [UInt8])
        /// The code by which the gateway finds an account number.
        case hmac([UInt8])
        case planted([UInt8])
    }

    private static let planted = EncryptedInputs.random(512)

    func run() throws {
        let key = EncryptedInputs.random(16)
        let sealed = try AES.GCM.seal(
            EncryptedInputs.random(304), using: SymmetricKey(data: key),
            nonce: AES.GCM.Nonce(data: GCM.paymentTokenVector))
        let ciphertext = Array(sealed.ciphertext + sealed.tag)
        let message = EncryptedInputs.random(16)
        let digest = SHA256.hash(data: message)
        let code = Array(HMAC<SHA256>.authenticationCode(for: message, using: SymmetricKey(data: key)))
        func changed(_ bytes: [UInt8], _ place: Int) -> [UInt8] {
            var bytes = bytes
            bytes[place] ^= .random(in: 1 ... .max)
            return bytes
        }
        let classes: [InputClass<Call>] = [
            InputClass(name: "gcm-first") { .gcm(changed(ciphertext, ciphertext.count - 16)) },
            InputClass(name: "gcm-last") { .gcm(changed(ciphertext, ciphertext.count - 1)) },
            InputClass(name: "oaep-octet") { .oaep(OAEPBlock(firstOctet: .random(in: 1 ... .max)).encoded(message)) },
            InputClass(name: "oaep-hash") { .oaep(OAEPBlock(label: [1]).encoded(message)) },
            InputClass(name: "oaep-separator") { .oaep(OAEPBlock(separator: 2).encoded(message)) },
            InputClass(name: "oaep-valid") { .oaep(OAEPBlock().encoded(message)) },
            InputClass(name: "digest-first") { .digest(digest, changed(Array(digest), 0)) },
            InputClass(name: "digest-last") { .digest(digest, changed(Array(digest), 31)) },
            InputClass(name: "hmac-first") { .hmac(changed(code, 0)) },
            InputClass(name: "hmac-last") { .hmac(changed(code, 31)) },
            InputClass(name: "planted-first") { .planted(changed(Self.planted, 0)) },
            InputClass(name: "planted-last") { .planted(changed(Self.planted, Self.planted.count - 1)) },
        ]
        let secretKey = SecretBytes(copying: key)
        try sampling.sampler.run(classes, control: "gcm-last") { call in
            switch call {
            case .gcm(let ciphertext): return (try? GCM.open(ciphertext, key: secretKey)) != nil
            case .oaep(let block):
                _ = try? OAEP.decodeSHA256(block: SecretBytes(copying: block), modulusByteCount: block.count)
                return false
            case .digest(let digest, let other): return digest == other
            case .hmac(let code):
                return HMAC<SHA256>.isValidAuthenticationCode(
                    code, authenticating: message, using: SymmetricKey(data: key))
            case .planted(let bytes): return bytes.elementsEqual(Self.planted)
            }
        } describe: {
            "\($0)"
        }
    }
}

/// The encoding of RSA-OAEP with SHA-256 (RFC 8017 §7.1.1 step 2), with the faults that a decoder must not tell apart.
private struct OAEPBlock {
    var firstOctet: UInt8 = 0
    var label: [UInt8] = []
    var separator: UInt8 = 1

    /// Returns 256 bytes.
    func encoded(_ message: [UInt8]) -> [UInt8] {
        let padding = [UInt8](repeating: 0, count: 256 - 66 - message.count)
        let data = Array(SHA256.hash(data: label)) + padding + [separator] + message
        let seed = EncryptedInputs.random(32)
        let masked = Self.masked(data, by: seed)
        return [firstOctet] + Self.masked(seed, by: masked) + masked
    }

    private static func masked(_ bytes: [UInt8], by seed: [UInt8]) -> [UInt8] {
        let mask = (0..<8).flatMap { Array(SHA256.hash(data: seed + [0, 0, 0, UInt8($0)])) }
        return zip(bytes, mask).map { $0 ^ $1 }
    }
}
