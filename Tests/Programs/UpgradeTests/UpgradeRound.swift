import Foundation
import Locks
import TestSupport
import Testing

/// The figures of all rounds of one kind of store and one version.
struct UpgradeFigures: Sendable {
    var rounds = 0
    /// The runs of the programs that upgrade stores and restore backups.
    var runs = 0
    /// The kills after which the store had the older version, and those after which it was upgraded.
    var (killedBefore, killedAfter) = (0, 0)
    /// The sessions and servers that were ended during an upgrade.
    var (endedSessions, endedServers) = (0, 0)
    /// The kills of restores.
    var killedRestores = 0
}

/// The numbers of events of uninterrupted runs, as earlier rounds have found them.
final class Events: Sendable {
    private let counts = Mutex<[String: Int]>([:])

    subscript(name: String) -> Int? {
        get { counts.withLock { $0[name] } }
        set { counts.withLock { $0[name] = newValue } }
    }
}

/// One random store of an older version, which is upgraded under kills.
struct UpgradeRound: Sendable, CustomStringConvertible {
    let kind: StoreKind
    let version: Int
    let seed: UInt64
    let interruptions: Interruptions
    let server: UpgradeServer?
    let events: Events
    /// The maximum number of interrupted upgrades.
    let most: Int

    var description: String { "\(kind.rawValue) schema \(version) seed \(seed)" }

    func check(_ condition: Bool, _ text: @autoclosure () -> String, at location: SourceLocation = #_sourceLocation) {
        if !condition { Issue.record("\(description): \(text())", sourceLocation: location) }
    }

    func carryOut(_ figures: inout UpgradeFigures) async throws {
        let now = Int64(Date().timeIntervalSince1970 * 1000)
        // Different versions have different content and interruptions.
        let own = seed &* 64 &+ UInt64(version)
        var random = RandomValues(seed: ~own)
        let ledger = kind.isLedger ? try await LedgerContent(kind.engine, version: version, seed: own, now: now) : nil
        let payments = kind.isLedger ? nil : PaymentContent(kind.engine, version: version, seed: own, now: now)
        let expected = ExpectedContent(kind: kind, before: ledger?.tables ?? payments?.tables ?? [:], now: now)
        let store = try await UpgradedStore(kind, on: server, interruptions)
        try await store.fill(version: version, expected.before)
        let before = try await store.place.content()
        // The generator's own control.
        let control = expected.differences(before, isUpgraded: false, mayHaveServed: false)
        try #require(control.isEmpty, "\(self): \(control)")
        let backup = try await UpgradedStore(copying: store, on: server)
        if kind == .ledgerDatabase { try await refuseWhileServed(store, before) }

        for _ in 0..<random.count(1...most) {
            let outcome = try await interrupted(store, &random, &figures)
            let found = try await store.place.content()
            let isUpgraded = version(in: found) == kind.current
            let wrong = expected.differences(found, isUpgraded: isUpgraded, mayHaveServed: isUpgraded)
            check(wrong.isEmpty, "after \(outcome): \(wrong)")
            guard outcome.isKilled else { continue }
            if isUpgraded { figures.killedAfter += 1 } else { figures.killedBefore += 1 }
        }
        try await finish(store, &figures)
        let first = try await store.place.content()
        verify(first, expected)
        // A second upgrade changes nothing, apart from the records of a daemon's start.
        try await finish(store, &figures)
        let second = try await store.place.content()
        let settled = { (content: ShownContent) in
            content.filter { !["audit_record", "ledger_meta"].contains($0.key) || kind.engine == .postgresql }
        }
        check(settled(first) == settled(second), "a second upgrade changes rows")
        verify(second, expected)
        try await verifyDefinitions(store)
        if kind == .ledgerFile {
            try await verifyCopies(of: store, expected)
            try await restore(backup, expected, &random, &figures)
        } else {
            try await finish(backup, &figures)
            verify(try await backup.place.content(), expected)
        }
        if let ledger { try await verify(ledger, in: store) }
        if let payments { try await verify(payments, in: store) }
        // This does not depend on the version before.
        if version == kind.current || seed % 4 == 0 { try await refuseNewer(store) }
        figures.rounds += 1
    }

    private func version(in content: ShownContent) -> Int? {
        let meta = content["ledger_meta"]?.first { $0["name"] == "schema_version" }?["value"]
        let table = (content["ledger_state"] ?? content["payment_store"])?.first?["schema_version"]
        return (meta ?? table).flatMap { Int($0.replacing("restored-", with: "")) }
    }

    /// The number of events of an uninterrupted run with this version or, in its first round, with the version before.
    private func knownEvents(_ name: String) -> Int? {
        events["\(name) \(version)"] ?? events["\(name) \(version - 1)"]
    }

    /// Returns the number of an event, often one of the last, when the upgrade is committed.
    private static func event(of known: Int, _ random: inout RandomValues) -> Int {
        random.isTrue(percent: 40) ? random.count(max(1, known - 6)...known + 3) : random.count(1...known)
    }

    /// Runs the upgrade until a random event.
    private func interrupted(
        _ store: UpgradedStore, _ random: inout RandomValues, _ figures: inout UpgradeFigures
    ) async throws -> UpgradedStore.Outcome {
        let known = knownEvents(kind.rawValue) ?? 40
        let places: [Interruptions.Place] =
            kind.engine == .sqlite ? [.before, .amid, .after] : [.before, .amid, .after, .stop]
        let point = Interruptions.Point(event: Self.event(of: known, &random), place: random.any(of: places))
        figures.runs += 1
        let endsServer = random.isTrue(percent: 50)
        var wasStopped = false
        let outcome = try await store.upgrade(until: point) {
            guard case .database(let server, let name, _) = store.place else { return }
            wasStopped = true
            if endsServer {
                try await server.stop(.immediate)
                try await server.start()
            } else {
                try await server.sql(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '\(name)'")
            }
        }
        if wasStopped { if endsServer { figures.endedServers += 1 } else { figures.endedSessions += 1 } }
        return outcome
    }

    /// Runs the upgrade without an interruption.
    private func finish(_ store: UpgradedStore, _ figures: inout UpgradeFigures) async throws {
        figures.runs += 1
        let outcome = try await store.upgrade()
        try #require(outcome.status == 0, "\(self): \(outcome)")
        // An upgrade has more events than a start after it.
        let name = "\(kind.rawValue) \(version)"
        events[name] = max(events[name] ?? 0, outcome.events)
    }

    private func verify(_ content: ShownContent, _ expected: ExpectedContent) {
        let wrong = expected.differences(content, isUpgraded: true, mayHaveServed: true)
        check(wrong.isEmpty, "after the upgrade: \(wrong)")
    }

    private func verifyDefinitions(_ store: UpgradedStore) async throws {
        let new = try await Self.definitions(of: kind, server, interruptions)
        let found = try await store.place.definitions()
        let lines = { (text: String) in Set(text.split(separator: "\n")) }
        check(
            found == new,
            "the tables are not those of a new store; missing: \(lines(new).subtracting(lines(found)).sorted()); surplus: "
                + "\(lines(found).subtracting(lines(new)).sorted())")
    }

    private static let newDefinitions = Mutex<[StoreKind: String]>([:])

    /// The definitions in a store of the current version, from the file that its programs left.
    private static func definitions(
        of kind: StoreKind, _ server: UpgradeServer?, _ interruptions: Interruptions
    ) async throws -> String {
        if let known = newDefinitions.withLock({ $0[kind] }) { return known }
        let store = try await UpgradedStore(kind, on: server, interruptions)
        try await store.fill(version: kind.current, [:])
        let definitions = try await store.place.definitions()
        newDefinitions.withLock { $0[kind] = definitions }
        return definitions
    }

    /// Verifies the copies that upgrades of a file made. An interrupted copy must not have a copy's name.
    private func verifyCopies(of store: UpgradedStore, _ expected: ExpectedContent) async throws {
        let names = try FileManager.default.contentsOfDirectory(atPath: store.directory.path)
        check(
            !names.contains { $0.hasSuffix(".partial") || $0.contains(".partial-") },
            "an unfinished copy is left: \(names)")
        let copies = names.filter { $0.contains(".schema-") && !$0.contains(".partial") }
        check(copies.isEmpty == (version == kind.current), "copies: \(copies)")
        for name in copies {
            let content = try await Place.file(path: store.directory.path(name)).content()
            let marks = ["restored_at", "restored_end", "schema_version"]
            let rows = { (content: ShownContent) in
                var content = content
                content["ledger_meta"]?.removeAll { marks.contains($0["name"] ?? "") }
                return content.filter { !$0.value.isEmpty }
            }
            check(rows(content) == rows(expected.before.shown), "the copy \(name) has other rows")
            let written = content["ledger_meta"]?.first { $0["name"] == "schema_version" }?["value"]
            check(written == "restored-\(version)", "the copy \(name) has the version \(written ?? "none")")
        }
    }

    /// Restores the backup of a file, under kills. A restored ledger has all rows, and releases nothing.
    private func restore(
        _ backup: UpgradedStore, _ expected: ExpectedContent, _ random: inout RandomValues,
        _ figures: inout UpgradeFigures
    ) async throws {
        guard case .file(let copy) = backup.place else { return }
        let target = try UpgradedFilePlace()
        let known = knownEvents("restore") ?? 60
        for isLast in [false, false, true] {
            let point =
                isLast
                ? nil
                : Interruptions.Point(
                    event: Self.event(of: known, &random), place: random.any(of: [.before, .amid, .after]))
            figures.runs += 1
            let outcome = try await backup.restore(copy, to: target.path, until: point)
            if outcome.isKilled {
                figures.killedRestores += 1
                continue
            }
            try #require(outcome.status == 0, "\(self): restore: \(outcome)")
            events["restore \(version)"] = outcome.events
            break
        }
        let content = try await Place.file(path: target.path).content()
        for table in ["claim", "merchant_key", "audit_key", "archive"] {
            let wanted = (expected.before[table] ?? []).count
            check(
                content[table]?.count ?? 0 == wanted,
                "the restored ledger has \(content[table]?.count ?? 0) of \(wanted) rows of \(table)")
        }
        let written = content["ledger_meta"]?.first { $0["name"] == "schema_version" }?["value"]
        check(written == "restored-\(kind.current)", "the restored ledger has the version \(written ?? "none")")
        check(
            !FileManager.default.fileExists(atPath: target.path + ".restoring"), "the restore left its partial file")
    }

    /// `ledger create` refuses the upgrade while a node's daemon has its lease.
    private func refuseWhileServed(_ store: UpgradedStore, _ before: ShownContent) async throws {
        guard version < kind.current, seed % 3 == 0 else { return }
        try await store.place.execute("UPDATE node SET lease_until = now() + interval '1 hour' WHERE name = 'node-1'")
        let refused = try await store.upgrade()
        check(refused.status == 1 && refused.error.contains("node-1"), "an upgrade while a daemon serves: \(refused)")
        try await store.place.execute(
            "UPDATE node SET lease_until = '2026-01-02T03:04:05.678901+00:00' WHERE name = 'node-1'")
        let after = try await store.place.content()
        check(after == before, "a refused upgrade changed rows")
    }

    /// A program refuses the schema of a later version, and changes nothing.
    private func refuseNewer(_ store: UpgradedStore) async throws {
        let newer = kind.current + 1
        let statement =
            switch kind {
            case .ledgerFile: "UPDATE ledger_meta SET value = '\(newer)' WHERE name = 'schema_version'"
            case .ledgerDatabase: "UPDATE ledger_state SET schema_version = \(newer)"
            case .paymentFile, .paymentDatabase: "UPDATE payment_store SET schema_version = \(newer)"
            }
        try await store.place.execute(statement)
        let before = try await store.place.content()
        let outcome = try await store.upgrade()
        check(outcome.status == (kind.engine == .sqlite ? 78 : 1), "a newer schema: \(outcome)")
        check(try await store.place.content() == before, "a program changed a newer schema's rows")
    }
}

/// The place of a ledger that a restore creates.
private struct UpgradedFilePlace {
    private let directory: FreshDirectory
    var path: String { directory.path("ledger.sqlite") }

    init() throws { directory = try FreshDirectory() }
}
