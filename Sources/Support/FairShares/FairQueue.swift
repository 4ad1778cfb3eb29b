import NIOCore

/// A queue of elements with owners. Owners are served round robin, one element each. An owner that adds thousands of
/// elements therefore delays another owner by one element, not by all of them.
///
/// An owner that works for clients, as the gateway does, can name the client of each element. The owner's turns then go
/// to its clients round robin. Invented names give an owner no advantage, since all its names share the owner's turns.
package struct FairQueue<Owner: Hashable, Element> {
    /// The maximum number of names of one owner that have their own queues. Elements of further names share the queue
    /// without a name.
    package static var maximumNames: Int { 64 }

    /// The elements of one owner, in a queue for each name. A name without elements has no queue.
    fileprivate struct NamedQueues {
        var byName: [String?: CircularBuffer<Element>] = [:]
        /// The names with elements, in the order of service.
        var round = CircularBuffer<String?>(initialCapacity: 1)
        var count = 0

        mutating func append(_ element: Element, named name: String?) {
            let name = byName[name] == nil && byName.count >= maximumNames ? nil : name
            if byName[name] == nil { round.append(name) }
            byName[name, default: CircularBuffer(initialCapacity: 1)].append(element)
            count += 1
        }

        mutating func popFirst() -> Element? {
            guard let name = round.popFirst(), let element = byName[name]?.popFirst() else { return nil }
            count -= 1
            if byName[name]?.isEmpty == true { byName[name] = nil } else { round.append(name) }
            return element
        }

        mutating func removeAll(where condition: (Element) -> Bool) -> [Element] {
            var removed: [Element] = []
            for name in round {
                guard var line = byName[name] else { continue }
                line.removeAll { element in
                    guard condition(element) else { return false }
                    removed.append(element)
                    return true
                }
                byName[name] = line.isEmpty ? nil : line
            }
            round.removeAll { byName[$0] == nil }
            count -= removed.count
            return removed
        }
    }

    /// The elements by owner. An owner without elements has no entry.
    private var byOwner: [Owner: NamedQueues] = [:]
    /// The owners with elements, in the order of service.
    private var round = CircularBuffer<Owner>()
    package private(set) var count = 0

    package init() {}

    package var isEmpty: Bool { count == 0 }

    /// The number of waiting elements of this owner.
    package func count(of owner: Owner) -> Int { byOwner[owner]?.count ?? 0 }

    /// - Parameter name: the client for which the owner works; nil if it works for itself.
    package mutating func append(_ element: Element, of owner: Owner, named name: String? = nil) {
        if byOwner[owner] == nil { round.append(owner) }
        byOwner[owner, default: NamedQueues()].append(element, named: name)
        count += 1
    }

    /// The next element of the owner whose turn it is.
    package mutating func popFirst() -> Element? {
        guard let owner = round.popFirst(), let element = byOwner[owner]?.popFirst() else { return nil }
        count -= 1
        if byOwner[owner]?.count == 0 { byOwner[owner] = nil } else { round.append(owner) }
        return element
    }

    /// - Returns: the elements that were removed.
    package mutating func removeAll(where condition: (Element) -> Bool) -> [Element] {
        var removed: [Element] = []
        for owner in round { removed += byOwner[owner]?.removeAll(where: condition) ?? [] }
        byOwner = byOwner.filter { $0.value.count > 0 }
        round.removeAll { byOwner[$0] == nil }
        count -= removed.count
        return removed
    }
}

extension FairQueue: Sendable where Owner: Sendable, Element: Sendable {}
extension FairQueue.NamedQueues: Sendable where Owner: Sendable, Element: Sendable {}
