import Foundation
import TestSupport
import Testing

/// Ledgers and payment stores of every schema so far, with random content, are upgraded by the programs that upgrade
/// them in production, under kills. scripts/fuzz-upgrades runs many rounds; an ordinary run has one round of each schema
/// with a fixed seed, and one round with a random seed.
@Suite("Upgrades of random stores under kills", .serialized)
struct UpgradeTests {
    private static let environment = ProcessInfo.processInfo.environment
    /// The rounds of each schema in a long run; nil in an ordinary run.
    private static let rounds = environment["UPGRADE_ROUNDS"].flatMap(Int.init)
    private static let seed = environment["UPGRADE_SEED"].flatMap(UInt64.init) ?? .random(in: 1...1 << 48)
    private static let server = Task { try await UpgradeServer() }
    /// The kind of store of which an ordinary run has a round with a random seed.
    private static let extra = StoreKind.allCases.randomElement()

    @Test("a ledger's file keeps every row and releases nothing again, and its upgrade continues after each kill")
    func ledgerFile() async throws { try await upgraded(.ledgerFile) }

    @Test("a ledger's database keeps every row and releases nothing again, and its upgrade continues after each kill")
    func ledgerDatabase() async throws { try await upgraded(.ledgerDatabase) }

    @Test("a payment store's file keeps every row and submits nothing again, and its upgrade continues after each kill")
    func paymentFile() async throws { try await upgraded(.paymentFile) }

    @Test(
        "a payment store's database keeps every row and submits nothing again, and its upgrade continues after each kill"
    )
    func paymentDatabase() async throws { try await upgraded(.paymentDatabase) }

    private func upgraded(_ kind: StoreKind) async throws {
        let interruptions = try await Interruptions()
        let server = kind.engine == .postgresql ? try await Self.server.value : nil
        let events = Events()
        for version in 1...kind.current {
            var figures = UpgradeFigures()
            let hasExtra = kind == Self.extra && Int(Self.seed % UInt64(kind.current)) + 1 == version
            let seeds =
                Self.rounds.map { count in (0..<count).map { Self.seed &+ UInt64($0) } }
                ?? [UInt64(version)] + (hasExtra ? [Self.seed] : [])
            if hasExtra { print("upgrades of \(kind.rawValue) schema \(version): seed \(Self.seed)") }
            for seed in seeds {
                let round = UpgradeRound(
                    kind: kind, version: version, seed: seed, interruptions: interruptions, server: server,
                    events: events, most: Self.rounds == nil ? 2 : 3)
                do { try await round.carryOut(&figures) } catch { Issue.record(error, "\(round)") }
            }
            try report(kind, version, figures)
        }
    }

    /// Appends a line of figures to the file that scripts/fuzz-upgrades reads.
    private func report(_ kind: StoreKind, _ version: Int, _ figures: UpgradeFigures) throws {
        guard let path = Self.environment["UPGRADE_FIGURES"], let file = FileHandle(forWritingAtPath: path) else {
            return
        }
        defer { try? file.close() }
        try file.seekToEnd()
        let numbers = [
            version, figures.rounds, figures.runs, figures.killedBefore, figures.killedAfter, figures.endedSessions,
            figures.endedServers, figures.killedRestores,
        ]
        try file.write(contentsOf: Data("\(kind.rawValue) \(numbers.map(String.init).joined(separator: " "))\n".utf8))
    }
}
