import DaemonAPI
import Foundation
import MerchantKeys
import PortalRequests
import Refusals
import Testing

@testable import Daemon

/// The reads of Apple's lists: one request after another, each handed out once, judged by the daemon.
@Suite struct PortalReadsTests {
    private static let merchant = PortalName("merchant.com.example")!
    private static let noon = Date(timeIntervalSince1970: 1_800_000_000)

    private func opened(_ reads: PortalReads) throws -> PortalReads.Work {
        _ = reads.request(Self.merchant, now: Self.noon)
        return try #require(reads.next(now: Self.noon))
    }

    private func phase(_ reads: PortalReads) throws -> PortalReads.Phase {
        try #require(reads.read(of: Self.merchant)).phase
    }

    private func failure(_ reads: PortalReads) throws -> String? {
        if case .failed(let reason, _) = try phase(reads) { reason } else { nil }
    }

    @Test("finds the merchant, lists its certificates, and accepts identifiers with and without the prefix")
    func whole() throws {
        for identifier in ["merchant.com.example", "com.example"] {
            let reads = PortalReads()
            let find = try opened(reads)
            #expect(find.request == .findMerchant(identifier: Self.merchant))
            // No request is handed out twice.
            #expect(reads.next(now: Self.noon) == nil)
            try reads.take(
                PortalReport(
                    status: 200,
                    merchants: [.init(id: "B1", identifier: "merchant.other"), .init(id: "A1", identifier: identifier)]),
                of: find.id, now: Self.noon)
            let list = try #require(reads.next(now: Self.noon))
            #expect(list.request == .listCertificates(merchantResource: PortalName("A1")!))
            try reads.take(PortalReport(status: 200), of: list.id, now: Self.noon)
            guard case .done(let found) = try phase(reads) else {
                Issue.record("not done")
                return
            }
            #expect(found.appleId == "A1" && found.entries.isEmpty)
        }
    }

    @Test("tries each form of a scope after 401 or 403, remembers the accepted one, and never goes without a scope")
    func scopes() throws {
        let reads = PortalReads()
        var work = try opened(reads)
        var tried: [TokenScope] = [work.scope]
        for status in [401, 403, 401] {
            try reads.take(PortalReport(status: status, code: "NOT_AUTHORIZED"), of: work.id, now: Self.noon)
            work = try #require(reads.next(now: Self.noon))
            tried.append(work.scope)
        }
        #expect(tried == TokenScope.allCases)
        try reads.take(
            PortalReport(status: 200, merchants: [.init(id: "A1", identifier: "merchant.com.example")]), of: work.id,
            now: Self.noon)
        #expect(try #require(reads.next(now: Self.noon)).scope == .unversioned)
    }

    @Test("fails after the last form, and at once where Apple's code names another cause")
    func refusedKey() throws {
        let reads = PortalReads()
        let agreement = try opened(reads)
        try reads.take(
            PortalReport(status: 403, code: "FORBIDDEN.REQUIRED_AGREEMENTS_MISSING_OR_EXPIRED"), of: agreement.id,
            now: Self.noon)
        #expect(try failure(reads)?.contains("REQUIRED_AGREEMENTS") == true)

        let others = PortalReads()
        _ = others.request(Self.merchant, now: Self.noon)
        for _ in TokenScope.allCases {
            let work = try #require(others.next(now: Self.noon))
            try others.take(PortalReport(status: 401), of: work.id, now: Self.noon)
        }
        #expect(others.next(now: Self.noon) == nil)
        #expect(try failure(others)?.contains("401") == true)
    }

    @Test("fails with the reason when Apple or the network does not answer as expected")
    func failures() throws {
        for (report, part) in [
            (PortalReport(fault: "not_connected"), "not_connected"), (PortalReport(status: 429), "hourly limit"),
            (PortalReport(status: 500), "500"), (PortalReport(status: 406), "406"),
        ] {
            let reads = PortalReads()
            try reads.take(report, of: opened(reads).id, now: Self.noon)
            #expect(try failure(reads)?.contains(part) == true)
        }
    }

    @Test("takes a result once, in time, and only of a request that it handed out")
    func results() throws {
        let reads = PortalReads()
        let work = try opened(reads)
        #expect(throws: Refusal.self) { try reads.take(PortalReport(status: 200), of: "0123", now: Self.noon) }
        let late = Self.noon + PortalReads.workTime
        #expect(throws: Refusal.self) { try reads.take(PortalReport(status: 200), of: work.id, now: late) }
        #expect(reads.next(now: late) == nil)
        #expect(try failure(reads)?.contains("did not report") == true)
        #expect(throws: Refusal.self) { try reads.take(PortalReport(status: 200), of: work.id, now: Self.noon) }
    }

    @Test("answers with a finished read for a minute, and reads again after it")
    func pause() throws {
        let reads = PortalReads()
        try reads.take(PortalReport(status: 200), of: opened(reads).id, now: Self.noon)
        guard case .done(let list) = try phase(reads) else {
            Issue.record("not done")
            return
        }
        #expect(list.appleId == nil)
        #expect(reads.request(Self.merchant, now: Self.noon + 59).requestedAt == Self.noon)
        #expect(reads.request(Self.merchant, now: Self.noon + 60).requestedAt == Self.noon + 60)
        let again = try #require(reads.next(now: Self.noon + 60))
        // A read that fails leaves the last list, for the metrics.
        try reads.take(PortalReport(status: 500), of: again.id, now: Self.noon + 60)
        #expect(reads.lists == [Self.merchant: list])
    }
}
