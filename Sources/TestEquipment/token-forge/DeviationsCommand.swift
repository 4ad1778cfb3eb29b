import ArgumentParser
import Foundation
import TokenForge

struct DeviationsCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "deviations",
        abstract: "Lists what can be wrong with a token, and the refusal that it must meet.")

    func run() {
        let width = Deviation.allCases.map(\.rawValue.count).max() ?? 0
        for deviation in Deviation.allCases {
            let versions = ["EC_v1", "RSA_v1"].filter { deviation.applies(to: $0) }
            let only = versions.count == 1 ? " (\(versions[0]) only)" : ""
            let name = deviation.rawValue.padding(toLength: width, withPad: " ", startingAt: 0)
            let code = (deviation.refusal ?? "accepted").padding(toLength: 24, withPad: " ", startingAt: 0)
            print("\(name)  \(code)  \(deviation.summary)\(only)")
        }
    }
}
