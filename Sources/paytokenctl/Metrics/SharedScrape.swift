import DaemonAPI
import HTTPListener
import Synchronization
import Telemetry

/// The metrics of the program behind a socket, asked for once at a time: all who ask while one question is under way get its
/// answer. So however many scrape, the program is asked by one connection.
final class SharedScrape: Sendable {
    private let client: UnixSocketClient
    private let program: String
    private let log: ServingLog
    private let running = Mutex<Task<HTTPAnswer, Never>?>(nil)

    /// Prometheus waits ten seconds by default, and should hear why there is nothing.
    static let patience = Duration.seconds(8)

    /// - Parameter program: whose socket it is, in messages.
    init(socket: String, program: String, log: ServingLog, patience: Duration = patience) {
        // A hundred thousand keys take about forty megabytes.
        client = UnixSocketClient(path: socket, maximumAnswerBytes: 64 << 20, deadline: patience)
        self.program = program
        self.log = log
    }

    /// 200 with the metrics, or 503 with the reason: Prometheus' own `up` is 0 then.
    func answer() async -> HTTPAnswer {
        let scrape = running.withLock { running in
            if let running { return running }
            let scrape = Task { await self.scrape() }
            running = scrape
            return scrape
        }
        return await scrape.value
    }

    private func scrape() async -> HTTPAnswer {
        let answer: HTTPAnswer
        do throws(UnixSocketClientError) {
            answer = try self.answer(await client.send(.get("/metrics")))
        } catch {
            answer = unavailable(error.sentence(of: program))
        }
        running.withLock { $0 = nil }
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
