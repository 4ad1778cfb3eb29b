import DaemonAPI
import PortalRequests
import Testing

@testable import Outbound

/// Apple's answers, read into facts. A list that cannot be read completely is a fault, since it could hide
/// certificates.
@Suite struct PortalAnswerTests {
    private static let find = PortalRequest(.findMerchant, of: PortalName("merchant.com.example")!)
    private static let list = PortalRequest(.listCertificates, of: PortalName("A1")!)

    private func report(_ request: PortalRequest, _ body: String, status: Int = 200) -> PortalReport {
        PortalAnswerReader.report(of: request, status: status, body: Array(body.utf8))
    }

    @Test("reads merchant identifiers and certificates, and ignores members that it does not know")
    func lists() {
        #expect(
            report(
                Self.find,
                #"{"data":[{"type":"merchantIds","id":"A1","attributes":{"identifier":"merchant.com.example","x":1}}]}"#
            )
                == PortalReport(status: 200, merchants: [.init(id: "A1", identifier: "merchant.com.example")]))
        let certificate =
            #"{"type":"certificates","id":"C1","attributes":{"certificateType":"APPLE_PAY","certificateContent":"AA==","activated":true}}"#
        #expect(
            report(Self.list, #"{"data":[\#(certificate)],"links":{"self":"https://example"}}"#)
                == PortalReport(
                    status: 200,
                    certificates: [.init(id: "C1", type: "APPLE_PAY", activated: true, content: "AA==")]))
        #expect(report(Self.list, #"{"data":[]}"#) == PortalReport(status: 200))
    }

    @Test(
        "reports a fault for a list that is not complete or not understood",
        arguments: [
            "", "not json", "[]", "{}", #"{"data":{}}"#, #"{"data":[{"type":"certificates"}]}"#,
            #"{"data":[{"type":"merchantIds","id":"A1","attributes":{"identifier":"m"}}]}"#,
            #"{"data":[],"links":{"next":"https://example/?cursor=2"}}"#,
            #"{"data":[{"type":"certificates","id":"C1","attributes":{"certificateType":"APPLE_PAY","certificateContent":"","activated":1}}]}"#,
        ])
    func unreadable(_ body: String) {
        #expect(report(Self.list, body) == PortalReport(fault: "answer_not_understood"))
    }

    @Test("reports the status and the first error's code of every other answer, without its text")
    func errors() {
        #expect(
            report(Self.find, #"{"errors":[{"code":"NOT_AUTHORIZED","detail":"x"},{"code":"B"}]}"#, status: 401)
                == PortalReport(status: 401, code: "NOT_AUTHORIZED"))
        #expect(report(Self.find, "Not Acceptable", status: 406) == PortalReport(status: 406))
        #expect(report(Self.find, #"{"errors":[{"code":"a b"}]}"#, status: 500) == PortalReport(status: 500))
        // A redirect is an answer like any other: it is not followed.
        #expect(report(Self.find, "", status: 302) == PortalReport(status: 302))
    }
}
