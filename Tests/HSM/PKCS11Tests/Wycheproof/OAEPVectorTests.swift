import Foundation
import KeyRestoration
import PKCS11
import SecretMemory
import SwiftASN1
import TestSupport
import Testing

/// Wycheproof's RSA-OAEP cases for an HSM token without OAEP-SHA256. The HSM token computes CKM_RSA_X_509, and the
/// worker's code checks the padding.
@Suite("RSA-OAEP vectors through the HSM token")
struct OAEPVectorTests {
    private struct File: Decodable {
        struct Group: Decodable {
            let keysize: Int
            let sha, mgfSha, privateKeyPkcs8: String
            let tests: [Case]
        }
        struct Case: Decodable {
            let tcId: Int
            let msg, ct, label, result: String
        }
        let testGroups: [Group]
    }

    private func groups(_ name: String) throws -> [File.Group] {
        try JSONDecoder().decode(File.self, from: PublishedVectors.wycheproof(name)).testGroups
    }

    /// Imports a PKCS#8 key (RFC 5958) that contains an RSAPrivateKey (RFC 8017 appendix A.1.2).
    private func importKey(_ session: inout Session, _ hexadecimal: String) throws -> ObjectHandle {
        let outer = try DER.parse(#require([UInt8](hexadecimal: hexadecimal)))
        let numbers = try DER.sequence(outer, identifier: .sequence) { nodes in
            _ = try Int(derEncoded: &nodes)
            _ = nodes.next()
            let inner = try ASN1OctetString(derEncoded: &nodes)
            return try DER.sequence(of: ArraySlice<UInt8>.self, identifier: .sequence, rootNode: DER.parse(inner.bytes))
        }.map { $0.drop { $0 == 0 } }
        var secrets = SecretAttributes(capacity: 4096)
        let parts: [AttributeType] = [.privateExponent, .prime1, .prime2, .exponent1, .exponent2, .coefficient]
        for (type, number) in zip(parts, numbers.dropFirst(3)) {
            secrets.append(type, SecretBytes(copying: Array(number)))
        }
        return try session.createObject(
            [
                .objectClass(.privateKey), .keyType(.rsa), .token(false), .private(true), .sensitive(true),
                .extractable(false), .decrypt(true), .modulus(Array(numbers[1])), .publicExponent(Array(numbers[2])),
            ], secrets: secrets)
    }

    private func decrypt(
        _ session: inout Session, _ ciphertext: [UInt8], _ key: ObjectHandle, modulusByteCount: Int
    ) throws -> [UInt8]? {
        // As with a payment token's wrapped key, the HSM token never receives input whose size differs from the
        // modulus.
        guard ciphertext.count == modulusByteCount else { return nil }
        let block: SecretBytes
        do {
            block = try session.decrypt(ciphertext, .rsaX509, key: key, capacity: modulusByteCount)
        } catch {
            return nil
        }
        guard let message = try? OAEP.decodeSHA256(block: block, modulusByteCount: modulusByteCount) else { return nil }
        return unsafe message.withUnsafeBytes { unsafe Array($0) }
    }

    /// Runs the cases of a file. Returns the numbers of decrypted and refused cases.
    private func run(_ name: String) throws -> (opened: Int, refused: Int) {
        var session = try SoftHSM.shared().freshToken().openSession()
        var opened = 0
        var refused = 0
        for group in try groups(name) {
            let key = try importKey(&session, group.privateKeyPkcs8)
            for test in group.tests {
                let ciphertext = try #require([UInt8](hexadecimal: test.ct))
                let message = try decrypt(&session, ciphertext, key, modulusByteCount: group.keysize / 8)
                let hasApplesSize =
                    test.result != "invalid" && group.sha == "SHA-256" && group.mgfSha == "SHA-256"
                    && test.label.isEmpty
                #expect(message == (hasApplesSize ? [UInt8](hexadecimal: test.msg) : nil), "\(name), case \(test.tcId)")
                if hasApplesSize { opened += 1 } else { refused += 1 }
            }
            try session.destroyObject(key)
        }
        return (opened, refused)
    }

    @Test("decrypts valid cases of SHA-256 with MGF1-SHA-256, and refuses bad padding, labels and lengths")
    func sha256() throws {
        let counts = try run("rsa_oaep_2048_sha256_mgf1sha256_test.json")
        #expect(counts.opened + counts.refused == 35)
        #expect(counts.opened == 10)
    }

    @Test("refuses other hashes and other labels, and decrypts with other key sizes")
    func otherHashes() throws {
        let counts = try run("rsa_oaep_misc_test.json")
        #expect(counts.opened == 40)
        #expect(counts.refused == 735)
    }
}
