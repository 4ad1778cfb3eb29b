package import DaemonAPI
import OutgoingConnections
package import PortalRequests
import StrictJSON

/// Reads the API's answers (JSON:API) into the facts that the daemon needs. Members that it does not know are ignored.
package enum PortalAnswerReader {
    /// Returns the report of an answer. An answer of success that cannot be read completely is a fault: a list that lacks
    /// entries would hide certificates, and the outcome of a write that Apple does not confirm as it should is unknown.
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
        guard status == request.kind.successStatus else {
            return PortalReport(status: status, code: code(in: document))
        }
        switch request {
        case .findMerchant:
            return elements(of: document, merchant).map { PortalReport(status: status, merchants: $0) } ?? .unreadable
        case .listCertificates:
            return elements(of: document, certificate).map { PortalReport(status: status, certificates: $0) }
                ?? .unreadable
        case .createCertificate, .activateCertificate:
            return document?["data"].flatMap(certificate).map { PortalReport(status: status, certificates: [$0]) }
                ?? .unreadable
        case .revokeCertificate: return PortalReport(status: status)
        }
    }

    /// Returns the elements of a list, each read by `read`; nil if the list is not complete or not understood.
    private static func elements<Element>(
        of document: JSONObject?, _ read: (JSONValue) -> Element?
    ) -> [Element]? {
        guard let document, let data = document["data"]?.arrayValue, data.count <= PortalRequest.limit,
            isComplete(document, data.count)
        else { return nil }
        let elements = data.compactMap(read)
        return elements.count == data.count ? elements : nil
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

    private static func word(for fault: HTTPFault) -> PortalReport.Fault {
        switch fault.cause {
        case .nameNotResolved: return .nameNotResolved
        case .late: return fault.phase < .asked ? .notConnected : .noAnswerInTime
        case .tooLarge: return .answerTooLarge
        case .notHTTP: return .notHTTP
        case .error(is ProxyTunnel.Failure): return .proxyRefused
        case .ended, .error, .silent:
            switch fault.phase {
            case .connecting, .idle: return .notConnected
            case .securing: return .handshakeFailed
            case .asked, .answering: return .connectionLost
            }
        }
    }
}

extension PortalReport {
    fileprivate static let unreadable = PortalReport(fault: .answerNotUnderstood)
}

extension PortalRequest.Kind {
    /// The status of the answer that Apple's specification describes.
    fileprivate var successStatus: Int {
        switch self {
        case .findMerchant, .listCertificates, .activateCertificate: 200
        case .createCertificate: 201
        case .revokeCertificate: 204
        }
    }
}
