import Foundation
import PaymentToken
import Refusals
import StrictJSON
import TestSupport
import TokenForge
import X509

/// Mints payment tokens under a root that is made for the test run.
enum Minting {
    /// Now in whole seconds, the precision of signingTime, so that minted and read values compare equal.
    static let signingTime = Date(timeIntervalSince1970: Date().timeIntervalSince1970.rounded(.down))

    static func minted(
        _ version: PaymentTokenVersion = .ecV1, _ deviations: Set<Deviation> = [], wire: WireForm = .since2023,
        applicationData: [UInt8]? = nil, signingTime: Date = signingTime
    ) throws -> MintedToken {
        let merchant = version == .ecV1 ? try SharedForge.ecMerchant : try SharedForge.rsaMerchant
        return try SharedForge.mint.mint(
            TokenRecipe(
                merchant: merchant.merchant, applicationData: applicationData, signingTime: signingTime, wire: wire,
                deviations: deviations))
    }

    static func paymentToken(
        _ version: PaymentTokenVersion = .ecV1, _ deviations: Set<Deviation> = [], wire: WireForm = .since2023,
        applicationData: [UInt8]? = nil, signingTime: Date = signingTime
    ) throws -> PaymentToken {
        try paymentToken(
            minted(version, deviations, wire: wire, applicationData: applicationData, signingTime: signingTime))
    }

    static func paymentToken(_ minted: MintedToken) throws -> PaymentToken {
        try PaymentToken(json: JSONValue(parsing: minted.paymentToken))
    }

    /// A trust policy with the test run's root only.
    static func policy(distrusted: Set<[UInt8]> = [], chainCacheCapacity: Int = 64) throws -> TrustPolicy {
        TrustPolicy(
            roots: [try Certificate(derEncoded: SharedForge.authority.root.certificate)], distrusted: distrusted,
            chainCacheCapacity: chainCacheCapacity)
    }
}

/// The refusal that `body` throws; nil if it throws none. Any other error is rethrown.
func awaitedRefusal(_ body: () async throws -> Void) async throws -> Refusal? {
    do {
        try await body()
        return nil
    } catch let refusal as Refusal {
        return refusal
    }
}

/// The refusal that `body` throws; nil if it throws none. Any other error is rethrown.
func refusal(_ body: () throws -> Void) throws -> Refusal? {
    do {
        try body()
        return nil
    } catch let refusal as Refusal {
        return refusal
    }
}

extension JSONValue {
    /// Returns a copy in which the member at `path` has this value, or is removed for nil.
    func setting(_ path: String..., to value: JSONValue?) -> JSONValue {
        setting(path[...], to: value)
    }

    private func setting(_ path: ArraySlice<String>, to value: JSONValue?) -> JSONValue {
        guard let name = path.first, let object = objectValue else { return value ?? .null }
        var members = object.members.filter { member in member.name != name }
        if path.count > 1 {
            members.append((name, (object[name] ?? .object(JSONObject())).setting(path.dropFirst(), to: value)))
        } else if let value {
            members.append((name, value))
        }
        return JSONObject(members).map(JSONValue.object) ?? .null
    }
}
