import Crypto
import Foundation
import KeyTypes
import Ledger
import Logging
import MerchantKeys
import PaymentToken
import TestSupport
import Testing
import TokenForge
import WorkerProtocol

@testable import Daemon
@testable import UsageRecording

/// The work of a node with merchants' keys for an open renewal, with HSM tokens in software and times that the test sets.
@Suite struct RenewalWorkTests {
    private struct Lines: LogHandler {
        let messages = Shared<[String]>([])
        var logLevel = Logger.Level.trace
        var metadata: Logger.Metadata = [:]
        subscript(metadataKey key: String) -> Logger.MetadataValue? {
            get { nil }
            set {}
        }

        func log(event: LogEvent) {
            let message = "\(event.message)"
            messages.change { $0.append(message) }
        }
    }

    private struct Setup {
        let merchant: ForgedMerchant
        let record: RecordFixture
        let clock = HandClock()
        let time = Shared(Date())
        let primary = SoftwareKeyToken("primary")
        let second = SoftwareKeyToken("second")
        let hsm = ProvingHSMTokens()
        let lines = Lines()
        let renewal = RenewalIdentifier.random()
        let newKey: P256.Signing.PrivateKey
        let work: RenewalWork
        private let administration: KeyAdministration
        private let proving: KeyProving
        private let directory: FreshDirectory

        /// A renewal whose new key the first of two HSM tokens shows.
        ///
        /// - Parameters:
        ///   - delay: the time from now, in seconds, at which the renewal was started by the clock of another node.
        ///   - isReplacing: true if the second HSM token shows an active key of the merchant, which the new one replaces.
        init(startsIn delay: TimeInterval = 0, isReplacing: Bool = false) async throws {
            merchant = try SharedForge.ecMerchant
            newKey = try P256.Signing.PrivateKey(derRepresentation: merchant.key.pkcs8)
            directory = try FreshDirectory()
            let clock = WallClock { [time] in time.current }
            record = try await RecordFixture(
                ledger: directory.path("ledger.sqlite"), hsmToken: SoftwareAuditToken(), clock: clock)
            await record.gate.compare()
            let (name, now) = (merchant.merchant.identifier, time.current)
            func keyRecord(_ description: KeyDescription, _ state: KeyState) throws -> KeyRecord {
                KeyRecord(
                    publicKeyHash: try #require(PublicKeyHash(bytes: description.identifier)), merchantIdentifier: name,
                    algorithm: .ec, state: state, createdAt: now, origin: .generated)
            }
            primary.add(newKey, of: name)
            if isReplacing { second.add(P256.Signing.PrivateKey(), of: name) }
            let new = try keyRecord(try #require(primary.descriptions.first), .preActivation)
            let old = try second.descriptions.map { try keyRecord($0, .active) }
            let index = KeyIndex()
            index.rebuild(
                hsmTokens: [("primary", primary.descriptions), ("second", second.descriptions)],
                keyRecords: [new] + old)
            hsm.keys.change { [merchant] keys in for name in ["primary", "second"] { keys[name] = merchant.key } }
            administration = KeyAdministration(
                catalogue: KeyCatalogue(
                    index: index, ledger: record.ledger, hsmTokens: [], clock: clock, logger: RecordFixture.quiet),
                hsmTokens: [primary, second], ledger: record.ledger, gate: record.gate, recorder: record.recorder,
                rule: TwoPersonRule(people: 1, expire: .seconds(60)), renewal: nil, clock: clock)
            proving = KeyProving(
                keys: index, hsm: hsm, gate: record.gate, recorder: record.recorder, hsmTokens: ["primary", "second"])
            work = Self.work(administration, proving, lines, self.clock)
            var change = AdministrativeChange(at: now, key: new, records: [])
            change.renewal = .start(
                StoredRenewal(
                    identifier: renewal,
                    renewal: Renewal(
                        merchantIdentifier: name, use: .processing, algorithm: .ec, newKey: new.publicKeyHash),
                    requesterUID: 0, requesterName: "root", startedAt: now.addingTimeInterval(delay)))
            try await record.ledger.apply(change)
        }

        private static func work(
            _ administration: KeyAdministration, _ proving: KeyProving, _ lines: Lines, _ clock: HandClock
        ) -> RenewalWork {
            let logger = Logger(label: "test") { _ in lines }
            return RenewalWork(
                administration: administration, proving: proving,
                search: KeySearch(
                    catalogue: administration.catalogue, hsmTokens: administration.hsmTokens, logger: logger,
                    instant: { clock.now }),
                gauges: RenewalGauges(instruments: Instruments()), logger: logger, instant: { clock.now })
        }

        /// The work of the daemon after a restart.
        func restarted() -> RenewalWork { Self.work(administration, proving, lines, clock) }

        /// Runs the work again and again, and returns the seconds at which the count grew.
        func times(
            every step: Int, until end: Int, ofGrowing count: () -> Int
        ) async -> [Int] {
            var times: [Int] = []
            for second in stride(from: 0, through: end, by: step) {
                let before = count()
                await work.run()
                if count() > before { times.append(second) }
                clock.pass(.seconds(step))
            }
            return times
        }
    }

    @Test("makes the certificate request once, and proves the key once")
    func once() async throws {
        let setup = try await Setup()
        let times = await setup.times(every: 2, until: 600) { setup.hsm.asked.current.count }
        #expect(times == [0])
        // The ledger has earlier records too.
        let events = try await setup.record.entries.map(\.event)
        #expect(events.suffix(2) == ["csr_create", "key_proof"], "\(events)")
        #expect(events.count { $0 == "key_proof" } == 1)
        #expect(try await setup.record.ledger.openRenewals().first?.request != nil)
    }

    @Test("repeats a failed proof after 30 seconds, then after twice the time each, at most an hour")
    func failedProofs() async throws {
        let setup = try await Setup()
        setup.hsm.failures.change { $0 = ["primary": WorkerFailure(.hsmTokenUnavailable, "away", isUnsent: true)] }
        let times = await setup.times(every: 30, until: 11_400) { setup.hsm.asked.current.count }
        #expect(times == [0, 30, 90, 210, 450, 930, 1890, 3810, 7410, 11_010])
        setup.hsm.failures.change { $0 = [:] }
        #expect(await setup.times(every: 30, until: 7200) { setup.hsm.asked.current.count } == [3180])
    }

    @Test("searches the HSM tokens without the key after ten seconds, then later each time, up to a minute")
    func searches() async throws {
        let setup = try await Setup()
        let times = await setup.times(every: 5, until: 360) { setup.second.searchCount }
        #expect(times == [0, 10, 30, 60, 100, 150, 210, 270, 330])
        #expect(setup.primary.searchCount == 0)
        #expect(Set(setup.hsm.asked.current) == [["primary"]])
        // The vendor's cloning gives no event.
        setup.second.add(setup.newKey, of: setup.merchant.merchant.identifier)
        #expect(await setup.times(every: 5, until: 120) { setup.second.searchCount } == [25])
        #expect(setup.hsm.asked.current.contains(["second"]))
    }

    @Test("waits for an HSM token with the key to be replaced, and says so once")
    func waits() async throws {
        let setup = try await Setup(isReplacing: true)
        for _ in 0..<4 {
            await setup.work.run()
            setup.clock.pass(.seconds(30))
        }
        #expect(setup.lines.messages.current == ["a renewal waits for this node"])
        #expect(setup.hsm.asked.current.isEmpty)
        setup.second.add(setup.newKey, of: setup.merchant.merchant.identifier)
        setup.clock.pass(.seconds(60))
        await setup.work.run()
        #expect(Set(setup.hsm.asked.current) == [["primary"], ["second"]])
    }

    @Test("proves nothing before the start of the renewal by this node's clock")
    func start() async throws {
        let setup = try await Setup(startsIn: 60)
        await setup.work.run()
        #expect(setup.hsm.asked.current.isEmpty)
        setup.time.change { $0 += 60 }
        await setup.work.run()
        #expect(setup.hsm.asked.current == [["primary"]])
    }

    @Test("imports Apple's certificate once in each process, also if the key does not show it afterwards")
    func imports() async throws {
        let setup = try await Setup()
        setup.primary.acceptCertificates()
        var change = AdministrativeChange(at: setup.time.current, records: [])
        change.renewal = .found(id: "C7", certificate: setup.merchant.certificate, of: setup.renewal)
        try await setup.record.ledger.apply(change)
        for _ in 0..<3 {
            await setup.work.run()
            setup.clock.pass(.seconds(60))
        }
        #expect(setup.primary.certificateCount == 1)
        #expect(try await setup.record.ledger.keyRecords().map(\.state) == [.active])
        let restarted = setup.restarted()
        for _ in 0..<3 { await restarted.run() }
        #expect(setup.primary.certificateCount == 2)
    }

    @Test("warns once while the open renewals cannot be read")
    func unread() async throws {
        let setup = try await Setup()
        await setup.record.ledger.close()
        for _ in 0..<3 { await setup.work.run() }
        #expect(setup.lines.messages.current == ["the open renewals were not read"])
    }
}
