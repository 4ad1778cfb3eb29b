import Foundation
import PKCS11
import TestSupport
import Testing
import TokenForge
import WorkerProtocol

@testable import HSMWorker

@Suite("Listing keys in pages")
struct KeyPagesTests {
    /// Opens an HSM token with three keys. A page of a listing has only one key, because the timeout of zero leaves no
    /// time for a second one.
    private func harness() throws -> OpenTokenHarness {
        let harness = try OpenTokenHarness(callTimeout: 0)
        var session = try harness.softHSM.openSession()
        try OpenTokenHarness.store(SharedForge.rsaMerchant, in: &session)
        try OpenTokenHarness.store(Self.third(), in: &session)
        return harness
    }

    private static func third() throws -> ForgedMerchant {
        try ForgedMerchant(
            authority: SharedForge.authority, type: .p256,
            profile: MerchantCertificateProfile(merchantIdentifier: "merchant.third"))
    }

    @Test("lists one key a page when there is no time for more, and serves each listed key")
    func pages() throws {
        let harness = try harness()
        var session = try harness.softHSM.openSession()
        let hsmToken = harness.hsmToken
        #expect(hsmToken.keys.all.count == 1)
        var found: [[UInt8]] = []
        var number: UInt64?
        for _ in 0..<2 {
            guard case .keyPage(let page, let next) = try hsmToken.listKeys(number, in: &session) else {
                Issue.record("the listing ended early")
                return
            }
            #expect(page.count == 1)
            found += page.map(\.identifier)
            number = next
        }
        guard case .keys(let last) = try hsmToken.listKeys(number, in: &session) else {
            Issue.record("the listing does not end")
            return
        }
        found += last.map(\.identifier)
        #expect(Set(found) == Set(hsmToken.keys.all.keys))
        #expect(Set(found).count == 3)
        #expect(try hsmToken.listKeys(number, in: &session) == .keys([]))
    }

    @Test("ends a listing when another one begins")
    func replaced() throws {
        let harness = try harness()
        var session = try harness.softHSM.openSession()
        guard case .keyPage(_, let first) = try harness.hsmToken.listKeys(nil, in: &session),
            case .keyPage(_, let second) = try harness.hsmToken.listKeys(nil, in: &session)
        else {
            Issue.record("three keys on one page")
            return
        }
        #expect(try harness.hsmToken.listKeys(first, in: &session) == nil)
        #expect(try harness.hsmToken.listKeys(0, in: &session) == nil)
        #expect(try harness.hsmToken.listKeys(second, in: &session) != nil)
    }

    @Test("reads and tests the keys of one listing in two sessions in parallel, each key once")
    func together() async throws {
        let meeting = ThreadBarrier()
        let harness = try OpenTokenHarness(
            FalteringTier { _, _ in meeting.waitForOthers() ? nil : .input }, callTimeout: 0)
        var session = try harness.softHSM.openSession()
        for _ in 0..<5 { try OpenTokenHarness.store(Self.third(), in: &session) }
        // The harness has already tested the EC merchant's key. Without the cached keys, the listing tests all six
        // keys.
        harness.hsmToken.dropKeys()
        guard case .keyPage(let first, let number) = try harness.hsmToken.listKeys(nil, in: &session) else {
            Issue.record("six keys on one page")
            return
        }
        meeting.begin(2)
        let pages = try await withThrowingTaskGroup(of: [KeyDescription].self) { group in
            for _ in 0..<2 {
                group.addTask {
                    var session = try harness.softHSM.openSession()
                    var found: [KeyDescription] = []
                    var number = number
                    while true {
                        switch try harness.hsmToken.keyOperations.reading({
                            try harness.hsmToken.listKeys(number, in: &session)
                        }) {
                        case .keyPage(let page, let next)?: (found, number) = (found + page, next)
                        case .keys(let page)?: return found + page
                        default: throw HarnessFailure(description: "the listing ended early")
                        }
                    }
                }
            }
            return try await group.reduce(into: [[KeyDescription]]()) { $0.append($1) }
        }
        #expect(meeting.isOver)
        let found = (first + pages.flatMap { $0 }).map(\.identifier)
        #expect(found.count == 6 && Set(found).count == 6)
        #expect(Set(found) == Set(harness.hsmToken.keys.all.keys))
        #expect(pages.allSatisfy { !$0.isEmpty })
    }

    @Test("does not list or serve a key that was destroyed between two pages")
    func destroyed() throws {
        let harness = try harness()
        var session = try harness.softHSM.openSession()
        let hsmToken = harness.hsmToken
        _ = try hsmToken.listKeys(in: &session)
        guard case .keyPage(let page, var number) = try hsmToken.listKeys(nil, in: &session) else {
            Issue.record("three keys on one page")
            return
        }
        let later = try #require(hsmToken.keys.all.keys.first { $0 != page[0].identifier })
        try hsmToken.destroyKey(later, in: &session)
        var rest: [KeyDescription] = []
        while case .keyPage(let page, let next)? = try hsmToken.listKeys(number, in: &session) {
            rest += page
            number = next
            try #require(rest.count < 5)
        }
        #expect(!rest.contains { $0.identifier == later })
        #expect(hsmToken.keys[later] == nil)
        #expect(hsmToken.keys.all.count == 2)
    }

    @Test("serves a key that was generated between two pages, and stops serving one that vanished")
    func interleaved() throws {
        let harness = try harness()
        var session = try harness.softHSM.openSession()
        let hsmToken = harness.hsmToken
        _ = try hsmToken.listKeys(in: &session)
        let vanished = try SharedForge.ecMerchant.merchant.publicKeyHash
        for object in try session.findObjects(matching: [.identifier(vanished)]) { try session.destroyObject(object) }
        guard case .keyPage(_, let number) = try hsmToken.listKeys(nil, in: &session) else {
            Issue.record("two keys on one page")
            return
        }
        let made = try hsmToken.generateKey(
            KeyGeneration(merchantIdentifier: "merchant.made", algorithm: .ec), in: &session)
        guard case .keys = try hsmToken.listKeys(number, in: &session) else {
            Issue.record("the listing does not end")
            return
        }
        #expect(hsmToken.keys[made.identifier] != nil)
        #expect(hsmToken.keys[vanished] == nil)
        #expect(hsmToken.keys.all.count == 3)
    }

    @Test("describes one key exactly as a listing does, and returns nothing for an absent key")
    func oneKey() throws {
        let harness = try harness()
        var session = try harness.softHSM.openSession()
        let all = try harness.hsmToken.listKeys(in: &session)
        for key in all {
            #expect(try harness.hsmToken.describeKey(key.identifier, in: &session) == [key])
        }
        #expect(try harness.hsmToken.describeKey([UInt8](repeating: 7, count: 32), in: &session).isEmpty)
        #expect(harness.hsmToken.keys.all.count == 3)
        let one = all[0].identifier
        for object in try session.findObjects(matching: [.identifier(one)]) { try session.destroyObject(object) }
        #expect(try harness.hsmToken.describeKey(one, in: &session).isEmpty)
        #expect(harness.hsmToken.keys[one] == nil)
    }

    @Test("decrypts payments with a key that was stored after the listing")
    func newcomer() throws {
        let harness = try OpenTokenHarness()
        var session = try harness.softHSM.openSession()
        let third = try Self.third()
        try OpenTokenHarness.store(third, in: &session)
        let payment = try EncryptedPayment(ec: third.key.subjectPublicKeyInfo)
        let opened = harness.decrypt(payment, in: &session)
        #expect(try opened.get() == payment.plaintext)
    }
}

/// A barrier at which threads wait for each other. Sendable because `condition` guards its variables.
private final class ThreadBarrier: @unchecked Sendable {
    private var wanted = 0
    private var present = 0
    private let condition = NSCondition()

    func begin(_ count: Int) {
        condition.lock()
        (wanted, present) = (count, 0)
        condition.unlock()
    }

    var isOver: Bool {
        condition.lock()
        defer { condition.unlock() }
        return present >= wanted
    }

    /// Waits for the other threads. Returns false if they do not arrive within a minute.
    func waitForOthers() -> Bool {
        condition.lock()
        defer { condition.unlock() }
        guard present < wanted else { return true }
        present += 1
        condition.broadcast()
        let end = Date(timeIntervalSinceNow: 60)
        while present < wanted {
            guard condition.wait(until: end) else { return false }
        }
        return true
    }
}
