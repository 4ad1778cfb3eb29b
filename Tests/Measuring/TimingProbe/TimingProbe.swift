import ArgumentParser
import Foundation
import KeyTypes
import ProductVersion
import WorkerLink
import WorkerProtocol

/// Measures the times that scripts/timing compares: a worker's answers to frames, and single functions. Each is called with
/// inputs of several classes in random order.
///
/// Standard output has lines of words. `times CLASS NS…` has the times of a class in nanoseconds, one of each round. `answers
/// CLASS ANSWER COUNT` counts the answers to a class. `tiers EC RSA` names the HSM token's tiers.
@main
struct TimingProbe: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "timing-probe", abstract: "Measures times of answers to classes of inputs.",
        subcommands: [WorkerTimes.self, FunctionTimes.self])
}

struct SamplingOptions: ParsableArguments {
    @Option(help: "The number of measured rounds.")
    var rounds: Int

    @Option(help: "The seed of the order.")
    var seed: UInt64

    var sampler: Sampler { Sampler(rounds: rounds, seed: seed) }
}

struct WorkerTimes: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "worker", abstract: "Measures the answers of paytokend-hsm, with fresh keys in the HSM token.")

    @Option(help: "The path of paytokend-hsm.")
    var program: String
    @Option(help: "The PKCS#11 library.")
    var module: String
    @Option(help: "The HSM token's URI.")
    var uri: String
    @Option(help: "The file with its PIN.")
    var pinFile: String
    @Option(help: "The library's initialisation string.")
    var initArgs = ""
    @Option(help: "The algorithms of the keys: EC, RSA.")
    var algorithm: [String]
    @OptionGroup var sampling: SamplingOptions

    func run() throws {
        let worker = try WorkerProcess(program: program)
        let description = try worker.open(
            HSMTokenOpening(
                programVersion: ProductVersion.current, modulePath: module, tokenURI: uri, pinFile: pinFile,
                sessions: 1,
                initializationString: initArgs, allowExtractableSecret: true))
        print("tiers", description.tierECv1?.rawValue ?? "-", description.tierRSAv1?.rawValue ?? "-")
        for algorithm in algorithm.compactMap(KeyAlgorithm.init(name:)) {
            let key = try worker.generateKey(
                KeyGeneration(merchantIdentifier: "merchant.test.\(algorithm.name)", algorithm: algorithm))
            let classes = try EncryptedInputs(algorithm: algorithm, key: key).classes()
            try sampling.sampler.run(classes, control: "\(algorithm.name)-tag-last") { frame in
                try worker.write(frame)
                return try worker.frame()
            } describe: {
                try Self.name(of: WorkerAnswer($0))
            }
        }
    }

    private static func name(of answer: WorkerAnswer) throws -> String {
        switch answer {
        case .plaintext: "plaintext"
        case .failed(let failure): "\(failure.kind)"
        default: throw WorkerProcess.Failure("\(answer)")
        }
    }
}
