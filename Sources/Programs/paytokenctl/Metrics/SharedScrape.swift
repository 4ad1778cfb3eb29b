import DaemonAPI
import HTTPListener
import Locks
import Telemetry

/// The metrics of the program behind a socket, requested once at a time and at most once a second. All scrapers that
/// ask during a request, or within a second of its response, receive that response. Therefore even many or frequent
/// scrapes cost the program little.
final class SharedScrape: Sendable {
    private let client: UnixSocketClient
    private let program: String
    private let log: ServingLog
    private let freshness: Duration
    private let current = Mutex<Scrape?>(nil)

    /// One request, and its response.
    private struct Scrape {
        let task: Task<HTTPAnswer, Never>
        /// The time until which the response is reused; nil during the request.
        var end: ContinuousClock.Instant?
    }

    /// The time for which a response with metrics is reused. Prometheus usually scrapes less often. A refusal is not
    /// reused.
    static let freshness = Duration.seconds(1)

    /// The time limit of a request. By default Prometheus waits ten seconds, and should receive the reason of a failure
    /// before that.
    static let patience = Duration.seconds(8)

    /// - Parameter program: the socket's owner, for messages.
    init(
        socket: String, program: String, log: ServingLog, patience: Duration = patience, freshness: Duration = freshness
    ) {
        // The metrics of a hundred thousand keys take about forty megabytes.
        client = UnixSocketClient(path: socket, maximumAnswerBytes: 64 << 20, deadline: patience)
        self.program = program
        self.log = log
        self.freshness = freshness
    }

    /// Returns 200 with the metrics, or 503 with the reason. After a 503, Prometheus' `up` is 0.
    func answer() async -> HTTPAnswer {
        let task = current.withLock { current in
            if let current, current.end.map({ ContinuousClock.now < $0 }) ?? true { return current.task }
            let task = Task { await self.scrape() }
            current = Scrape(task: task)
            return task
        }
        return await task.value
    }

    private func scrape() async -> HTTPAnswer {
        let answer: HTTPAnswer
        do throws(UnixSocketClientError) {
            answer = try self.answer(await client.send(.get("/metrics")))
        } catch {
            answer = unavailable(error.sentence(of: program))
        }
        current.withLock { current in
            if answer.status == 200 { current?.end = ContinuousClock.now + freshness } else { current = nil }
        }
        return answer
    }

    private func answer(_ answer: ClientAnswer) -> HTTPAnswer {
        switch answer.status {
        case 200 where answer.header("Content-Type") == MetricsText.contentType:
            log.available()
            return HTTPAnswer(
                status: 200, headers: [HTTPAnswer.Header(name: "Content-Type", value: MetricsText.contentType)],
                body: answer.body)
        case 403:
            return unavailable(
                "\(program) gives its metrics to accounts with the role monitor only. Give it to the account of this program, "
                    + "in the section access: { name: metrics, user: paytokend-metrics, roles: [monitor] }.")
        default: return unavailable("\(program) did not give metrics: it answered \(answer.status).")
        }
    }

    private func unavailable(_ sentence: String) -> HTTPAnswer {
        log.unavailable(sentence)
        return .text(503, sentence)
    }
}
