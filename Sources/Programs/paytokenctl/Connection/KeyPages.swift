import CommandOutput
import DaemonAPI
import StrictJSON

extension DaemonConnection {
    /// All keys of all pages, each decoded and as received, so that members from a newer daemon are passed on to
    /// programs.
    func allKeys() async throws -> (keys: [KeySummary], items: [JSONValue]) {
        var keys: [KeySummary] = []
        var items: [JSONValue] = []
        var next: String?
        // The number of pages is limited, since a faulty daemon could send an endless list. No real list has as many
        // pages.
        for _ in 0..<1000 {
            let query = QueryText.of([("limit", "1000")] + (next.map { [("after", $0)] } ?? []))
            let answer = try await send(.get("/v1/keys" + query))
            guard let read = ListAnswer<KeySummary>.read(answer.body) else { throw unexpectedAnswer(answer.status) }
            keys += read.page.items
            items += read.items
            next = read.page.next
            if next == nil { break }
        }
        guard next == nil else {
            throw CommandFailure(.defect, "internal_error: the daemon's list of keys does not end.")
        }
        return (keys, items)
    }
}
