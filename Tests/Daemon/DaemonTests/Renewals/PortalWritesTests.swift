import AuditChain
import DaemonAPI
import Foundation
import KeyTypes
import MerchantKeys
import PaymentToken
import PortalRequests
import Refusals
import TestSupport
import Testing
import TokenForge
import WorkerProtocol

@testable import Daemon
@testable import UsageRecording

/// The changes at Apple: each is handed out once, has one result, and is never repeated.
@Suite struct PortalWritesTests {
    private static let noon = Date(timeIntervalSince1970: 1_800_000_000)

    private let clock = HandClock()
    private let merchant: ForgedMerchant
    private let hash: PublicKeyHash
    private let new: NewCertificate
    private let writes: PortalWrites

    init() throws {
        merchant = try SharedForge.ecMerchant
        hash = PublicKeyHash.of(subjectPublicKeyInfo: merchant.key.subjectPublicKeyInfo)
        new = try #require(NewCertificate(type: .applePay, csr: merchant.key.certificateRequest()))
        writes = PortalWrites(clock: WallClock { Self.noon }) { [clock] in clock.now }
    }

    private func made(
        _ request: PortalRequest, attempt: RenewalAttemptId = .random(), of merchant: String = "merchant.com.example",
        use: KeyUse = .processing, key: PublicKeyHash? = nil
    ) -> PortalWrite? {
        PortalWrite(
            attempt: attempt, approval: nil, merchant: merchant, use: use, request: request, publicKeyHash: key ?? hash)
    }

    private var creation: PortalRequest {
        .createCertificate(new, merchantResource: ResourceId("A1B2C3D4E5")!)
    }
    private static let activation = PortalRequest.activateCertificate(CertificateId("C1")!)
    private static let revocation = PortalRequest.revokeCertificate(CertificateId("C1")!)

    /// Queues a write and hands it out.
    private func handedOut(_ request: PortalRequest) async throws -> (
        work: OutboundWork, results: Shared<[PortalWriteResult]>
    ) {
        let results = Shared<[PortalWriteResult]>([])
        let write = try #require(made(request))
        #expect(writes.enqueue(write) { result in results.change { $0.append(result) } })
        return (try #require(writes.next()), results)
    }

    private func result(of request: PortalRequest, _ report: PortalReport) async throws -> PortalWriteResult {
        let (work, results) = try await handedOut(request)
        #expect(await writes.take(report, of: work.id))
        try #require(results.current.count == 1)
        return results.current[0]
    }

    private func report(
        _ status: Int, _ id: String = "C1", type: String = "APPLE_PAY", activated: Bool? = false,
        content: [UInt8]? = nil
    ) -> PortalReport {
        let content = Data(content ?? merchant.certificate).base64EncodedString()
        return PortalReport(
            status: status, certificates: [.init(id: id, type: type, activated: activated, content: content)])
    }

    @Test("hands a write out once, with the deadline of its token, and takes one result")
    func once() async throws {
        let (work, results) = try await handedOut(creation)
        #expect(work.request == creation && work.scope == nil && work.merchant == "merchant.com.example")
        #expect(work.deadline == Self.noon + 90)
        #expect(writes.next() == nil)
        #expect(await !writes.take(report(201), of: "0123456789abcdef"))
        #expect(results.current.isEmpty)
        #expect(await writes.take(report(201), of: work.id))
        #expect(
            results.current == [
                .accepted(certificate: CertificateId("C1")!, content: merchant.certificate, isActivated: false)
            ])
        #expect(await !writes.take(report(201), of: work.id))
        #expect(writes.next() == nil)
        #expect(results.current.count == 1)
    }

    @Test("ends a write whose result comes after its token's time as unknown, and takes no late result")
    func late() async throws {
        let (work, results) = try await handedOut(creation)
        clock.pass(OutboundWork.time - .milliseconds(1))
        await writes.expire()
        #expect(results.current.isEmpty)
        clock.pass(.milliseconds(1))
        #expect(await !writes.take(report(201), of: work.id))
        await writes.expire()
        #expect(results.current == [.unknown("The outbound program did not report the result of the request.")])
        #expect(writes.next() == nil)
    }

    @Test("does not hand out a write that waited too long, and says that nothing was sent")
    func waiting() async throws {
        let results = Shared<[PortalWriteResult]>([])
        let write = try #require(made(creation))
        #expect(writes.enqueue(write) { result in results.change { $0.append(result) } })
        clock.pass(PortalWrites.waitingTime)
        #expect(writes.next() == nil)
        await writes.expire()
        #expect(results.current == [.notSent("The outbound program did not fetch the request.")])
    }

    @Test("says that nothing was sent if the token was not signed")
    func unsigned() async throws {
        let (work, results) = try await handedOut(creation)
        await writes.fail(work, "no key")
        #expect(results.current == [.notSent("no key")])
        #expect(await !writes.take(report(201), of: work.id))
    }

    @Test("has one write for each merchant and use, with or without the identifier's prefix")
    func oneForEach() async throws {
        let (work, _) = try await handedOut(creation)
        for merchant in ["merchant.com.example", "com.example"] {
            let second = try #require(made(Self.revocation, of: merchant))
            #expect(!writes.enqueue(second) { _ in })
        }
        let identity = try #require(made(Self.revocation, use: .identity))
        let other = try #require(made(Self.revocation, of: "merchant.com.other"))
        #expect(writes.enqueue(identity) { _ in })
        #expect(writes.enqueue(other) { _ in })
        // In the order in which they were queued.
        #expect(writes.next()?.merchant == "merchant.com.example")
        #expect(writes.next()?.merchant == "merchant.com.other")
        #expect(await writes.take(report(409), of: work.id))
        let next = try #require(made(Self.revocation))
        #expect(writes.enqueue(next) { _ in })
    }

    @Test("never queues an attempt again, whatever its result was, and permits the next one from the callback")
    func attempts() async throws {
        let (attempt, next) = (RenewalAttemptId.random(), RenewalAttemptId.random())
        let first = try #require(made(creation, attempt: attempt))
        let second = try #require(made(creation, attempt: next))
        let queued = Shared<[Bool]>([])
        let isQueued = writes.enqueue(first) { [writes] _ in
            let again = writes.enqueue(first) { _ in }
            let next = writes.enqueue(second) { _ in }
            queued.change { $0 = [again, next] }
        }
        #expect(isQueued)
        let work = try #require(writes.next())
        #expect(await writes.take(PortalReport(fault: .connectionLost), of: work.id))
        #expect(queued.current == [false, true])
        #expect(writes.next()?.purpose == .write(second))
    }

    @Test("has an empty queue after a restart, and takes no result of the process before")
    func restart() async throws {
        let (work, results) = try await handedOut(creation)
        let restarted = PortalWrites(clock: WallClock { Self.noon }) { [clock] in clock.now }
        #expect(restarted.next() == nil)
        #expect(await !restarted.take(report(201), of: work.id))
        #expect(results.current.isEmpty)
    }

    @Test("accepts what Apple confirms: a certificate of our key and type, the activation, the revocation")
    func accepted() async throws {
        #expect(
            try await result(of: creation, report(201, "9XYZ", activated: true))
                == .accepted(certificate: CertificateId("9XYZ")!, content: merchant.certificate, isActivated: true))
        #expect(
            try await result(of: Self.activation, report(200, activated: nil))
                == .accepted(certificate: CertificateId("C1")!, content: nil, isActivated: nil))
        #expect(
            try await result(of: Self.revocation, PortalReport(status: 204))
                == .accepted(certificate: CertificateId("C1")!, content: nil, isActivated: nil))
    }

    @Test(
        "takes Apple's refusals as such, with the code",
        arguments: [400, 401, 403, 404, 405, 406, 409, 410, 415, 422, 429])
    func refused(_ status: Int) async throws {
        for request in [creation, Self.activation, Self.revocation] {
            #expect(
                try await result(of: request, PortalReport(status: status, code: "STATE_ERROR.LIMIT"))
                    == .refused(status: status, code: "STATE_ERROR.LIMIT"))
        }
    }

    private func isUnknown(_ result: PortalWriteResult) -> Bool { if case .unknown = result { true } else { false } }

    @Test(
        "leaves open if a request had an effect after an answer that is neither a refusal nor a confirmation",
        arguments: [200, 202, 204, 301, 302, 307, 308, 408, 425, 500, 502, 503, 504])
    func open(_ status: Int) async throws {
        #expect(isUnknown(try await result(of: creation, PortalReport(status: status))))
        if status != 204 {
            #expect(isUnknown(try await result(of: Self.revocation, PortalReport(status: status))))
        }
        #expect(isUnknown(try await result(of: Self.activation, PortalReport(status: status))))
    }

    @Test("leaves open what a confirmation of something else means")
    func otherConfirmation() async throws {
        let other = try ForgedMerchant(
            authority: SharedForge.authority, type: .p256,
            profile: MerchantCertificateProfile(merchantIdentifier: "merchant.com.example"))
        for report in [
            report(201, content: other.certificate), report(201, content: []), report(201, type: "APPLE_PAY_RSA"),
            report(201, "../x"),
            PortalReport(status: 201),
        ] { #expect(isUnknown(try await result(of: creation, report))) }
        for report in [report(200, "C2"), report(201), PortalReport(status: 200)] {
            #expect(isUnknown(try await result(of: Self.activation, report)))
        }
    }

    @Test("tells a request that was never sent from one whose answer was lost", arguments: PortalReport.Fault.allCases)
    func faults(_ fault: PortalReport.Fault) async throws {
        let unsent: Set<PortalReport.Fault> = [.nameNotResolved, .notConnected, .proxyRefused, .handshakeFailed]
        #expect(
            try await result(of: creation, PortalReport(fault: fault))
                == (unsent.contains(fault) ? .notSent(fault.rawValue) : .unknown(fault.rawValue)))
    }

    @Test("takes a reason that it does not know for one that leaves the effect open")
    func unknownFault() async throws {
        let report = try PortalReport(parsing: Array(#"{"fault":"hindered"}"#.utf8))
        #expect(try await result(of: creation, report) == .unknown("hindered"))
    }

    private func keys(_ state: KeyState, isRecorded: Bool = true) -> KeyIndex {
        let keys = KeyIndex()
        let description = KeyDescription(
            identifier: hash.bytes, label: "merchant.com.example", algorithm: .ec,
            subjectPublicKeyInfo: merchant.key.subjectPublicKeyInfo, certificates: [], isProtected: true,
            inconsistency: nil)
        let record = KeyRecord(
            publicKeyHash: hash, merchantIdentifier: "merchant.com.example", algorithm: .ec, state: state, cutOff: nil,
            createdAt: Self.noon, origin: .imported)
        keys.rebuild(hsmTokens: [("primary", [description])], keyRecords: isRecorded ? [record] : [])
        return keys
    }

    private func refusal(_ write: PortalWrite, _ keys: KeyIndex) -> Refusal? {
        do throws(Refusal) {
            try write.check(in: keys)
            return nil
        } catch { return error }
    }

    @Test("asks nothing of Apple for a suspended, compromised or unknown key, and revokes the certificate of any")
    func keyStates() throws {
        for state in KeyState.allCases {
            let isPermitted = state == .preActivation || state == .active
            for request in [creation, Self.activation] {
                let write = try #require(made(request))
                let refusal = refusal(write, keys(state))
                #expect(refusal?.code == (isPermitted ? nil : .invalidState), "\(state)")
            }
            let revocation = try #require(made(Self.revocation))
            #expect(refusal(revocation, keys(state)) == nil)
        }
        for keys in [KeyIndex(), keys(.active, isRecorded: false)] {
            let unknown = try #require(made(creation))
            #expect(refusal(unknown, keys)?.code == .keyNotActive)
        }
        let foreign = try #require(made(creation, of: "merchant.com.other"))
        #expect(refusal(foreign, keys(.active))?.code == .invalidState)
    }

    @Test("cannot express a read, another use, a request of another key, or an identity certificate's activation")
    func inexpressible() throws {
        #expect(made(.findMerchant(identifier: PortalName("m")!)) == nil)
        #expect(made(.listCertificates(merchantResource: ResourceId("A1B2C3D4E5")!)) == nil)
        for use in [KeyUse.identity, .service] {
            #expect(made(creation, use: use) == nil && made(Self.activation, use: use) == nil)
        }
        #expect(made(Self.revocation, use: .service) == nil && made(Self.revocation, use: .identity) != nil)
        #expect(made(creation, key: PublicKeyHash.of(subjectPublicKeyInfo: [1])) == nil)
        let broken = try #require(NewCertificate(type: .applePay, csr: Array(new.csr.dropLast())))
        #expect(made(.createCertificate(broken, merchantResource: ResourceId("A1B2C3D4E5")!)) == nil)
    }
}
