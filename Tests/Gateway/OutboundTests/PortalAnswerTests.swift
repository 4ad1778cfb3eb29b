import DaemonAPI
import PortalRequests
import Testing

@testable import Outbound

/// Apple's answers, read into facts. A list that cannot be read completely is a fault, since it could hide
/// certificates.
@Suite struct PortalAnswerTests {
    private static let find = PortalRequest(.findMerchant, of: "merchant.com.example")!
    private static let list = PortalRequest(.listCertificates, of: "A1B2C3D4E5")!

    private static let create = PortalRequest(
        .createCertificate, of: "A1B2C3D4E5", new: NewCertificate(type: .applePay, csr: [1])!)!
    private static let activate = PortalRequest(.activateCertificate, of: "C1")!
    private static let revoke = PortalRequest(.revokeCertificate, of: "C1")!

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
        #expect(report(Self.list, body) == PortalReport(fault: .answerNotUnderstood))
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

    private static let one =
        #"{"type":"certificates","id":"C1","attributes":{"certificateType":"APPLE_PAY","certificateContent":"AA==","activated":false}}"#

    @Test("reads the certificate in the answer to a write, and nothing where a revocation has none")
    func writes() {
        let certificate = PortalReport.Certificate(id: "C1", type: "APPLE_PAY", activated: false, content: "AA==")
        for (request, status) in [(Self.create, 201), (Self.activate, 200)] {
            #expect(
                report(request, #"{"data":\#(Self.one),"links":{"self":"x"}}"#, status: status)
                    == PortalReport(status: status, certificates: [certificate]))
        }
        #expect(report(Self.revoke, "", status: 204) == PortalReport(status: 204))
    }

    @Test(
        "reports a fault for the success of a write that Apple's answer does not confirm",
        arguments: ["", "{", "{}", "[]", #"{"data":null}"#, #"{"data":[]}"#, #"{"data":{"type":"certificates"}}"#])
    func unconfirmed(_ body: String) {
        #expect(report(Self.create, body, status: 201) == PortalReport(fault: .answerNotUnderstood))
        #expect(report(Self.activate, body, status: 200) == PortalReport(fault: .answerNotUnderstood))
    }

    @Test("reports any other status of a write as it is, without a certificate")
    func otherStatuses() {
        for (request, status) in [
            (Self.create, 200), (Self.create, 202), (Self.activate, 201), (Self.activate, 204), (Self.revoke, 200),
            (Self.revoke, 404), (Self.create, 409), (Self.create, 406), (Self.create, 429), (Self.create, 500),
        ] {
            #expect(
                report(request, #"{"data":\#(Self.one)}"#, status: status) == PortalReport(status: status), "\(status)")
        }
        #expect(
            report(Self.create, #"{"errors":[{"status":"409","code":"ENTITY_ERROR.ATTRIBUTE.INVALID"}]}"#, status: 409)
                == PortalReport(status: 409, code: "ENTITY_ERROR.ATTRIBUTE.INVALID"))
        #expect(report(Self.create, "Not Acceptable", status: 406) == PortalReport(status: 406))
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
        for (kind, name) in [
            ("delete_certificate", "A1B2C3D4E5"), ("list_certificates", ".."), ("create_certificate", "A1B2C3D4E5"),
            ("revoke_certificate", ".."),
        ] {
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

    @Test("makes a write as the daemon hands it out, and refuses one with a type or a request that it does not know")
    func writeWork() throws {
        func work(_ members: String) throws -> PortalRequest? {
            try WorkLoop.work(
                in: Array(
                    #"{"work":{"id":"0a",\#(members),"jwt":"e","deadline":"2026-01-31T12:00:00Z"}}"#.utf8))?.request
        }
        #expect(
            try work(
                #""kind":"create_certificate","name":"A1B2C3D4E5","certificateType":"APPLE_PAY","csr":"AQ==""#)
                == Self.create)
        #expect(try work(#""kind":"activate_certificate","name":"C1""#) == Self.activate)
        #expect(try work(#""kind":"revoke_certificate","name":"C1""#) == Self.revoke)
        for members in [
            #""kind":"create_certificate","name":"A1B2C3D4E5","certificateType":"APPLE_PAY_PSP_IDENTITY","csr":"AQ==""#,
            #""kind":"create_certificate","name":"A1B2C3D4E5","certificateType":"APPLE_PAY","csr":"""#,
            #""kind":"create_certificate","name":"A1B2C3D4E5","certificateType":"APPLE_PAY""#,
            #""kind":"revoke_certificate","name":"C1","certificateType":"APPLE_PAY","csr":"AQ==""#,
            #""kind":"revoke_certificate","name":"C1","csr":"AQ==""#,
        ] {
            #expect(throws: WorkLoop.Fault.self, "\(members)") { try work(members) }
        }
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
