import AuditChain
import AuditReport
import DaemonAPI

/// `--token-uses`: what tokens say of their keys' uses.
enum TokenUseFiles {
    static func read(_ paths: [String]) throws(CommandFailure) -> [TokenUseLog] {
        var logs: [(path: String, log: TokenUseLog)] = []
        for path in paths {
            let log = try read(path)
            if let other = logs.first(where: { $0.log.overlaps(log) }) {
                throw CommandFailure(
                    .usage,
                    "\(InputFile.name(other.path)) and \(InputFile.name(path)) have uses of the same time, and nothing says that they are "
                        + "of different nodes or tokens: name \"node\" or \"token\" in the first line of each.")
            }
            logs.append((path, log))
        }
        return logs.map(\.log)
    }

    /// Asks the daemon for each token's, beside the page: `report.uses-primary.jsonl`. A token without one is left out.
    static func ask(
        _ connection: DaemonConnection, for tokens: [String], from since: AuditTime, until: AuditTime,
        beside stem: String
    ) async throws(CommandFailure) -> [String] {
        var paths: [String] = []
        for token in tokens {
            let query = QueryText.of([("since", since.text), ("until", until.text)])
            let answer: StreamedAnswer
            do throws(CommandFailure) {
                answer = try await connection.stream(.get("/v1/tokens/\(token)/uses" + query), idle: .seconds(3600))
            } catch {
                // No token of the name has a use_log.
                if error.message?.hasPrefix("not_found:") == true { continue }
                throw error
            }
            let path = "\(stem).uses-\(token).jsonl"
            let file = try NewFile(path)
            try await answer.forEachPiece { piece throws(CommandFailure) in
                try file.write(piece)
                return true
            }
            try file.publish()
            paths.append(path)
        }
        return paths
    }

    private static func read(_ path: String) throws(CommandFailure) -> TokenUseLog {
        var (log, lines, fault) = (TokenUseLog?.none, LineSplitter(), TokenUseLogError?.none)
        var progress = ProgressLine()
        var isWhole = true
        var read = 0
        try InputFile.forEachBlock(of: path) { block in
            read += block.count
            isWhole = lines.take(block[...]) { line in
                do throws(TokenUseLogError) {
                    if log == nil { log = try TokenUseLog(header: line) } else { try log?.take(line: line) }
                } catch {
                    fault = error
                }
                return fault == nil
            }
            if progress.isDue { progress.show("\((read >> 10).grouped) KiB of a token's uses read") }
            return isWhole && fault == nil
        }
        progress.clear()
        func refusal(_ reason: String) -> CommandFailure {
            CommandFailure(.unreadable, "\(InputFile.name(path)) does not say how a token's keys were used: \(reason).")
        }
        if let fault { throw refusal(fault.description) }
        guard isWhole, !lines.holdsPart else { throw refusal("a line is too long, or its last one was cut off") }
        guard let log else { throw refusal("it is empty") }
        do throws(TokenUseLogError) {
            try log.finish()
        } catch {
            throw refusal(error.description)
        }
        return log
    }
}
