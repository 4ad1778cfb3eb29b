import Encodings
import Foundation
import StrictJSON
import TestSupport
import Testing
import TokenForge

// Helpers for an accepted older ledger, from which the daemon releases only payment tokens signed after a fence.
extension DaemonHarness {
    /// Waits until the daemon reports the fence as its only reason for not being ready, and returns the fence.
    func restoreFence() async throws -> Date {
        var fence: Date?
        try await wait(for: "the fence as the only reason") {
            let ready = try JSONValue(parsing: try await Curl.request("/readyz", socket: socket).body)
            let reasons = ready.objectValue?["reasons"]?.arrayValue ?? []
            guard reasons.count == 1, reasons[0].string("code") == "transaction_replayed",
                let message = reasons[0].string("message"),
                let text = message.split(separator: " ").first(where: { $0.hasPrefix("20") && $0.hasSuffix("Z") })
            else { return false }
            fence = RFC3339.date(String(text))
            return true
        }
        return try #require(fence)
    }

    /// Waits until the signing-time window permits a payment token that was signed one second after the fence, and
    /// returns such a payment token.
    func paymentToken(signedAt fence: Date, for merchant: Merchant? = nil) async throws -> MintedToken {
        let recipe = TokenRecipe(
            merchant: try merchant ?? SharedForge.ecMerchant.merchant, signingTime: fence + 1)
        let token = try SharedForge.mint.mint(recipe)
        try await wait(for: "a time at which it comes no longer from the future") {
            try await self.verify(token).status == 200
        }
        return token
    }
}
