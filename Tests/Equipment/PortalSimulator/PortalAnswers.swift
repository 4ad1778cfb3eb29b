import Foundation
import TokenForge

// The API's answers: authorization and the paths, reads, and writes.
extension PortalContent {
    /// - Parameters:
    ///   - token: the claims of the request's token; nil if it is not valid.
    ///   - number: the number of requests before this one.
    mutating func answer(
        _ head: PortalRequestHead, _ body: [UInt8], _ token: PortalToken?, number: Int, by authority: ForgeAuthority?,
        now: Date
    ) -> PortalReply {
        act(before: head.method, by: authority, now: now)
        let interruption = nextInterruption()
        var reply: PortalReply
        switch interruption {
        case .lostBefore:
            reply = PortalReply(0)
            reply.delivery = .none
        case .answer(let status, let text):
            reply = PortalReply(status, text)
            reply.contentType = text.hasPrefix("{") ? "application/json" : "text/plain"
        case .redirect(let place):
            reply = PortalReply(307)
            reply.location = place
        case .lostAfter, .cutShort, nil:
            do {
                reply = try effect(of: head, body, token, number, authority, now)
            } catch {
                reply = Self.error(error)
            }
            if interruption == .lostAfter { reply.delivery = .none }
            if interruption == .cutShort { reply.delivery = .half }
        }
        if behaviour.requestLimit < .max { reply.remaining = max(0, behaviour.requestLimit - number - 1) }
        return reply
    }

    private mutating func nextInterruption() -> PortalSimulator.Interruption? {
        if !behaviour.interruptions.isEmpty { return behaviour.interruptions.removeFirst() }
        guard behaviour.oneInterruptedOf > 0, draws.next(behaviour.oneInterruptedOf) == 0 else { return nil }
        let all = PortalSimulator.Interruption.drawn
        return all[Int(draws.next(UInt64(all.count)))]
    }

    private mutating func effect(
        of head: PortalRequestHead, _ body: [UInt8], _ token: PortalToken?, _ number: Int,
        _ authority: ForgeAuthority?, _ now: Date
    ) throws(Refusal) -> PortalReply {
        guard let token else { throw Refusal(401, "NOT_AUTHORIZED") }
        let decoded = head.target.removingPercentEncoding ?? head.target
        let parts = decoded.split(separator: "?", maxSplits: 1).map(String.init)
        guard parts[0].hasPrefix("/v1/") else { throw Refusal(404, "NOT_FOUND") }
        try permit(head.method, parts, token)
        guard number < behaviour.requestLimit else { throw Refusal(429, "RATE_LIMIT_EXCEEDED") }
        if let fault = behaviour.fault { return PortalReply(fault.status, fault.body) }
        let segments = parts[0].split(separator: "/").dropFirst().map(String.init)
        switch (head.method, segments.count, segments[0]) {
        case ("GET", 1, "merchantIds"):
            return found(parts.count > 1 ? Self.value(of: "filter[identifier]", in: parts[1]) : nil)
        case ("GET", 3, "merchantIds") where segments[2] == "certificates":
            guard let certificates = list(segments[1]) else { throw Refusal(404, "NOT_FOUND") }
            return Self.list(certificates.map(Self.resource), behaviour)
        case ("POST", 1, "certificates"): return try created(head, body, authority, now)
        case ("PATCH", 2, "certificates"): return try activated(segments[1], head, body, now)
        case ("DELETE", 2, "certificates"):
            try revoke(segments[1], now: now)
            return PortalReply(204)
        case (_, 1...3, "merchantIds"), (_, 1...2, "certificates"): throw Refusal(405, "METHOD_NOT_ALLOWED")
        default: throw Refusal(404, "NOT_FOUND")
        }
    }

    /// Checks the token's scope. A scope can name GET only, so a token with one permits no write.
    private func permit(_ method: String, _ parts: [String], _ token: PortalToken) throws(Refusal) {
        guard let scope = token.scope else { return }
        let path = behaviour.scopeHasVersion ? parts[0] : String(parts[0].dropFirst("/v1".count))
        let named = scope.compactMap { $0.split(separator: "?", maxSplits: 1).map(String.init) }
        let isPermitted = named.contains {
            $0[0] == "GET " + path && (!behaviour.comparesQuery || $0.dropFirst() == parts.dropFirst())
        }
        guard method == "GET", isPermitted else { throw Refusal(401, "NOT_AUTHORIZED") }
    }

    // MARK: Reads

    private func found(_ identifier: String?) -> PortalReply {
        let found = merchants.filter { identifier == nil || $0.identifier == identifier }
        return Self.list(
            found.map { merchant in
                let shown =
                    behaviour.hidesPrefix && merchant.identifier.hasPrefix("merchant.")
                    ? String(merchant.identifier.dropFirst("merchant.".count)) : merchant.identifier
                return [
                    "type": "merchantIds", "id": merchant.id, "attributes": ["name": "A shop", "identifier": shown],
                ]
            }, behaviour)
    }

    private static func resource(_ certificate: Certificate) -> [String: Any] {
        var attributes: [String: Any] = [
            "name": "Apple Pay", "displayName": "Apple Pay", "certificateType": certificate.type,
            "certificateContent": Data(certificate.content).base64EncodedString(),
        ]
        attributes["activated"] = certificate.shown
        return ["type": "certificates", "id": certificate.id, "attributes": attributes]
    }

    private static func value(of name: String, in query: String) -> String? {
        query.split(separator: "&").first { $0.hasPrefix(name + "=") }.map { String($0.dropFirst(name.count + 1)) }
    }

    private static func list(_ data: [[String: Any]], _ behaviour: PortalSimulator.Behaviour) -> PortalReply {
        PortalReply(
            200,
            text([
                "data": data, "links": ["self": "https://\(PortalSimulator.host)/v1"],
                "meta": ["paging": ["total": data.count + behaviour.unlisted]],
            ]))
    }

    // MARK: Writes

    private mutating func created(
        _ head: PortalRequestHead, _ body: [UInt8], _ authority: ForgeAuthority?, _ now: Date
    ) throws(Refusal) -> PortalReply {
        let data = try Self.data(head, body)
        let attributes = data["attributes"] as? [String: Any] ?? [:]
        let relationships = data["relationships"] as? [String: [String: [String: String]]] ?? [:]
        guard let merchant = relationships["merchantId"]?["data"], merchant["type"] == "merchantIds",
            let id = merchant["id"], relationships.count == 1
        else { throw Refusal(409, "ENTITY_ERROR.RELATIONSHIP.REQUIRED") }
        guard Set(attributes.keys) == ["certificateType", "csrContent"], data["id"] == nil,
            let type = attributes["certificateType"] as? String, let csr = attributes["csrContent"] as? String,
            let der = Self.der(csr)
        else { throw Refusal(409, "ENTITY_ERROR.ATTRIBUTE.REQUIRED") }
        guard let authority else { throw Refusal(500, "UNEXPECTED_ERROR") }
        let certificate = try create(type, der, merchant: id, by: authority, now: now)
        var reply = PortalReply(201, Self.text(["data": Self.resource(certificate)]))
        reply.location = "https://\(PortalSimulator.host)/v1/certificates/\(certificate.id)"
        return reply
    }

    private mutating func activated(
        _ id: String, _ head: PortalRequestHead, _ body: [UInt8], _ now: Date
    ) throws(Refusal) -> PortalReply {
        let data = try Self.data(head, body)
        guard data["id"] as? String == id, let attributes = data["attributes"] as? [String: Bool],
            attributes == ["activated": true]
        else { throw Refusal(409, "ENTITY_ERROR.ATTRIBUTE.INVALID") }
        return PortalReply(200, Self.text(["data": Self.resource(try activate(id, now: now))]))
    }

    private static func data(_ head: PortalRequestHead, _ body: [UInt8]) throws(Refusal) -> [String: Any] {
        guard head.headers["content-type"] == "application/json" else { throw Refusal(415, "UNSUPPORTED_MEDIA_TYPE") }
        let document = try? JSONSerialization.jsonObject(with: Data(body)) as? [String: [String: Any]]
        guard let data = document?["data"], document?.count == 1, data["type"] as? String == "certificates" else {
            throw Refusal(422, "ENTITY_UNPROCESSABLE")
        }
        return data
    }

    /// Returns the content of a certificate request in PEM.
    private static func der(_ pem: String) -> [UInt8]? {
        let lines = pem.split(separator: "\n", omittingEmptySubsequences: false)
        guard lines.first == "-----BEGIN CERTIFICATE REQUEST-----", lines.last == "",
            lines.dropLast().last == "-----END CERTIFICATE REQUEST-----",
            lines.allSatisfy({ $0.utf8.count <= 64 })
        else { return nil }
        return Data(base64Encoded: lines.dropFirst().dropLast(2).joined()).map(Array.init)
    }

    private static func error(_ refusal: Refusal) -> PortalReply {
        PortalReply(
            refusal.status,
            text([
                "errors": [
                    ["status": "\(refusal.status)", "code": refusal.code, "title": "Refused", "detail": "Refused."]
                ]
            ]))
    }

    private static func text(_ value: [String: Any]) -> String {
        (try? JSONSerialization.data(withJSONObject: value)).map { String(decoding: $0, as: UTF8.self) } ?? ""
    }
}
