import Synchronization

/// Checks every few seconds whether the program serves, and shows it in `systemctl status` (`STATUS=`). `/readyz` answers peers that
/// no access rule matches with what the last check found.
package final class ServiceStatus: Sendable {
    /// Whether the program is ready and, if not, why, as `/readyz` says it.
    package struct Condition: Sendable {
        package let sentences: [String]
        /// What is not as it should be while the program is ready.
        package let warnings: [String]

        package init(sentences: [String], warnings: [String] = []) {
            self.sentences = sentences
            self.warnings = warnings
        }

        /// - Parameter reasons: what `/readyz` answers, a component and a message each.
        package static func notReady(
            _ reasons: [(component: String, message: String)], warnings: [String] = []
        ) -> Condition {
            Condition(
                sentences: ["Not ready."] + reasons.map { "\($0.component): \($0.message)" }, warnings: warnings)
        }
    }

    private struct Shown {
        var text = ""
        var reloadWasRefused = false
    }

    private let service: ServiceNotification
    private let condition: @Sendable () async -> Condition
    private let shown = Mutex(Shown())

    /// The longest time until a change is shown.
    private static let pause = Duration.seconds(5)

    package init(service: ServiceNotification, condition: @escaping @Sendable () async -> Condition) {
        self.service = service
        self.condition = condition
    }

    package func start() -> Task<Void, Never> {
        Task.repeating(every: Self.pause) { await self.show() }
    }

    /// `systemctl reload` cannot fail by what the program finds: it ends when the signal has been sent.
    package func reloaded(inForce: Bool) {
        shown.withLock { $0.reloadWasRefused = !inForce }
        guard service.socket != nil else { return }
        // Not waited for: a signal to stop may be next, and a look at what hangs takes a while.
        Task { await show() }
    }

    package func show() async {
        let condition = await condition()
        guard !Task.isCancelled else { return }
        let changed = shown.withLock { shown -> String? in
            let text = Self.text(condition, reloadWasRefused: shown.reloadWasRefused)
            defer { shown.text = text }
            return text == shown.text ? nil : text
        }
        if let changed { service.notify(.status(changed)) }
    }

    private static func text(_ condition: Condition, reloadWasRefused: Bool) -> String {
        let refused =
            reloadWasRefused
            ? ["The last reload was refused, and the configuration before it stays in force: the journal says why."]
            : []
        return (condition.sentences + refused + condition.warnings).joined(separator: " ")
    }
}
