import TestSupport

/// Inputs of one kind. An attacker might distinguish the times of their answers from those of another kind.
struct InputClass<Input> {
    let name: String
    /// Makes the next input.
    let make: () throws -> Input
}

/// Measures the times of answers to several classes of inputs, in rounds. A round has one input of each class, in random
/// order, so that slow changes of the machine affect all classes alike.
///
/// One class is the control. Two more classes have inputs of the same kind: `again`, which must not differ from it, and
/// `delayed`, whose answers take longer by a delay that the comparison must find.
struct Sampler {
    let rounds: Int
    let seed: UInt64
    /// The rounds before the measurement, in which caches fill.
    private var warmUp: Int { min(48, rounds / 2) }
    /// The times from which the delay is computed.
    private static let recent = 48
    /// Welch's t that the delay should cause: more if there are few rounds, whose spread is not known well.
    private var plantedStatistic: Double { 16 + 400 / Double(rounds) }

    /// Measures `answer`, and prints the times. All inputs are made before the first measurement.
    ///
    /// - Parameters:
    ///   - control: the name of the control.
    ///   - answer: the measured operation.
    ///   - describe: the name of an answer, for the counts.
    func run<Input, Answer>(
        _ classes: [InputClass<Input>], control: String, answer: (Input) throws -> Answer,
        describe: (Answer) throws -> String
    ) throws {
        guard let controlPlace = classes.firstIndex(where: { $0.name == control }) else { return }
        let make = classes[controlPlace].make
        let all =
            classes + [
                InputClass(name: "\(control)-again", make: make), InputClass(name: "\(control)-delayed", make: make),
            ]
        var (order, generator, delay) = (Array(all.indices), SeededGenerator(seed: seed), Duration.zero)
        // Inputs that are made one after the other have neighbouring memory, so their order is random too.
        let inputs = try (0..<warmUp + rounds).map { _ in
            order.shuffle(using: &generator)
            return try Dictionary(uniqueKeysWithValues: order.map { ($0, try all[$0].make()) })
        }
        var times = all.map { _ in [Int64]() }
        var answers = all.map { _ in [String: Int]() }
        for (round, inputs) in inputs.enumerated() {
            order.shuffle(using: &generator)
            if round % 4 == 0 { delay = self.delay(times[controlPlace].suffix(Self.recent)) }
            for place in order {
                guard let input = inputs[place] else { continue }
                let began = ContinuousClock.now
                let answer = try answer(input)
                if place == all.count - 1 { Self.spin(delay) }
                let (seconds, attoseconds) = (ContinuousClock.now - began).components
                times[place].append(seconds * 1_000_000_000 + attoseconds / 1_000_000_000)
                answers[place][try describe(answer), default: 0] += 1
            }
        }
        for (place, one) in all.enumerated() {
            print("times", one.name, times[place].dropFirst(warmUp).map(String.init).joined(separator: " "))
            for (answer, count) in answers[place] { print("answers", one.name, answer, count) }
        }
    }

    /// Returns the delay for the control, which follows the spread of its last times. The control is therefore as hard to
    /// find on a busy machine. The distance between the first and last decile of a normal distribution is 2.563 standard
    /// deviations.
    private func delay(_ recent: ArraySlice<Int64>) -> Duration {
        let ordered = recent.sorted()
        guard ordered.count >= 8 else { return .zero }
        let spread = Double(ordered[ordered.count * 9 / 10] - ordered[ordered.count / 10]) / 2.563
        return .nanoseconds(Int64(spread * plantedStatistic * (2 / Double(rounds)).squareRoot()) + 1)
    }

    private static func spin(_ delay: Duration) {
        let end = ContinuousClock.now + delay
        while ContinuousClock.now < end {}
    }
}
