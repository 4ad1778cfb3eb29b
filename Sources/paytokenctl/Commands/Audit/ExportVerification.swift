import AuditChain
import DaemonAPI

/// An export on its way through the verifier, with its progress.
struct ExportVerification {
    private var verifier: ChainVerifier
    private var progress = ProgressLine()
    private var bytes = 0
    /// How many bytes there will be; nil when that is not known.
    private let size: Int?

    init(keys: CheckpointKeys, heads: [SignedCheckpoint], size: Int?) {
        verifier = ChainVerifier(keys: keys, heads: heads)
        self.size = size
    }

    var lines: Int { verifier.lines }
    var records: Int { verifier.records }

    /// Takes the next bytes. Whether more can change the verdict.
    mutating func consume(_ block: [UInt8]) -> Bool {
        verifier.consume(block[...])
        bytes += block.count
        if progress.isDue { progress.show(progressText) }
        return verifier.fault == nil
    }

    mutating func verdict() -> ChainVerdict {
        progress.clear()
        return verifier.verdict()
    }

    private var progressText: String {
        let share = size.flatMap { $0 > 0 ? ", \(min(100, bytes / max(1, $0 / 100))) %" : nil } ?? ""
        return "\(verifier.records.grouped) records verified\(share)"
    }
}
