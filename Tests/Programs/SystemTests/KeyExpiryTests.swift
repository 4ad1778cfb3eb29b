import Foundation
import StrictJSON
import TestSupport
import Testing
import TokenForge

/// Expiring certificates. The programs show and count such certificates and warn about them, but the daemon still
/// decrypts.
@Suite struct KeyExpiryTests {
    @Test("shows expiry in key list, --expiring and metrics, but still decrypts and is ready")
    func expiry() async throws {
        let harness = try await DaemonHarness()
        let began = Date()
        func forged(_ name: String, days: Double) throws -> ForgedMerchant {
            var profile = MerchantCertificateProfile(merchantIdentifier: "merchant.com.example.\(name)")
            profile.notBefore = Date(timeIntervalSinceNow: -400 * 86_400)
            profile.notAfter = Date(timeIntervalSinceNow: (days + 0.5) * 86_400)
            return try ForgedMerchant(authority: SharedForge.authority, type: .p256, profile: profile)
        }
        let merchants = [
            try forged("long", days: 700), try forged("over", days: -3), try forged("soon", days: 30),
        ]
        for merchant in merchants {
            let imported = try await harness.importMerchant(merchant, ["--allow-expired"])
            try #require(imported.status == 0, "\(imported)")
        }
        func listed(_ arguments: String...) async throws -> (status: Int32, merchants: [String], days: [Int]) {
            let list = try await harness.paytokenctl(["key", "list", "--output", "json"] + arguments)
            let keys = try (JSONValue(parsing: list.outputBytes).arrayValue ?? []).compactMap(\.objectValue)
            return (
                list.status, keys.compactMap { $0["merchantIdentifier"]?.stringValue },
                keys.compactMap { $0["daysLeft"]?.numberValue?.int }
            )
        }
        let all = try await listed()
        #expect(all.status == 0)
        #expect(all.merchants == ["over", "soon", "long"].map { "merchant.com.example.\($0)" })
        #expect(all.days == [-3, 30, 700])
        let expiring = try await listed("--expiring", "60d")
        #expect(expiring.status == 1)
        #expect(expiring.merchants == ["over", "soon"].map { "merchant.com.example.\($0)" })
        #expect(try await listed("--expiring", "7d").merchants == ["merchant.com.example.over"])

        // A key with an expired certificate still decrypts its payment tokens.
        for merchant in merchants {
            let paymentToken = try SharedForge.paymentToken(for: merchant.merchant)
            #expect(try await harness.decrypt(paymentToken).status == 200)
        }
        #expect(try await Curl.request("/readyz", socket: harness.socket).status == 200)
        let metrics = try await harness.admin("/metrics")
        for (merchant, days) in zip(merchants, [700.5, -2.5, 30.5]) {
            let key = "public_key_hash=\"\(merchant.hex)\""
            let labels = "{\(key),merchant=\"\(merchant.merchant.identifier)\"} "
            let value = try #require(metrics.metric("paytokend_key_not_after_seconds", [labels]).first)
            #expect(abs(value - began.timeIntervalSince1970 - days * 86_400) < 3_600, "\(value)")
            #expect(metrics.metric("paytokend_key_uses_total", ["{\(key)} "]) == [1])
        }
        let status = try await harness.paytokenctl(["status"])
        #expect(status.status == 0)
        #expect(status.error.contains("merchant.com.example.over"), "\(status)")
        #expect(status.error.contains("has expired. This stops nothing here"), "\(status)")

        // A retired key needs no new certificate, so --expiring omits it.
        for merchant in [merchants[1], merchants[2]] {
            let retired = try await harness.paytokenctl(["key", "retire", merchant.hex, "--reason", "rotated"])
            #expect(retired.status == 0, "\(retired)")
        }
        let none = try await harness.paytokenctl(["key", "list", "--expiring", "60d"])
        #expect(none.status == 0 && none.error.hasPrefix("No certificate expires"), "\(none)")
        #expect(try await harness.stop().status == 0)
    }
}
