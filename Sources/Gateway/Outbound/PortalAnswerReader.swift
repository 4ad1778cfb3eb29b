package import DaemonAPI
import OutgoingConnections
package import PortalRequests
import StrictJSON

/// Reads the API's answers (JSON:API) into the facts that the daemon needs. Members that it does not know are ignored.
package enum PortalAnswerReader {
    /// Returns the report of an answer. An answer of status 200 that cannot be read completely is a fault: a list that
    /// lacks entries would hide certificates.
    ///
    /// - Parameter rateLimit: the answer's `X-Rate-Limit`; nil if it has none.
    package static func report(
        of request: PortalRequest, status: Int, body: [UInt8], rateLimit: String? = nil
    ) -> PortalReport {
        var report = report(of: request, status, try? JSONValue(parsing: body).objectValue)
        report.requestsRemaining = rateLimit.flatMap(requestsRemaining)
        // The daemon would refuse the whole report, and the read would wait until its time is over.
        return (try? report.validate()) == nil ? .unreadable : report
    }

    private static func report(of request: PortalRequest, _ status: Int, _ document: JSONObject?) -> PortalReport {
        guard status == 200 else { return PortalReport(status: status, code: code(in: document)) }
        guard let document, let data = document["data"]?.arrayValue, data.count <= PortalRequest.limit,
            isComplete(document, data.count)
        else { return .unreadable }
        switch request {
        case .findMerchant:
            let merchants = data.compactMap(merchant)
            return merchants.count == data.count
                ? PortalReport(status: status, merchants: merchants) : .unreadable
        case .listCertificates:
            let certificates = data.compactMap(certificate)
            return certificates.count == data.count
                ? PortalReport(status: status, certificates: certificates) : .unreadable
        }
    }

    /// Reads `user-hour-rem` in a text such as `user-hour-lim:3500;user-hour-rem:500;`.
    private static func requestsRemaining(_ rateLimit: String) -> Int? {
        let name = "user-hour-rem:"
        let parts = rateLimit.split(separator: ";").map { $0.drop { $0 == " " } }
        return parts.first { $0.hasPrefix(name) }.flatMap { Int($0.dropFirst(name.count)) }
            .flatMap { (0...1_000_000).contains($0) ? $0 : nil }
    }

    static func report(of fault: HTTPFault) -> PortalReport { PortalReport(fault: word(for: fault)) }

    /// The code of the first error. Errors of status 406 are plain text, without a code.
    private static func code(in document: JSONObject?) -> String? {
        let code = document?["errors"]?.arrayValue?.first?.objectValue?["code"]?.stringValue
        return code.flatMap { code in
            let isPlain = code.utf8.allSatisfy { (0x21...0x7E).contains($0) }
            return isPlain && (1...100).contains(code.utf8.count) ? code : nil
        }
    }

    /// Returns false if the list has another page, which this program does not read, or if Apple counts more elements
    /// than the answer has.
    private static func isComplete(_ document: JSONObject, _ count: Int) -> Bool {
        guard document["links"]?.objectValue?["next"].map(\.isNull) ?? true else { return false }
        guard let total = document["meta"]?.objectValue?["paging"]?.objectValue?["total"], !total.isNull else {
            return true
        }
        return total.numberValue?.int.map { $0 <= count } ?? false
    }

    private static func merchant(_ value: JSONValue) -> PortalReport.Merchant? {
        guard let resource = value.objectValue, resource["type"]?.stringValue == "merchantIds",
            let id = resource["id"]?.stringValue,
            let identifier = resource["attributes"]?.objectValue?["identifier"]?.stringValue
        else { return nil }
        return PortalReport.Merchant(id: id, identifier: identifier)
    }

    private static func certificate(_ value: JSONValue) -> PortalReport.Certificate? {
        guard let resource = value.objectValue, resource["type"]?.stringValue == "certificates",
            let id = resource["id"]?.stringValue, let attributes = resource["attributes"]?.objectValue,
            let type = attributes["certificateType"]?.stringValue,
            let content = attributes["certificateContent"]?.stringValue
        else { return nil }
        // An absent value stays unknown. Read as false, it could hide that wallets use the certificate.
        let activated = attributes["activated"].flatMap { $0.isNull ? nil : $0 }
        guard activated == nil || activated?.boolValue != nil else { return nil }
        return PortalReport.Certificate(id: id, type: type, activated: activated?.boolValue, content: content)
    }

    private static func word(for fault: HTTPFault) -> String {
        switch fault.cause {
        case .nameNotResolved: return "name_not_resolved"
        case .late: return fault.phase < .asked ? "not_connected" : "no_answer_in_time"
        case .tooLarge: return "answer_too_large"
        case .notHTTP: return "not_http"
        case .error(is ProxyTunnel.Failure): return "proxy_refused"
        case .ended, .error, .silent:
            switch fault.phase {
            case .connecting, .idle: return "not_connected"
            case .securing: return "handshake_failed"
            case .asked, .answering: return "connection_lost"
            }
        }
    }
}

extension PortalReport {
    fileprivate static let unreadable = PortalReport(fault: "answer_not_understood")
}
