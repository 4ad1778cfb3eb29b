import AuditChain
import AuditReport
import CommandOutput
import Crypto
import DaemonAPI
import Encodings
import Foundation

/// `--token-uses`: the HSM tokens' own counts of their keys' uses.
enum TokenUseFiles {
    static func read(_ paths: [String]) throws -> [TokenUseLog] {
        var logs: [(path: String, log: TokenUseLog)] = []
        for path in paths {
            let log = try read(path)
            if let other = logs.first(where: { $0.log.overlaps(log) }) {
                throw CommandFailure(
                    .usage,
                    "\(InputFile.name(other.path)) and \(InputFile.name(path)) have uses of the same time, and do not say that they are "
                        + "of different nodes or HSM tokens: name \"node\" or \"token\" in the first line of each.")
            }
            logs.append((path, log))
        }
        return logs.map(\.log)
    }

    /// Requests each HSM token's own count of its keys' uses from the daemon, and writes it to a file of its own next
    /// to the report: `report.uses-primary.jsonl`. An HSM token without a `use_log` is omitted.
    ///
    /// - Returns: the paths of the files.
    static func ask(
        _ connection: DaemonConnection, for tokens: [String], from since: AuditTime, until: AuditTime,
        beside stem: String
    ) async throws -> [String] {
        var paths: [String] = []
        for token in tokens {
            let query = QueryText.of([("since", since.text), ("until", until.text)])
            let answer: StreamedAnswer
            do {
                answer = try await connection.stream(.get("/v1/tokens/\(token)/uses" + query), idle: .seconds(3600))
            } catch let failure as CommandFailure where failure.message?.hasPrefix("not_found:") == true {
                // No HSM token with this name has a use_log.
                continue
            }
            let path = "\(stem).uses-\(token).jsonl"
            let file = try NewFile(path)
            try await answer.copy(to: file, said: "of an HSM token's uses read")
            try file.publish()
            paths.append(path)
        }
        return paths
    }

    private static func read(_ path: String) throws -> TokenUseLog {
        func refusal(_ reason: String) -> CommandFailure {
            CommandFailure(
                .unreadable, "\(InputFile.name(path)) does not say how an HSM token's keys were used: \(reason).")
        }
        do {
            var (log, digest): (TokenUseLog?, SHA256) = (nil, SHA256())
            let end = try InputFile.forEachLine(
                of: path, progress: { "\(($0 >> 10).grouped) KiB of an HSM token's uses read" },
                readBlock: { digest.update(data: $0) },
                take: { line in
                    if log == nil { log = try TokenUseLog(header: line) } else { try log?.take(line: line) }
                })
            guard !end.isOverlong, !end.endsInIncompleteLine else {
                throw refusal("a line is too long, or its last one was cut off")
            }
            guard var log, let sum = AuditDigest(bytes: Array(digest.finalize())) else { throw refusal("it is empty") }
            try log.finish()
            log.file = TokenUseLog.File(name: URL(filePath: path).lastPathComponent, digest: sum)
            return log
        } catch let error as TokenUseLogError {
            throw refusal(error.description)
        }
    }
}
