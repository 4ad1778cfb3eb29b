import Synchronization

/// A value that several tasks of a test change.
final class Shared<Value: Sendable>: Sendable {
    private let value: Mutex<Value>

    init(_ value: Value) { self.value = Mutex(value) }

    var current: Value { value.withLock { $0 } }

    func change(_ body: @Sendable (inout Value) -> Void) { value.withLock { body(&$0) } }
}
