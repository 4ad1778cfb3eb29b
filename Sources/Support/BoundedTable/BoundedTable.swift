/// A dictionary with a maximum number of entries. A new entry replaces the oldest one of a full table.
@frozen
public struct BoundedTable<Key: Hashable & Sendable, Value: Sendable>: Sendable {
    @usableFromInline let capacity: Int
    @usableFromInline var values: [Key: Value] = [:]
    /// The keys in a ring of ``capacity`` places. Once the ring is full, `next` is the place of the oldest key.
    @usableFromInline var order: [Key] = []
    @usableFromInline var next = 0

    /// - Parameter capacity: the maximum number of entries; a table of 0 stays empty.
    @inlinable
    public init(capacity: Int) {
        self.capacity = capacity
    }

    @inlinable
    public var count: Int { values.count }

    @inlinable
    public subscript(key: Key) -> Value? {
        values[key]
    }

    /// Sets the value of a key. A key that is in the table already keeps its age.
    @inlinable
    public mutating func set(_ value: Value, for key: Key) {
        guard capacity > 0, values.updateValue(value, forKey: key) == nil else { return }
        if order.count < capacity {
            order.append(key)
        } else {
            values[order[next]] = nil
            order[next] = key
            next = (next + 1) % capacity
        }
    }
}
