import Foundation
import Glibc
import Histogram
import PaymentToken
import StrictJSON

/// Measures how long the daemon's check of a payment token's signature takes. It makes `SignatureEvidence` of minted
/// payment tokens on one thread for SECONDS. It does not verify certificate chains, because the daemon caches accepted
/// chains.
///
///     verification-price TOKENS SECONDS
///
/// TOKENS is a file with a payment token on each line. The program prints the verifications per second. It also prints,
/// in microseconds, the mean processor time of a verification, and the 50th and 99th percentile of the verifications'
/// durations. The exit status is 1 if a signature is invalid.
@main
struct VerificationPrice {
    static func main() {
        let arguments = CommandLine.arguments
        guard arguments.count == 3, let seconds = Double(arguments[2]) else {
            say("usage: verification-price TOKENS SECONDS")
            exit(64)
        }
        do {
            let lines = try Data(contentsOf: URL(filePath: arguments[1])).split(separator: UInt8(ascii: "\n"))
            let tokens = try lines.map { try PaymentToken(json: JSONValue(parsing: Array($0))) }
            guard !tokens.isEmpty else {
                say("verification-price: \(arguments[1]) has no token")
                exit(66)
            }
            try measure(tokens, nanoseconds: UInt64(seconds * 1e9))
        } catch {
            say("verification-price: \(error)")
            exit(1)
        }
    }

    private static func measure(_ tokens: [PaymentToken], nanoseconds: UInt64) throws {
        var times = Histogram<UInt64>(
            lowestDiscernibleValue: 10, highestTrackableValue: 60_000_000_000, numberOfSignificantValueDigits: .three)
        // The first verification is slower than all others, so it is not measured.
        _ = try SignatureEvidence(of: tokens[0])
        let (began, spent) = (time(CLOCK_MONOTONIC), time(CLOCK_PROCESS_CPUTIME_ID))
        var (now, count) = (began, 0)
        while now - began < nanoseconds {
            _ = try SignatureEvidence(of: tokens[count % tokens.count])
            let before = now
            now = time(CLOCK_MONOTONIC)
            times.record(now - before)
            count += 1
        }
        let figures = [
            Double(count) / Double(now - began) * 1e9,
            Double(time(CLOCK_PROCESS_CPUTIME_ID) - spent) / Double(count) / 1000,
            Double(times.valueAtPercentile(50)) / 1000, Double(times.valueAtPercentile(99)) / 1000,
        ]
        print(figures.map { String(format: "%.2f", $0) }.joined(separator: " "))
    }

    /// The time of a clock, in nanoseconds.
    private static func time(_ clock: clockid_t) -> UInt64 {
        var time = timespec()
        unsafe clock_gettime(clock, &time)
        return UInt64(time.tv_sec) * 1_000_000_000 + UInt64(time.tv_nsec)
    }

    private static func say(_ text: String) {
        FileHandle.standardError.write(Data((text + "\n").utf8))
    }
}
