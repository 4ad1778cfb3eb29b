import DaemonAPI
import HTTPListener
import Synchronization
import Telemetry

/// The metrics of the program behind a socket, asked for once at a time and once a second: all who ask while one question is under
/// way, or within a second of its answer, get that. So however many scrape, and however often, they cost the program little.
final class SharedScrape: Sendable {
    private let client: UnixSocketClient
    private let program: String
    private let log: ServingLog
    private let freshness: Duration
    private let state = Mutex(State())

    private struct State {
        var running: Task<HTTPAnswer, Never>?
        /// Metrics, and until when they are given again.
        var kept: (answer: HTTPAnswer, end: ContinuousClock.Instant)?
    }

    /// Prometheus scrapes no more often than that as a rule. A refusal is not kept.
    static let freshness = Duration.seconds(1)

    /// Prometheus waits ten seconds by default, and should hear why there is nothing.
    static let patience = Duration.seconds(8)

    /// - Parameter program: whose socket it is, in messages.
    init(
        socket: String, program: String, log: ServingLog, patience: Duration = patience, freshness: Duration = freshness
    ) {
        // A hundred thousand keys take about forty megabytes.
        client = UnixSocketClient(path: socket, maximumAnswerBytes: 64 << 20, deadline: patience)
        self.program = program
        self.log = log
        self.freshness = freshness
    }

    /// 200 with the metrics, or 503 with the reason: Prometheus' own `up` is 0 then.
    func answer() async -> HTTPAnswer {
        let (kept, running) = state.withLock { state -> (HTTPAnswer?, Task<HTTPAnswer, Never>?) in
            if let kept = state.kept, ContinuousClock.now < kept.end { return (kept.answer, nil) }
            let running = state.running ?? Task { await self.scrape() }
            state = State(running: running, kept: nil)
            return (nil, running)
        }
        if let kept { return kept }
        return await running?.value ?? unavailable("\(program) was not asked.")
    }

    private func scrape() async -> HTTPAnswer {
        let answer: HTTPAnswer
        do throws(UnixSocketClientError) {
            answer = try self.answer(await client.send(.get("/metrics")))
        } catch {
            answer = unavailable(error.sentence(of: program))
        }
        let kept = answer.status == 200 ? (answer, ContinuousClock.now + freshness) : nil
        state.withLock { $0 = State(running: nil, kept: kept) }
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
