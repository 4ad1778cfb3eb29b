import Daemon
import Foundation

/// paytokend as it is, with a ledger in memory: what `scripts/soak ledger-cost` compares the durable one with.
///
///     paytokend-memory-ledger CONFIGURATION
@main
struct MemoryLedgerDaemon {
    static func main() async {
        guard CommandLine.arguments.count == 2 else {
            FileHandle.standardError.write(Data("usage: paytokend-memory-ledger CONFIGURATION\n".utf8))
            exit(64)
        }
        let status = await DaemonProgram.run(configurationFile: CommandLine.arguments[1], ledger: MemoryLedger())
        exit(status.rawValue)
    }
}
