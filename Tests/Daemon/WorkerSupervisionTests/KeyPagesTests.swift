import Locks
import TestSupport
import Testing
import WorkerProtocol

@testable import WorkerSupervision

@Suite("Pages of a key listing, as the daemon requests them")
struct KeyPagesTests {
    private static func key(_ number: Int) -> KeyDescription {
        KeyDescription(
            identifier: [UInt8(truncatingIfNeeded: number >> 8), UInt8(truncatingIfNeeded: number)], label: "merchant",
            algorithm: .ec, subjectPublicKeyInfo: [], certificates: [], isProtected: true, inconsistency: nil)
    }

    /// A worker that lists one key a page. It answers requests for further pages once `together` of them wait.
    private final class Worker: Sendable {
        private let state: Mutex<(left: [KeyDescription], waiting: [CheckedContinuation<Void, Never>])>
        private let together: Int
        /// The largest number of requests that waited at the same time.
        let most = Mutex(0)

        init(_ count: Int, together: Int) {
            state = Mutex((left: (0..<count).map(KeyPagesTests.key), waiting: []))
            self.together = together
        }

        func answer(_ request: WorkerRequest) async -> WorkerAnswer {
            if case .listMoreKeys = request { await waitForOthers() }
            return state.withLock { state in
                guard let key = state.left.popLast() else { return .keys([]) }
                return .keyPage([key], listing: 7)
            }
        }

        private func waitForOthers() async {
            await withCheckedContinuation { continuation in
                let ready = state.withLock { state in
                    state.waiting.append(continuation)
                    most.withLock { $0 = max($0, state.waiting.count) }
                    guard state.waiting.count >= together else { return [CheckedContinuation<Void, Never>]() }
                    defer { state.waiting = [] }
                    return state.waiting
                }
                for continuation in ready { continuation.resume() }
            }
        }
    }

    @Test(
        "requests as many pages at a time as there are sessions, and returns every key once", arguments: [1, 2, 4])
    func pagesRequestedInParallel(_ readers: Int) async throws {
        // After the first page, each reader requests three pages with a key. All readers then end together.
        let worker = Worker(1 + 3 * readers, together: readers)
        let keys = try await KeyPages.all(readers: readers) { await worker.answer($0) }
        #expect(worker.most.withLock { $0 } == readers)
        #expect(Set(keys.map(\.identifier)) == Set((0..<(1 + 3 * readers)).map { Self.key($0).identifier }))
        #expect(keys.count == 1 + 3 * readers)
    }

    @Test("fails the listing with the reason of the page that fails")
    func failingPage() async {
        let count = Atomic<Int>(0)
        let failure = await #expect(throws: WorkerFailure.self) {
            try await KeyPages.all(readers: 2) { (request) async throws(WorkerFailure) in
                if case .listKeys = request { return .keyPage([Self.key(1)], listing: 7) }
                guard count.add(1, ordering: .relaxed).newValue != 2 else {
                    throw WorkerFailure(.hsmTokenUnavailable, "gone")
                }
                return .keys([])
            }
        }
        #expect(failure == WorkerFailure(.hsmTokenUnavailable, "gone"))
    }

    @Test("begins a listing again if the worker ends it early, but three times at most", arguments: [1, 2, 3])
    func listingEndedEarly(_ givenUp: Int) async throws {
        let begun = Atomic<Int>(0)
        let listed: Result<[KeyDescription], WorkerFailure>
        do {
            listed = .success(
                try await KeyPages.all(readers: 2) { (request) async throws(WorkerFailure) in
                    if case .listKeys = request {
                        begun.add(1, ordering: .relaxed)
                        return .keyPage([Self.key(1)], listing: 7)
                    }
                    guard begun.load(ordering: .relaxed) > givenUp else { throw WorkerFailure(.listingEnded, "again") }
                    return .keys([])
                })
        } catch {
            listed = .failure(error)
        }
        #expect(begun.load(ordering: .relaxed) == min(givenUp + 1, 3))
        switch listed {
        case .success(let keys): #expect(givenUp < 3 && keys == [Self.key(1)])
        case .failure(let failure): #expect(givenUp == 3 && failure.kind == .hsmTokenUnavailable)
        }
    }

    @Test("rejects pages of another listing, and pages without keys")
    func wrongPages() async {
        for page: WorkerAnswer in [.keyPage([Self.key(1)], listing: 8), .keyPage([], listing: 7), .done] {
            let failure = await #expect(throws: WorkerFailure.self) {
                try await KeyPages.all { (request) async throws(WorkerFailure) in
                    if case .listKeys = request { return .keyPage([Self.key(1)], listing: 7) }
                    return page
                }
            }
            #expect(failure?.kind == .protocolViolation)
        }
    }
}
