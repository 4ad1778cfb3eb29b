import AuditChain
import Crypto
import CryptoExtras
import Foundation
import KeyTypes
import TestSupport
import Testing

/// Audit checkpoints of RSA keys. The key and the signatures of the golden lines come from `openssl genrsa` and
/// `openssl dgst -sha256 -sign`, for PSS with `-sigopt rsa_padding_mode:pss -sigopt rsa_pss_saltlen:32`.
@Suite("Checkpoints of RSA keys")
struct RSACheckpointTests {
    static let pss = #"""
        {"checkpoint":{"node":"backend-1","sequence":2,\#
        "hash":"694e7d33ba134dd7462c2ad26a287ffc5bed8b872066702a314418310445f7a7","time":"2026-01-31T12:01:00.000Z",\#
        "keyId":"f5f90c9acc0639c4b55464785c6b148245ba6de661241ab4cb08f9a3b76977b1","algorithm":"rsa_pss_rsae_sha256"},\#
        "signature":"PFdGWoaoDQQEBRwofzXDVFoKJjiE8B9zU8Bkh0TjS/zthJIxuwwbX40AVFy5DIuE75m5L9tNXWlnn9emk37gNF1Yth\#
        4Gyr6g4AdIVbl9psCuk+9qxK/viuoztdZ3n32dVlxv/k6D8Rx5LJj0josAX5KP6NtQMYljsDmqiTs4LAP8O3tTAWCmPhp2amWuMrV7lL\#
        jPxwl+An+G2ut0OV3fvIsgftrcBurLO2QLR48rE977uyZYR+jq2xfuiH1E5C4cP4jSsETZP0O+PHINRY5MP1K6AnwYJNvzLrnmIrdroP\#
        50FrA7YAp3DxVngXc84O7QKMzaZRM6lC9vL1qdpfi8Mg=="}
        """#
    static let pkcs1 = #"""
        {"checkpoint":{"node":"backend-1","sequence":2,\#
        "hash":"694e7d33ba134dd7462c2ad26a287ffc5bed8b872066702a314418310445f7a7","time":"2026-01-31T12:01:00.000Z",\#
        "keyId":"f5f90c9acc0639c4b55464785c6b148245ba6de661241ab4cb08f9a3b76977b1","algorithm":"rsa_pkcs1_sha256"},\#
        "signature":"jI0QOn7T/628J9qeoL0y/WF3HDmQeWqcZBR3YBTkF1CsC9Zrw4JHOebqPxSd+k7BBjvn0Qv8YPZfcsMkcp3EBP5T8y\#
        9vRkqyyCoLyP1JD54gg5jvG8Z+Yj8ARAXTAVuZTxkMS6kawv5idc2MN/MlMPwdbXLUB01FrjcvIUhvcu/yFQKOuAicvkd/ZjXf0uwSbE\#
        3TOIT942u/oUPJvvCZMDx5tJUU5Weby2j6J3LfActW8847M6YZXtK+Rbg1GztLZW6qed+RcfSb/pfuBX0z5vdtkcE4BUgsui4Zi/pnrk\#
        5qqmwGBexl/+1Hd5rkQvv8ejf8EkUn6bJqR2GvHh0XCw=="}
        """#
    static let publicKey = """
        -----BEGIN PUBLIC KEY-----
        MIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEAmTrzec9IcBZpK3L/H5Vh
        0DbCUudfcl2w1caQA6Ru59to8CXo/SXPyJpeX8CP0UBOVyDvNk6sT4Vrukv47INe
        ZEY2ysUafHgaowhPFT1g4Q/pJ+4Y075izVzpg1k77PWmlLFAGDsIxxbnYO8MAtOk
        IFKdrnkCI3hrOGufB863U+vHvs+IM+lE1gi8lq2H+Sjy20jUXX4BRpRtTzbChxEW
        zTKNrg6Sj/Tuot2xuVLfUbjFDjDmGnoo+HfjPf13IAb7erdy7BMwPAwanJ1/DsLu
        3pleBXjTSR8K2z0G72H0GQJXqBg/+K3hduj1qatFDCpUZb0beoVkGhAMd7CkKS+8
        DQIDAQAB
        -----END PUBLIC KEY-----

        """

    static let verdict = "intact: node backend-1, records 1 to 2, sealed at 2026-01-31T12:01:00.000Z"

    /// Returns the verdict of the Swift verifier, after requiring the same from scripts/verify-audit.
    private func verdict(_ checkpoint: String, keys: String) async throws -> String {
        let export = [GoldenLineTests.first, GoldenLineTests.second, checkpoint].map { Array($0.utf8) }.export
        var verifier = ChainVerifier(keys: try required(CheckpointKeys(pem: keys)))
        verifier.consume(export[...])
        let verdict = verifier.verdict().description
        let directory = try FreshDirectory()
        let script = try await Program.run(
            VerifierScript.path, ["-", directory.write(keys, to: "keys.pem")], input: export)
        #expect(script.output == verdict + "\n")
        #expect(script.status == Int32(verifier.verdict().exitStatus))
        return verdict
    }

    @Test(
        "writes the line with the algorithm inside the signed bytes, and accepts OpenSSL's signature of it",
        arguments: [(pss, AuditSignatureAlgorithm.rsaPSS), (pkcs1, .rsaPKCS1)])
    func golden(line: String, algorithm: AuditSignatureAlgorithm) async throws {
        let key = try required(CheckpointKey(pem: Self.publicKey))
        #expect(key.pem == Self.publicKey && key.keyAlgorithm == .rsa)
        #expect(CheckpointKey(stored: key.subjectPublicKeyInfo) == key)
        let hash = try required(
            AuditDigest(hex: "694e7d33ba134dd7462c2ad26a287ffc5bed8b872066702a314418310445f7a7"))
        let head = try required(ChainHead(node: try required(AuditNode("backend-1")), sequence: 2, hash: hash))
        let time = try required(AuditTime(stored: "2026-01-31T12:01:00.000Z"))
        let checkpoint = try required(head.checkpoint(at: time, keyId: key.keyId, algorithm: algorithm))
        let read = try required(SignedCheckpoint(line: Array(line.utf8)))
        #expect(read.checkpoint == checkpoint)
        #expect(key.verifies(read))
        let made = await checkpoint.signed { _ in read.signature }
        #expect(String(decoding: made.line, as: UTF8.self) == line)
        #expect(try await verdict(line, keys: Self.publicKey) == Self.verdict)
        #expect(try await verdict(line, keys: GoldenLineTests.publicKey + Self.publicKey) == Self.verdict)
    }

    @Test(
        "is verified by openssl alone, for each algorithm",
        arguments: [
            (GoldenLineTests.checkpoint, GoldenLineTests.publicKey, []), (pkcs1, publicKey, []),
            (pss, publicKey, ["-sigopt", "rsa_padding_mode:pss", "-sigopt", "rsa_pss_saltlen:32"]),
        ] as [(String, String, [String])])
    func openssl(line: String, pem: String, options: [String]) async throws {
        let read = try required(SignedCheckpoint(line: Array(line.utf8)))
        let directory = try FreshDirectory()
        let files = [
            "-verify", try directory.write(pem, to: "key.pem"), "-signature",
            try directory.write(read.signature.bytes, to: "signature"),
        ]
        // The signed bytes are cut out of the line, not written again.
        let signed = try #require(line.firstRange(of: ",\"signature\""))
        let value = line[line.index(line.startIndex, offsetBy: 14)..<signed.lowerBound]
        let result = try await Program.run(
            Program.installed("openssl"), ["dgst", "-sha256"] + options + files, input: Array(value.utf8))
        #expect(result.status == 0 && result.output == "Verified OK\n", "\(result)")
        let other = try await Program.run(
            Program.installed("openssl"), ["dgst", "-sha256"] + options + files, input: Array(value.utf8) + [0x20])
        #expect(other.status != 0, "\(other)")
    }

    @Test(
        "refuses a forged name of an algorithm in both verifiers",
        arguments: [
            (pss, #""rsa_pss_rsae_sha256""#, #""rsa_pkcs1_sha256""#),
            (pkcs1, #""rsa_pkcs1_sha256""#, #""rsa_pss_rsae_sha256""#),
            (pss, #","algorithm":"rsa_pss_rsae_sha256""#, ""), (pkcs1, #","algorithm":"rsa_pkcs1_sha256""#, ""),
            (pkcs1, "rsa_pkcs1_sha256", "ecdsa_secp256r1_sha256"), (pkcs1, "rsa_pkcs1_sha256", "none"),
            (pkcs1, "rsa_pkcs1_sha256", ""), (pkcs1, "rsa_pkcs1_sha256", "rsa_pkcs1_sha1"),
            (pkcs1, "rsa_pkcs1_sha256", "RSA_PKCS1_SHA256"), (pkcs1, #","algorithm""#, #", "algorithm""#),
            (pkcs1, #""rsa_pkcs1_sha256""#, #""rsa_pkcs1_sha256","algorithm":"rsa_pkcs1_sha256""#),
            (GoldenLineTests.checkpoint, #"d09c"}"#, #"d09c","algorithm":"ecdsa_secp256r1_sha256"}"#),
            (GoldenLineTests.checkpoint, #"d09c"}"#, #"d09c","algorithm":"rsa_pkcs1_sha256"}"#),
            (GoldenLineTests.checkpoint, #"d09c"}"#, #"d09c","algorithm":null}"#),
        ])
    func forged(line: String, text: String, other: String) async throws {
        let forged = String(decoding: try Array(line.utf8).replacing(text, with: other), as: UTF8.self)
        let verdict = try await verdict(forged, keys: GoldenLineTests.publicKey + Self.publicKey)
        #expect(verdict.hasPrefix("broken: line 3"), "\(verdict)")
    }

    /// A key signs by an algorithm, and the audit checkpoint names another or the other type of key.
    @Test("refuses a signature by another algorithm or type of key than the audit checkpoint names, in both verifiers")
    func confusion() async throws {
        let rsa = try _RSA.Signing.PrivateKey(keySize: .bits2048)
        let ec = P256.Signing.PrivateKey()
        let rsaKey = try required(CheckpointKey(subjectPublicKeyInfo: Array(rsa.publicKey.derRepresentation)))
        let ecKey = try required(CheckpointKey(point: Array(ec.publicKey.x963Representation)))
        let pem = rsaKey.pem + ecKey.pem
        let hash = try required(
            AuditDigest(hex: "694e7d33ba134dd7462c2ad26a287ffc5bed8b872066702a314418310445f7a7"))
        let head = try required(ChainHead(node: try required(AuditNode("backend-1")), sequence: 2, hash: hash))
        let time = try required(AuditTime(stored: "2026-01-31T12:01:00.000Z"))
        func sign(_ message: [UInt8], _ algorithm: AuditSignatureAlgorithm) throws -> [UInt8] {
            switch algorithm {
            case .ecdsaP256: Array(try ec.signature(for: Data(message)).derRepresentation)
            case .rsaPSS: Array(try rsa.signature(for: Data(message), padding: .PSS).rawRepresentation)
            case .rsaPKCS1: Array(try rsa.signature(for: Data(message), padding: .insecurePKCS1v1_5).rawRepresentation)
            }
        }
        for key in [rsaKey, ecKey] {
            for named in AuditSignatureAlgorithm.allCases {
                for used in AuditSignatureAlgorithm.allCases {
                    let checkpoint = try required(head.checkpoint(at: time, keyId: key.keyId, algorithm: named))
                    let bytes = try sign(checkpoint.signedBytes, used)
                    // An ECDSA signature has another size than an RSA signature, which no line can contain instead.
                    guard let signature = CheckpointSignature(bytes, by: named) else {
                        #expect((named == .ecdsaP256) != (used == .ecdsaP256))
                        continue
                    }
                    let isValid = named == used && named.keyAlgorithm == key.keyAlgorithm
                    #expect(key.verifies(signature, by: named, of: checkpoint.signedBytes) == isValid)
                    let line = await checkpoint.signed { _ in signature }.line
                    let verdict = try await verdict(String(decoding: line, as: UTF8.self), keys: pem)
                    #expect(
                        isValid ? verdict == Self.verdict : verdict.hasPrefix("broken: line 3"),
                        "\(key.keyAlgorithm) \(named) \(used): \(verdict)")
                }
            }
        }
    }

    @Test(
        "refuses an RSA key of another size or exponent, in both verifiers",
        arguments: [("3072", "65537"), ("1024", "65537"), ("2048", "3")])
    func unsuitable(bits: String, exponent: String) async throws {
        let directory = try FreshDirectory()
        let made = try await Program.run(
            Program.installed("openssl"),
            [
                "genpkey", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:\(bits)", "-pkeyopt",
                "rsa_keygen_pubexp:\(exponent)", "-out", directory.path("key"),
            ])
        try #require(made.status == 0, "\(made)")
        let shown = try await Program.run(
            Program.installed("openssl"), ["pkey", "-in", directory.path("key"), "-pubout"])
        let file = try directory.write(shown.output, to: "key.pem")
        #expect(CheckpointKeys(pem: shown.output) == nil)
        let script = try await Program.run(
            VerifierScript.path, ["-", file], input: [Array(GoldenLineTests.first.utf8)].export)
        #expect(script.status == 66 && script.error.contains("neither P-256 nor RSA-2048"), "\(script)")
    }

    @Test("fits a record that pins as many RSA keys as it may into one line")
    func pins() throws {
        let keys = try (0..<KeyPin.maximumKeys).map { _ in
            try required(
                CheckpointKey(
                    subjectPublicKeyInfo: Array(
                        try _RSA.Signing.PrivateKey(keySize: .bits2048).publicKey.derRepresentation)))
        }
        let node = try required(AuditNode(String(repeating: "n", count: 64)))
        let pin = try required(KeyPin(trustedOnFirstUse: keys, of: node))
        var head = ChainHead(node: node)
        let line = head.append(AuditRecord(time: .earliest, event: .auditKeyPinned(pin)))
        #expect(line.bytes.count <= AuditLine.maximumBytes)
        #expect(KeyPin(line: line.bytes) == pin)
    }
}
