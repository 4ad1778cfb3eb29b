import DaemonAPI
import Foundation
import Locks
import MerchantKeys
import PortalRequests
import Refusals
import Testing

@testable import Daemon
@testable import UsageRecording

/// The reads of Apple's lists: one request after another, each handed out once, judged by the daemon.
@Suite struct PortalReadsTests {
    private static let merchant = PortalName("merchant.com.example")!
    private static let noon = Date(timeIntervalSince1970: 1_800_000_000)

    private let clock = HandClock()

    private func reads(maximumBytes: Int = 1 << 20, time: WallClock = WallClock { noon }) -> PortalReads {
        PortalReads(clock: time, maximumBytes: maximumBytes) { [clock] in clock.now }
    }

    private func opened(_ reads: PortalReads, _ merchant: PortalName = merchant) throws -> OutboundWork {
        _ = reads.request(merchant)
        return try #require(reads.next())
    }

    private func phase(_ reads: PortalReads, _ merchant: PortalName = merchant) throws -> PortalReads.Phase {
        try #require(reads.read(of: merchant)).phase
    }

    private func failure(_ reads: PortalReads, _ merchant: PortalName = merchant) throws -> String? {
        if case .failed(let reason) = try phase(reads, merchant) { reason } else { nil }
    }

    private func list(_ reads: PortalReads, _ merchant: PortalName = merchant) throws -> PortalList? {
        if case .done(let list) = try phase(reads, merchant) { list } else { nil }
    }

    /// Reads a list to its end.
    private func read(
        _ reads: PortalReads, _ merchant: PortalName = merchant, _ certificates: [PortalReport.Certificate] = []
    ) throws {
        try reads.take(
            PortalReport(status: 200, merchants: [.init(id: "A1B2C3D4E5", identifier: merchant.text)]),
            of: opened(reads, merchant).id)
        let list = try #require(reads.next())
        try reads.take(PortalReport(status: 200, certificates: certificates), of: list.id)
    }

    @Test(
        "finds the merchant, lists its certificates, and accepts identifiers with and without the prefix",
        arguments: [
            ("merchant.com.example", "merchant.com.example"), ("merchant.com.example", "com.example"),
            ("com.example", "merchant.com.example"), ("com.example", "com.example"),
        ])
    func whole(_ asked: String, _ identifier: String) throws {
        let reads = reads()
        let merchant = try #require(PortalName(asked))
        let find = try opened(reads, merchant)
        #expect(find.request == .findMerchant(identifier: merchant))
        // No request is handed out twice.
        #expect(reads.next() == nil)
        try reads.take(
            PortalReport(
                status: 200,
                merchants: [
                    .init(id: "B1B2B3B4B5", identifier: "merchant.other"),
                    .init(id: "A1B2C3D4E5", identifier: identifier),
                ]),
            of: find.id)
        let list = try #require(reads.next())
        #expect(list.request == .listCertificates(merchantResource: ResourceId("A1B2C3D4E5")!))
        try reads.take(PortalReport(status: 200), of: list.id)
        let found = try #require(try self.list(reads, merchant))
        #expect(found.appleId == "A1B2C3D4E5" && found.entries.isEmpty && found.readAt == Self.noon)
    }

    @Test("asks nothing more under an id that is not of Apple's form, or that belongs to another merchant")
    func foreignIds() throws {
        for id in ["..", "A1B2C3D4E", "A1B2C3D4E5/certificates", "a1b2c3d4e5", ""] {
            let reads = reads()
            try reads.take(
                PortalReport(status: 200, merchants: [.init(id: id, identifier: "merchant.com.example")]),
                of: opened(reads).id)
            #expect(reads.next() == nil, "\(id)")
            #expect(try failure(reads)?.contains("10 capital letters") == true, "\(id)")
        }
        for identifier in ["merchant.com.example.other", "merchant.merchant.com.example", "example", "", "merchant."] {
            let reads = reads()
            try reads.take(
                PortalReport(status: 200, merchants: [.init(id: "A1B2C3D4E5", identifier: identifier)]),
                of: opened(reads).id)
            #expect(reads.next() == nil, "\(identifier)")
            #expect(try list(reads)?.appleId == .some(nil), "\(identifier)")
        }
        // Two resources of the merchant: none is chosen.
        let reads = reads()
        try reads.take(
            PortalReport(
                status: 200,
                merchants: [
                    .init(id: "A1B2C3D4E5", identifier: "merchant.com.example"),
                    .init(id: "B1B2B3B4B5", identifier: "com.example"),
                ]), of: opened(reads).id)
        #expect(try failure(reads)?.contains("more than once") == true)
    }

    @Test("tries each form of a scope after 401 or 403, remembers the accepted one, and never goes without a scope")
    func scopes() throws {
        for status in [401, 403] {
            let reads = reads()
            let work = try opened(reads)
            #expect(work.scope == .versioned)
            try reads.take(PortalReport(status: status, code: "NOT_AUTHORIZED"), of: work.id)
            let second = try #require(reads.next())
            #expect(second.scope == .unversioned && second.request == work.request)
            try reads.take(
                PortalReport(status: 200, merchants: [.init(id: "A1B2C3D4E5", identifier: "merchant.com.example")]),
                of: second.id)
            #expect(try #require(reads.next()).scope == .unversioned)
        }
    }

    @Test("fails after the last form, and at once where Apple's code names another cause")
    func refusedKey() throws {
        let reads = reads()
        let agreement = try opened(reads)
        try reads.take(
            PortalReport(status: 403, code: "FORBIDDEN.REQUIRED_AGREEMENTS_MISSING_OR_EXPIRED"), of: agreement.id)
        #expect(try failure(reads)?.contains("REQUIRED_AGREEMENTS") == true)

        let others = self.reads()
        _ = others.request(Self.merchant)
        for _ in TokenScope.allCases {
            let work = try #require(others.next())
            try others.take(PortalReport(status: 401), of: work.id)
        }
        #expect(others.next() == nil)
        #expect(try failure(others)?.contains("401") == true)
    }

    @Test("fails with the reason when Apple or the network does not answer as expected")
    func failures() throws {
        for (report, part) in [
            (PortalReport(fault: .notConnected), "not_connected"), (PortalReport(status: 429), "hourly limit"),
            (PortalReport(status: 500), "500"), (PortalReport(status: 406), "406"),
        ] {
            let reads = reads()
            try reads.take(report, of: opened(reads).id)
            #expect(try failure(reads)?.contains(part) == true)
        }
    }

    @Test("takes a result once, in time, and only of a request that it handed out")
    func results() throws {
        let reads = reads()
        let work = try opened(reads)
        #expect(work.deadline == Self.noon + 90)
        #expect(throws: Refusal.self) { try reads.take(PortalReport(status: 200), of: "0123") }
        clock.pass(OutboundWork.time)
        #expect(throws: Refusal.self) { try reads.take(PortalReport(status: 200), of: work.id) }
        #expect(reads.next() == nil)
        #expect(try failure(reads)?.contains("did not report") == true)
        #expect(throws: Refusal.self) { try reads.take(PortalReport(status: 200), of: work.id) }
    }

    @Test("answers with a finished read for a minute, and reads again after it, whatever the wall clock says")
    func pause() throws {
        let hour = Mutex(0.0)
        let reads = reads(time: WallClock { Self.noon + hour.withLock { $0 } * 3600 })
        try read(reads)
        hour.withLock { $0 = 5 }
        clock.pass(.seconds(59))
        #expect(reads.request(Self.merchant).requestedAt == Self.noon)
        hour.withLock { $0 = -5 }
        clock.pass(.seconds(1))
        #expect(reads.request(Self.merchant).requestedAt == Self.noon - 5 * 3600)
        let again = try #require(reads.next())
        // A read that fails leaves the last list, for the metrics.
        try reads.take(PortalReport(status: 500), of: again.id)
        #expect(reads.ages(of: [Self.merchant.text]) == [Self.merchant.text: .seconds(60)])
    }

    @Test("gives every merchant that ought to be read an age from the start, and no other merchant one")
    func ages() throws {
        let (reads, never, later) = (reads(), "merchant.com.example.never", "merchant.com.example.later")
        let first = Set([Self.merchant.text, never])
        #expect(reads.ages(of: first) == [Self.merchant.text: .zero, never: .zero])
        clock.pass(.seconds(10))
        try read(reads)
        try read(reads, PortalName("merchant.com.example.mistyped")!)
        clock.pass(.seconds(20))
        #expect(
            reads.ages(of: first.union([later])) == [
                Self.merchant.text: .seconds(20), never: .seconds(30), later: .zero,
            ])
        // A merchant that returns begins again.
        #expect(reads.ages(of: []).isEmpty)
        #expect(reads.ages(of: [never]) == [never: .zero])
    }

    @Test("keeps no list beyond the memory that all lists may need, and says so")
    func memory() throws {
        let certificates = (0..<100).map { number in
            PortalReport.Certificate(id: "C\(number)", type: "APPLE_PAY", activated: true, content: "")
        }
        // Each list needs more than 25 kB by its own count, and two do not fit.
        let (reads, other) = (reads(maximumBytes: 50_000), PortalName("merchant.com.example.other")!)
        try read(reads, Self.merchant, certificates)
        #expect(try (list(reads)?.byteCount ?? 0) > 25_000)
        try read(reads, other, certificates)
        #expect(try failure(reads, other)?.contains("more memory") == true)
        // A list replaces the merchant's last one, and a short one fits.
        clock.pass(PortalReads.pause)
        try read(reads, Self.merchant, certificates)
        #expect(try list(reads)?.entries.count == 100)
        try read(reads, other, Array(certificates.prefix(1)))
        #expect(try list(reads, other)?.entries.count == 1)
    }

    @Test("compares a list once, and again after the keys or rules have changed, after another read, and after an hour")
    func comparisons() throws {
        let reads = reads()
        var count = 0
        func compare(_ keys: Int = 1, servesPayments: Bool = true) {
            _ = reads.findings(of: Self.merchant, in: .init(keys: keys, servesPayments: servesPayments)) { _ in
                count += 1
                return []
            }
        }
        compare()
        #expect(count == 0, "there is no list")
        try read(reads)
        for _ in 0..<3 { compare() }
        #expect(count == 1)
        compare(2)
        #expect(count == 2)
        compare(2, servesPayments: false)
        #expect(count == 3)
        clock.pass(PortalReads.pause)
        try read(reads)
        compare(2, servesPayments: false)
        #expect(count == 4)
        clock.pass(PortalReads.comparisonTime - .seconds(1))
        compare(2, servesPayments: false)
        #expect(count == 4)
        clock.pass(.seconds(1))
        compare(2, servesPayments: false)
        #expect(count == 5)
    }
}
