import Foundation
import TokenForge

@testable import MerchantKeys

/// Apple's certificates of one merchant identifier. What Apple does not document is drawn for each instance.
struct SimulatedPortal {
    struct Certificate {
        let forged: ForgedMerchant
        /// The certificate in a list, in use and not. A list would take milliseconds to parse it.
        let entries: [Bool: PortalList.Entry]
        var isActivated: Bool
        var isRevoked = false
        /// The times from which lists show the certificate, and its activation.
        let listedFrom: Date
        var activationShownFrom: Date

        var id: String { entries[true]?.identifier ?? "" }
        var notAfter: Date { entries[true]?.notAfter ?? .distantPast }
    }

    private(set) var certificates: [Certificate] = []
    /// The number of certificates that Apple permits, beyond which it refuses a request.
    var limit: Int
    private let revokesOnActivation: Bool
    private let longestDelay: TimeInterval
    private let merchant: String

    /// - Parameters:
    ///   - merchant: the merchant identifier.
    ///   - initial: the certificate that wallets use at first; nil if there is none.
    init(of merchant: String, initial: ForgedMerchant?, at now: Date, random: inout some RandomNumberGenerator) {
        self.merchant = merchant
        limit = Int.random(in: 2...4, using: &random)
        revokesOnActivation = .random(using: &random)
        longestDelay = Bool.random(using: &random) ? 0 : 20 * 60
        if let initial { _ = create(initial, at: now, delay: 0) }
    }

    private func isUsable(_ certificate: Certificate, at now: Date) -> Bool {
        !certificate.isRevoked && now < certificate.notAfter
    }

    /// The certificate that wallets use; nil if there is none.
    func inUse(at now: Date) -> Certificate? { certificates.first { $0.isActivated && isUsable($0, at: now) } }

    func count(of forged: ForgedMerchant) -> Int {
        certificates.count { $0.forged.key.subjectPublicKeyInfo == forged.key.subjectPublicKeyInfo }
    }

    func delay(_ random: inout some RandomNumberGenerator) -> TimeInterval {
        .random(in: 0...longestDelay, using: &random)
    }

    /// Creates a certificate. If none is in use, wallets use it at once.
    /// - Returns: its id; nil if Apple refuses.
    mutating func create(_ forged: ForgedMerchant, at now: Date, delay: TimeInterval) -> String? {
        guard certificates.count(where: { isUsable($0, at: now) }) < limit else { return nil }
        let id = "C\(certificates.count)"
        certificates.append(
            Certificate(
                forged: forged,
                entries: Dictionary(
                    uniqueKeysWithValues: [true, false].map { isActivated in
                        let entry = PortalList.Entry(
                            identifier: id, type: "APPLE_PAY", isActivated: isActivated, of: merchant,
                            content: forged.certificate)
                        return (isActivated, entry)
                    }),
                isActivated: inUse(at: now) == nil,
                listedFrom: now + delay, activationShownFrom: now + delay))
        return id
    }

    mutating func activate(_ id: String, at now: Date, delay: TimeInterval) -> Bool {
        guard let index = certificates.firstIndex(where: { $0.id == id && isUsable($0, at: now) }) else {
            return false
        }
        for other in certificates.indices where other != index && certificates[other].isActivated {
            certificates[other].isActivated = false
            if revokesOnActivation { certificates[other].isRevoked = true }
        }
        certificates[index].isActivated = true
        certificates[index].activationShownFrom = now + delay
        return true
    }

    /// Revokes a certificate. If wallets used it and one is left, they use that one.
    mutating func revoke(_ id: String, at now: Date) -> Bool {
        guard let index = certificates.firstIndex(where: { $0.id == id && !$0.isRevoked }) else { return false }
        certificates[index].isRevoked = true
        let left = certificates.indices.filter { isUsable(certificates[$0], at: now) }
        if inUse(at: now) == nil, left.count == 1 {
            certificates[left[0]].isActivated = true
            certificates[left[0]].activationShownFrom = now
        }
        return true
    }

    func list(at now: Date) -> PortalList {
        let listed = certificates.filter { isUsable($0, at: now) && $0.listedFrom <= now }
        return PortalList(
            appleId: "A1",
            entries: listed.compactMap { $0.entries[$0.isActivated && $0.activationShownFrom <= now] }, readAt: now)
    }
}
