import Crypto
import Foundation
import KeyTypes
import TestSupport
import Testing
import TokenForge
import WorkerProtocol

/// Comparison of every installed library with software that shares no code with the worker. For each payment token, the
/// libraries and the software must return the same plaintext or all refuse it. The environment variable
/// PAYTOKEND_DIFFERENTIAL_TOKENS sets the number of payment tokens, which is 240 by default.
@Suite(.serialized) struct DifferentialTests {
    private static let count =
        ProcessInfo.processInfo.environment["PAYTOKEND_DIFFERENTIAL_TOKENS"].flatMap { Int($0) } ?? 240

    /// Faults of payment tokens. Every fifth payment token has one of them.
    private static let deviations: [Deviation] = [
        .badTag, .pointOffCurve, .otherMerchantIdentifier, .wrappedKeyWithLabel, .wrappedKeyWithSHA1,
        .wrappedKeyWithMaskSHA1, .wrappedKeyWithFirstOctet, .wrappedKeyWithPKCS1, .wrappedKeyForOtherKey,
        .wrappedKeyOf32Bytes, .wrappedKeyTruncated, .dataShorterThanTag, .plaintextEmpty,
    ]

    private struct Case {
        let request: WorkerRequest
        /// The expected plaintext, or nil for decryptionFailed.
        let plaintext: [UInt8]?
        let isRSA: Bool
        let name: String
    }

    private func cases(_ range: Range<Int>) throws -> [Case] {
        let (ec, rsa) = (try SharedForge.ecMerchant, try SharedForge.rsaMerchant)
        let software = try SoftwareRestoration(ec: ec, rsa: rsa)
        return try range.map { number in
            // RSA is much slower, so only a quarter of the cases use it.
            let isRSA = number % 4 == 3
            let merchant = isRSA ? rsa : ec
            var recipe = TokenRecipe(
                merchant: merchant.merchant,
                payload: Array("{\"n\":\"\(String(repeating: "x", count: number * 7 % 700))\"}".utf8))
            if number % 5 == 4 {
                let fitting = Self.deviations.filter { $0.applies(to: recipe.version) }
                recipe.deviations = [fitting[number / 5 % fitting.count]]
            } else if !isRSA, number % 40 == 0 {
                recipe.leadingZeroSharedSecret = true
            }
            let paymentToken = try SharedForge.mint.mint(recipe)
            let parts = try SoftwareRestoration.Parts(paymentToken)
            let plaintext = software.open(parts, merchantIdentifier: merchant.merchant.identifier)
            if let plaintext { #expect(plaintext == paymentToken.plaintext) }
            let partyV = Array(SHA256.hash(data: Array(merchant.merchant.identifier.utf8)))
            let decryption = Decryption(
                publicKeyHash: paymentToken.publicKeyHash, scheme: isRSA ? .rsaV1 : .ecV1,
                keyMaterial: isRSA ? parts.keyMaterial : Array(parts.keyMaterial.suffix(65)),
                otherInfo: isRSA ? [] : Array("\u{0D}id-aes256-GCMApple".utf8) + partyV, ciphertext: parts.data)
            return Case(
                request: .decrypt(decryption), plaintext: plaintext, isRSA: isRSA,
                name: "\(recipe.version) \(recipe.deviations.map(\.rawValue))")
        }
    }

    /// A worker whose HSM token has both merchants' keys, and the tiers that this HSM token must have.
    private struct TestedWorker {
        let name: String
        let worker: WorkerUnderTest
        let tierECv1: ProtectionTier
        let tierRSAv1: ProtectionTier

        init(_ name: String, _ hsmToken: any WorkersToken, _ tierECv1: ProtectionTier, _ tierRSAv1: ProtectionTier)
            async throws
        {
            (self.name, self.tierECv1, self.tierRSAv1) = (name, tierECv1, tierRSAv1)
            worker = try WorkerUnderTest(hsmToken)
            let description = try await worker.open(hsmToken)
            #expect(description.tierECv1 == tierECv1 && description.tierRSAv1 == tierRSAv1, "\(name)")
            try await worker.mustImport(SharedForge.ecMerchant, description)
            try await worker.mustImport(SharedForge.rsaMerchant, description)
        }
    }

    private func workers() async throws -> [TestedWorker] {
        var workers: [TestedWorker] = []
        for kind in TokenKind.installed {
            workers.append(try await TestedWorker("\(kind)", kind.fresh(), kind.tierECv1, kind.tierRSAv1))
        }
        let scripted = try ScriptedToken(try await TokenDirectory(), "one-step-kdf", "refuse-null-kdf")
        workers.append(try await TestedWorker("one-step KDF in the HSM token", scripted, .a, .c))
        return workers
    }

    @Test(
        "returns the same bytes and refusals as software, at every tier of every library",
        .timeLimit(.minutes(30))
    )
    func differential() async throws {
        let workers = try await workers()
        var (opened, refused) = (0, 0)
        for start in stride(from: 0, to: Self.count, by: 40) {
            let cases = try cases(start..<min(start + 40, Self.count))
            for tested in workers { try await compare(cases, tested) }
            opened += cases.count { $0.plaintext != nil }
            refused += cases.count { $0.plaintext == nil }
        }
        #expect(opened > refused && refused > Self.count / 10)
    }

    private func compare(_ cases: [Case], _ tested: TestedWorker) async throws {
        for (number, testCase) in cases.enumerated() {
            tested.worker.send(try testCase.request.encoded(identifier: UInt64(number) + 1_000_000))
        }
        for _ in cases {
            let (identifier, answer) = try #require(try await tested.worker.receive())
            let testCase = cases[Int(identifier) - 1_000_000]
            if let plaintext = testCase.plaintext {
                let tier = testCase.isRSA ? tested.tierRSAv1 : tested.tierECv1
                #expect(answer == .plaintext(plaintext, tier: tier), "\(tested.name): \(testCase.name)")
            } else {
                #expect(answer.failureKind == .decryptionFailed, "\(tested.name): \(testCase.name): \(answer)")
            }
        }
    }
}
