import Foundation
import TokenForge

/// The merchant identifiers and certificates at the portal, and the changes that its API and its web pages make.
struct PortalContent {
    var merchants: [PortalSimulator.Merchant] = []
    /// The ids of certificates of the team's apps, which the API revokes like any other.
    var otherCertificates: Set<String> = []
    var behaviour = PortalSimulator.Behaviour()
    var draws = PortalSimulator.Draws(seed: 0)
    /// The hash of each key that was ever certified, with the number of its certificates.
    private(set) var certified: [[UInt8]: Int] = [:]
    /// The changes of certificates, in order.
    private(set) var changes: [PortalSimulator.Change] = []
    /// True while a person's act in the portal makes the change.
    private var isByPerson = false
    /// The certificates that wallets still use in part, by the id of the one that replaced them: until when all wallets may, and
    /// until when late ones do.
    private var fading: [(certificate: Certificate, replacedBy: String, until: Date, lateUntil: Date)] = []

    typealias Refusal = PortalSimulator.Refusal
    typealias Certificate = PortalSimulator.Certificate

    /// Returns the position of a certificate.
    private func place(_ id: String) -> (merchant: Int, certificate: Int)? {
        for (merchant, found) in merchants.enumerated() {
            if let certificate = found.certificates.firstIndex(where: { $0.id == id }) {
                return (merchant, certificate)
            }
        }
        return nil
    }

    private static func isProcessing(_ type: String) -> Bool { type == "APPLE_PAY" || type == "APPLE_PAY_RSA" }

    private func isActive(_ certificate: Certificate, _ type: String, _ now: Date) -> Bool {
        certificate.type == type && certificate.isActivated == true && certificate.end > now
    }

    private static func other(
        _ type: String, _ profile: MerchantCertificateProfile, _ authority: ForgeAuthority
    ) -> [UInt8]? {
        try? ForgedMerchant(authority: authority, type: type == "APPLE_PAY" ? .p256 : .rsa2048, profile: profile)
            .certificate
    }

    /// Issues a certificate. It activates itself if none of its type is active.
    ///
    /// - Parameter csr: the certificate request in DER; nil for a key that was made by other means.
    mutating func create(
        _ type: String, _ csr: [UInt8]?, merchant id: String, by authority: ForgeAuthority, now: Date
    ) throws(Refusal) -> Certificate {
        guard let index = merchants.firstIndex(where: { $0.id == id }) else {
            throw Refusal(409, "ENTITY_ERROR.RELATIONSHIP.INVALID")
        }
        guard Self.isProcessing(type) || type == "APPLE_PAY_MERCHANT_IDENTITY" else {
            throw Refusal(409, "ENTITY_ERROR.ATTRIBUTE.INVALID")
        }
        let same = merchants[index].certificates.filter { $0.type == type }
        let limit = Self.isProcessing(type) ? behaviour.maximumCertificates : 3
        guard same.count < limit else { throw Refusal(behaviour.limitError.status, behaviour.limitError.code) }
        let profile = MerchantCertificateProfile(
            merchantIdentifier: merchants[index].identifier,
            kind: Self.isProcessing(type) ? .paymentProcessing : .merchantIdentity, now: now)
        let issued =
            csr.map { try? authority.merchantCertificate(certificateSigningRequest: $0, profile: profile) }
            ?? Self.other(type, profile, authority)
        guard let content = issued, let key = try? Merchant(certificate: content),
            key.isEllipticCurve == (type == "APPLE_PAY")
        else { throw Refusal(409, "ENTITY_ERROR.ATTRIBUTE.INVALID") }
        guard behaviour.takesKeyTwice || certified[key.publicKeyHash] == nil else {
            throw Refusal(409, "ENTITY_ERROR.ATTRIBUTE.INVALID.DUPLICATE")
        }
        certified[key.publicKeyHash, default: 0] += 1
        let activation =
            Self.isProcessing(type) ? !same.contains { isActive($0, type, now) } : behaviour.identityActivation
        let letters = Array("ABCDEFGHJKLMNPQRSTUVWXYZ23456789")
        var certificate = Certificate(
            id: String((0..<10).map { _ in letters[Int(draws.next(32))] }), type: type, content: content,
            isActivated: activation, end: profile.notAfter)
        certificate.readsUntilListed = behaviour.readsWithoutNew
        certificate.shown = activation
        merchants[index].certificates.append(certificate)
        note(.created, certificate, now)
        if activation == true { note(.activated, certificate, now) }
        return certificate
    }

    /// Makes wallets use a certificate.
    mutating func activate(_ id: String, now: Date) throws(Refusal) -> Certificate {
        guard let place = place(id) else { throw Refusal(404, "NOT_FOUND") }
        let certificate = merchants[place.merchant].certificates[place.certificate]
        guard Self.isProcessing(certificate.type), certificate.end > now else {
            throw Refusal(409, "STATE_ERROR.CERTIFICATE_INVALID")
        }
        guard certificate.isActivated != true else { return certificate }
        for index in merchants[place.merchant].certificates.indices {
            let other = merchants[place.merchant].certificates[index]
            guard other.isActivated == true, other.type == certificate.type else { continue }
            let mixed = now.addingTimeInterval(behaviour.mixedSeconds)
            fading.append((other, id, mixed, mixed.addingTimeInterval(behaviour.lateSeconds)))
            merchants[place.merchant].certificates[index].set(false, shownAfter: behaviour.readsBeforeActivated)
        }
        merchants[place.merchant].certificates[place.certificate].set(
            true, shownAfter: behaviour.readsBeforeActivated)
        let activated = merchants[place.merchant].certificates[place.certificate]
        note(.activated, activated, now)
        if behaviour.revokesReplaced {
            merchants[place.merchant].certificates.removeAll {
                $0.type == certificate.type && $0.isActivated == false && $0.wasActivated
            }
        }
        return activated
    }

    /// Revokes a certificate. If wallets used it and one other of its type remains, wallets use that one.
    mutating func revoke(_ id: String, now: Date) throws(Refusal) {
        if otherCertificates.remove(id) != nil { return }
        guard let place = place(id) else { throw Refusal(404, "NOT_FOUND") }
        let removed = merchants[place.merchant].certificates.remove(at: place.certificate)
        note(.revoked, removed, now)
        guard removed.isActivated == true, Self.isProcessing(removed.type) else { return }
        let rest = merchants[place.merchant].certificates.indices.filter {
            merchants[place.merchant].certificates[$0].type == removed.type
        }
        guard rest.count == 1 else { return }
        merchants[place.merchant].certificates[rest[0]].set(true, shownAfter: 0)
        note(.activated, merchants[place.merchant].certificates[rest[0]], now)
    }

    private mutating func note(_ kind: PortalSimulator.Change.Kind, _ certificate: Certificate, _ now: Date) {
        let key = (try? Merchant(certificate: certificate.content))?.publicKeyHash ?? []
        changes.append(.init(time: now, kind: kind, id: certificate.id, publicKeyHash: key, isByPerson: isByPerson))
    }

    /// Makes a change as a person does in the portal.
    mutating func byPerson<Result>(
        _ change: (inout PortalContent) throws(Refusal) -> Result
    ) throws(Refusal) -> Result {
        isByPerson = true
        defer { isByPerson = false }
        return try change(&self)
    }

    /// Does what people do in the portal directly before a request with this method.
    mutating func act(before method: String, by authority: ForgeAuthority?, now: Date) {
        let due = behaviour.acts.filter { $0.before == method }.map(\.act)
        behaviour.acts.removeAll { $0.before == method }
        for act in due {
            try? byPerson { content throws(Refusal) in
                switch act {
                case .createOther(let merchant, let type):
                    guard let authority, let found = content.merchants.first(where: { $0.identifier == merchant })
                    else { return }
                    _ = try content.create(type, nil, merchant: found.id, by: authority, now: now)
                case .activate(let id): _ = try content.activate(id, now: now)
                case .revoke(let id): try content.revoke(id, now: now)
                }
            }
        }
    }

    /// The certificates of a merchant identifier as its list shows them. Each call is one read.
    mutating func list(_ merchant: String) -> [Certificate]? {
        guard let index = merchants.firstIndex(where: { $0.id == merchant }) else { return nil }
        let shown = merchants[index].certificates.filter { $0.readsUntilListed == 0 }
        for position in merchants[index].certificates.indices { merchants[index].certificates[position].wasRead() }
        return shown
    }

    /// The certificates to whose keys wallets encrypt now.
    mutating func inUse(_ merchant: String, _ type: String, now: Date) -> [Certificate] {
        fading.removeAll { $0.lateUntil <= now }
        let active = (merchants.first { $0.identifier == merchant }?.certificates ?? [])
            .filter { isActive($0, type, now) }
        return active
            + fading.filter { old in old.until > now && active.contains { $0.id == old.replacedBy } }.map(\.certificate)
    }

    /// The certificates that late wallets of any merchant still use.
    func late(now: Date) -> [Certificate] {
        fading.filter { $0.until <= now && now < $0.lateUntil }.map(\.certificate)
    }
}

extension PortalSimulator {
    /// The API's refusal of a request.
    public struct Refusal: Error, Sendable, Equatable {
        public let status: Int
        public let code: String

        init(_ status: Int, _ code: String) { (self.status, self.code) = (status, code) }
    }
}
