import ArgumentParser
import Encodings

/// A duration as the configuration writes it.
struct ShortDuration: ExpressibleByArgument, Equatable {
    let seconds: Double

    init?(argument: String) {
        guard let duration = DurationText.duration(argument) else { return nil }
        seconds = duration / .seconds(1)
    }
}
