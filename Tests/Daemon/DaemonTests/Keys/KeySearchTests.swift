import Crypto
import Foundation
import KeyTypes
import Ledger
import Logging
import MerchantKeys
import PaymentToken
import TestSupport
import Testing

@testable import Daemon
@testable import DaemonConfiguration
@testable import UsageRecording

/// The search for keys that the ledger has and HSM tokens do not show, with HSM tokens in software.
@Suite("The search for copied keys")
struct KeySearchTests {
    private let record: RecordFixture
    private let catalogue: KeyCatalogue
    private let clock = HandClock()
    private let primary = SoftwareKeyToken("primary")
    private let second = SoftwareKeyToken("second")
    private let search: KeySearch
    private let lines = Shared<[String]>([])
    private let directory: FreshDirectory

    init() async throws {
        directory = try FreshDirectory()
        record = try await RecordFixture(ledger: directory.path("ledger.sqlite"), hsmToken: SoftwareAuditToken())
        let logger = Logger(label: "test") { [lines] _ in CapturedLog(lines: lines) }
        catalogue = KeyCatalogue(
            index: KeyIndex(), ledger: record.ledger, hsmTokens: ["primary", "second"],
            clock: WallClock { RecordFixture.noon }, logger: logger)
        search = KeySearch(
            catalogue: catalogue, hsmTokens: [primary, second, SoftwareKeyToken("away", isServing: false)],
            logger: logger, clock: WallClock { RecordFixture.noon }, instant: { [clock] in clock.now })
        for hsmToken in [primary, second] {
            await catalogue.hsmTokenHasOpened(hsmToken.name, showing: [], asOf: .now)
        }
    }

    /// Stores the record of a key that another node made.
    @discardableResult
    private func add(
        _ state: KeyState, _ use: KeyUse = .googlePay, of merchant: String = "BCR2DN4TEXAMPLE", cutOff: Date? = nil
    ) async throws -> (key: P256.Signing.PrivateKey, hash: PublicKeyHash) {
        let key = P256.Signing.PrivateKey()
        let hash = PublicKeyHash.of(subjectPublicKeyInfo: Array(key.publicKey.derRepresentation))
        let known = KeyRecord(
            publicKeyHash: hash, merchantIdentifier: merchant, algorithm: .ec, use: use, state: state,
            cutOff: cutOff, createdAt: RecordFixture.noon, origin: .generated)
        try await record.ledger.apply(AdministrativeChange(at: RecordFixture.noon, key: known, records: []))
        try await catalogue.keyChanged(hash)
        return (key, hash)
    }

    /// Runs the search every two seconds as the daemon does, and returns the seconds at which HSM tokens were searched.
    private func run(until end: Int) async -> [Int] {
        var times: [Int] = []
        for second in stride(from: 0, to: end, by: 2) {
            let before = primary.searchCount
            await search.run()
            times += [Int](repeating: second, count: primary.searchCount - before)
            clock.pass(.seconds(2))
        }
        return times
    }

    @Test(
        "finds a Google Pay key that was copied into an HSM token, and searches for it no more",
        arguments: [KeyState.preActivation, .active, .deactivated])
    func copied(state: KeyState) async throws {
        let made = try await add(
            state, cutOff: state == .deactivated ? RecordFixture.noon.addingTimeInterval(1) : nil)
        #expect(await run(until: 8) == [0])
        #expect(catalogue.index.entry(made.hash)?.condition == .missing)
        primary.add(made.key, of: "BCR2DN4TEXAMPLE")
        #expect(await run(until: 60) == [2])
        let found = try #require(catalogue.index.entry(made.hash))
        #expect(found.condition == .served && found.hsmTokens == ["primary"])
        // The other HSM token may get a copy later.
        second.add(made.key, of: "BCR2DN4TEXAMPLE")
        _ = await run(until: 62)
        #expect(catalogue.index.entry(made.hash)?.hsmTokens == ["primary", "second"])
        #expect(await run(until: 200) == [])
    }

    @Test(
        "finds a key of Apple Pay that no HSM token had, and does not search the other HSM tokens for it then",
        arguments: [KeyState.preActivation, .active, .deactivated])
    func copiedApplePayKey(state: KeyState) async throws {
        let made = try await add(
            state, .processing, of: "merchant.com.example",
            cutOff: state == .deactivated ? RecordFixture.noon.addingTimeInterval(1) : nil)
        #expect(await run(until: 8) == [0])
        second.add(made.key, of: "merchant.com.example")
        #expect(await run(until: 8) == [2])
        let found = try #require(catalogue.index.entry(made.hash))
        #expect(found.condition == .served && found.hsmTokens == ["second"])
        #expect(await run(until: 200) == [])
    }

    @Test(
        "finds a key whose copy was complete only after a search, and logs the incomplete one once",
        arguments: [KeyUse.processing, .googlePay])
    func halfCopied(use: KeyUse) async throws {
        let made = try await add(.active, use, of: "merchant.com.example")
        primary.add(made.key, of: "merchant.com.example")
        let complete = primary.descriptions
        var half = complete
        half[0].subjectPublicKeyInfo = []
        primary.show(half)
        lines.change { $0 = [] }
        #expect(await run(until: 8) == [0])
        let found = catalogue.index.entry(made.hash)
        #expect(found?.condition.name == "inconsistent" && found?.shownBy == ["primary"])
        let generation = catalogue.index.generation
        #expect(await run(until: 60) == [2, 22, 52])
        #expect(catalogue.index.generation == generation)
        #expect(lines.current.count == 1 && lines.current.first?.contains("inconsistent") == true, "\(lines.current)")
        // A listing that shows the same copy does not keep the search from the next one.
        await catalogue.hsmTokenHasOpened("primary", showing: half, asOf: .now)
        primary.show(complete)
        #expect(await run(until: 60).count == 1)
        #expect(catalogue.index.entry(made.hash)?.hsmTokens == ["primary"])
        #expect(catalogue.index.entry(made.hash)?.condition == .served)
    }

    @Test("shows a key as missing after its only copy, which had a fault, was removed")
    func removed() async throws {
        let made = try await add(.active, .processing, of: "merchant.com.example")
        primary.add(made.key, of: "merchant.com.example")
        var half = primary.descriptions
        half[0].subjectPublicKeyInfo = []
        primary.show(half)
        await search.run()
        #expect(catalogue.index.entry(made.hash)?.condition.name == "inconsistent")
        primary.show([])
        clock.pass(.seconds(10))
        await search.run()
        #expect(catalogue.index.entry(made.hash)?.condition == .missing)
    }

    @Test("searches for missing keys of identity certificates and of Apple's API while they sign")
    func signingKeys() async throws {
        for use in [KeyUse.identity, .service] {
            try await add(.active, use)
            try await add(.deactivated, use, cutOff: RecordFixture.noon.addingTimeInterval(1))
        }
        #expect(await run(until: 10) == [0, 2])
    }

    @Test("searches for no key that the ledger does not have")
    func unrecorded() async throws {
        let key = P256.Signing.PrivateKey()
        primary.add(key, of: "merchant.com.example")
        await catalogue.hsmTokenHasOpened("primary", showing: primary.descriptions, asOf: .now)
        await catalogue.hsmTokenHasOpened("primary", showing: [], asOf: .now)
        let gone = catalogue.index.entry(.of(subjectPublicKeyInfo: Array(key.publicKey.derRepresentation)))
        #expect(gone?.condition == .missing && gone?.state == .preActivation)
        #expect(await run(until: 60) == [])
    }

    @Test("searches for a key at once, after ten seconds, then later each time, up to a minute")
    func intervals() async throws {
        try await add(.preActivation)
        #expect(await run(until: 340) == [0, 10, 30, 60, 100, 150, 210, 270, 330])
    }

    @Test("searches for one key in two seconds, however many there are, and for each in turn")
    func manyKeys() async throws {
        for number in 0..<40 { try await add(.active, of: "BCR2DN4TEXAMPLE\(number)") }
        #expect(await run(until: 200) == Array(stride(from: 0, to: 200, by: 2)))
        // A new key does not wait for its turn.
        let made = try await add(.preActivation)
        primary.add(made.key, of: "BCR2DN4TEXAMPLE")
        await search.run()
        #expect(catalogue.index.entry(made.hash)?.hsmTokens == ["primary"])
    }

    @Test("finds a copy in time, however many other keys have copies with a fault")
    func manyFaultyKeys() async throws {
        for number in 0..<40 {
            let made = try await add(.active, .processing, of: "merchant.com.example.\(number)")
            primary.add(made.key, of: "merchant.com.example.\(number)")
        }
        var half = primary.descriptions
        for place in half.indices { half[place].subjectPublicKeyInfo = [] }
        primary.show(half)
        _ = await run(until: 200)
        #expect(catalogue.index.entries.allSatisfy { $0.condition.name == "inconsistent" })
        let made = try await add(.active, .processing, of: "merchant.com.example")
        _ = await run(until: 4)
        second.add(made.key, of: "merchant.com.example")
        _ = await run(until: 14)
        #expect(catalogue.index.entry(made.hash)?.hsmTokens == ["second"])
    }

    @Test(
        "searches for no key that decrypts no more",
        arguments: [KeyState.suspended, .deactivated, .compromised, .destroyed], [KeyUse.googlePay, .processing])
    func others(state: KeyState, use: KeyUse) async throws {
        try await add(state, use, cutOff: state == .deactivated ? RecordFixture.noon : nil)
        #expect(await run(until: 60) == [])
    }

    @Test("searches one HSM token although another fails")
    func failing() async throws {
        let made = try await add(.active)
        primary.fail(at: .listing)
        second.add(made.key, of: "BCR2DN4TEXAMPLE")
        await search.run()
        #expect(catalogue.index.entry(made.hash)?.hsmTokens == ["second"])
    }

    @Test("logs the failure of an HSM token once for a key, until a search succeeds")
    func failureLoggedOnce() async throws {
        try await add(.active)
        let failures = { lines.current.filter { $0.hasPrefix("an HSM token was not searched for a key") }.count }
        primary.fail(at: .listing)
        #expect(await run(until: 100) == [0, 10, 30, 60])
        #expect(failures() == 1)
        primary.recover()
        #expect(await run(until: 50) == [0])
        primary.fail(at: .listing)
        #expect(await run(until: 120) == [0, 60])
        #expect(failures() == 2)
    }
}
