/// One page of a list.
public struct ListAnswer<Item: Codable & Sendable>: Codable, Sendable {
    public var items: [Item]
    /// Opaque; given back as `?after=` it continues the list. Absent on the last page.
    public var next: String?

    public init(items: [Item], next: String? = nil) {
        self.items = items
        self.next = next
    }
}

extension ListAnswer: Equatable where Item: Equatable {}
