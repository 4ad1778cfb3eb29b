import SecretMemory
import WorkerProtocol

/// What the daemon is told of secrets that this process could not lock in memory.
enum UnlockedSecrets {
    static var inBytes: UInt32 {
        min(UInt32(clamping: SecretBytes.unlockedByteCount), FieldBound.unlockedSecrets)
    }
}
