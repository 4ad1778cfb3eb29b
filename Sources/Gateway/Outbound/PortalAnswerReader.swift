package import DaemonAPI
import OutgoingConnections
package import PortalRequests
import StrictJSON

/// Reads the API's answers (JSON:API) into the facts that the daemon needs. Members that it does not know are ignored.
package enum PortalAnswerReader {
    /// Returns the report of an answer. An answer of status 200 that cannot be read completely is a fault: a list that
    /// lacks entries would hide certificates.
    package static func report(of request: PortalRequest, status: Int, body: [UInt8]) -> PortalReport {
        let document = try? JSONValue(parsing: body).objectValue
        guard status == 200 else { return PortalReport(status: status, code: code(in: document)) }
        guard let document, let data = document["data"]?.arrayValue, data.count <= PortalRequest.limit,
            isComplete(document)
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

    static func report(of fault: HTTPFault) -> PortalReport { PortalReport(fault: word(for: fault)) }

    /// The code of the first error. Errors of status 406 are plain text, without a code.
    private static func code(in document: JSONObject?) -> String? {
        let code = document?["errors"]?.arrayValue?.first?.objectValue?["code"]?.stringValue
        return code.flatMap { code in
            let isPlain = code.utf8.allSatisfy { (0x21...0x7E).contains($0) }
            return isPlain && (1...100).contains(code.utf8.count) ? code : nil
        }
    }

    /// Returns false if the list has another page, which this program does not read.
    private static func isComplete(_ document: JSONObject) -> Bool {
        document["links"]?.objectValue?["next"].map(\.isNull) ?? true
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
            let content = attributes["certificateContent"]?.stringValue, let activated = isActivated(attributes)
        else { return nil }
        return PortalReport.Certificate(id: id, type: type, activated: activated, content: content)
    }

    /// Returns false for a certificate without the attribute, which only those of merchants need to have; nil if the
    /// attribute is not a truth value.
    private static func isActivated(_ attributes: JSONObject) -> Bool? {
        guard let activated = attributes["activated"], !activated.isNull else { return false }
        return activated.boolValue
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
