package import NIOCore

/// Threads that run a program's work, and that some of that work can block.
package struct WatchedExecutor: Sendable {
    /// In messages.
    package let name: String
    /// Has its argument run by these threads, after what waits for them already.
    package let execute: @Sendable (@escaping @Sendable () -> Void) -> Void

    package init(name: String, execute: @escaping @Sendable (@escaping @Sendable () -> Void) -> Void) {
        self.name = name
        self.execute = execute
    }

    /// The threads that all tasks without an executor of their own share, at the priority that requests have. There is one for
    /// each CPU, so tasks that block each in a call leave none for the others.
    package static let tasks = WatchedExecutor(name: "the threads of Swift's tasks") { work in
        Task.detached { work() }
    }

    /// Each event loop of a group: one thread each, and every connection belongs to one of them for its life.
    package static func eventLoops(of group: any EventLoopGroup) -> [WatchedExecutor] {
        group.makeIterator().enumerated().map { index, loop in
            WatchedExecutor(name: "event loop \(index)") { work in loop.execute(work) }
        }
    }
}
