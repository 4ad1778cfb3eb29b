import DaemonAPI
import PortalRequests
import Testing

@testable import Outbound

/// Apple's answers, read into facts. A list that cannot be read completely is a fault, since it could hide
/// certificates.
@Suite struct PortalAnswerTests {
    private static let find = PortalRequest(.findMerchant, of: "merchant.com.example")!
    private static let list = PortalRequest(.listCertificates, of: "A1B2C3D4E5")!

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
            #"{"data":[],"meta":{"paging":{"total":1,"limit":200}}}"#,
            #"{"data":[],"meta":{"paging":{"total":"0"}}}"#,
            #"{"data":[{"type":"certificates","id":"","attributes":{"certificateType":"APPLE_PAY","certificateContent":""}}]}"#,
            #"{"data":[{"type":"certificates","id":"C\u001b[2J","attributes":{"certificateType":"APPLE_PAY","certificateContent":""}}]}"#,
            #"{"data":[{"type":"certificates","id":"C1","attributes":{"certificateType":"APPLE_PAY","certificateContent":"","activated":1}}]}"#,
        ])
    func unreadable(_ body: String) {
        #expect(report(Self.list, body) == PortalReport(fault: "answer_not_understood"))
    }

    @Test("reads a list whose total is the number of its elements")
    func total() {
        #expect(
            report(Self.list, #"{"data":[],"meta":{"paging":{"total":0,"limit":200}}}"#) == PortalReport(status: 200))
    }

    @Test("reports a certificate of which Apple does not say if it is activated as unknown, not as inactive")
    func activation() {
        for member in ["", #","activated":null"#] {
            let certificate =
                #"{"type":"certificates","id":"C1","attributes":{"certificateType":"APPLE_PAY","certificateContent":"AA=="\#(member)}}"#
            #expect(
                report(Self.list, #"{"data":[\#(certificate)]}"#)
                    == PortalReport(
                        status: 200, certificates: [.init(id: "C1", type: "APPLE_PAY", activated: nil, content: "AA==")]
                    ))
        }
    }

    @Test("reports the requests that Apple still permits, of every answer that says it")
    func rateLimit() {
        for (text, remaining) in [
            ("user-hour-lim:3500;user-hour-rem:500;", 500), ("user-hour-rem:0", 0), ("user-hour-lim:3500;", nil),
            ("user-hour-rem:-1;", nil), ("user-hour-rem:many;", nil), ("", nil), (nil, nil),
        ] as [(String?, Int?)] {
            for status in [200, 401, 429] {
                let report = PortalAnswerReader.report(
                    of: Self.list, status: status, body: Array(#"{"data":[]}"#.utf8), rateLimit: text)
                #expect(report.requestsRemaining == remaining && report.status == status, "\(text ?? "-")")
            }
        }
    }

    @Test("takes an answer of the daemon that it does not understand as a fault, not as no work")
    func work() throws {
        for body in ["", "[]", "<html>", #"{"work":{"id":"0a"}}"#, #"{"work":7}"#] {
            #expect(throws: WorkLoop.Fault.self, "\(body)") { try WorkLoop.work(in: Array(body.utf8)) }
        }
        // A kind that this version does not know, and an id that is not one of Apple's.
        for (kind, name) in [("delete_certificate", "A1B2C3D4E5"), ("list_certificates", "..")] {
            let body =
                #"{"work":{"id":"0a","kind":"\#(kind)","name":"\#(name)","jwt":"e","deadline":"2026-01-31T12:00:00Z"}}"#
            #expect(throws: WorkLoop.Fault.self, "\(kind)") { try WorkLoop.work(in: Array(body.utf8)) }
        }
        #expect(try WorkLoop.work(in: Array("{}".utf8)) == nil)
        let known = try WorkLoop.work(
            in: Array(
                #"{"work":{"id":"0a","kind":"list_certificates","name":"A1B2C3D4E5","jwt":"e","deadline":"2026-01-31T12:00:00Z"}}"#
                    .utf8))
        #expect(known?.request == Self.list)
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
