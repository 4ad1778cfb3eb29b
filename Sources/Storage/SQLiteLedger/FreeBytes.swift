import DatabaseKit
import Dispatch
import Glibc
public import Ledger
import Locks

// Unsafe: statvfs(3) writes only the structure that it receives.

extension SQLiteLedger {
    /// Returns the bytes that are free for the daemon's account on the file system of the ledger's file.
    ///
    /// - Throws: `timedOut` or `unavailable`. `unavailable` is also thrown while the thread of an earlier call still
    ///   waits for the disk. A disk that hangs thus blocks a single thread, not one for each call.
    public func freeBytes() async throws(LedgerFailure) -> UInt64? {
        let isMine = isMeasuring.withLock { isMeasuring in
            defer { isMeasuring = true }
            return !isMeasuring
        }
        guard isMine else { throw .unavailable(reason: "An earlier check of its disk's free space still waits.") }
        return try await deadlines.answer { (caller: LedgerCall<UInt64>) in
            DispatchQueue.global().async {
                var room = statvfs()
                let isKnown = unsafe statvfs(self.path, &room) == 0
                self.isMeasuring.withLock { $0 = false }
                _ = caller.resume(
                    isKnown
                        ? .success(UInt64(room.f_bavail) * UInt64(room.f_frsize))
                        : .failure(.unavailable(reason: "Its disk does not report its free space.")))
            }
        }
    }
}
