import Crypto
import Encodings
import FoundationEssentials
import KeyRestoration
import KeyTesting
import KeyTypes
import PKCS11
import SecretMemory
import WorkerProtocol

// Unsafe: Pointers are used only within the closures, which copy the content of public test vectors.

/// Wycheproof's cases through an HSM token, as the HSM token's tier does the operation. The files are not installed with
/// the program: scripts/test-tokens passes the directory of swift-crypto's copies.
struct VectorTrial {
    let name: String
    let run: (OpenToken, inout Session) throws(CallError) -> TokenTrial.Line

    static func all(directory: String, _ hsmToken: OpenToken) -> [VectorTrial] {
        var all: [VectorTrial] = []
        if hsmToken.tiers.chosen[.ecV1] != nil {
            all.append(
                VectorTrial(name: "Wycheproof ECDH P-256") { (hsmToken, session) throws(CallError) in
                    try ecdh(directory, hsmToken, &session)
                })
        }
        if hsmToken.tiers.chosen[.rsaV1] != nil {
            all.append(
                VectorTrial(name: "Wycheproof RSA-OAEP SHA-256") { (hsmToken, session) throws(CallError) in
                    try oaep(directory, hsmToken, &session)
                })
        }
        return all
    }

    private static func read<File: Decodable>(_ type: File.Type, _ directory: String, _ name: String) -> File? {
        (try? Data(contentsOf: URL(filePath: directory).appending(component: name))).flatMap {
            try? JSONDecoder().decode(type, from: $0)
        }
    }

    // MARK: ECDH

    private struct ECDHFile: Decodable {
        struct Group: Decodable { let tests: [Case] }
        struct Case: Decodable {
            let tcId: Int
            let `public`, `private`, shared, result: String
        }
        let testGroups: [Group]
    }

    /// A valid case becomes a payment, encrypted with the case's shared secret, which the tier must open. The point of
    /// every other case must be refused.
    private static func ecdh(
        _ directory: String, _ hsmToken: OpenToken, _ session: inout Session
    ) throws(CallError) -> TokenTrial.Line {
        guard let tier = hsmToken.tiers.chosen[.ecV1],
            let file = read(ECDHFile.self, directory, "ecdh_secp256r1_ecpoint_test.json")
        else { return TokenTrial.Line(works: false, reason: "the file of cases cannot be read") }
        var keys = VectorKeys(.ecV1)
        defer { keys.destroyAll(hsmToken, &session) }
        var count = VectorCount()
        for test in file.testGroups.flatMap(\.tests) {
            guard let number = Hexadecimal.decode(test.private), let point = Hexadecimal.decode(test.public),
                let secret = Hexadecimal.decode(test.shared)
            else { return TokenTrial.Line(works: false, reason: "case \(test.tcId) cannot be read") }
            let scalar = [UInt8](repeating: 0, count: max(0, 32 - number.count)) + number.suffix(32)
            let pkcs8 = (try? P256.KeyAgreement.PrivateKey(rawRepresentation: scalar)).map {
                Array($0.derRepresentation)
            }
            let key: PrivateKeyEntry
            do throws(VectorKeys.Refusal) {
                key = try keys.key(test.private, pkcs8, hsmToken, &session)
            } catch {
                count.skip(error.reason)
                continue
            }
            guard let payment = try? TestTransaction.sealed(secret: secret) else {
                return TokenTrial.Line(works: false, reason: "no payment could be made")
            }
            let input = Decryption(
                publicKeyHash: key.publicKey.publicKeyHash, scheme: .ecV1, keyMaterial: point,
                otherInfo: TestTransaction.trialOtherInfo, ciphertext: payment.ciphertext)
            do throws(RestorationError) {
                let plaintext = try tier.open(input, with: key, in: &session)
                count.add(test.tcId, test.result == "valid" && plaintext == payment.plaintext)
            } catch {
                count.add(test.tcId, test.result != "valid", error)
            }
        }
        return count.line
    }

    // MARK: OAEP

    private struct OAEPFile: Decodable {
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

    /// The messages of the cases are no symmetric keys of Apple's size, so the operation before the tier's last step is
    /// tried: C_Decrypt by CKM_RSA_PKCS_OAEP, or by CKM_RSA_X_509 where the HSM token has no OAEP with SHA-256.
    private static func oaep(
        _ directory: String, _ hsmToken: OpenToken, _ session: inout Session
    ) throws(CallError) -> TokenTrial.Line {
        let isBare = hsmToken.tiers.chosen[.rsaV1] is BareRSATier
        var keys = VectorKeys(.rsaV1)
        defer { keys.destroyAll(hsmToken, &session) }
        var count = VectorCount()
        for name in ["rsa_oaep_2048_sha256_mgf1sha256_test.json", "rsa_oaep_misc_test.json"] {
            guard let file = read(OAEPFile.self, directory, name) else {
                return TokenTrial.Line(works: false, reason: "the file of cases cannot be read")
            }
            for group in file.testGroups
            where group.keysize == 2048 && group.sha == "SHA-256" && group.mgfSha == "SHA-256" {
                for test in group.tests {
                    let key: PrivateKeyEntry
                    do throws(VectorKeys.Refusal) {
                        key = try keys.key(
                            group.privateKeyPkcs8, Hexadecimal.decode(group.privateKeyPkcs8), hsmToken, &session)
                    } catch {
                        count.skip(error.reason)
                        continue
                    }
                    let message = decrypt(Hexadecimal.decode(test.ct) ?? [], key, isBare, &session)
                    let expected = test.result != "invalid" && test.label.isEmpty ? Hexadecimal.decode(test.msg) : nil
                    count.add(test.tcId, message == expected)
                }
            }
        }
        return count.line
    }

    private static func decrypt(
        _ ciphertext: [UInt8], _ key: PrivateKeyEntry, _ isBare: Bool, _ session: inout Session
    ) -> [UInt8]? {
        // As with a payment token's wrapped key, the HSM token never receives input of another size than the modulus.
        let size = key.modulus.count
        guard ciphertext.count == size,
            let block = try? session.decrypt(
                ciphertext, isBare ? .rsaX509 : .rsaOAEPSHA256, key: key.working, capacity: size)
        else { return nil }
        guard isBare else { return unsafe block.withUnsafeBytes { unsafe Array($0) } }
        guard
            let message = try? OAEP.decodeSHA256(block: block.paddedWithLeadingZeros(to: size), modulusByteCount: size)
        else { return nil }
        return unsafe message.withUnsafeBytes { unsafe Array($0) }
    }
}

/// The private keys of the cases in the HSM token: session objects, or stored ones with the trial's label where the
/// HSM token takes no session objects.
private struct VectorKeys {
    struct Refusal: Error {
        let reason: String
    }

    private let scheme: RestorationScheme
    private var known: [String: Result<PrivateKeyEntry, Refusal>] = [:]
    private var objects: [ObjectHandle] = []

    init(_ scheme: RestorationScheme) {
        self.scheme = scheme
    }

    /// - Parameter pkcs8: nil for a number that is no private key.
    /// - Throws: The reason why the HSM token does not have the key.
    mutating func key(
        _ name: String, _ pkcs8: [UInt8]?, _ hsmToken: OpenToken, _ session: inout Session
    ) throws(Refusal) -> PrivateKeyEntry {
        if let known = known[name] { return try known.get() }
        let made = create(pkcs8, hsmToken, &session)
        known[name] = made
        return try made.get()
    }

    private mutating func create(
        _ pkcs8: [UInt8]?, _ hsmToken: OpenToken, _ session: inout Session
    ) -> Result<PrivateKeyEntry, Refusal> {
        do {
            guard let pkcs8 else { return .failure(Refusal(reason: "the number is no private key")) }
            let key = try PrivateKeyInfo(pkcs8: SecretBytes(copying: pkcs8))
            let publicKey = try SubjectPublicKeyInfo(key.publicKey)
            let privateKey: ObjectHandle
            do throws(CallError) {
                let pair = try session.createTestPair(key, TestKeyPair.usage(scheme.algorithm, .processing))
                privateKey = pair.privateKey
                objects += [pair.privateKey, pair.publicKey]
            } catch {
                var created: [ObjectHandle] = []
                privateKey = try hsmToken.storePair(
                    KeyObjects(publicKey: publicKey, label: TrialObjects.label), key, &created, in: &session)
                objects += [privateKey] + created
            }
            return .success(PrivateKeyEntry(publicKey: publicKey, object: privateKey, working: privateKey))
        } catch {
            return .failure(Refusal(reason: "the HSM token takes no such key: \(error)"))
        }
    }

    mutating func destroyAll(_ hsmToken: OpenToken, _ session: inout Session) {
        session.dropKeptObject()
        session.destroy(objects)
        objects = []
    }
}

/// The results of the cases so far.
private struct VectorCount {
    private var right = 0
    private var wrong: [String] = []
    private var skipped: [String: Int] = [:]

    mutating func add(_ identifier: Int, _ isRight: Bool, _ error: RestorationError? = nil) {
        if isRight {
            right += 1
        } else {
            wrong.append("case \(identifier)" + (error.map { " (\($0))" } ?? ""))
        }
    }

    mutating func skip(_ reason: String) { skipped[reason, default: 0] += 1 }

    var line: TokenTrial.Line {
        let all = right + wrong.count + skipped.values.reduce(0, +)
        let skips = skipped.sorted { $0.key < $1.key }.map { "\($0.value) skipped: \($0.key)" }
        return TokenTrial.Line(
            works: wrong.isEmpty, reason: wrong.isEmpty ? nil : wrong.prefix(8).joined(separator: ", "),
            details: ["\(right) of \(all)"] + skips)
    }
}
