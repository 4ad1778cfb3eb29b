import DaemonConfiguration
import Foundation
import Logging
import NIOPosix
import ServerProgram
import UsageRecording

/// Reads the files of Google's root keys once a minute, and shows how they differ from the keys in force. Nothing comes
/// into force: only a reload does that.
struct GoogleRootKeyWatch: Sendable {
    let live: LiveConfiguration
    let instruments: Instruments
    let clock: WallClock
    let logger: Logger

    func start() -> Task<Void, Never> {
        let last = Current<String?>(nil)
        return Task.repeating(every: .seconds(60)) {
            let message = await run()
            if let message, message != last.current {
                logger.warning("Google's root keys differ", metadata: ["reason": "\(message)"])
            }
            last.replace(with: message)
        }
    }

    /// - Returns: the difference between the files, or the reason why they cannot be compared; nil if they agree.
    @discardableResult
    func run() async -> String? {
        guard let inForce = live.configuration.current.trust.googlePay else {
            instruments.googlePayRootKeys.replaceAll([])
            instruments.googlePayFetched.show(nil)
            return nil
        }
        let now = clock.now()
        let trusted = inForce.roots.keys.count { now < $0.expiration }
        // Reading may block as long as the disk does.
        let found = try? await NIOThreadPool.singleton.runIfActive {
            Result { () throws(TrustSettings.RootFileFlaw) in try inForce.readAgain() }
        }
        let (files, flaw): (GooglePayTrust, String?) =
            switch found {
            case .success(let files)?: (files, nil)
            case .failure(let flaw)?: (inForce, "\(inForce.file) \(flaw.what)")
            case nil: (inForce, nil)
            }
        var series: [([1 of String], Double)] = [(["trusted"], Double(trusted))]
        if let fetched = files.fetched {
            series += [
                (["not_accepted"], Double(files.keys.notAccepted.count)),
                (["vanished"], Double(files.keys.vanished.count)),
            ]
            instruments.googlePayFetched.show(fetched.content?.fetch?.at.timeIntervalSince1970 ?? 0)
        } else {
            instruments.googlePayFetched.show(nil)
        }
        instruments.googlePayRootKeys.replaceAll(series.map { ($0.0, $0.1) })
        return flaw ?? files.fetched?.fault ?? files.difference
    }
}
