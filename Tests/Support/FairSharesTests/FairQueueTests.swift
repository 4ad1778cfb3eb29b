import Testing

@testable import FairShares

@Suite("FairQueue")
struct FairQueueTests {
    private func drained(_ queue: FairQueue<String, Int>) -> [Int] {
        var (queue, drained) = (queue, [Int]())
        while let element = queue.popFirst() { drained.append(element) }
        return drained
    }

    @Test("serves owners in round-robin order, and each owner's elements in order of arrival")
    func owners() {
        var queue = FairQueue<String, Int>()
        for number in 0..<4 { queue.append(number, of: "many") }
        queue.append(10, of: "few")
        queue.append(11, of: "few")
        #expect(queue.count == 6)
        #expect(queue.count(of: "many") == 4)
        #expect(drained(queue) == [0, 10, 1, 11, 2, 3])
    }

    @Test("serves the names of one owner in round-robin order when it is the owner's turn")
    func names() {
        var queue = FairQueue<String, Int>()
        for number in 0..<3 { queue.append(number, of: "gateway", named: "flood") }
        queue.append(10, of: "gateway", named: "shop")
        queue.append(20, of: "other")
        queue.append(21, of: "other")
        #expect(drained(queue) == [0, 20, 10, 21, 1, 2])
    }

    @Test("puts all names beyond the maximum number into one shared line")
    func manyNames() {
        var queue = FairQueue<String, Int>()
        let most = FairQueue<String, Int>.maximumNames
        for number in 0..<most { queue.append(number, of: "gateway", named: "\(number)") }
        for number in most..<most + 3 { queue.append(number, of: "gateway", named: "\(number)") }
        // A name that already has its own line keeps it.
        queue.append(1000, of: "gateway", named: "0")
        #expect(drained(queue) == Array(0...most) + [1000, most + 1, most + 2])
    }

    @Test("removes elements of all owners, and the owners that have no elements left")
    func removal() {
        var queue = FairQueue<String, Int>()
        for number in 0..<4 { queue.append(number, of: "a", named: number < 2 ? "x" : nil) }
        queue.append(4, of: "b")
        #expect(queue.removeAll { $0 != 1 }.sorted() == [0, 2, 3, 4])
        #expect(queue.count == 1)
        #expect(queue.count(of: "b") == 0)
        queue.append(5, of: "b")
        #expect(drained(queue) == [1, 5])
        var empty = queue
        #expect(empty.removeAll { _ in true }.count == 2)
        #expect(empty.popFirst() == nil)
    }
}
