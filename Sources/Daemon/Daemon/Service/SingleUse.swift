import Synchronization

/// Taken by one at a time; whoever comes meanwhile is turned away, and does not wait.
final class SingleUse: Sendable {
    private let isTaken = Mutex(false)

    /// Nil while it is taken.
    func take() -> Lease? {
        let wasTaken = isTaken.withLock { isTaken in
            defer { isTaken = true }
            return isTaken
        }
        return wasTaken ? nil : Lease(self)
    }

    /// Gives it back when it is deallocated.
    final class Lease: Sendable {
        private let use: SingleUse

        fileprivate init(_ use: SingleUse) { self.use = use }

        deinit { use.isTaken.withLock { $0 = false } }
    }
}
