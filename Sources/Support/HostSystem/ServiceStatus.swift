import Locks

/// Checks every few seconds whether the program serves requests, and shows the result in `systemctl status`
/// (`STATUS=`). For peers that no access rule matches, `/readyz` answers with the result of the last check.
package final class ServiceStatus: Sendable {
    /// The program's readiness, with the reasons in the words of `/readyz`.
    package struct Condition: Sendable {
        package let sentences: [String]
        /// Faults that do not prevent the program from being ready.
        package let warnings: [String]

        package init(sentences: [String], warnings: [String] = []) {
            self.sentences = sentences
            self.warnings = warnings
        }

        /// - Parameter reasons: the response of `/readyz`, each with a component and a message.
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

    /// The time between two checks, and so the longest delay before a change is shown.
    private static let pause = Duration.seconds(5)

    package init(service: ServiceNotification, condition: @escaping @Sendable () async -> Condition) {
        self.service = service
        self.condition = condition
    }

    package func start() -> Task<Void, Never> {
        Task.repeating(every: Self.pause) { await self.show() }
    }

    /// Shows the result of a reload. `systemctl reload` itself cannot fail for a configuration error: it returns as
    /// soon as the signal has been sent.
    package func reloaded(inForce: Bool) {
        shown.withLock { $0.reloadWasRefused = !inForce }
        guard service.socket != nil else { return }
        // The check is not awaited, because it takes a while if a component hangs. The caller must be free to handle a
        // stop signal meanwhile.
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
            ? [
                "The last reload was refused, and the previous configuration stays in force: see the journal for the reason."
            ]
            : []
        return (condition.sentences + refused + condition.warnings).joined(separator: " ")
    }
}
