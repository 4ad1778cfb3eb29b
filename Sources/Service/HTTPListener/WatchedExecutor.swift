package import NIOCore

/// Threads that run a program's work, some of which can block them.
package struct WatchedExecutor: Sendable {
    /// The name in messages.
    package let name: String
    /// Runs its argument on these threads, after the work that already waits for them.
    package let execute: @Sendable (@escaping @Sendable () -> Void) -> Void

    package init(name: String, execute: @escaping @Sendable (@escaping @Sendable () -> Void) -> Void) {
        self.name = name
        self.execute = execute
    }

    /// The threads shared by all tasks without an executor, at the priority of requests. There is one for each CPU, so tasks
    /// that block in a call can leave none for the others.
    package static let tasks = WatchedExecutor(name: "the threads of Swift's tasks") { work in
        Task.detached { work() }
    }

    /// Returns the event loops of a group. Each has one thread, and every connection belongs to one of them for its whole
    /// life.
    package static func eventLoops(of group: any EventLoopGroup) -> [WatchedExecutor] {
        group.makeIterator().enumerated().map { index, loop in
            WatchedExecutor(name: "event loop \(index)") { work in loop.execute(work) }
        }
    }
}
