import DaemonAPI
import Foundation
import Outbound
import PortalRequests

extension FuzzTarget {
    /// The body of an answer of Apple's App Store Connect API. The daemon must accept the report that the outbound program
    /// makes of it. A list that is reported must have all entries that Foundation reads, with the same values, and no
    /// further page. A write that is reported as done must have the one certificate that Foundation reads.
    ///
    /// The first octet's bits 0, 2 and 3 select the request. Bit 1 selects the status: success or 403.
    static let portalAnswers = FuzzTarget(
        name: "portal-answers", longest: 2048, sources: ["Outbound", "DaemonAPI/Requests"]
    ) { input in
        guard let first = input.first, let new = NewCertificate(type: .applePay, csr: [1]) else { return }
        let (kind, success): (PortalRequest.Kind, Int) =
            switch (first & 8, first & 4, first & 1) {
            case (0, 0, 0): (.findMerchant, 200)
            case (0, 0, _): (.listCertificates, 200)
            case (0, _, 0): (.createCertificate, 201)
            case (0, _, _): (.activateCertificate, 200)
            default: (.revokeCertificate, 204)
            }
        guard let request = PortalRequest(kind, of: "A1B2C3D4E5", new: kind == .createCertificate ? new : nil) else {
            throw Disagreement("the request is not permitted")
        }
        let body = Array(input.dropFirst())
        let status = first & 2 == 0 ? success : 403
        let report = PortalAnswerReader.report(of: request, status: status, body: body)
        let taken: PortalReport
        do {
            taken = try PortalReport(parsing: JSONCoding.encode(report))
        } catch {
            throw Disagreement("the daemon refuses the report: \(error)")
        }
        try expect(taken == report, "the daemon reads another report")
        guard status == success, kind != .revokeCertificate else {
            return try expect(
                report.status == status && report.merchants == nil && report.certificates == nil,
                "an error or a revocation is reported with resources")
        }
        guard report.fault == nil else { return }
        let document = try? JSONSerialization.jsonObject(with: Data(body)) as? [String: Any]
        if kind.isWrite {
            let certificate = (document?["data"] as? [String: Any]).map { certificates([$0]) }
            return try expect(certificate == report.certificates, "another certificate is reported")
        }
        let entries = document?["data"] as? [[String: Any]]
        let next = (document?["links"] as? [String: Any])?["next"]
        let paging = (document?["meta"] as? [String: Any])?["paging"] as? [String: Any]
        let total = (paging?["total"] as? Double) ?? 0
        try expect(
            entries.map { total <= Double($0.count) } == true && (next == nil || next is NSNull),
            "a list is reported that is not the whole one")
        try expect(
            request.kind == .findMerchant
                ? merchants(entries ?? []) == report.merchants ?? []
                : certificates(entries ?? []) == report.certificates ?? [],
            "the reported list has other entries")
    }

    private static func merchants(_ entries: [[String: Any]]) -> [PortalReport.Merchant] {
        entries.map { entry in
            PortalReport.Merchant(
                id: entry["id"] as? String ?? "",
                identifier: (entry["attributes"] as? [String: Any])?["identifier"] as? String ?? "")
        }
    }

    private static func certificates(_ entries: [[String: Any]]) -> [PortalReport.Certificate] {
        entries.map { entry in
            let attributes = entry["attributes"] as? [String: Any] ?? [:]
            return PortalReport.Certificate(
                id: entry["id"] as? String ?? "", type: attributes["certificateType"] as? String ?? "",
                activated: attributes["activated"] as? Bool,
                content: attributes["certificateContent"] as? String ?? "")
        }
    }
}
