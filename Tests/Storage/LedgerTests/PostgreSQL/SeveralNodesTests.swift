import AuditChain
import Foundation
import MerchantKeys
import TestSupport
import Testing

@testable import Ledger

@Suite("Several nodes of one PostgreSQL ledger")
struct SeveralNodesTests {
    @Test("releases each transaction at one of three nodes at once, and keeps each node's chain whole")
    func race() async throws {
        let fixture = try await PostgreSQLFixture()
        let nodes = [fixture.ledger, try await fixture.node("node-2"), try await fixture.node("node-3")]
        let count = 300
        let verdicts = try await withThrowingTaskGroup(of: (Int, ReleaseVerdict).self) { group in
            for number in (1...count).shuffled() {
                for node in nodes.shuffled() {
                    group.addTask {
                        (number, try await fixture.release(number, reference: nil, on: node).verdict)
                    }
                }
            }
            return try await group.reduce(into: [Int: [ReleaseVerdict]]()) { $0[$1.0, default: []].append($1.1) }
        }
        for number in 1...count {
            #expect(verdicts[number]?.count { $0 == .released } == 1)
            #expect(verdicts[number]?.count { $0 == .replayed } == 2)
        }
        let signer = CheckpointSigner()
        for node in nodes {
            try await signer.seal(node)
            #expect(try await signer.verdict(of: node).intactRecords == count)
        }
        for node in nodes.dropFirst() { await node.close() }
    }

    @Test("returns a key's proofs by all nodes")
    func proofs() async throws {
        let fixture = try await PostgreSQLFixture()
        let other = try await fixture.node("node-2")
        let key = LedgerFixture.hash(1)
        _ = try await fixture.ledger.append(KeyProofsTests.record(key, in: "primary"))
        _ = try await other.append(KeyProofsTests.record(key, in: "primary", at: LedgerFixture.noon + 1))
        let proofs = try await fixture.ledger.proofs(of: key, since: LedgerFixture.noon)
        #expect(proofs.map(\.node.name) == ["node-2", fixture.ledger.node])
        await other.close()
    }

    @Test("writes any batch of releases in one transaction and two round trips")
    func roundTrips() async throws {
        let fixture = try await PostgreSQLFixture()
        let before = fixture.events.roundTrips.count
        let pause = await WriterPause(fixture.ledger)
        let releases = (0..<50).map { fixture.begin($0 % 20) }
        try await pause.wait(for: 50)
        pause.end()
        for release in releases { _ = try await release.value().get() }
        #expect(fixture.events.roundTrips.dropFirst(before) == [2])
    }

    @Test("repeats a hundred times at most over all nodes, counting repeats on other nodes")
    func repeats() async throws {
        let fixture = try await PostgreSQLFixture()
        let other = try await fixture.node("node-2")
        #expect(try await fixture.release(1).verdict == .released)
        let verdicts = try await withThrowingTaskGroup(of: ReleaseVerdict.self) { group in
            for number in 0..<130 {
                let node = number % 2 == 0 ? fixture.ledger : other
                group.addTask { try await fixture.release(1, on: node).verdict }
            }
            return try await group.reduce(into: [ReleaseVerdict]()) { $0.append($1) }
        }
        #expect(verdicts.count { $0 == .repeated } == 100)
        #expect(verdicts.count { $0 == .repeatedTooOften } == 30)
        await other.close()
    }

    @Test("releases exactly one of the attempts at several nodes that follow the same one")
    func namedAttempts() async throws {
        let fixture = try await PostgreSQLFixture()
        let nodes = [fixture.ledger, try await fixture.node("node-2"), try await fixture.node("node-3")]
        let transactions = 1...30
        for number in transactions {
            #expect(try await fixture.release(number, named: NamedAttempt(200)).verdict == .released)
        }
        let verdicts = try await withThrowingTaskGroup(of: (Int, ReleaseVerdict).self) { group in
            for number in transactions {
                for attempt in UInt8(1)...9 {
                    let node = nodes[Int(attempt) % nodes.count]
                    let named = try NamedAttempt(attempt, after: [200])
                    group.addTask { (number, try await fixture.release(number, named: named, on: node).verdict) }
                }
            }
            return try await group.reduce(into: [Int: [ReleaseVerdict]]()) { $0[$1.0, default: []].append($1.1) }
        }
        for number in transactions {
            #expect(verdicts[number]?.count { $0 == .repeated } == 1)
            #expect(verdicts[number]?.count { $0 == .releasedByOther } == 8)
        }
        for node in nodes.dropFirst() { await node.close() }
    }

    @Test("waits for a suspension that another session has begun, and then releases nothing with the key")
    func suspensionUnderWay() async throws {
        let fixture = try await PostgreSQLFixture()
        let other = try await fixture.database.session()
        try await other.run("BEGIN")
        try await other.run("UPDATE merchant_key SET state = 'suspended'")
        let release = fixture.begin(1)
        try await wait(for: "the wait for the key's row", within: 30) {
            try await fixture.sessions("wait_event_type = 'Lock'") > 0
        }
        try await other.run("COMMIT")
        #expect(try await release.value().get().verdict == .keyNotActive)
        #expect(try await fixture.count("claim") == 0)
    }

    @Test("releases nothing on a busy node after a suspension's commit on another")
    func suspension() async throws {
        let fixture = try await PostgreSQLFixture()
        let others = [try await fixture.node("node-2"), try await fixture.node("node-3")]
        let latch = Latch(isOpen: false)
        let busy = Task {
            try await withThrowingTaskGroup(of: Void.self) { group in
                for (index, node) in others.enumerated() {
                    for lane in 0..<4 {
                        group.addTask {
                            var number = 1 + index * 20_000 + lane * 5_000
                            while !Task.isCancelled {
                                let verdict = try await fixture.release(number, on: node).verdict
                                if verdict == .keyNotActive { return }
                                if number % 5_000 == 50 { latch.open() }
                                number += 1
                            }
                        }
                    }
                }
                try await group.waitForAll()
            }
        }
        await latch.pass()
        try await fixture.ledger.store(LedgerFixture.record(fixture.key, state: .suspended))
        let claims = try await fixture.count("claim")
        try await busy.value
        #expect(try await fixture.count("claim") == claims, "no claim was committed after the suspension")
        for node in others { await node.close() }
    }

    @Test("releases no transaction again on a busy node whose claim another node prunes")
    func pruning() async throws {
        let fixture = try await PostgreSQLFixture()
        let other = try await fixture.node("node-2")
        let noon = LedgerFixture.noon
        let numbers = 1...200
        func request(_ number: Int, at time: Date) throws -> Release {
            let request = try fixture.request(number, reference: nil)
            var release = Release(
                transactionId: request.transactionId, publicKeyHash: request.publicKeyHash, caller: request.caller,
                referenceDigest: nil, contentDigest: request.contentDigest, at: time)
            release.signedAt = noon
            return release
        }
        for number in numbers { #expect(try await other.release(request(number, at: noon)) == .released) }
        var newest = try fixture.request(1000)
        newest = Release(
            transactionId: newest.transactionId, publicKeyHash: newest.publicKeyHash, caller: newest.caller,
            referenceDigest: nil, contentDigest: newest.contentDigest, at: noon + 1000)
        #expect(try await other.release(newest) == .released)
        let retention = try #require(
            ClaimRetention(retainClaims: .seconds(100), repeatFor: .seconds(1), windows: [.seconds(1)]))
        async let pruned = fixture.ledger.prune(retention, now: noon + 1000)
        try await withThrowingTaskGroup(of: ReleaseVerdict.self) { group in
            for number in numbers {
                let release = try request(number, at: noon + 1000)
                group.addTask { try await other.release(release) }
            }
            for try await verdict in group { #expect(verdict != .released) }
        }
        #expect(try await pruned == .pruned(count: 200, before: noon + 900))
        await other.close()
    }

    @Test("keeps records, checkpoints and audit keys by node, and shares keys, claims and approvals")
    func own() async throws {
        let fixture = try await PostgreSQLFixture()
        let other = try await fixture.node("node-2")
        _ = try await fixture.release(1)
        _ = try await fixture.release(2, on: other)
        _ = try await fixture.release(3, on: other)
        #expect(try await fixture.ledger.head().sequence == 1)
        #expect(try await other.head().sequence == 2)
        let identifier = [UInt8](repeating: 4, count: 16)
        try await other.planAuditKey(identifier: identifier, in: "primary")
        #expect(try await fixture.ledger.auditKeys().isEmpty)
        #expect(try await other.auditKeys().map(\.identifier) == [identifier])
        #expect(try await fixture.ledger.usage(since: .distantPast)[fixture.key]?.count == 3)
        #expect(try await other.keyRecords() == fixture.ledger.keyRecords())
        #expect(try await other.serverStatus()?.nodes.map(\.name) == ["node-1", "node-2"])
        await other.close()
    }
}
